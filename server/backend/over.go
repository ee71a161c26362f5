package backend

import (
	"bufio"
	"context"
	"io"
	"net"
	"time"
)

// Conn is what an exchange goes over: TCP, or TLS on it.
type Conn interface {
	net.Conn
	CloseWrite() error
}

// Over begins an exchange on a connection that is there, and that nothing else uses
// meanwhile. It is closed when ctx ends; Close or Release must be called.
func Over(ctx context.Context, c Conn, p Patience) *Exchange {
	e := &Exchange{conn: c, br: bufio.NewReaderSize(c, readBuffer), patience: p, sending: make(chan struct{})}
	e.unwatch = context.AfterFunc(ctx, func() { _ = c.Close() })
	return e
}

// Release ends the exchange and gives its connection back for the next one: after a
// response that was read to its end, with the whole request sent and nothing more
// received, where the other side means to go on. Otherwise it closes it, and ok is
// false.
func (e *Exchange) Release() (c Conn, ok bool) {
	sent := Sent(e.sending) && e.sendErr == nil
	whole := e.err == io.EOF || e.err == nil && e.Ended() && !e.Switched
	if !sent || !whole || !e.goesOn || e.br.Buffered() > 0 || !e.unwatch() || e.conn.SetDeadline(time.Time{}) != nil {
		e.Close()
		return nil, false
	}
	return e.conn, true
}

// sendGrace is how long the end of sending is waited for once the response is whole.
const sendGrace = 20 * time.Millisecond

// Sent says whether sending has ended: done is closed then. Whoever wrote the last byte
// of a request may not have got to say so when its response is here already; but who
// answers before he has taken all may never take it.
func Sent(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
	}
	t := time.NewTimer(sendGrace)
	defer t.Stop()
	select {
	case <-done:
		return true
	case <-t.C:
		return false
	}
}

// StillOpen says whether a connection that nothing is expected on is as it was left:
// the other side has neither ended it nor said anything. What it does a moment later
// is not known.
func StillOpen(c Conn) bool {
	under := net.Conn(c)
	if t, ok := c.(interface{ NetConn() net.Conn }); ok {
		under = t.NetConn()
	}
	tcp, ok := under.(*net.TCPConn)
	return ok && silent(tcp)
}

// BodyLength is that of the response's body, in bytes; -1 where only its end tells.
func (e *Exchange) BodyLength() int64 { return e.length }
