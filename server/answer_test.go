package server

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/linuxarena/ctis/server/api"
)

// kept are the bytes that a record says were kept of what its client got, which have to
// have the size and the digest that it says too.
func (w *world) kept(id string, b api.Received) string {
	w.t.Helper()
	content := []byte(b.Content)
	var err error
	switch b.Encoding {
	case api.EncodingUTF8:
	case api.EncodingBase64:
		content, err = base64.StdEncoding.DecodeString(b.Content)
	case api.EncodingFile:
		content, err = os.ReadFile(filepath.Join(w.state, "journal", id, "bodies", b.SHA256))
	default:
		w.t.Fatalf("nothing was kept: %+v", b)
	}
	if err != nil || b.Truncated || b.Size != int64(len(content)) || b.SHA256 != api.HexSHA256(content) {
		w.t.Fatalf("%v: %d bytes are there of %+v", err, len(content), b)
	}
	return string(content)
}

// speaks answers /v1/HOW/NAME with the answer of that name.
func speaks(answers map[string]string) script {
	return func(c *net.TCPConn, r *bufio.Reader) {
		lines := takeHead(r)
		_, _ = io.CopyN(io.Discard, r, max(0, lengthOf(lines)))
		_, rest, _ := strings.Cut(lines[0], "/v1/")
		how, name, _ := strings.Cut(strings.TrimSuffix(rest, " HTTP/1.1"), "/")
		a := answers[name]
		switch how {
		case "length":
			_, _ = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(a), a)
		case "chunked":
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
			for len(a) > 0 {
				n := min(len(a), 7001)
				_, _ = fmt.Fprintf(c, "%x\r\n%s\r\n", n, a[:n])
				a = a[n:]
			}
			_, _ = io.WriteString(c, "0\r\n\r\n")
		default:
			_, _ = io.WriteString(c, "HTTP/1.0 200 OK\r\n\r\n"+a)
		}
	}
}

// TestWhatABackendAnswersIsKept whatever its length and however it was sent; not what
// the simulator itself answers.
func TestWhatABackendAnswersIsKept(t *testing.T) {
	long := strings.Repeat("a line of a long answer\n", 300<<10/24)
	answers := map[string]string{"short": "short \x00\xff answer", "empty": "", "held": long[:60<<10], "long": long}
	w := withBackend(t, speaks(answers))
	n := 0
	for _, http2 := range []bool{false, true} {
		for name, want := range answers {
			for _, how := range []string{"length", "chunked", "close"} {
				if _, got := w.do(w.client(2, http2), "GET", "https://a.example/v1/"+how+"/"+name, ""); got != want {
					t.Errorf("%s %s: %d bytes arrived", how, name, len(got))
				}
				n++
				if got := w.kept("t2", w.await("t2", n)[n-1].Response.Body); got != want {
					t.Errorf("http2=%v %s %s: %d bytes are kept", http2, how, name, len(got))
				}
			}
		}
	}
	w.do(w.client(2, false), "GET", "https://a.example/v0", "")
	if r := w.await("t2", n+1)[n]; r.Kind != api.KindNotFound || r.Response.Body.Encoding != "" || r.Response.Body.Size == 0 {
		t.Errorf("%+v", r.Response)
	}
	if left := spools(t, w); len(left) > 0 {
		t.Errorf("left %q", left)
	}
}

// TestAnAnswerBeyondTheLimitsIsTruncated, arrives whole, and leaves no bytes.
func TestAnAnswerBeyondTheLimitsIsTruncated(t *testing.T) {
	long := strings.Repeat("0123456789abcdef", 2<<20/16)
	for name, limit := range map[string]func(*Options){
		"body limit":    func(o *Options) { o.BodyLimit = 1 << 20 },
		"half of quota": func(o *Options) { o.Quota = 3 << 20 },
	} {
		w := withBackend(t, speaks(map[string]string{"long": long, "short": "s"}), limit)
		for i, http2 := range []bool{false, true} {
			if _, got := w.do(w.client(2, http2), "POST", "https://a.example/v1/close/long", "sent"); got != long {
				t.Errorf("%s: %d bytes arrived", name, len(got))
			}
			r := w.await("t2", i+1)[i]
			want := api.Received{Size: int64(len(long)), SHA256: api.HexSHA256([]byte(long)), Encoding: api.EncodingNone, Truncated: true}
			if r.Response.Body != want || r.Request.Body.Content != "sent" || r.Error != "" {
				t.Errorf("%s: %+v", name, r.Response.Body)
			}
		}
		w.do(w.client(2, false), "GET", "https://a.example/v1/length/short", "")
		if got := w.kept("t2", w.await("t2", 3)[2].Response.Body); got != "s" {
			t.Errorf("%s: then %q", name, got)
		}
		kept, err := os.ReadDir(filepath.Join(w.state, "journal", "t2", "bodies"))
		if err != nil || len(kept) > 0 || len(spools(t, w)) > 0 {
			t.Errorf("%s: %v %v is left", name, kept, err)
		}
		truncated := func() uint64 {
			list, err := w.admin.Journals(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return list.Journals[0].Truncated
		}
		before := truncated()
		w.stop()
		w.start(limit)
		if after := truncated(); before != 2 || after != 2 {
			t.Errorf("%s: %d truncated before a restart, %d behind it", name, before, after)
		}
	}
}

// TestAnAnswerThatCannotBeStoredArrives: only that its bytes were not kept is said.
func TestAnAnswerThatCannotBeStoredArrives(t *testing.T) {
	long := strings.Repeat("0123456789abcdef", 1<<20/16)
	w := withBackend(t, speaks(map[string]string{"long": long}))
	if err := os.RemoveAll(filepath.Join(w.state, "journal", "t2", "bodies")); err != nil {
		t.Fatal(err)
	}
	if _, got := w.do(w.client(2, false), "GET", "https://a.example/v1/length/long", ""); got != long {
		t.Errorf("%d bytes arrived", len(got))
	}
	if b := w.await("t2", 1)[0].Response.Body; !b.Truncated || b.Size != int64(len(long)) || b.SHA256 != api.HexSHA256([]byte(long)) {
		t.Errorf("%+v", b)
	}
}

// TestAnAnswerIsKeptAsARuleChangedIt: the record tells what the client got.
func TestAnAnswerIsKeptAsARuleChangedIt(t *testing.T) {
	w := newWorld(t)
	p := newProgram(t, 2, speaks(map[string]string{"x": "the old word", "cut": "half of it"})).persona("a.example", 2, "v1")
	p.Rules = []api.Rule{
		{Path: "/v1/length/x", Pass: true, Edit: &api.ResponseEdit{Replace: [][2]string{{"old", "new"}}}},
		{Path: "/v1/*/cut", Pass: true, Fault: api.FaultTruncate},
	}
	w.register("t2", 2, p)
	w.do(w.client(2, false), "GET", "https://a.example/v1/length/x", "")
	if got := w.kept("t2", w.await("t2", 1)[0].Response.Body); got != "the new word" {
		t.Errorf("%q", got)
	}
	n := 1
	for how, want := range map[string]string{"length": "half ", "chunked": "half of it"} { // of which all is there at once
		for _, http2 := range []bool{false, true} {
			if _, got, err := fetch(w.client(2, http2), "https://a.example/v1/"+how+"/cut"); err == nil {
				t.Errorf("http2=%v %s: %q looks whole", http2, how, got)
			}
			n++
			if got := w.kept("t2", w.await("t2", n)[n-1].Response.Body); got != want {
				t.Errorf("http2=%v %s: %q", http2, how, got)
			}
		}
	}
}

// TestNoKeyIsAmongWhatUpstreamsAnswered: what is stored is what the gateway masked,
// in records and in files, however the key is cut.
func TestNoKeyIsAmongWhatUpstreamsAnswered(t *testing.T) {
	var key string
	b := withUpstream(t, "api.vendor.example", func(w http.ResponseWriter, r *http.Request) {
		key = r.Header.Get("X-Api-Key")
		long := r.URL.Path == "/long"
		for range map[bool]int{false: 3, true: 3000}[long] {
			_, _ = io.WriteString(w, `{"you said": "`+key[:9])
			if !long {
				w.(http.Flusher).Flush()
			}
			_, _ = io.WriteString(w, key[9:]+`"}`+"\n"+base64.StdEncoding.EncodeToString([]byte("key "+key))+"\n")
		}
	})
	for _, http2 := range []bool{false, true} {
		for _, path := range []string{"/short", "/long"} {
			b.do(b.client(2, http2), "GET", "https://api.vendor.example"+path, "")
		}
	}
	for i, r := range b.await("t2", 4) {
		got := b.kept("t2", r.Response.Body)
		want := `{"you said": "` + strings.Repeat("*", len(upstreamKey)) + `"}`
		if strings.Count(got, want) != map[bool]int{false: 3, true: 3000}[r.Request.Target == "/long"] {
			t.Errorf("record %d: %.200q", i, got)
		}
	}
	if key != upstreamKey {
		t.Fatalf("the upstream got the key %q", key)
	}
	files := 0
	err := filepath.WalkDir(filepath.Join(b.state, "journal"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files++
		content, err := os.ReadFile(path)
		for _, form := range [][]byte{[]byte(upstreamKey), []byte(base64.StdEncoding.EncodeToString([]byte("key " + upstreamKey)))} {
			if bytes.Contains(content, form) {
				t.Errorf("the key is in %s", path)
			}
		}
		return err
	})
	if err != nil || files < 2 {
		t.Errorf("%d files, %v", files, err)
	}
}

// TestALongAnswerTakesNoMemory however long it is, kept or not.
func TestALongAnswerTakesNoMemory(t *testing.T) {
	const size = 96 << 20
	w := withBackend(t, func(c *net.TCPConn, r *bufio.Reader) {
		takeHead(r)
		_, _ = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", size)
		piece := make([]byte, 1<<20)
		for range size / len(piece) {
			_, _ = c.Write(piece)
		}
	})
	for i, http2 := range []bool{false, true} {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		before := m.HeapInuse + m.StackInuse
		c := w.client(2, http2)
		c.Timeout = 0 // this is no test of speed
		r, err := c.Get("https://a.example/v1")
		if err != nil {
			t.Fatal(err)
		}
		var most uint64
		var got int64
		for err == nil {
			var n int64
			n, err = io.CopyN(io.Discard, r.Body, 8<<20)
			got += n
			runtime.ReadMemStats(&m)
			most = max(most, m.HeapInuse+m.StackInuse)
		}
		_ = r.Body.Close()
		if err != io.EOF || got != size || most > before+32<<20 {
			t.Errorf("http2=%v: %d bytes, %v, %d MiB more in use", http2, got, err, int64(most-before)>>20)
		}
		if b := w.await("t2", i+1)[i].Response.Body; b.Size != size || b.Encoding != api.EncodingFile {
			t.Errorf("%+v", b)
		}
	}
}
