package server

import (
	"bufio"
	"io"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/linuxarena/ctis/server/api"
	"github.com/linuxarena/ctis/server/persona"
)

func TestBytesBehindTheLastRequestAreOnRecord(t *testing.T) {
	const rest = "POST /webhook HTTP/1.1\r\nHost: a.example\r\nContent-Length: 6\r\n\r\nhidden"
	for name, c := range map[string]struct {
		first string
		noted bool
		rest  string
	}{
		"close":           {"GET / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n", true, rest},
		"HTTP/1.0":        {"GET / HTTP/1.0\r\nHost: a.example\r\n\r\n", true, rest},
		"with a body":     {"POST /webhook HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\nContent-Length: 4\r\n\r\nsent", true, rest},
		"a chunked body":  {"POST /webhook HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nsent\r\n0\r\n\r\n", true, rest},
		"only line ends":  {"GET / HTTP/1.0\r\nHost: a.example\r\n\r\n", false, "\r\n\r\n"},
		"nothing":         {"GET / HTTP/1.0\r\nHost: a.example\r\n\r\n", false, ""},
		"after line ends": {"GET / HTTP/1.0\r\nHost: a.example\r\n\r\n", true, "\r\n" + rest},
	} {
		w := newWorld(t)
		w.register("t2", 2, plays("a.example", ""))
		conn := w.dial(2, w.plain)
		if _, err := io.WriteString(conn, c.first+c.rest); err != nil {
			t.Fatal(err)
		}
		answer, _ := io.ReadAll(conn) // unread bytes may reset the connection behind the answer
		if n := strings.Count(string(answer), "HTTP/1.1 "); n != 1 {
			t.Errorf("%s: %d answers", name, n)
		}
		w.stop() // the connection has ended by then
		w.start()
		records := w.records("t2")
		if !c.noted {
			if len(records) != 1 {
				t.Errorf("%s: %d records", name, len(records))
			}
			continue
		}
		if len(records) != 2 {
			t.Errorf("%s: %d records", name, len(records))
			continue
		}
		r := records[1]
		if r.Kind != api.KindMalformed || r.Raw == nil || r.Raw.Content != rest || !strings.Contains(r.Error, "after the last request") || r.Request != nil {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

func TestLineEndsWinNoTime(t *testing.T) {
	const limit = 1500 * time.Millisecond
	w := newWorld(t, func(o *Options) { o.Limits.RequestHead, o.Limits.Idle = limit, limit })
	w.register("t2", 2, plays("a.example", ""))
	for name, first := range map[string]string{"at first": "", "between requests": "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n"} {
		c := w.dial(2, w.plain)
		br := bufio.NewReader(c)
		if first != "" {
			if _, err := io.WriteString(c, first); err != nil {
				t.Fatal(err)
			}
			readResponse(t, br, http.MethodGet)
		}
		closed := make(chan time.Duration, 1)
		begun := time.Now()
		go func() {
			_, _ = io.Copy(io.Discard, br)
			closed <- time.Since(begun)
		}()
		for time.Since(begun) < 5*time.Second {
			if _, err := io.WriteString(c, "\r\n"); err != nil {
				break
			}
			time.Sleep(limit / 10)
		}
		if took := <-closed; took > 4*time.Second {
			t.Errorf("%s: closed after %v", name, took)
		}
	}
	// And what follows them has its own time.
	c := w.dial(2, w.plain)
	for _, piece := range []string{"\r\n", "GET / HTTP/1.1\r\n", "Host: a.example\r\n\r\n"} {
		time.Sleep(limit * 2 / 3)
		if _, err := io.WriteString(c, piece); err != nil {
			t.Fatal(err)
		}
	}
	if r, _ := readResponse(t, bufio.NewReader(c), http.MethodGet); r.StatusCode != http.StatusOK {
		t.Errorf("status %d", r.StatusCode)
	}
}

func TestMisdirectedPageOfApacheNamesThePort(t *testing.T) {
	w := newWorld(t)
	w.register("t2", 2, plays("a.example", ""), plays("b.example", "Apache/2.4.62 (Debian)"))
	r, err := http.NewRequest(http.MethodGet, "https://a.example/", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = "b.example"
	got, body := w.doRequest(w.client(2, false), r)
	if got.StatusCode != http.StatusMisdirectedRequest || !strings.Contains(body, "Server at b.example Port 443") {
		t.Errorf("%d %s", got.StatusCode, body)
	}
}

func TestOutcomeThatFoundNoRoomIsWrittenLater(t *testing.T) {
	w := newWorld(t)
	flushed, let := make(chan struct{}), make(chan struct{})
	w.server.handlers = handlerFunc(func(w http.ResponseWriter, _ string, _ *persona.Request) {
		_, _ = io.WriteString(w, "begun, ")
		w.(http.Flusher).Flush()
		close(flushed)
		<-let
		_, _ = io.WriteString(w, "ended")
	})
	w.register("t2", 2, plays("a.example", ""))
	c := w.dial(2, w.plain)
	if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	<-flushed
	// A file that must not grow is a disk without room.
	fi, err := os.Stat(filepath.Join(w.state, "journal", "t2", "journal.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	var room syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &room); err != nil {
		t.Fatal(err)
	}
	signal.Ignore(syscall.SIGXFSZ)
	defer signal.Reset(syscall.SIGXFSZ)
	full := syscall.Rlimit{Cur: uint64(fi.Size()), Max: room.Max}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &full); err != nil {
		t.Skip(err)
	}
	defer func() { _ = syscall.Setrlimit(syscall.RLIMIT_FSIZE, &room) }()
	close(let)
	eventually(t, "the outcome finds no room", func() bool { return w.server.storage.Load() != nil })
	if r := w.records("t2")[0]; r.Response != nil {
		t.Errorf("there is an outcome: %+v", r.Response)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &room); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the outcome is on record", func() bool { r := w.records("t2")[0].Response; return r != nil && r.Body.Size == 12 })
	if w.server.storage.Load() != nil {
		t.Error("the status says still that nothing can be written")
	}
}
