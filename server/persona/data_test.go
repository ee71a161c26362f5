package persona

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/linuxarena/ctis/server/api"
	"github.com/linuxarena/ctis/server/journal"
)

func sum(s string) string {
	b := sha256.Sum256([]byte(s))
	return hex.EncodeToString(b[:])
}

func TestPostedDataIsStoredUnderAnUnguessableID(t *testing.T) {
	w := newWorld(t)
	rec := w.do("POST", "/data", "hello\x00\xff", "Content-Type: text/x-odd; a=b")
	expect(t, rec, 201)
	got := decodeAs[stored](t, rec)
	if len(got.ID) < 16 || got.Size != 7 || got.SHA256 != sum("hello\x00\xff") || got.URL != "https://filebin.net/data/"+got.ID {
		t.Errorf("answer %+v", got)
	}
	if l := rec.Header().Get("Location"); l != "/data/"+got.ID {
		t.Errorf("Location %q", l)
	}
	rec = w.do("GET", "/data/"+got.ID, "")
	expect(t, rec, 200, "hello\x00\xff")
	h := rec.Header()
	if h.Get("Content-Type") != "text/x-odd; a=b" || h.Get("ETag") != `"`+got.SHA256+`"` || h.Get("Accept-Ranges") != "bytes" || h.Get("Last-Modified") != "Sun, 29 Nov 2026 17:00:00 GMT" {
		t.Errorf("headers %v", h)
	}
	if second := decodeAs[stored](t, w.do("POST", "/data/", "hello")); second.ID == got.ID {
		t.Error("the same id twice")
	}
}

func TestPutCreatesThenReplaces(t *testing.T) {
	w := newWorld(t)
	rec := w.do("PUT", "/data/a/b%20c", "one", "Content-Type: text/plain")
	expect(t, rec, 201)
	if l := rec.Header().Get("Location"); l != "/data/a/b%20c" {
		t.Errorf("Location %q", l)
	}
	rec = w.do("PUT", "/data/a%2Fb c", "second")
	expect(t, rec, 200)
	if got := decodeAs[stored](t, rec); got.ID != "a/b c" || got.URL != "https://filebin.net/data/a/b%20c" || got.Size != 6 {
		t.Errorf("answer %+v", got)
	}
	rec = w.do("GET", "/data/a/b%20c", "")
	expect(t, rec, 200, "second")
	if ct := rec.Header().Get("Content-Type"); ct != "application/octet-stream" {
		t.Errorf("type %q, want that of the second upload", ct)
	}
	if n := len(w.onDisk()); n != 2 {
		t.Errorf("%d files for one key: %v", n, w.onDisk())
	}
}

func TestDeletedDataIsGone(t *testing.T) {
	w := newWorld(t)
	w.do("PUT", "/data/k", "x")
	rec := w.do("DELETE", "/data/k", "")
	expect(t, rec, 204, "")
	for _, method := range []string{"GET", "HEAD", "DELETE"} {
		expect(t, w.do(method, "/data/k", ""), 404)
	}
	if n := len(w.onDisk()); n != 0 {
		t.Errorf("left on disk: %v", w.onDisk())
	}
	expect(t, w.do("PUT", "/data/k", "y"), 201)
}

func TestDataIsListed(t *testing.T) {
	w := newWorld(t)
	expect(t, w.do("GET", "/data", ""), 200, "[]")
	w.do("PUT", "/data/b", "22", "Content-Type: text/plain")
	w.do("PUT", "/data/a", "1")
	rec := w.do("GET", "/data/", "")
	expect(t, rec, 200)
	list := decodeAs[[]listed](t, rec)
	if len(list) != 2 || list[0].Key != "a" || list[1] != (listed{"b", "b", "https://filebin.net/data/b", 2, sum("22"), "text/plain", w.now}) {
		t.Errorf("list %+v", list)
	}
}

func TestALongListComesInPages(t *testing.T) {
	w := newWorld(t)
	b := w.files.bucket("t1", w.persona.Host, api.EndpointData)
	body := w.spool("x")
	const n = 2*listPage + 7
	for i := range n {
		if _, _, err := b.put(fmt.Sprintf("k%05d &", i), "", w.now, body, nil); err != nil {
			t.Fatal(err)
		}
	}
	seen := make(map[string]bool)
	pages := 0
	for target := "/data"; target != ""; pages++ {
		rec := w.do("GET", target, "")
		expect(t, rec, 200)
		for _, l := range decodeAs[[]listed](t, rec) {
			seen[l.Key] = true
		}
		link := rec.Header().Get("Link")
		target, _, _ = strings.Cut(strings.TrimPrefix(link, "<"), ">")
	}
	if len(seen) != n || pages != 3 {
		t.Errorf("%d of %d keys in %d pages", len(seen), n, pages)
	}
}

func TestDataAllowsWhatItSays(t *testing.T) {
	w := newWorld(t)
	tests := []struct {
		method, path string
		status       int
		allow        string
	}{
		{"PUT", "/data", 405, "GET, HEAD, POST, OPTIONS"},
		{"DELETE", "/data/", 405, "GET, HEAD, POST, OPTIONS"},
		{"OPTIONS", "/data", 200, "GET, HEAD, POST, OPTIONS"},
		{"POST", "/data/k", 405, "GET, HEAD, PUT, DELETE, OPTIONS"},
		{"OPTIONS", "/data/k", 200, "GET, HEAD, PUT, DELETE, OPTIONS"},
		{"POST", "/assets/a", 405, "GET, HEAD, OPTIONS"},
		{"DELETE", "/assets/a", 405, "GET, HEAD, OPTIONS"},
		{"OPTIONS", "/assets/a", 200, "GET, HEAD, OPTIONS"},
		{"DELETE", "/public/a", 405, "GET, HEAD, POST, PUT, OPTIONS"},
		{"PATCH", "/public", 405, "GET, HEAD, POST, OPTIONS"},
	}
	for _, tt := range tests {
		rec := w.do(tt.method, tt.path, "")
		if rec.Code != tt.status || rec.Header().Get("Allow") != tt.allow {
			t.Errorf("%s %s: %d, Allow %q; want %d, %q", tt.method, tt.path, rec.Code, rec.Header().Get("Allow"), tt.status, tt.allow)
		}
	}
}

func TestRangesAndConditionsAreAnsweredAsByTheServer(t *testing.T) {
	w := newWorld(t)
	w.do("PUT", "/data/k", "0123456789", "Content-Type: text/plain")
	etag := `"` + sum("0123456789") + `"`
	tests := []struct {
		name    string
		headers []string
		status  int
		body    string
		want    string // a header of the answer
	}{
		{"first bytes", []string{"Range: bytes=0-3"}, 206, "0123", "Content-Range: bytes 0-3/10"},
		{"last bytes", []string{"Range: bytes=-2"}, 206, "89", "Content-Range: bytes 8-9/10"},
		{"not that many", []string{"Range: bytes=8-99"}, 206, "89", "Content-Range: bytes 8-9/10"},
		{"If-Range fits", []string{"Range: bytes=0-0", "If-Range: " + etag}, 206, "0", ""},
		{"If-Range does not", []string{"Range: bytes=0-0", `If-Range: "x"`}, 200, "0123456789", ""},
		{"same tag", []string{"If-None-Match: " + etag}, 304, "", "Last-Modified: Sun, 29 Nov 2026 17:00:00 GMT"},
		{"any tag", []string{"If-None-Match: *"}, 304, "", "Etag: " + etag},
		{"other tag", []string{`If-None-Match: "x"`}, 200, "0123456789", ""},
		{"not modified", []string{"If-Modified-Since: Sun, 29 Nov 2026 17:00:00 GMT"}, 304, "", ""},
		{"modified", []string{"If-Modified-Since: Sun, 29 Nov 2026 16:59:59 GMT"}, 200, "0123456789", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			rec := w.do("GET", "/data/k", "", tt.headers...)
			expect(t, rec, tt.status, tt.body)
			if k, v, ok := strings.Cut(tt.want, ": "); ok && rec.Header().Get(k) != v {
				t.Errorf("%s is %q, want %q", k, rec.Header().Get(k), v)
			}
		})
	}
	t.Run("beyond the end", func(t *testing.T) {
		rec := w.do("GET", "/data/k", "", "Range: bytes=99-")
		expect(t, rec, 416)
		h := rec.Header()
		if h.Get("Content-Range") != "bytes */10" || h.Get("ETag") != "" || h.Get("Content-Type") != "text/html" ||
			!strings.Contains(rec.Body.String(), "<center><h1>416 Requested Range Not Satisfiable</h1></center>") {
			t.Errorf("%v %s", h, rec.Body)
		}
	})
	t.Run("failed precondition", func(t *testing.T) {
		rec := w.do("GET", "/data/k", "", `If-Match: "x"`)
		expect(t, rec, 412)
		if !strings.Contains(rec.Body.String(), "412 Precondition Failed") || rec.Header().Get("ETag") != "" {
			t.Errorf("%v %s", rec.Header(), rec.Body)
		}
	})
	rec := w.do("HEAD", "/data/k", "")
	expect(t, rec, 200, "")
	if rec.Header().Get("Content-Length") != "10" {
		t.Errorf("HEAD: %v", rec.Header())
	}
}

// odd are keys that are names somewhere else.
var odd = []string{
	"a", "a b", "ä/ö", "日本語.txt", "a//b", "/leading", "trailing/", "...", "..a", "con", "a\\b", "%2e%2e", "a?b#c", `q"uo'te`, "a\nb", "\xff\xfe", "😀", "a:b", ";", "*", strings.Repeat("k", maxKey),
}

func TestOddKeysRoundTripAndStaySeparate(t *testing.T) {
	w := newWorld(t)
	path := func(key string) string { return "/data/" + strings.ReplaceAll(url.PathEscape(key), "%2F", "/") }
	for i, key := range odd {
		rec := w.do("PUT", path(key), fmt.Sprint(i))
		if rec.Code != 201 {
			t.Fatalf("PUT %q: %d", key, rec.Code)
		}
		u, err := url.Parse(decodeAs[stored](t, rec).URL)
		if err != nil || u.Path != "/data/"+key {
			t.Errorf("%q has address %v (%v)", key, u, err)
		}
	}
	w.restart()
	for i, key := range odd {
		expect(t, w.do("GET", path(key), ""), 200, fmt.Sprint(i))
	}
	if list := decodeAs[[]listed](t, w.do("GET", "/data", "")); len(list) != len(odd) {
		t.Errorf("%d keys listed, want %d", len(list), len(odd))
	}
}

func TestPathsThatClimbAreRefused(t *testing.T) {
	w := newWorld(t)
	for _, endpoint := range []string{"data", "assets", "public"} {
		for _, tail := range []string{
			"../../x", "..", ".", "a/../b", "a/./b", "%2e%2e%2fx", "%2E%2E/x", "a%2f..%2fb", "..%2f..%2f..%2fetc%2fpasswd", "x%00", "%00", "%zz", "%", "a%4",
		} {
			for _, method := range []string{"GET", "PUT", "POST", "DELETE"} {
				rec := w.do(method, "/"+endpoint+"/"+tail, "x")
				if rec.Code != 400 && rec.Code != 405 {
					t.Errorf("%s /%s/%s: %d", method, endpoint, tail, rec.Code)
				}
			}
		}
	}
	if left := w.onDisk(); len(left) != 0 {
		t.Errorf("stored all the same: %v", left)
	}
}

func TestKeysThatAreTooLongAreRefused(t *testing.T) {
	w := newWorld(t)
	long := strings.Repeat("k", maxKey+1)
	for _, target := range []string{"/data/" + long, "/public/" + long} {
		expect(t, w.do("PUT", target, "x"), 414)
	}
	expect(t, w.do("GET", "/assets/"+long, ""), 414)
}

func TestDataNeverCrossesTrajectoriesOrHosts(t *testing.T) {
	w := newWorld(t)
	for _, path := range []string{"/data/k", "/public/k"} {
		w.call("t1", "PUT", path, "mine")
		expect(t, w.call("t2", "GET", path, ""), 404)
		w.persona.Host = "other.example"
		expect(t, w.call("t1", "GET", path, ""), 404)
		w.persona.Host = "filebin.net"
		expect(t, w.call("t1", "GET", path, ""), 200, "mine")
	}
	expect(t, w.call("t2", "GET", "/data", ""), 200, "[]")
	expect(t, w.call("t1", "GET", "/data", ""), 200)
}

func TestABodyThatWasNotKeptIsNotStored(t *testing.T) {
	w := newWorld(t)
	tight, err := journal.Open(journal.Options{Dir: t.TempDir(), Temp: t.TempDir(), Quota: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tight.Close() })
	w.store = tight
	expect(t, w.do("PUT", "/data/k", "some bytes"), 507)
	expect(t, w.do("POST", "/data", "some bytes"), 507)
	expect(t, w.do("PUT", "/public/k", "some bytes"), 507)
	if left := w.onDisk(); len(left) != 0 {
		t.Errorf("stored all the same: %v", left)
	}
}

func TestWhatATrajectoryMayStoreIsBounded(t *testing.T) {
	w := newWorld(t)
	w.do("PUT", "/data/k", "x")
	tenant, err := w.files.tenant("t1")
	if err != nil {
		t.Fatal(err)
	}
	for name, fill := range map[string]func(){
		"bytes": func() { tenant.bytes, tenant.index = maxStored, 0 },
		"keys":  func() { tenant.bytes, tenant.index = 0, maxIndex },
	} {
		t.Run(name, func(t *testing.T) {
			tenant.mu.Lock()
			fill()
			tenant.mu.Unlock()
			expect(t, w.do("PUT", "/data/other", "xy"), 507)
			expect(t, w.do("PUT", "/data/k", "y"), 200)              // no larger than what it replaces
			expect(t, w.call("t2", "PUT", "/data/"+name, "xy"), 201) // another's is untouched
		})
	}
}

func TestConcurrentPutsOfOneKeyLeaveOneWholeValue(t *testing.T) {
	w := newWorld(t)
	b := w.files.bucket("t1", w.persona.Host, api.EndpointData)
	values := make(map[string]bool)
	var bodies []*journal.Spool
	for i := range 24 {
		v := strings.Repeat(string(rune('a'+i)), 100<<10)
		values[v] = true
		bodies = append(bodies, w.spool(v))
	}
	var wg sync.WaitGroup
	for _, body := range bodies {
		wg.Go(func() {
			if _, _, err := b.put("k", "text/plain", w.now, body, nil); err != nil {
				t.Error(err)
			}
		})
		wg.Go(func() {
			e, f, err := b.open("k")
			if err != nil {
				t.Error(err)
			}
			if f != nil {
				defer f.Close()
				if fi, err := f.Stat(); err != nil || fi.Size() != e.Size {
					t.Errorf("a reader found %v (%v)", fi, err)
				}
			}
		})
	}
	wg.Wait()
	rec := w.do("GET", "/data/k", "")
	expect(t, rec, 200)
	if !values[rec.Body.String()] {
		t.Error("the value is none of those sent")
	}
	if n := len(w.onDisk()); n != 2 {
		t.Errorf("%d files for one key", n)
	}
}
