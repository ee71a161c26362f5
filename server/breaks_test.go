package server

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/linuxarena/ctis/server/api"
	"github.com/linuxarena/ctis/server/wire"
)

// connection is one over which a fault is seen: plain, under TLS, or HTTP/2.
type connection struct {
	net.Conn
	socket *net.TCPConn
}

func (w *world) open(n int, over string) connection {
	w.t.Helper()
	port := w.tls
	if over == "plain" {
		port = w.plain
	}
	c := w.dial(n, port)
	if over == "plain" {
		return connection{c, c.(*net.TCPConn)}
	}
	alpn := []string{"http/1.1"}
	if over == "h2" {
		alpn = []string{"h2"}
	}
	secure := tls.Client(c, &tls.Config{RootCAs: w.roots, ServerName: "a.test", NextProtos: alpn})
	if err := secure.Handshake(); err != nil {
		w.t.Fatal(err)
	}
	return connection{secure, c.(*net.TCPConn)}
}

// TestFaultsAreThoseOfTheConnection looks at what comes out of the socket.
func TestFaultsAreThoseOfTheConnection(t *testing.T) {
	w := newWorld(t)
	cut := answers("/truncate", 200, "0123456789")
	cut.Fault = api.FaultTruncate
	big := answers("/big", 200, strings.Repeat("x", 300_000))
	big.Fault = api.FaultTruncate
	w.register("t2", 2, ruled("a.test",
		api.Rule{Path: "/reset", Fault: api.FaultReset}, api.Rule{Path: "/empty", Fault: api.FaultEmpty}, cut, big,
		api.Rule{Path: "/webhook/cut", Fault: api.FaultTruncate, Pass: true},
		api.Rule{Path: "/timeout", Fault: api.FaultTimeout},
	))
	for _, over := range []string{"plain", "tls"} {
		ask := func(path string) (string, error) {
			c := w.open(2, over)
			if _, err := io.WriteString(c, "GET "+path+" HTTP/1.1\r\nHost: a.test\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			b, err := io.ReadAll(c)
			return string(b), err
		}
		if got, err := ask("/reset"); got != "" || !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("%s: reset gives %q, %v", over, got, err)
		}
		if got, err := ask("/empty"); got != "" || err != nil { // under TLS, without close_notify there would be an error
			t.Errorf("%s: empty gives %q, %v", over, got, err)
		}
		if got, err := ask("/truncate"); err != nil || !strings.Contains(got, "Content-Length: 10\r\n") || !strings.HasSuffix(got, "\r\n\r\n01234") || strings.Contains(got, "Connection: close") {
			t.Errorf("%s: truncate gives %q, %v", over, got, err)
		}
		if got, err := ask("/big"); err != nil || !strings.Contains(got, "Content-Length: 300000\r\n") || !strings.HasSuffix(got, "\r\n\r\n"+strings.Repeat("x", 150_000)) {
			t.Errorf("%s: truncate of a long body gives %d bytes, %v", over, len(got), err)
		}
		if got, err := ask("/webhook/cut"); err != nil || !strings.HasSuffix(got, "\r\n\r\n"+`{"status":"received","id":"`) && strings.Contains(got, "}") {
			t.Errorf("%s: a truncated webhook gives %q, %v", over, got, err)
		}
		c := w.open(2, over)
		if _, err := io.WriteString(c, "GET /timeout HTTP/1.1\r\nHost: a.test\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		_ = c.SetReadDeadline(time.Now().Add(300 * time.Millisecond))
		var timeout net.Error
		if n, err := c.Read(make([]byte, 1)); n > 0 || !errors.As(err, &timeout) || !timeout.Timeout() {
			t.Errorf("%s: timeout gives %d bytes, %v", over, n, err)
		}
		_ = c.Close()
	}
	w.await("t2", 12)
	records := w.records("t2")
	for i, want := range []string{"connection reset by rule 1", "connection closed by rule 2", "cut short by rule 3", "cut short by rule 4", "cut short by rule 5", "not answered by rule 6, until the client left"} {
		for _, r := range []api.Record{records[i], records[i+6]} {
			if r.Error != want || i < 2 && r.Response != nil || r.Rule != fmt.Sprint(i+1) {
				t.Errorf("record %d: %q by rule %q, %+v", r.Seq, r.Error, r.Rule, r.Response)
			}
		}
	}
	if r := records[2].Response; r.Body != digestOf([]byte("01234")) {
		t.Errorf("recorded of a response that was cut: %+v", r)
	}
	if r := records[3].Response; r.Body != digestOf(bytes.Repeat([]byte("x"), 150_000)) {
		t.Errorf("recorded of a long response that was cut: %+v", r)
	}
}

func TestFaultsOverHTTP2(t *testing.T) {
	w := newWorld(t)
	cut := answers("/truncate", 200, "0123456789")
	cut.Fault = api.FaultTruncate
	w.register("t2", 2, ruled("a.example",
		api.Rule{Path: "/reset", Fault: api.FaultReset}, api.Rule{Path: "/empty", Fault: api.FaultEmpty}, cut, api.Rule{Path: "/timeout", Fault: api.FaultTimeout},
	))
	for _, x := range []struct {
		path string
		is   func(error) bool
	}{
		{"/reset", func(err error) bool { return errors.Is(err, syscall.ECONNRESET) }},
		{"/empty", func(err error) bool { return err == io.EOF }}, // with close_notify
		{"/timeout", func(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }},
	} {
		c := w.h2("a.example")
		id := c.request(requestFields("GET", x.path), true)
		if x.path == "/timeout" {
			w.awaitWaiting(1)
			_ = c.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
		}
		for {
			f, _, err := c.frame()
			if err != nil {
				if !x.is(err) {
					t.Errorf("%s: %v", x.path, err)
				}
				break
			}
			if f.Stream == id || f.Type == wire.FrameGoAway {
				t.Errorf("%s: frame %+v", x.path, f)
			}
		}
		_ = c.Close()
	}
	c := w.h2("a.example")
	a := c.answer(c.request(requestFields("GET", "/truncate"), true))
	if a.body != "01234" || a.reset != 2 || !hasFold(a.fields, [2]string{"content-length", "10"}) {
		t.Errorf("truncate: %+v", a)
	}
	// A stream that was cut leaves its connection whole.
	if a := c.answer(c.request(requestFields("GET", "/webhook"), true)); a.status() != "200" {
		t.Errorf("after it: %+v", a)
	}
	w.await("t2", 5)
	records := w.records("t2")
	for i, want := range []string{"connection reset by rule 1", "connection closed by rule 2", "not answered by rule 4, until the client left", "cut short by rule 3"} {
		if records[i].Error != want {
			t.Errorf("record %d: %q, want %q", i+1, records[i].Error, want)
		}
	}
}

func TestRequestsThatWaitAreBounded(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Limits.Waiting = 2; o.Limits.Stall = 400 * time.Millisecond })
	w.register("t2", 2, ruled("a.test", api.Rule{Path: "/timeout", Fault: api.FaultTimeout}))
	var conns []net.Conn
	for range 2 {
		c := w.dial(2, w.plain)
		_, _ = io.WriteString(c, "GET /timeout HTTP/1.1\r\nHost: a.test\r\n\r\n")
		conns = append(conns, c)
	}
	w.awaitWaiting(2)
	if r, _ := w.do(w.client(2, false), "GET", "http://a.test/timeout", ""); r.StatusCode != 503 {
		t.Errorf("one too many: %d", r.StatusCode)
	}
	for _, c := range conns { // the bound of a fault without an end
		if b, err := io.ReadAll(c); len(b) > 0 || err != nil {
			t.Errorf("%q, %v", b, err)
		}
	}
	for _, r := range w.await("t2", 3) {
		if r.Error == "" {
			t.Errorf("%+v", r)
		}
	}
}

func (w *world) awaitWaiting(n int64) {
	w.t.Helper()
	for deadline := time.Now().Add(10 * time.Second); w.server.routes.Load().tenants["t2"].waiting.Load() != n; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			w.t.Fatalf("%d requests wait", w.server.routes.Load().tenants["t2"].waiting.Load())
		}
	}
}

func TestPipelinedRequestAfterAFaultIsNotAnswered(t *testing.T) {
	w := newWorld(t)
	w.register("t2", 2, ruled("a.test", api.Rule{Path: "/empty", Fault: api.FaultEmpty}))
	c := w.dial(2, w.plain)
	_, _ = io.WriteString(c, "GET /empty HTTP/1.1\r\nHost: a.test\r\n\r\nGET /webhook HTTP/1.1\r\nHost: a.test\r\n\r\n")
	if b, _ := bufio.NewReader(c).ReadString('\n'); b != "" {
		t.Errorf("%q", b)
	}
}
