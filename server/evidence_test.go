package server

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/linuxarena/ctis/server/api"
)

// What was called is known before the body, and recorded right however much of it
// comes.
func TestBrokenUploadIsRecordedWithWhatArrived(t *testing.T) {
	w := newWorld(t)
	w.register("t2", 2, plays("a.example", ""))
	c := w.dial(2, w.plain)
	if _, err := io.WriteString(c, "POST /webhook HTTP/1.1\r\nHost: a.example\r\nContent-Length: 100\r\n\r\npart"); err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
	r := w.await("t2", 1)[0]
	if r.Request == nil || r.Request.Body.Content != "part" || !strings.Contains(r.Error, "broke off") || r.Response != nil || r.OutcomeUnknown {
		t.Errorf("%+v %+v", r, r.Request)
	}
	if r.Kind != api.KindWebhook || r.Endpoint != "webhook" || r.Persona != "a.example" {
		t.Errorf("kind %q, endpoint %q, persona %q", r.Kind, r.Endpoint, r.Persona)
	}
}

func TestBodyBeyondTheLimitIs413AndRecordedWithWhatArrived(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Limits.RequestBody = 10 })
	w.register("t2", 2, plays("a.example", ""))
	const sent = "0123456789abcdef"
	for _, raw := range []string{
		"PUT /data/x HTTP/1.1\r\nHost: a.example\r\nContent-Length: 16\r\n\r\n" + sent,
		"PUT /data/x HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n10\r\n" + sent + "\r\n0\r\n\r\n",
	} {
		if answer := w.send(2, w.plain, raw); !strings.HasPrefix(answer, "HTTP/1.1 413 ") || !strings.Contains(answer, "\r\nConnection: close\r\n") {
			t.Errorf("%q", answer)
		}
	}
	for _, r := range w.records("t2") {
		b := r.Request.Body
		if r.Response.Status != http.StatusRequestEntityTooLarge || r.Error == "" || r.Kind != api.KindData || r.Endpoint != "data" {
			t.Errorf("%+v", r)
		}
		if b.Size != int64(len(sent)) || b.SHA256 != api.HexSHA256([]byte(sent)) || !b.Truncated {
			t.Errorf("body: %+v", b)
		}
	}
}

func TestRequestThatFindsNoPlaceIsRecordedWithWhatItCalled(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Limits.Requests = 1 })
	w.register("t2", 2, plays("a.example", ""))
	first := w.dial(2, w.plain)
	if _, err := io.WriteString(first, "POST /webhook HTTP/1.1\r\nHost: a.example\r\nContent-Length: 4\r\n\r\nse"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the first is in work", func() bool {
		n := w.server.routes.Load().tenants["t2"]
		n.mu.Lock()
		defer n.mu.Unlock()
		return n.requests == 1
	})
	if answer := w.send(2, w.plain, "POST /webhook HTTP/1.1\r\nHost: a.example\r\nContent-Length: 4\r\n\r\nsent"); !strings.HasPrefix(answer, "HTTP/1.1 503 ") {
		t.Errorf("%q", answer)
	}
	r := w.records("t2")[0]
	if r.Kind != api.KindWebhook || r.Endpoint != "webhook" || r.Persona != "a.example" || r.Request.Body.Content != "sent" || !r.Request.Body.Truncated {
		t.Errorf("%+v %+v", r, r.Request)
	}
}

// eventually waits for what another goroutine brings about.
func eventually(t *testing.T, what string, check func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !check(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it does not happen: %s", what)
		}
	}
}
