package backend

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"
)

var patience = Patience{Connect: 5 * time.Second, Answer: 5 * time.Second, Silence: 5 * time.Second}

func TestAsksForWebSocket(t *testing.T) {
	for name, c := range map[string]struct {
		method string
		minor  int
		fields [][2]string
		want   bool
	}{
		"as browsers do":        {"GET", 1, [][2]string{{"Connection", "keep-alive, Upgrade"}, {"Upgrade", "WebSocket"}}, true},
		"h2c":                   {"GET", 1, [][2]string{{"Connection", "Upgrade"}, {"Upgrade", "h2c"}}, false},
		"one of several":        {"GET", 1, [][2]string{{"Connection", "Upgrade"}, {"Upgrade", "websocket, h2c"}}, false},
		"two fields":            {"GET", 1, [][2]string{{"Connection", "Upgrade"}, {"Upgrade", "websocket"}, {"upgrade", "websocket"}}, false},
		"not for this hop":      {"GET", 1, [][2]string{{"Upgrade", "websocket"}}, false},
		"POST":                  {"POST", 1, [][2]string{{"Connection", "Upgrade"}, {"Upgrade", "websocket"}}, false},
		"HTTP/1.0":              {"GET", 0, [][2]string{{"Connection", "Upgrade"}, {"Upgrade", "websocket"}}, false},
		"nothing to upgrade to": {"GET", 1, [][2]string{{"Connection", "Upgrade"}}, false},
	} {
		if got := AsksForWebSocket(c.method, c.minor, c.fields); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// listen gives a route to a listener on loopback.
func listen(t *testing.T, serve func(net.Conn)) Route {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.9:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				serve(c)
			}()
		}
	}()
	return Route{Local: netip.MustParseAddr("127.0.0.8"), Interface: 1, Peer: l.Addr().(*net.TCPAddr).AddrPort()}
}

func reasonOf(err error) string {
	var f *Failure
	if errors.As(err, &f) {
		return f.Reason
	}
	return "no failure"
}

func TestTheOwnAddressMustBeThere(t *testing.T) {
	r := listen(t, func(net.Conn) {})
	r.Local = netip.MustParseAddr("198.19.255.254")
	r.Interface = 0
	if _, err := Open(context.Background(), r, patience); !strings.Contains(reasonOf(err), "own address") {
		t.Errorf("%v", err)
	}
}

func TestABackendThatAcceptsNothingIsDown(t *testing.T) {
	r := listen(t, func(net.Conn) {})
	_, err := Open(context.Background(), r, Patience{Connect: time.Nanosecond})
	var f *Failure
	if !errors.As(err, &f) || f.Status != 502 || !strings.Contains(f.Reason, "did not accept") {
		t.Errorf("%v", err)
	}
}

func TestNoOtherInterfaceIsUsed(t *testing.T) {
	r := listen(t, func(net.Conn) {})
	r.Interface = other(t)
	if _, err := Open(context.Background(), r, Patience{Connect: 500 * time.Millisecond}); err == nil {
		t.Error("loopback is reached over another interface")
	}
}

// other is an interface that is not the loopback's.
func other(t *testing.T) int {
	t.Helper()
	list, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range list {
		if i.Flags&net.FlagLoopback == 0 {
			return i.Index
		}
	}
	t.Skip("there is no interface but the loopback's")
	return 0
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func TestHalfARequestDoesNotLookWhole(t *testing.T) {
	got := make(chan error, 1)
	r := listen(t, func(c net.Conn) {
		q, err := http.ReadRequest(bufio.NewReader(c))
		if err == nil {
			_, err = io.ReadAll(q.Body)
		}
		got <- err
	})
	e, err := Open(context.Background(), r, patience)
	if err != nil {
		t.Fatal(err)
	}
	err = e.Do(&Request{Method: "POST", Target: "/", Host: "a", Length: 10}, io.MultiReader(strings.NewReader("half"), brokenReader{}))
	e.Close()
	if !strings.Contains(reasonOf(err), "cannot be read") {
		t.Errorf("%v", err)
	}
	if err := <-got; err == nil {
		t.Error("the backend believes that it has the whole request")
	}
}

func TestTheEndOfItsContextEndsAnExchange(t *testing.T) {
	here := make(chan struct{})
	r := listen(t, func(c net.Conn) { close(here); _, _ = io.Copy(io.Discard, c) })
	ctx, cancel := context.WithCancel(context.Background())
	e, err := Open(ctx, r, patience)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	go func() { <-here; cancel() }()
	if err := e.Do(&Request{Method: "GET", Target: "/", Host: "a"}, nil); err == nil {
		t.Error("no error")
	}
}

// FuzzHead compares with net/http: what is taken here means the same there.
func FuzzHead(f *testing.F) {
	for _, s := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX: y\r\n\r\nhi", "HTTP/1.0 404\r\n\r\n", "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n", "HTTP/1.1 200 OK\r\n X: y\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 02\r\n\r\n",
		"HTTP/1.1 204 No\r\nContent-Length: 5\r\n\r\n", "HTTP/1.1 200 OK\r\nX : y\r\n\r\n", "HTTP/1.1 200 OK\r\n: y\r\n\r\n", "HTTP/1.1 99 X\r\n\r\n", "HTTP/1.1 2000 X\r\n\r\n",
	} {
		f.Add([]byte(s), "GET")
	}
	f.Fuzz(func(t *testing.T, sent []byte, method string) {
		h, err := readHead(bufio.NewReader(bytes.NewReader(sent)))
		if err != nil {
			return
		}
		fr, err := h.framing(method)
		if err != nil {
			return
		}
		for _, field := range EndToEnd(h.fields) {
			if strings.ContainsAny(field[0]+field[1], "\r\n\x00") {
				t.Fatalf("field %q", field)
			}
		}
		r, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(sent)), &http.Request{Method: method})
		if err != nil {
			return // it may be stricter
		}
		defer r.Body.Close()
		if r.StatusCode != h.status {
			t.Errorf("%q: status %d and %d", sent, h.status, r.StatusCode)
		}
		if chunked := len(r.TransferEncoding) > 0; method != "HEAD" && h.status >= 200 && h.status != 204 && h.status != 304 {
			if chunked != fr.chunked || !chunked && r.ContentLength != fr.length {
				t.Errorf("%q: framing %+v, and %q %d", sent, fr, r.TransferEncoding, r.ContentLength)
			}
		}
	})
}
