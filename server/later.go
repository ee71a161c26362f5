package server

import (
	"sync"
	"time"
)

// sleep waits, but not beyond the end of serving.
func (s *Server) sleep(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-s.stopping:
		return false
	}
}

// later runs f after d, or at once when the server stops. The journal stays open
// for it.
func (s *Server) later(d time.Duration, f func()) {
	s.delayed.run(func() {
		s.sleep(d)
		f()
	})
}

// delayed runs what is done after the connection it is about.
type delayed struct {
	mu     sync.Mutex
	closed bool
	wg     sync.WaitGroup
}

func (d *delayed) run(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.closed {
		d.wg.Go(f)
	}
}

// close waits for what is running and lets nothing begin any more.
func (d *delayed) close() {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	d.wg.Wait()
}
