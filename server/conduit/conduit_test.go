package conduit

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/linuxarena/ctis/server/backend"
)

var patience = backend.Patience{Connect: 5 * time.Second, Answer: 5 * time.Second, Silence: 5 * time.Second}

// pair is a client whose server handles with h.
func pair(t *testing.T, h Handler) *Client {
	t.Helper()
	a, err := LoadIdentity(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	b, err := LoadIdentity(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.3:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{Identity: b, Peer: func() string { return a.Fingerprint }, Handle: h, Log: slog.New(slog.DiscardHandler)}
	ended := make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	go func() { ended <- s.Serve(ctx, l) }()
	c := NewClient(a)
	c.Use(l.Addr().(*net.TCPAddr).AddrPort(), b.Fingerprint)
	t.Cleanup(func() {
		c.Close()
		cancel()
		_ = l.Close()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return c
}

func start(t *testing.T, c *Client) *Exchange {
	t.Helper()
	e, err := c.Start(t.Context(), patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

func TestHeadsSurviveTheWay(t *testing.T) {
	o := &Open{Trajectory: "t1", Host: "a.example", Method: "P\xff", Target: "/\x00?\xc3", Fields: [][2]string{{"A", ""}, {"a", "\xe9\xff"}, {"", "x"}}, Length: 1 << 40, WebSocket: true}
	b, err := o.encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := decodeOpen(decoder{b: b[frameHeader:]})
	if err != nil || !reflect.DeepEqual(got, o) {
		t.Errorf("%+v, %v", got, err)
	}
	h := &Head{Status: 599, Fields: [][2]string{{"X", strings.Repeat("y", 60_000)}}, Length: -1, Switched: true}
	if b, err = h.encode(); err != nil {
		t.Fatal(err)
	}
	if got, err := decodeHead(decoder{b: b[frameHeader:]}); err != nil || !reflect.DeepEqual(got, h) {
		t.Errorf("%+v, %v", got, err)
	}
	o.Target = strings.Repeat("x", maxHead)
	if _, err := o.encode(); err == nil {
		t.Error("a head of any size is sent")
	}
}

func FuzzFrames(f *testing.F) {
	o := &Open{Trajectory: "t1", Host: "a.example", Method: "GET", Target: "/", Fields: [][2]string{{"A", "b"}}}
	b, _ := o.encode()
	f.Add(b)
	f.Add([]byte{frameData, 0, 0, 0, 1, 'x'})
	f.Add([]byte{frameHead, 0, 0, 0, 4, 0x90, 3, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		r := reader{bufio.NewReader(bytes.NewReader(b))}
		kind, size, err := r.next()
		if err != nil {
			return
		}
		d, err := r.payload(size)
		if err != nil {
			return
		}
		switch kind {
		case frameOpen:
			if o, err := decodeOpen(d); err == nil {
				if again, err := o.encode(); err != nil || len(again) > len(b)+64 {
					t.Errorf("%+v: %v", o, err)
				}
			}
		case frameHead:
			_, _ = decodeHead(d)
		case frameFailure:
			_ = decodeFailure(d)
		}
	})
}

func TestBodiesGoBothWaysAndConnectionsAreUsedAgain(t *testing.T) {
	peers := make(chan string, 10)
	c := pair(t, func(_ context.Context, call *Call) {
		peers <- call.conn.RemoteAddr().String()
		b, err := io.ReadAll(call.Body)
		if err != nil {
			t.Error(err)
		}
		_ = call.Start(&Head{Status: 200, Length: int64(len(b))})
		_, _ = call.Write(b)
		_ = call.End([][2]string{{"X-Late", call.Target}})
	})
	for _, size := range []int{0, 1, maxData - frameHeader, maxData, maxData + 1, 1 << 20} {
		e := start(t, c)
		body := strings.Repeat("x", size)
		if err := e.Do(&Open{Method: "POST", Target: "/t", Length: int64(size)}, strings.NewReader(body)); err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(e)
		if err != nil || string(got) != body || fmt.Sprint(e.Trailers) != "[[X-Late /t]]" {
			t.Errorf("%d bytes: %d came, %v, %v", size, len(got), e.Trailers, err)
		}
		e.Close()
	}
	first := <-peers
	for range 5 {
		if p := <-peers; p != first {
			t.Errorf("another connection: %s, %s", p, first)
		}
	}
}

func TestAnAnswerNeedNotWaitForTheBody(t *testing.T) {
	c := pair(t, func(_ context.Context, call *Call) {
		_ = call.Start(&Head{Status: 413, Length: 3})
		_, _ = call.Write([]byte("big"))
		_ = call.End(nil)
	})
	e := start(t, c)
	if err := e.Do(&Open{Method: "POST", Length: 64 << 20}, io.LimitReader(zeros{}, 64<<20)); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(e); string(got) != "big" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

// The rest of a body that nobody wants is no sign that the simulator has left.
func TestAnAnswerGoesOnBesideABodyThatNobodyWants(t *testing.T) {
	c := pair(t, func(ctx context.Context, call *Call) {
		_ = call.Body.Close()
		_ = call.Start(&Head{Status: 413, Length: 6})
		_, _ = call.Write([]byte("too "))
		select {
		case <-ctx.Done():
			_, _ = call.Write([]byte("no"))
		case <-time.After(200 * time.Millisecond):
			_, _ = call.Write([]byte("ok"))
		}
		_ = call.End(nil)
	})
	e := start(t, c)
	if err := e.Do(&Open{Method: "POST", Length: 64 << 20}, io.LimitReader(zeros{}, 64<<20)); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(e); string(got) != "too ok" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

func TestFailuresAreTold(t *testing.T) {
	c := pair(t, func(_ context.Context, call *Call) {
		if call.Target == "/late" {
			_ = call.Start(&Head{Status: 200, Length: -1})
			_, _ = call.Write([]byte("half"))
		}
		if call.Target == "/silent" {
			return
		}
		call.Fail(&backend.Failure{Status: 503, Reason: "has no key"})
	})
	var f *backend.Failure
	if err := start(t, c).Do(&Open{}, nil); !errors.As(err, &f) || f.Status != 503 || f.Reason != "has no key" {
		t.Errorf("%v", err)
	}
	e := start(t, c)
	if err := e.Do(&Open{Target: "/late"}, nil); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(e); string(got) != "half" || !errors.As(err, &f) || f.Reason != "has no key" {
		t.Errorf("%q, %v", got, err)
	}
	if err := start(t, c).Do(&Open{Target: "/silent"}, nil); !errors.As(err, &f) || f.Status != 502 {
		t.Errorf("%v", err)
	}
}

func TestWhoLeavesIsNoticed(t *testing.T) {
	left := make(chan struct{})
	c := pair(t, func(ctx context.Context, call *Call) {
		_ = call.Start(&Head{Status: 200, Length: -1})
		<-ctx.Done()
		close(left)
	})
	e := start(t, c)
	if err := e.Do(&Open{}, nil); err != nil {
		t.Fatal(err)
	}
	e.Close()
	select {
	case <-left:
	case <-time.After(5 * time.Second):
		t.Error("the other end goes on")
	}
}

func TestADamagedIdentityIsMadeAnew(t *testing.T) {
	dir := t.TempDir()
	a, err := LoadIdentity(dir)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := LoadIdentity(dir); err != nil || b.Fingerprint != a.Fingerprint || len(a.Fingerprint) != 64 {
		t.Errorf("%v, %v", b, err)
	}
}
