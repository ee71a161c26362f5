package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// listen opens every address, or none.
func listen(addresses []string) (all []net.Listener, err error) {
	config := net.ListenConfig{Control: tellIngress}
	config.SetMultipathTCP(false) // a connection stays on the way it came
	for _, a := range addresses {
		l, err := config.Listen(context.Background(), "tcp", a)
		if err != nil {
			for _, l := range all {
				_ = l.Close() // nothing was accepted on it
			}
			return nil, fmt.Errorf("cannot listen on %q: %w", a, err)
		}
		all = append(all, l)
	}
	return all, nil
}

// admit finds out whose connection c is. Without an owner, and over the limits,
// it is closed without a byte of answer, and that is recorded.
func (s *Server) admit(c net.Conn) *link {
	peer := addrPort(c.RemoteAddr())
	r := s.routes.Load()
	e, err := s.endsOf(c, r)
	n, refused := r.find(e)
	if err != nil {
		refused = refusedUnknown
		s.log.Debug("the kernel does not tell where a connection came in", "error", err)
	}
	if refused == "" && s.open.Add(1) > int64(s.limits.Connections) {
		s.open.Add(-1)
		refused = refusedFull
	}
	var l *link
	if refused == "" {
		l = &link{Conn: c, socket: c, server: s, tenant: n, peer: peer, ip: peer.Addr().String()}
		if refused = n.join(l, s.limits.PerTrajectory); refused != "" {
			s.open.Add(-1)
		}
	}
	if refused != "" {
		_ = c.Close() // nothing was sent
		trajectory, service := r.blame(e)
		s.refusals.add(trajectory, service, peer, refused, s.now())
		return nil
	}
	return l
}

// endsOf finds out where a connection came from and keeps it there.
func (s *Server) endsOf(c net.Conn, r *routes) (ends, error) {
	e := ends{local: addrPort(c.LocalAddr()).Addr(), peer: addrPort(c.RemoteAddr()).Addr()}
	index, err := ingressOf(c, e.local)
	if err != nil {
		e.foreign = true
		return e, err
	}
	// An address nobody is served on needs no look at the interfaces.
	e.foreign = r.local[e.local] != nil && !s.interfaces.own(index, e.local)
	if index != loopbackIndex {
		e.here = s.interfaces.addresses(index)
	}
	if !e.foreign {
		stayOn(c, index)
	}
	return e, nil
}

// plain is what the HTTP/1 server accepts from on a port without TLS.
type plain struct {
	net.Listener
	server *Server
}

func (p plain) Accept() (net.Conn, error) {
	for {
		c, err := p.Listener.Accept()
		if err != nil {
			return nil, err // net/http waits and goes on where that helps
		}
		if l := p.server.admit(c); l != nil {
			return newTap(l), nil
		}
	}
}

// acceptTLS takes connections until the listener is closed.
func (s *Server) acceptTLS(listener net.Listener) error {
	var pause time.Duration
	for {
		c, err := listener.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return nil
			}
			// Out of descriptors, or the peer is gone already: what helps is time.
			pause = min(max(2*pause, 5*time.Millisecond), time.Second)
			s.log.Warn("a connection could not be accepted", "error", err, "pause", pause)
			if !s.sleep(pause) {
				return nil
			}
			continue
		}
		pause = 0
		if l := s.admit(c); l != nil {
			s.handshakes.Go(func() { s.handshake(l) })
		}
	}
}

// queue hands connections whose TLS handshake is done to an HTTP server.
type queue struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
	addr  net.Addr
}

func newQueue(addr net.Addr) *queue {
	return &queue{conns: make(chan net.Conn), done: make(chan struct{}), addr: addr}
}

// put gives c away, or closes it when nobody takes connections any more.
func (q *queue) put(c net.Conn) {
	select {
	case q.conns <- c:
	case <-q.done:
		_ = c.Close() // the server stops
	}
}

func (q *queue) Accept() (net.Conn, error) {
	select {
	case c := <-q.conns:
		return c, nil
	case <-q.done:
		return nil, net.ErrClosed
	}
}

func (q *queue) Close() error {
	q.once.Do(func() { close(q.done) })
	return nil
}

func (q *queue) Addr() net.Addr { return q.addr }
