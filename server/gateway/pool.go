package gateway

import (
	"slices"
	"sync"
	"time"

	"github.com/linuxarena/ctis/server/backend"
)

// pool keeps connections for the next request of the same trajectory to the same
// upstream: what an upstream says too much can then be taken for an answer to nobody
// else.
type pool struct {
	mu     sync.Mutex
	idle   map[route][]kept
	shared map[route]*shared // those of HTTP/2
	closed bool
}

type route struct{ trajectory, host string }

type kept struct {
	conn backend.Conn
	end  *time.Timer
}

const (
	maxIdle  = 16 // of one route
	idleTime = 30 * time.Second
)

func newPool() *pool { return &pool{idle: map[route][]kept{}, shared: map[route]*shared{}} }

// join gives the connection of HTTP/2 on which there is room for one request more, or
// nil. Its leave must be called.
func (p *pool) join(r route) *shared {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.shared[r]
	if s == nil || s.join() {
		return s
	}
	delete(p.shared, r)
	return nil
}

// offer has others use a connection that was just made. Where two were made at once the
// later one stays; the other ends when its users have left.
func (p *pool) offer(r route, s *shared) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.shared[r] = s
	}
}

// take gives a connection that is as it was left, or nil.
func (p *pool) take(r route) backend.Conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	for list := p.idle[r]; len(list) > 0; list = p.idle[r] {
		k := list[len(list)-1]
		p.set(r, list[:len(list)-1])
		if k.end.Stop() && backend.StillOpen(k.conn) {
			return k.conn
		}
		_ = k.conn.Close() // the upstream has ended it, or its time was over
	}
	return nil
}

func (p *pool) set(r route, list []kept) {
	if len(list) == 0 {
		delete(p.idle, r)
		return
	}
	p.idle[r] = list
}

// give keeps a connection for a while.
func (p *pool) give(r route, c backend.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.idle[r]) >= maxIdle {
		_ = c.Close() // nothing is in work on it
		return
	}
	p.idle[r] = append(p.idle[r], kept{c, time.AfterFunc(idleTime, func() { p.drop(r, c) })})
}

// drop ends one connection whose time is over.
func (p *pool) drop(r route, c backend.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.set(r, slices.DeleteFunc(p.idle[r], func(k kept) bool { return k.conn == c }))
	_ = c.Close() // nothing is in work on it
}

// forget ends the connections kept for a trajectory.
func (p *pool) forget(trajectory string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for r := range p.idle {
		if r.trajectory == trajectory {
			p.end(r)
		}
	}
	for r, s := range p.shared {
		if r.trajectory == trajectory {
			s.end()
			delete(p.shared, r)
		}
	}
}

func (p *pool) end(r route) {
	for _, k := range p.idle[r] {
		k.end.Stop()
		_ = k.conn.Close() // nothing is in work on it
	}
	delete(p.idle, r)
}

func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for r := range p.idle {
		p.end(r)
	}
	for r, s := range p.shared {
		s.end()
		delete(p.shared, r)
	}
}
