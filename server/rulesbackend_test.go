package server

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/linuxarena/ctis/server/api"
)

// TestRulesComeBeforeTheBackendAndChangeItsAnswers: what one answers the backend never
// hears of; what one passes on is changed on its way back, whether it streams or not.
func TestRulesComeBeforeTheBackendAndChangeItsAnswers(t *testing.T) {
	asked := make(chan string, 16)
	p := newProgram(t, 2, func(c *net.TCPConn, r *bufio.Reader) {
		lines := takeHead(r)
		_, _ = io.CopyN(io.Discard, r, max(0, lengthOf(lines)))
		asked <- lines[0]
		switch {
		case strings.Contains(lines[0], "/v1/stream"):
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nETag: \"x\"\r\n\r\n6\r\nthe ol\r\n")
			time.Sleep(20 * time.Millisecond) // so that it comes in two pieces
			_, _ = io.WriteString(c, "6\r\nd word\r\n0\r\n\r\n")
		case strings.Contains(lines[0], "/v1/gzip"):
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nold")
		case strings.Contains(lines[0], "/v1/long"):
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n"+strings.Repeat("x", 200_000))
		case strings.Contains(lines[0], "/v1/huge"):
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2000000\r\n\r\n"+strings.Repeat("old ", 500_000))
		default:
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nX-Own: 1\r\n\r\nold")
		}
	})
	edit := &api.ResponseEdit{Set: [][2]string{{"X-Seen", "a"}, {"X-Seen", "b"}}, Remove: []string{"X-Own"}, Replace: [][2]string{{"old", "new"}}}
	host := p.persona("a.example", 2, "v1")
	host.Rules = []api.Rule{
		answers("/v1/mine", 403, "no"),
		{Path: "/v1/cut/*", Fault: api.FaultTruncate, Pass: true},
		{Path: "/v1/long", Fault: api.FaultTruncate, Pass: true},
		{Path: "/v1/failed", Pass: true, Edit: &api.ResponseEdit{Status: 503}},
		{Path: "/v1/**", Delay: time.Millisecond, Pass: true, Edit: edit},
		answers("/elsewhere", 200, "no endpoint of it"),
	}
	w := newWorld(t)
	w.register("t2", 2, host)
	client := w.client(2, false)
	if r, body := w.do(client, "POST", "http://a.example/v1/mine", "x"); r.StatusCode != 403 || body != "no" || len(asked) > 0 {
		t.Errorf("%d %q; the backend was asked %d times", r.StatusCode, body, len(asked))
	}
	if r, body := w.do(client, "GET", "http://a.example/elsewhere", ""); r.StatusCode != 200 || body != "no endpoint of it" {
		t.Errorf("%d %q", r.StatusCode, body)
	}
	if r, body := w.do(client, "POST", "http://a.example/v1/x", "y"); body != "new" || strings.Join(r.Header["X-Seen"], " ") != "a b" || r.Header.Get("X-Own") != "" || r.Header.Get("Server") != "nginx/1.22.1" {
		t.Errorf("%q %v", body, r.Header)
	}
	if r, body := w.do(client, "GET", "http://a.example/v1/stream", ""); body != "the new word" || r.ContentLength != 12 || r.Header.Get("Etag") != "" {
		t.Errorf("%q of %d, %v", body, r.ContentLength, r.Header)
	}
	gzip, _ := http.NewRequest("GET", "http://a.example/v1/gzip", nil)
	gzip.Header.Set("Accept-Encoding", "gzip") // so that the client leaves it as it is
	if r, body := w.doRequest(client, gzip); body != "old" || r.Header.Get("X-Seen") != "a" {
		t.Errorf("%q %v", body, r.Header)
	}
	if r, body := w.do(client, "GET", "http://a.example/v1/huge", ""); len(body) != 2_000_000 || strings.Contains(body, "new") || r.Header.Get("X-Seen") != "a" {
		t.Errorf("%d bytes, %v", len(body), r.Header)
	}
	if r, body := w.do(client, "GET", "http://a.example/v1/failed", ""); r.StatusCode != 503 || body != "old" {
		t.Errorf("%d %q", r.StatusCode, body)
	}
	for path, want := range map[string]int{"/v1/cut/x": 1, "/v1/long": 100_000} {
		r, err := client.Get("http://a.example" + path)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(r.Body)
		_ = r.Body.Close()
		if len(b) != want || !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%s: %d bytes of %d, %v", path, len(b), r.ContentLength, err)
		}
	}
	w.await("t2", 9)
	for i, r := range w.records("t2") {
		if i >= 2 && r.Kind != api.KindBackend || r.Rule == "" || r.Response == nil {
			t.Errorf("record %d: %s by rule %q, %+v", r.Seq, r.Kind, r.Rule, r.Response)
		}
		if i == 4 || i == 5 {
			if r.Error != "the body is not edited: it is too long, encoded, or a part" {
				t.Errorf("record %d: %q", r.Seq, r.Error)
			}
		}
	}
}
