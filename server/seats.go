package server

import (
	"errors"
	"net"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
)

// A trajectory has a few seats at the processors, however many of its requests are there
// to be worked on. Without, a flood of them would stand in the scheduler's queue, and each
// request of another trajectory would wait for its end. So:
//
//   - Whoever works on a request has a seat, from its complete head until its response
//     is sent, and whoever ends a handshake too.
//   - It is given up before everything that may wait for somebody else: the client, a
//     backend, the time a rule asks for.
//   - A seat that had to be waited for is given by the bell.

// seatsOf is how many seats a trajectory has: more than processors, since some who have
// one wait for the disk.
func seatsOf() int { return 2 * runtime.GOMAXPROCS(0) }

// seats are those of one trajectory.
type seats struct {
	bell *bell // nil: whoever waits gets a seat at once when one is given up

	mu      sync.Mutex
	free    int
	waiting []chan struct{}
}

func (s *seats) take() {
	s.mu.Lock()
	if s.free > 0 && len(s.waiting) == 0 {
		s.free--
		s.mu.Unlock()
		return
	}
	mine := make(chan struct{})
	s.waiting = append(s.waiting, mine)
	s.mu.Unlock()
	<-mine
}

func (s *seats) yield() {
	s.mu.Lock()
	s.free++
	wanted := len(s.waiting) > 0
	s.mu.Unlock()
	if wanted && !s.bell.ring(s) {
		s.give()
	}
}

// give gives the free seats to those who wait longest.
func (s *seats) give() {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := min(s.free, len(s.waiting))
	for _, c := range s.waiting[:n] {
		close(c)
	}
	clear(s.waiting[:n])
	s.free -= n
	if s.waiting = s.waiting[n:]; len(s.waiting) == 0 {
		s.waiting = nil
	}
}

// bell gives seats by way of the network poller. The runtime asks it which connections
// can be read only when no goroutine is left to run, or after ten milliseconds: were a
// seat given to the next one directly, there would always be one to run, and other
// trajectories would have to wait those ten milliseconds for each request of theirs. So
// what gives seats is itself one that waits for something to be read.
type bell struct {
	from, to *os.File // a pipe
	ended    chan struct{}

	mu     sync.Mutex
	closed bool
	asked  []*seats
	spare  []*seats
}

func newBell() (*bell, error) {
	from, to, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	b := &bell{from: from, to: to, ended: make(chan struct{})}
	go b.run()
	return b, nil
}

// ring asks for the giving of seats; false when that does not come any more.
func (b *bell) ring(s *seats) bool {
	if b == nil {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	if slices.Contains(b.asked, s) {
		return true
	}
	b.asked = append(b.asked, s)
	if len(b.asked) == 1 {
		if _, err := b.to.Write([]byte{0}); err != nil {
			b.asked = b.asked[:0]
			return false
		}
	}
	return true
}

func (b *bell) run() {
	defer close(b.ended)
	var one [1]byte
	for {
		_, err := b.from.Read(one[:])
		b.mu.Lock()
		asked := b.asked
		b.asked, b.spare = b.spare[:0], asked
		b.mu.Unlock()
		for _, s := range asked {
			s.give()
		}
		if err != nil {
			return
		}
	}
}

// close ends the bell; seats are given directly from then on.
func (b *bell) close() error {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	err := b.to.Close()
	<-b.ended
	return errors.Join(err, b.from.Close())
}

// seat is one, or the wish for one. Only one goroutine takes it; any may give it up.
type seat struct {
	tenant *tenant
	held   atomic.Bool
}

// take waits for a seat, unless it is there already.
func (s *seat) take() {
	if !s.held.Load() {
		s.tenant.seats.take()
		s.held.Store(true)
	}
}

// yield gives the seat up, if it is there.
func (s *seat) yield() {
	if s.held.CompareAndSwap(true, false) {
		s.tenant.seats.yield()
	}
}

// patient is a connection whose reader has a seat, but not while it waits; until done.
type patient struct {
	net.Conn
	seat *seat
	done bool
}

func (c *patient) Read(p []byte) (int, error) {
	if c.done {
		return c.Conn.Read(p)
	}
	c.seat.yield()
	defer c.seat.take()
	return c.Conn.Read(p)
}

// CloseWrite is promoted by no interface value, so it is passed on by hand.
func (c *patient) CloseWrite() error {
	if c, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return nil
}
