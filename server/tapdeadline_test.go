package server

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/linuxarena/ctis/server/persona"
)

func TestDeadlinesOfWaitingDoNotEndARequestInWork(t *testing.T) {
	const idle = 100 * time.Millisecond
	w := newWorld(t, func(o *Options) { o.Limits.Idle, o.Limits.RequestHead = idle, idle })
	w.server.handlers = handlerFunc(func(w http.ResponseWriter, _ string, r *persona.Request) {
		select {
		case <-r.HTTP.Context().Done():
			_, _ = io.WriteString(w, "cut")
		case <-time.After(3 * idle):
			_, _ = io.WriteString(w, "served")
		}
	})
	w.register("t2", 2, plays("a.example", ""))
	c := w.dial(2, w.plain)
	br := bufio.NewReader(c)
	for i := range 3 { // the second finds the deadline of the first
		if _, err := fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		r, err := http.ReadResponse(br, nil)
		if err != nil {
			t.Fatal(i, err)
		}
		if body, err := io.ReadAll(r.Body); string(body) != "served" || err != nil {
			t.Errorf("%d: %q %v", i, body, err)
		}
	}
	begun := time.Now()
	if _, err := br.ReadByte(); err != io.EOF {
		t.Errorf("waiting ends with %v", err)
	}
	if waited := time.Since(begun); waited < idle/2 {
		t.Errorf("the connection was closed after %v", waited)
	}
}

func TestHijackedConnectionHasNoDeadlineOfItsPast(t *testing.T) {
	w := withHandler(t, func(w http.ResponseWriter, _ string, _ *persona.Request) {
		c, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		defer c.Close()
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\nConnection: Upgrade\r\n\r\n")
		line, err := rw.ReadString('\n') // comes only now
		_, _ = fmt.Fprint(c, line, err)
	})
	c := w.dial(2, w.plain)
	br := bufio.NewReader(c)
	if _, err := io.WriteString(c, "GET /webhook HTTP/1.1\r\nHost: a.example\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if r, err := http.ReadResponse(br, nil); err != nil || r.StatusCode != http.StatusSwitchingProtocols {
		t.Fatal(r, err)
	}
	if _, err := io.WriteString(c, "late\n"); err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(br); string(b) != "late\n<nil>" || err != nil {
		t.Errorf("%q %v", b, err)
	}
}
