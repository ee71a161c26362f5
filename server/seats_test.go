package server

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/linuxarena/ctis/server/api"
)

// TestSeatsAreNeverMoreThanThereAreAndNobodyWaitsForEver: with the bell, without one, and
// with one that is closed meanwhile.
func TestSeatsAreNeverMoreThanThereAreAndNobodyWaitsForEver(t *testing.T) {
	for name, begin := range map[string]func(t *testing.T) (*bell, func()){
		"with a bell": func(t *testing.T) (*bell, func()) {
			b, err := newBell()
			if err != nil {
				t.Fatal(err)
			}
			return b, func() {}
		},
		"without": func(*testing.T) (*bell, func()) { return nil, func() {} },
		"closed meanwhile": func(t *testing.T) (*bell, func()) {
			b, err := newBell()
			if err != nil {
				t.Fatal(err)
			}
			return b, func() {
				if err := b.close(); err != nil {
					t.Error(err)
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			b, meanwhile := begin(t)
			const places = 3
			n := &tenant{seats: seats{bell: b, free: places}}
			var now, most atomic.Int64
			var all sync.WaitGroup
			for range 50 {
				all.Go(func() {
					mine := seat{tenant: n}
					for range 200 {
						mine.take()
						mine.take() // it has one already
						if is := now.Add(1); is > most.Load() {
							most.Store(is)
						}
						now.Add(-1)
						mine.yield()
						mine.yield() // it has none any more
					}
				})
			}
			meanwhile()
			all.Wait()
			if most.Load() > places || n.seats.free != places || len(n.seats.waiting) > 0 {
				t.Errorf("%d had a seat at once; %d are free in the end, %d wait", most.Load(), n.seats.free, len(n.seats.waiting))
			}
		})
	}
}

// TestWhoWaitsForSomebodyElseHasNoSeat keeps more clients waiting than there are seats, in
// every way a client can, and makes an ordinary request beside them.
func TestWhoWaitsForSomebodyElseHasNoSeat(t *testing.T) {
	many := 4 * seatsOf()
	w := newWorld(t)
	slow := plays("a.example", "")
	slow.Rules = []api.Rule{{Path: "/slow", Delay: time.Hour, Respond: &api.RuleResponse{Status: 200}}}
	w.register("t2", 2, slow)
	w.do(w.client(2, false), "PUT", "http://a.example/data/big", strings.Repeat("x", 16<<20))
	for name, wait := range map[string]func(){
		"half a head": func() { _, _ = io.WriteString(w.dial(2, w.plain), "GET / HTTP/1.1\r\nHo") },
		"half a body": func() {
			_, _ = io.WriteString(w.dial(2, w.plain), "POST /webhook HTTP/1.1\r\nHost: a.example\r\nContent-Length: 10\r\n\r\nhalf")
		},
		"half a body over HTTP/2": func() {
			body, more := io.Pipe()
			go func() { _, _ = io.WriteString(more, "half") }()
			r, err := http.NewRequest(http.MethodPost, "https://a.example/webhook", body)
			if err != nil {
				t.Error(err)
				return
			}
			go func() {
				if answer, err := w.client(2, true).Do(r); err == nil {
					_ = answer.Body.Close()
				}
			}()
			t.Cleanup(func() { _ = more.Close() })
		},
		"a download nobody reads": func() {
			_, _ = io.WriteString(w.dial(2, w.plain), "GET /data/big HTTP/1.1\r\nHost: a.example\r\n\r\n")
		},
		"the delay of a rule": func() {
			_, _ = io.WriteString(w.dial(2, w.plain), "GET /slow HTTP/1.1\r\nHost: a.example\r\n\r\n")
		},
		"half a handshake": func() {
			// The hello alone: what the server says next is never read.
			go func() { _ = tls.Client(helloOnly{w.dial(2, w.tls)}, &tls.Config{ServerName: "a.example"}).Handshake() }()
		},
	} {
		for range many {
			wait()
		}
		time.Sleep(50 * time.Millisecond) // so that they wait; were they not to, the test would show less, and not fail
		for _, h2 := range []bool{false, true} {
			if r, _ := w.do(w.client(2, h2), "POST", "https://a.example/webhook", "x"); r.StatusCode != http.StatusOK {
				t.Errorf("beside %s: %s", name, r.Status)
			}
		}
	}
}

// helloOnly is a connection from which nothing comes back.
type helloOnly struct{ net.Conn }

func (helloOnly) Read([]byte) (int, error) { select {} }
