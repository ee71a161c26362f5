package server

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/linuxarena/ctis/server/persona"
)

func TestCompleteResponsesKeepTheirFraming(t *testing.T) {
	large := strings.Repeat("0123456789abcdef", 2<<10) // more than goes out in one packet, less than is streamed
	w := withHandler(t, func(w http.ResponseWriter, _ string, r *persona.Request) {
		switch r.Path {
		case "/large":
			_, _ = io.WriteString(w, large)
		case "/none":
			w.WriteHeader(http.StatusNoContent)
		case "/same":
			w.Header().Set("X-Only-Here", "1")
			w.WriteHeader(http.StatusNotModified)
		default:
			_, _ = io.WriteString(w, "hello")
		}
	})
	c := w.dial(2, w.plain)
	defer c.Close()
	br := bufio.NewReader(c)
	for _, step := range []struct {
		method, path, proto string
		status, length      int
		body                string
	}{
		{"GET", "/", "1.1", 200, 5, "hello"},
		{"HEAD", "/", "1.1", 200, 5, ""},
		{"GET", "/same", "1.1", 304, -1, ""},
		{"GET", "/large", "1.1", 200, len(large), large},
		{"GET", "/none", "1.1", 204, -1, ""},
		{"GET", "/", "1.0", 200, 5, "hello"},
		{"HEAD", "/large", "1.0", 200, len(large), ""},
		{"GET", "/", "1.1", 200, 5, "hello"},
	} {
		name := step.method + " " + step.path + " " + step.proto
		if _, err := fmt.Fprintf(c, "%s %s HTTP/%s\r\nHost: a.example\r\nConnection: keep-alive\r\n\r\n", step.method, step.path, step.proto); err != nil {
			t.Fatal(name, err)
		}
		r, err := http.ReadResponse(br, &http.Request{Method: step.method})
		if err != nil {
			t.Fatal(name, err)
		}
		body, err := io.ReadAll(r.Body)
		stated := r.Header.Get("Content-Length")
		if want := fmt.Sprint(step.length); step.length >= 0 && stated != want || step.length < 0 && stated != "" {
			t.Errorf("%s: content-length %q", name, stated)
		}
		if err != nil || r.StatusCode != step.status || string(body) != step.body || r.Close {
			t.Errorf("%s: %d, close %v, %d bytes, %v", name, r.StatusCode, r.Close, len(body), err)
		}
		if (r.Header.Get("X-Only-Here") != "") != (step.path == "/same") {
			t.Errorf("%s: has a field of another response: %v", name, r.Header)
		}
	}
}

func TestResponseOfAnotherLengthThanStatedEndsTheConnection(t *testing.T) {
	w := withHandler(t, func(w http.ResponseWriter, _ string, r *persona.Request) {
		w.Header().Set("Content-Length", strings.TrimPrefix(r.Path, "/"))
		_, _ = io.WriteString(w, "hello")
	})
	for stated, body := range map[string]string{"3": "hel", "9": "hello"} {
		answer := w.send(2, w.plain, "GET /"+stated+" HTTP/1.1\r\nHost: a.example\r\n\r\n")
		head, got, _ := strings.Cut(answer, "\r\n\r\n")
		if !strings.Contains(head, "\r\nContent-Length: "+stated) || !strings.Contains(head, "\r\nConnection: close") || got != body {
			t.Errorf("%s: %q", stated, answer)
		}
	}
	if answer := w.send(2, w.plain, strings.Replace(get, "GET /", "GET /nonsense", 1)); !strings.Contains(answer, "\r\nContent-Length: 5\r\n") || !strings.HasSuffix(answer, "\r\n\r\nhello") {
		t.Errorf("%q", answer)
	}
}
