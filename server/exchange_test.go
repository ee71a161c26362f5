package server

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/linuxarena/ctis/server/api"
	"github.com/linuxarena/ctis/server/persona"
)

// handlerFunc stands in for the personas' handlers.
type handlerFunc func(w http.ResponseWriter, kind string, r *persona.Request)

func (f handlerFunc) Serve(w http.ResponseWriter, kind string, r *persona.Request) { f(w, kind, r) }

// withHandler runs a world with one persona, a.example, and a handler.
func withHandler(t *testing.T, h handlerFunc) *world {
	t.Helper()
	w := newWorld(t)
	w.server.handlers = h
	w.register("t2", 2, plays("a.example", "nginx/1.22.1"))
	return w
}

const get = "GET / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n"

func TestFlushedResponseIsRecordedFirstAndCompletedAfterwards(t *testing.T) {
	next := make(chan struct{})
	w := withHandler(t, func(w http.ResponseWriter, _ string, _ *persona.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range 3 {
			_, _ = fmt.Fprintf(w, "data: %d\n\n", i)
			if err := http.NewResponseController(w).Flush(); err != nil {
				panic(err)
			}
			<-next
		}
	})
	for i, h2 := range []bool{false, true} {
		r, err := w.client(2, h2).Get("https://a.example/")
		if err != nil {
			t.Fatal(err)
		}
		br := bufio.NewReader(r.Body)
		for k := range 3 { // each event arrives while the handler waits
			if line, err := br.ReadString('\n'); err != nil || line != fmt.Sprintf("data: %d\n", k) {
				t.Fatalf("%q %v", line, err)
			}
			if _, err := br.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
			if k == 0 {
				lines := w.storedLines("t2")
				if last := lines[len(lines)-1]; len(lines) != 2*i+1 || !strings.Contains(last, `"response":null`) {
					t.Errorf("at the first event the journal's last line is %s", last)
				}
			}
			next <- struct{}{}
		}
		if _, err := io.ReadAll(br); err != nil {
			t.Fatal(err)
		}
		_ = r.Body.Close()
	}
	for _, r := range w.await("t2", 2) {
		if r.Response == nil || r.Response.Status != 200 || r.Response.Body.Size != 27 || r.OutcomeUnknown || r.Error != "" {
			t.Errorf("%+v %+v", r, r.Response)
		}
	}
}

func TestPanickingHandlerIsAnswered500AndRecorded(t *testing.T) {
	w := withHandler(t, func(w http.ResponseWriter, _ string, _ *persona.Request) {
		w.Header().Set("X-Half", "done")
		_, _ = io.WriteString(w, "half")
		panic("boom")
	})
	answer := w.send(2, w.plain, get)
	if !strings.HasPrefix(answer, "HTTP/1.1 500 Internal Server Error\r\nServer: nginx/1.22.1\r\n") || strings.Contains(answer, "half") || strings.Contains(answer, "X-Half") || strings.Contains(answer, "boom") {
		t.Errorf("answer %q", answer)
	}
	if r := w.records("t2")[0]; r.Response.Status != 500 || !strings.Contains(r.Error, "boom") {
		t.Errorf("%+v", r)
	}
}

func TestPanicInTheMiddleOfAStreamBreaksTheResponseOff(t *testing.T) {
	w := withHandler(t, func(w http.ResponseWriter, _ string, _ *persona.Request) {
		_, _ = io.WriteString(w, "half")
		w.(http.Flusher).Flush()
		panic("boom")
	})
	answer := w.send(2, w.plain, get)
	if strings.HasSuffix(answer, "0\r\n\r\n") || !strings.Contains(answer, "half") {
		t.Errorf("the response looks whole: %q", answer)
	}
	if r := w.records("t2")[0]; r.Response.Status != 200 || r.Response.Body.Size != 4 || !strings.Contains(r.Error, "boom") {
		t.Errorf("%+v %+v", r, r.Response)
	}
}

func TestHijackedConnectionIsRecordedBeforeItIsGivenAway(t *testing.T) {
	w := withHandler(t, func(w http.ResponseWriter, _ string, _ *persona.Request) {
		c, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		defer c.Close()
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\nConnection: Upgrade\r\n\r\n")
		line, _ := rw.ReadString('\n')
		_, _ = io.WriteString(c, line)
	})
	answer := w.send(2, w.plain, "GET /webhook HTTP/1.1\r\nHost: a.example\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\nover here\n")
	if answer != "HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\nConnection: Upgrade\r\n\r\nover here\n" {
		t.Errorf("answer %q", answer)
	}
	w.await("t2", 1) // the client sees the end before the second line is written
	if lines := w.storedLines("t2"); len(lines) != 2 {
		t.Errorf("lines %q", lines)
	}
}

func TestNothingIsAcknowledgedThatIsNotRecorded(t *testing.T) {
	w := withHandler(t, func(w http.ResponseWriter, _ string, r *persona.Request) {
		_, _ = io.WriteString(w, "acknowledged")
		if r.Path == "/stream" {
			w.(http.Flusher).Flush()
		}
	})
	if err := w.server.journal.Close(); err != nil {
		t.Fatal(err)
	}
	for _, raw := range []string{get, strings.Replace(get, "/", "/stream", 1), "BAD\r\n\r\n"} {
		answer := w.send(2, w.plain, raw)
		if !strings.HasPrefix(answer, "HTTP/1.1 503 Service Temporarily Unavailable\r\nServer: nginx/1.22.1\r\n") || strings.Contains(answer, "acknowledged") {
			t.Errorf("answer %q", answer)
		}
	}
	if w.server.storage.Load() == nil {
		t.Error("the status does not know")
	}
}

func TestResponsesCarryNothingOfNetHTTP(t *testing.T) {
	w := withHandler(t, func(w http.ResponseWriter, _ string, r *persona.Request) {
		if r.Path == "/typed" {
			w.Header().Set("Content-Type", "text/plain")
			w.Header().Set("Etag", `"x"`)
			w.Header().Set("Accept-Ranges", "bytes")
		}
		w.Header().Set("Server", "something else")
		_, _ = io.WriteString(w, "<html>content")
	})
	answer := w.send(2, w.plain, get)
	if strings.Contains(answer, "Content-Type") || !strings.Contains(answer, "\r\nServer: nginx/1.22.1\r\n") || strings.Contains(answer, "something else") {
		t.Errorf("answer %q", answer)
	}
	head, _, _ := strings.Cut(w.send(2, w.plain, strings.Replace(get, "/", "/typed", 1)), "\r\n\r\n")
	var names []string
	for _, line := range strings.Split(head, "\r\n")[1:] {
		name, _, _ := strings.Cut(line, ":")
		names = append(names, name)
	}
	if got := strings.Join(names, " "); got != "Server Date Content-Type Content-Length Connection ETag Accept-Ranges" {
		t.Errorf("fields come as %s", got)
	}
}

func TestLongHeadsAreRewrittenHoweverTheyAreWritten(t *testing.T) {
	w := withHandler(t, func(w http.ResponseWriter, _ string, _ *persona.Request) {
		for i := range 300 {
			w.Header().Set(fmt.Sprintf("X-Field-%d", i), strings.Repeat("v", 50))
		}
		_, _ = io.WriteString(w, "content")
	})
	answer := w.send(2, w.plain, get)
	head, content, _ := strings.Cut(answer, "\r\n\r\n")
	if content != "content" || !strings.HasPrefix(answer, "HTTP/1.1 200 OK\r\nServer: nginx/1.22.1\r\nDate: ") || strings.Count(head, "X-Field-") != 300 {
		t.Errorf("content %q, head of %d bytes", content, len(head))
	}
}

func TestHeadHasTheLengthOfTheBodyItLeavesOut(t *testing.T) {
	w := withHandler(t, func(w http.ResponseWriter, _ string, _ *persona.Request) { _, _ = io.WriteString(w, "content") })
	answer := w.send(2, w.plain, strings.Replace(get, "GET", "HEAD", 1))
	if !strings.HasSuffix(answer, "\r\n\r\n") || !strings.Contains(answer, "\r\nContent-Length: 7\r\n") {
		t.Errorf("answer %q", answer)
	}
	if r := w.records("t2")[0]; r.Response.Body.Size != 0 || !hasField(r.Response.Headers, "Content-Length", "7") || r.Kind != api.KindRoot {
		t.Errorf("%+v %+v", r, r.Response)
	}
}
