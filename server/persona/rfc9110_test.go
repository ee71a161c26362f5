package persona

import (
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/linuxarena/ctis/server/api"
)

// What RFC 9110 says of ranges, against content of ten bytes.
func TestRangesAsRFC9110HasThem(t *testing.T) {
	w := newWorld(t)
	w.do("PUT", "/data/k", "0123456789", "Content-Type: text/plain")
	w.do("PUT", "/data/empty", "")
	etag := `"` + sum("0123456789") + `"`
	const whole = "0123456789"
	for _, tt := range []struct {
		name, method, path string
		headers            []string
		status             int
		body, contentRange string
	}{
		{"all", "GET", "k", []string{"Range: bytes=0-"}, 206, whole, "bytes 0-9/10"},
		{"last byte", "GET", "k", []string{"Range: bytes=9-9"}, 206, "9", "bytes 9-9/10"},
		{"suffix longer than all", "GET", "k", []string{"Range: bytes=-99"}, 206, whole, "bytes 0-9/10"},
		{"suffix of nothing", "GET", "k", []string{"Range: bytes=-0"}, 416, "", "bytes */10"},
		{"suffix of nothing beside a good one", "GET", "k", []string{"Range: bytes=-0,0-1"}, 206, "01", "bytes 0-1/10"},
		{"behind the end", "GET", "k", []string{"Range: bytes=10-"}, 416, "", "bytes */10"},
		{"one of two behind the end", "GET", "k", []string{"Range: bytes=0-1,20-30"}, 206, "01", "bytes 0-1/10"},
		{"first after last", "GET", "k", []string{"Range: bytes=5-4"}, 416, "", ""},
		{"number too large", "GET", "k", []string{"Range: bytes=0-99999999999999999999"}, 416, "", ""},
		{"unit in capitals", "GET", "k", []string{"Range: BYTES=0-1"}, 206, "01", "bytes 0-1/10"},
		{"unknown unit", "GET", "k", []string{"Range: lines=0-1"}, 200, whole, ""},
		{"no unit", "GET", "k", []string{"Range: 0-1"}, 200, whole, ""},
		{"twice", "GET", "k", []string{"Range: bytes=0-1", "Range: bytes=2-3"}, 200, whole, ""},
		{"more than there is", "GET", "k", []string{"Range: bytes=0-9,0-9"}, 200, whole, ""},
		{"head", "HEAD", "k", []string{"Range: bytes=0-1"}, 200, "", ""},
		{"empty", "GET", "empty", []string{"Range: bytes=0-"}, 200, "", ""},
		{"if-range, a weak tag", "GET", "k", []string{"Range: bytes=0-1", "If-Range: W/" + etag}, 200, whole, ""},
		{"if-range, the date", "GET", "k", []string{"Range: bytes=0-1", "If-Range: Sun, 29 Nov 2026 17:00:00 GMT"}, 206, "01", "bytes 0-1/10"},
		{"if-range, a later date", "GET", "k", []string{"Range: bytes=0-1", "If-Range: Sun, 29 Nov 2026 17:00:01 GMT"}, 200, whole, ""},
		{"range and not modified", "GET", "k", []string{"Range: bytes=0-1", "If-None-Match: " + etag}, 304, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rec := w.do(tt.method, "/data/"+tt.path, "", tt.headers...)
			if rec.Code != tt.status {
				t.Fatalf("status %d, want %d", rec.Code, tt.status)
			}
			if tt.status < 400 && rec.Body.String() != tt.body {
				t.Errorf("body %q, want %q", rec.Body, tt.body)
			}
			if got := rec.Header().Get("Content-Range"); tt.contentRange != "" && got != tt.contentRange || tt.status == 200 && got != "" {
				t.Errorf("Content-Range %q, want %q", got, tt.contentRange)
			}
			if tt.method == "HEAD" && rec.Header().Get("Content-Length") != "10" {
				t.Errorf("%v", rec.Header())
			}
		})
	}
}

func TestManyRangesComeAsParts(t *testing.T) {
	w := newWorld(t)
	w.do("PUT", "/data/k", "0123456789", "Content-Type: text/csv")
	for server, boundary := range map[string]string{
		"nginx": `boundary=\d{20}$`, "Apache/2.4": `boundary=[0-9a-f]{15}$`, "lighttpd/1.4": "boundary=fkj49sn38dcn3$", "gunicorn": `boundary=\d{20}$`, "Caddy": "boundary=",
	} {
		w.persona.ServerHeader = server
		checkParts(t, w, boundary)
	}
	w.persona.ServerHeader = "Express"
	expect(t, w.do("GET", "/data/k", "", "Range: bytes=0-1,4-4"), 200, "0123456789")
	w.persona.ServerHeader = "nginx"
	rec := w.do("GET", "/data/k", "", "Range: bytes=0-1,,4-4", `If-Range: "x"`)
	expect(t, rec, 200, "0123456789")
	rec = w.do("GET", "/data/k", "", "Range: bytes=0-1,4-4", `If-None-Match: *`)
	expect(t, rec, 304, "")
	for _, bad := range []string{"bytes=0-1,x-2", "bytes=0-1,3", "bytes=0-1,--2", "bytes=-,0-1", "bytes=0-1,+2-3", "bytes=2-1,0-1"} {
		expect(t, w.do("GET", "/data/k", "", "Range: "+bad), 416)
	}
}

func checkParts(t *testing.T, w *world, boundary string) {
	t.Helper()
	rec := w.do("GET", "/data/k", "", "Range: bytes=0-1, 4-4 ,-2,99-")
	if matched, err := regexp.MatchString(boundary, rec.Header().Get("Content-Type")); !matched || err != nil || rec.Header().Get("Content-Length") != strconv.Itoa(rec.Body.Len()) {
		t.Errorf("%v", rec.Header())
	}
	kind, params, err := mime.ParseMediaType(rec.Header().Get("Content-Type"))
	if rec.Code != 206 || err != nil || kind != "multipart/byteranges" || rec.Header().Get("Content-Range") != "" {
		t.Fatalf("%d %v", rec.Code, rec.Header())
	}
	parts := multipart.NewReader(rec.Body, params["boundary"])
	for _, want := range [][2]string{{"bytes 0-1/10", "01"}, {"bytes 4-4/10", "4"}, {"bytes 8-9/10", "89"}} {
		p, err := parts.NextPart()
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(p)
		if err != nil || p.Header.Get("Content-Range") != want[0] || p.Header.Get("Content-Type") != "text/csv" || string(b) != want[1] {
			t.Errorf("%v %q, want %q (%v)", p.Header, b, want, err)
		}
	}
	if _, err := parts.NextPart(); err != io.EOF {
		t.Errorf("behind the last part: %v", err)
	}
}

// What RFC 9110 §13 says of conditions on GET.
func TestConditionsOfReading(t *testing.T) {
	w := newWorld(t)
	w.do("PUT", "/data/k", "v")
	etag := `"` + sum("v") + `"`
	const at, before, after = "Sun, 29 Nov 2026 17:00:00 GMT", "Sun, 29 Nov 2026 16:59:59 GMT", "Sun, 29 Nov 2026 17:00:01 GMT"
	for _, tt := range []struct {
		headers []string
		status  int
	}{
		{[]string{"If-Match: " + etag}, 200},
		{[]string{"If-Match: *"}, 200},
		{[]string{"If-Match: W/" + etag}, 412},
		{[]string{`If-Match: "x"`}, 412},
		{[]string{`If-Match: "x,y", ` + etag}, 200},
		{[]string{`If-Match: "x"`, "If-Match: " + etag}, 200},
		{[]string{"If-Unmodified-Since: " + at}, 200},
		{[]string{"If-Unmodified-Since: " + before}, 412},
		{[]string{"If-Unmodified-Since: yesterday"}, 200},
		{[]string{"If-Match: " + etag, "If-Unmodified-Since: " + before}, 200},
		{[]string{"If-None-Match: W/" + etag}, 304},
		{[]string{`If-None-Match: "x", ` + etag}, 304},
		{[]string{`If-None-Match: "x"`, "If-None-Match: " + etag}, 304},
		{[]string{`If-None-Match: "x"`, "If-Modified-Since: " + at}, 200},
		{[]string{"If-Modified-Since: " + at}, 304},
		{[]string{"If-Modified-Since: " + before}, 200},
		{[]string{"If-Modified-Since: Sunday, 29-Nov-26 17:00:00 GMT"}, 304},
		{[]string{"If-Modified-Since: Sun Nov 29 17:00:00 2026"}, 304},
		{[]string{"If-Modified-Since: yesterday"}, 200},
	} {
		for _, method := range []string{"GET", "HEAD"} {
			rec := w.do(method, "/data/k", "", tt.headers...)
			if rec.Code != tt.status {
				t.Errorf("%s %q: %d, want %d", method, tt.headers, rec.Code, tt.status)
			}
			if rec.Code == 304 && (rec.Header().Get("Etag") != etag || rec.Body.Len() > 0) {
				t.Errorf("%s %q: %v %q", method, tt.headers, rec.Header(), rec.Body)
			}
		}
	}
	w.now = w.now.Add(time.Minute)
	if rec := w.do("GET", "/data/k", "", "If-Modified-Since: "+after); rec.Code != 304 {
		t.Errorf("a later date that is past: %d", rec.Code)
	}
}

// What it says of conditions on methods that change something.
func TestConditionsOfWriting(t *testing.T) {
	etag := `"` + sum("old") + `"`
	for _, tt := range []struct {
		path, header string
		put, remove  int // 0: not asked
	}{
		{"/data/k", "If-Match: " + etag, 200, 204},
		{"/data/k", "If-Match: *", 200, 204},
		{"/data/k", `If-Match: "x" , ` + etag, 200, 204},
		{"/data/k", "If-Match: W/" + etag, 412, 412},
		{"/data/k", `If-Match: "x"`, 412, 412},
		{"/data/k", "If-Match: x", 412, 412},
		{"/data/k", "If-None-Match: *", 412, 412},
		{"/data/k", "If-None-Match: W/" + etag, 412, 412},
		{"/data/k", `If-None-Match: "x"`, 200, 204},
		{"/data/k", "If-Unmodified-Since: Sun, 29 Nov 2026 17:00:00 GMT", 200, 204},
		{"/data/k", "If-Unmodified-Since: Sun, 29 Nov 2026 16:59:59 GMT", 412, 412},
		{"/data/k", "If-Unmodified-Since: yesterday", 200, 204},
		{"/data/k", "If-Modified-Since: Sun, 29 Nov 2026 17:00:00 GMT", 200, 204},
		{"/data/k", "Content-Range: bytes 0-2/9", 400, 204},
		{"/data/new", "If-None-Match: *", 201, 404},
		{"/data/new", "If-Match: *", 412, 404},
		{"/data/new", "If-Unmodified-Since: Sun, 29 Nov 2026 16:59:59 GMT", 201, 404},
		{"/public/k", "If-None-Match: *", 412, 0},
		{"/public/k", "If-Match: " + etag, 201, 0},
		{"/public/new", "If-None-Match: *", 201, 0},
		{"/public/k", "Content-Range: bytes 0-2/9", 400, 0},
	} {
		w := newWorld(t)
		w.do("PUT", "/data/k", "old")
		w.do("PUT", "/public/k", "old")
		rec := w.do("PUT", tt.path, "new", tt.header)
		if rec.Code != tt.put {
			t.Errorf("PUT %s, %s: %d, want %d", tt.path, tt.header, rec.Code, tt.put)
		}
		want := map[bool]string{true: "new", false: "old"}[tt.put < 300]
		if got := w.do("GET", tt.path, ""); strings.HasSuffix(tt.path, "/k") && got.Body.String() != want {
			t.Errorf("PUT %s, %s: then holds %q, want %q", tt.path, tt.header, got.Body, want)
		}
		if tag := rec.Header().Get("ETag"); rec.Code < 300 && tag != `"`+sum("new")+`"` {
			t.Errorf("PUT %s, %s: ETag %q", tt.path, tt.header, tag)
		}
		if tt.remove == 0 {
			continue
		}
		w = newWorld(t)
		w.do("PUT", "/data/k", "old")
		if rec := w.do("DELETE", tt.path, "", tt.header); rec.Code != tt.remove {
			t.Errorf("DELETE %s, %s: %d, want %d", tt.path, tt.header, rec.Code, tt.remove)
		}
	}
}

// Of many clients that each want to be the first, one is.
func TestOneOfManyCreatesAKey(t *testing.T) {
	w := newWorld(t)
	codes := make(chan int, 16)
	var all sync.WaitGroup
	for range cap(codes) {
		all.Go(func() { codes <- w.do("PUT", "/data/k", "v", "If-None-Match: *").Code })
	}
	all.Wait()
	close(codes)
	created := 0
	for c := range codes {
		switch c {
		case http.StatusCreated:
			created++
		case http.StatusPreconditionFailed:
		default:
			t.Errorf("status %d", c)
		}
	}
	if created != 1 {
		t.Errorf("%d created the key", created)
	}
}

// Each server's files, as far as RFC 9110 leaves them open.
func TestFilesLookAsTheServerSendsThem(t *testing.T) {
	for server, want := range map[string]struct{ etag, contentType, rangesOf206 string }{
		"nginx":         {`"67c2daa0-12"`, "text/plain", ""},
		"Apache/2.4":    {`"12-62f44fc73e800"`, "text/plain", "bytes"},
		"Caddy":         {`"d84ublrwxds0-i"`, "text/plain; charset=utf-8", "bytes"},
		"gunicorn":      {`"1740823200.0-18-`, "text/plain; charset=utf-8", "bytes"},
		"Express":       {`W/"12-19551260100"`, "text/plain; charset=UTF-8", "bytes"},
		"lighttpd/1.4":  {`"`, "text/plain", "bytes"},
		"BeanGuard/1.0": {`"67c2daa0-12"`, "text/plain", ""},
	} {
		w := newWorld(t)
		w.persona.ServerHeader = server
		if err := w.putAsset("hello.txt", "hello from a file\n"); err != nil {
			t.Fatal(err)
		}
		rec := w.do("GET", "/assets/hello.txt", "")
		if h := rec.Header(); rec.Code != 200 || !strings.HasPrefix(h.Get("Etag"), want.etag) || h.Get("Content-Type") != want.contentType {
			t.Errorf("%s: %v", server, h)
		}
		rec = w.do("GET", "/assets/hello.txt", "", "Range: bytes=0-3")
		if h := rec.Header(); rec.Code != 206 || rec.Body.String() != "hell" || h.Get("Accept-Ranges") != want.rangesOf206 {
			t.Errorf("%s: %v", server, h)
		}
		rec = w.do("GET", "/assets/hello.txt", "", "If-None-Match: "+rec.Header().Get("Etag"))
		if rec.Code != 304 || rec.Body.Len() > 0 || (rec.Header().Get("Last-Modified") == "") != (server == "Caddy") {
			t.Errorf("%s: %d %v", server, rec.Code, rec.Header())
		}
	}
}

// A file from the future, or from the beginning of time, has a date all the same.
func TestTimesOfFilesAreBelievable(t *testing.T) {
	w := newWorld(t)
	for name, at := range map[string]time.Time{"future": w.now.Add(time.Hour), "epoch": time.Unix(0, 0)} {
		if err := w.putAssetAs("t1", name, "x", at); err != nil {
			t.Fatal(err)
		}
	}
	if got := w.do("GET", "/assets/future", "").Header().Get("Last-Modified"); got != "Sun, 29 Nov 2026 17:00:00 GMT" {
		t.Errorf("future: %q", got)
	}
	if got := w.do("GET", "/assets/epoch", "").Header().Get("Last-Modified"); got != "Thu, 01 Jan 1970 00:00:00 GMT" {
		t.Errorf("epoch: %q", got)
	}
}

// HEAD says what GET says, without content (RFC 9110 §9.3.2).
func TestHeadSaysWhatGetSays(t *testing.T) {
	for _, server := range []string{"nginx", "Apache/2.4", "Caddy", "lighttpd/1.4", "gunicorn", "Express", "cloudflare", "Werkzeug/2.2"} {
		w := newWorld(t)
		w.persona.ServerHeader = server
		w.do("PUT", "/data/k", "value")
		w.do("PUT", "/data/empty", "")
		w.do("PUT", "/public/dir/f.txt", "text")
		if err := w.putAsset("a.txt", "asset"); err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{
			"/", "/nope", "/webhook", "/data", "/data/k", "/data/empty", "/data/absent", "/assets/a.txt", "/assets", "/assets/absent",
			"/public", "/public/", "/public/dir", "/public/dir/", "/public/dir/f.txt", "/public/absent", "/data/../x", "/%zz",
		} {
			get, head := w.do("GET", path, ""), w.do("HEAD", path, "")
			if get.Code != head.Code {
				t.Errorf("%s %s: GET %d, HEAD %d", server, path, get.Code, head.Code)
			}
			g, h := get.Header(), head.Header()
			if server == "Express" && get.Code == 404 { // its page names the method
				g.Del("Content-Length")
				h.Del("Content-Length")
			}
			for name := range g {
				if h.Get(name) != g.Get(name) && !(name == "Content-Length" && get.Code >= 400 && h.Get(name) == "") {
					t.Errorf("%s %s: %s is %q for GET and %q for HEAD", server, path, name, g.Get(name), h.Get(name))
				}
			}
		}
	}
}

// Whatever is asked for, a range lies within the content, and what is sent is as
// long as is said.
func FuzzRange(f *testing.F) {
	for _, s := range []string{"0-3", "-2", "5-", "0-0,-1", "9-,0-", "-0", "a-b", ",,", "0-99999999999999999999", "3-2", "1-1,2-2,3-3,4-4"} {
		f.Add(s, uint8(10))
	}
	f.Fuzz(func(t *testing.T, set string, size uint8) {
		list, ok := spans(strings.Split(set, ","), int64(size))
		if !ok && list != nil {
			t.Fatalf("%q is none, and %v", set, list)
		}
		for _, s := range list {
			if s.from < 0 || s.length < 1 || s.from+s.length > int64(size) {
				t.Fatalf("%q of %d bytes: %+v", set, size, s)
			}
		}
		if len(list) == 0 {
			return
		}
		content := strings.Repeat("x", int(size))
		r := &Request{Persona: &api.Persona{ServerHeader: "nginx"}, RecordID: "r"}
		rec := httptest.NewRecorder()
		if err := r.partsOf(strings.NewReader(content), int64(size), list, "text/plain").write(rec); err != nil {
			t.Fatal(err)
		}
		if got := rec.Header().Get("Content-Length"); got != strconv.Itoa(rec.Body.Len()) {
			t.Fatalf("%q: %s stated, %d sent", set, got, rec.Body.Len())
		}
	})
}
