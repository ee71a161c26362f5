package server

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/linuxarena/ctis/server/api"
	"github.com/linuxarena/ctis/server/wire"
)

// link is one accepted connection of a tenant.
type link struct {
	net.Conn // what HTTP is spoken over: the socket, or TLS on it
	socket   net.Conn
	server   *Server
	tenant   *tenant
	peer     netip.AddrPort
	ip       string   // of peer, as text
	tls      *api.TLS // nil without TLS
	persona  *api.Persona
	// misplaced is plain HTTP on a TLS port.
	misplaced bool
	closing   sync.Once
}

// carrier is a connection that net/http serves, in either version of HTTP.
type carrier interface {
	net.Conn
	base() *link
	// enter takes over the message whose handler begins, and leave ends that.
	enter(r *http.Request) *message
	leave()
	// scratch gives an empty header for the response that begins.
	scratch() http.Header
}

// message is a request as it came over the connection.
type message struct {
	start  time.Time
	head   *wire.Head // nil on HTTP/2
	method string
	target string
	proto  string
	host   string      // that counts, as sent
	fields [][2]string // order as received, case too on HTTP/1
	turn   wire.Turn

	// On HTTP/2, guarded by the connection's mu:
	trailers [][2]string
	fault    string // why the body is malformed
}

type carrierKey struct{}

// connContext lets handlers find the connection of their request.
func connContext(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, carrierKey{}, c)
}

func carrierOf(ctx context.Context) carrier {
	c, _ := ctx.Value(carrierKey{}).(carrier)
	return c
}

func (l *link) base() *link { return l }

func (l *link) scheme() string {
	if l.tls != nil {
		return "https"
	}
	return "http"
}

func (l *link) source() api.Source {
	return api.Source{IP: l.ip, Port: l.peer.Port(), Service: l.tenant.service(l.peer.Addr())}
}

// Close ends the connection and gives its place free.
func (l *link) Close() error {
	var err error
	l.closing.Do(func() {
		err = l.Conn.Close()
		l.tenant.leave(l)
		l.server.open.Add(-1)
	})
	return err
}

// cut takes the socket away from under whoever uses the connection: unlike
// Close it does not wait to say goodbye.
func (l *link) cut() { _ = l.socket.Close() } // its user sees the error and closes

// halfClose says that nothing more is sent, so that what was can arrive before
// the connection is closed with unread bytes in it.
func (l *link) halfClose() {
	if c, ok := l.Conn.(interface{ CloseWrite() error }); ok {
		_ = c.CloseWrite() // the peer may be gone
	}
	if l.Conn != l.socket {
		if c, ok := l.socket.(interface{ CloseWrite() error }); ok {
			_ = c.CloseWrite()
		}
	}
}

// linger gives the peer time to read the answer: closing with unread bytes in
// the socket would reset the connection and take the answer back.
func (l *link) linger() {
	const (
		patience = 2 * time.Second
		bound    = 256 << 10 // bytes
	)
	l.halfClose()
	if err := l.Conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return
	}
	_, _ = io.CopyN(io.Discard, l.Conn, bound) // whatever ends it, the connection is closed next
}

// nameFor is the Server header of an answer to a message for p, which may be nil.
func (l *link) nameFor(p *api.Persona) string {
	if p == nil {
		return l.tenant.serverHeader()
	}
	return p.ServerHeader
}

// hostFor is the host such an answer names: a server that cannot tell is the first.
func (l *link) hostFor(p *api.Persona) string {
	if p == nil {
		p = l.tenant.first
	}
	return hostOf(p)
}

// named is the persona a message is for, as far as it can be told.
func (l *link) named(head *wire.Head) *api.Persona {
	if head == nil {
		return l.persona
	}
	host := head.Authority
	if host == "" {
		host = head.Host
	}
	if p := l.tenant.persona(host); p != nil {
		return p
	}
	return l.persona
}
