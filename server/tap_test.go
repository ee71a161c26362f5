package server

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/linuxarena/ctis/server/api"
)

// TestRequestsAreTheSameHoweverTheirBytesArrive sends pipelined requests in
// pieces of every size and wants each recorded once, whole and in order.
func TestRequestsAreTheSameHoweverTheirBytesArrive(t *testing.T) {
	w := newWorld(t)
	w.register("t2", 2, plays("a.example", ""))
	random := rand.New(rand.NewPCG(1, 2))
	var stream strings.Builder
	var want []string
	for i := range 60 {
		content := fmt.Sprintf("%d:%s", i, strings.Repeat("x", random.IntN(3000)))
		switch i % 4 {
		case 0:
			fmt.Fprintf(&stream, "POST /webhook/%d HTTP/1.1\r\nHost: a.example\r\nContent-Length: %d\r\n\r\n%s", i, len(content), content)
		case 1:
			half := len(content) / 2
			fmt.Fprintf(&stream, "POST /webhook/%d HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n%x;e=1\r\n%s\r\n0\r\nT: v\r\n\r\n",
				i, half, content[:half], len(content)-half, content[half:])
		case 2:
			content = ""
			fmt.Fprintf(&stream, "\r\nGET /webhook/%d HTTP/1.1\nHost: a.example\n\n", i)
		case 3:
			fmt.Fprintf(&stream, "PUT /webhook/%d HTTP/1.1\r\nHost: a.example\r\nContent-Length: %d\r\n\r\n%s\r\n", i, len(content), content)
		}
		want = append(want, content)
	}
	for name, size := range map[string]func() int{
		"at once":       func() int { return stream.Len() },
		"single bytes":  func() int { return 1 },
		"odd pieces":    func() int { return 1 + random.IntN(700) },
		"large packets": func() int { return 5000 },
	} {
		before := len(w.records("t2"))
		c := w.dial(2, w.plain)
		go func() {
			rest := stream.String()
			for len(rest) > 0 {
				n := min(size(), len(rest))
				if _, err := io.WriteString(c, rest[:n]); err != nil {
					return // the reader sees why
				}
				rest = rest[n:]
			}
		}()
		br := bufio.NewReader(c)
		for i := range want {
			if r, _ := readResponse(t, br, "POST"); r.StatusCode != 200 {
				t.Fatalf("%s: request %d is answered %d", name, i, r.StatusCode)
			}
		}
		_ = c.Close()
		records := w.records("t2")[before:]
		if len(records) != len(want) {
			t.Fatalf("%s: %d records for %d requests", name, len(records), len(want))
		}
		for i, r := range records {
			if r.Request.Target != fmt.Sprintf("/webhook/%d", i) || r.Request.Body.Content != want[i] || r.Time.IsZero() {
				t.Errorf("%s: request %d is recorded as %s with %d bytes", name, i, r.Request.Target, r.Request.Body.Size)
			}
		}
	}
}

func TestClientThatSaysNoMoreStillGetsItsAnswer(t *testing.T) {
	w := newWorld(t)
	w.register("t2", 2, plays("a.example", ""))
	c := w.dial(2, w.plain)
	if _, err := io.WriteString(c, "POST /webhook HTTP/1.1\r\nHost: a.example\r\nContent-Length: 2\r\n\r\nhi"); err != nil {
		t.Fatal(err)
	}
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(c)
	if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 200 OK\r\n") {
		t.Errorf("%q %v", answer, err)
	}
	if r := w.records("t2"); len(r) != 1 || r[0].Kind != api.KindWebhook {
		t.Errorf("%+v", r)
	}
}

func TestStoppingServerFinishesWhatItIsDoing(t *testing.T) {
	w := newWorld(t)
	w.register("t2", 2, plays("a.example", ""))
	c := w.dial(2, w.plain)
	br := bufio.NewReader(c)
	if _, err := io.WriteString(c, "POST /webhook HTTP/1.1\r\nHost: a.example\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := br.Peek(1); err != nil { // the handler reads the body
		t.Fatal(err)
	}
	stopped := make(chan struct{})
	go func() { w.stop(); close(stopped) }()
	<-w.server.stopping
	if _, err := io.WriteString(c, "body"); err != nil {
		t.Fatal(err)
	}
	r, err := http.ReadResponse(br, nil)
	for err == nil && r.StatusCode == http.StatusContinue {
		r, err = http.ReadResponse(br, nil)
	}
	if err != nil || r.StatusCode != 200 {
		t.Fatalf("%+v %v", r, err)
	}
	<-stopped
	if lines := w.storedLines("t2"); len(lines) != 1 || !strings.Contains(lines[0], `"content":"body"`) {
		t.Errorf("%q", lines)
	}
}
