package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/linuxarena/ctis/server/api"
	"github.com/linuxarena/ctis/server/wire"
)

// handshake ends the TLS of a connection and gives it to the HTTP server of the
// version it settled on. The ClientHello is read before crypto/tls sees it, so
// that a handshake that fails is recorded with the name it asked for.
func (s *Server) handshake(l *link) {
	start := s.now()
	if err := l.Conn.SetDeadline(time.Now().Add(s.limits.Handshake)); err != nil {
		_ = l.Close() // the peer is gone
		return
	}
	raw, hello, err := readHello(l.socket)
	switch {
	case len(raw) == 0:
		_ = l.Close() // a connection without a byte is no attempt at anything
		return
	case err == nil:
	case errors.Is(err, errNoTLS):
		s.misplaced(l, raw)
		return
	default:
		s.noteRefused(l, api.KindMalformed, err.Error(), raw, start)
		var refusal *wire.Refusal
		if errors.As(err, &refusal) {
			_, _ = l.socket.Write(alertDecodeError) // the connection ends either way
		}
		_ = l.Close() // nothing more is said
		return
	}

	l.tls = tlsRecord(0, hello.SNI, "")
	if hello.NamesHost() {
		l.persona = l.tenant.persona(hello.SNI)
	} else {
		l.persona = l.tenant.first
	}
	work := &patient{Conn: l.socket, seat: &seat{tenant: l.tenant}}
	work.seat.take()
	defer work.seat.yield()
	held := &withheld{replay: replay{Conn: work, head: raw}}
	c := tls.Server(held, l.tenant.tls)
	if err := c.HandshakeContext(context.Background()); err != nil {
		s.noteRefused(l, api.KindRefused, handshakeError(err, hello, l.persona), raw, start)
		_ = held.release() // the connection ends either way
		_ = l.Close()      // nothing more is said
		return
	}
	if err := held.release(); err != nil {
		_ = l.Close() // the peer is gone
		return
	}
	if err := l.socket.SetDeadline(time.Time{}); err != nil {
		_ = l.Close() // the peer is gone
		return
	}
	state := c.ConnectionState()
	l.tls = tlsRecord(state.Version, hello.SNI, state.NegotiatedProtocol)
	l.Conn = c
	work.done = true
	work.seat.yield()
	if state.NegotiatedProtocol == "h2" {
		s.queue2.put(newFramed(l, start))
	} else {
		s.queue1.put(newTap(l))
	}
}

// alertDecodeError is a TLS record with the fatal alert 50.
var alertDecodeError = []byte{21, 3, 3, 0, 2, 2, 50}

var errNoTLS = errors.New("tls: plain http on the tls port")

// readHello receives the ClientHello, and gives all bytes received for it.
func readHello(c net.Conn) (raw []byte, h wire.Hello, err error) {
	raw = make([]byte, 0, 2<<10)
	for {
		if len(raw) == cap(raw) {
			raw = append(make([]byte, 0, 2*cap(raw)), raw...)
		}
		n, err := c.Read(raw[len(raw):cap(raw)])
		raw = raw[:len(raw)+n]
		if n == 0 && err != nil {
			switch {
			case errors.Is(err, os.ErrDeadlineExceeded):
				err = errors.New("tls: timed out before the end of the client hello")
			default:
				err = errors.New("tls: connection was closed before the end of the client hello")
			}
			return raw, h, err
		}
		// As nginx: anything but a handshake record and the length of an SSLv2
		// hello is HTTP on the wrong port.
		if raw[0] != 0x16 && raw[0] < 0x80 {
			return raw, h, errNoTLS
		}
		hello, done, refusal := wire.ParseHello(raw)
		switch {
		case refusal != nil:
			return raw, hello, refusal
		case done:
			return raw, hello, nil
		case len(raw) > wire.MaxHello:
			return raw, h, &wire.Refusal{Reason: "tls: client hello is too long"}
		}
	}
}

// misplaced lets the HTTP/1 server answer what is no TLS on a TLS port.
func (s *Server) misplaced(l *link, raw []byte) {
	if err := l.socket.SetDeadline(time.Time{}); err != nil {
		_ = l.Close() // the peer is gone
		return
	}
	l.misplaced = true
	l.Conn = &replay{Conn: l.socket, head: raw}
	s.queue1.put(newTap(l))
}

// replay reads bytes that were received before.
type replay struct {
	net.Conn
	head []byte
}

func (r *replay) Read(p []byte) (int, error) {
	if len(r.head) > 0 {
		n := copy(p, r.head)
		r.head = r.head[n:]
		return n, nil
	}
	return r.Conn.Read(p)
}

// CloseWrite is promoted by no interface value, so it is passed on by hand.
func (r *replay) CloseWrite() error {
	if c, ok := r.Conn.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return nil
}

// withheld keeps back what crypto/tls writes to end a handshake, so that a record is
// in the journal before its peer can see the refusal. What is kept begins with an
// alert record, plain (type 21) or sealed as TLS 1.3 does (type 23); the server's own
// flight begins with a handshake record, so no handshake waits for what is kept but
// its end.
type withheld struct {
	replay
	released bool
	kept     []byte
}

func (h *withheld) Write(p []byte) (int, error) {
	if !h.released && len(p) > 0 && (p[0] == 21 || p[0] == 23) {
		h.kept = append(h.kept, p...)
		return len(p), nil
	}
	return h.Conn.Write(p)
}

// release sends what was kept, and from now on everything at once.
func (h *withheld) release() error {
	h.released = true
	if len(h.kept) == 0 {
		return nil
	}
	_, err := h.Conn.Write(h.kept)
	h.kept = nil
	return err
}

func (s *Server) noteRefused(l *link, kind, reason string, raw []byte, start time.Time) {
	r := l.refusedHandshake(kind, reason, raw, start)
	r.Persona = hostOf(l.persona)
	_ = s.record(l.tenant, r) // nothing was acknowledged; the store reports its state
}

// handshakeError says in the journal's words why a handshake failed.
func handshakeError(err error, h wire.Hello, p *api.Persona) string {
	var op *net.OpError
	switch {
	case errors.As(err, &op) && op.Op == "remote error":
		alert := op.Err.Error()
		if distrust(alert) {
			return "tls: client refused the certificate: " + alert
		}
		return "tls: client aborted the handshake: " + alert
	case p == nil && h.NamesHost():
		return "tls: no persona is named " + strconv.Quote(clip(h.SNI))
	case p == nil:
		return "tls: the trajectory has no persona"
	case errors.Is(err, os.ErrDeadlineExceeded):
		return "tls: handshake timed out"
	case errors.Is(err, io.EOF):
		return "tls: client closed the connection during the handshake"
	}
	return fmt.Sprintf("tls: handshake failed: %s", clip(err.Error()))
}

// distrust tells the alerts about the server's certificate (RFC 8446 §6.2):
// bad, unsupported, revoked, expired and unknown certificate, unknown CA. The
// error crypto/tls gives has no number outside QUIC, so the names are compared.
func distrust(alert string) bool {
	for _, n := range []tls.AlertError{42, 43, 44, 45, 46, 48} {
		if alert == n.Error() {
			return true
		}
	}
	return false
}

func clip(s string) string {
	const limit = 300
	if len(s) > limit {
		return s[:limit] + "…"
	}
	return s
}

// tlsConfig is that of a tenant: it knows no name of any other.
func (s *Server) tlsConfig(n *tenant) *tls.Config {
	return &tls.Config{
		MinVersion:             tls.VersionTLS12,
		NextProtos:             []string{"h2", "http/1.1"},
		SessionTicketsDisabled: true, // a session could be taken to another name or trajectory
		Time:                   s.now,
		GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			p := n.first
			if (wire.Hello{SNI: hello.ServerName}).NamesHost() {
				p = n.persona(hello.ServerName)
			}
			if p == nil {
				return nil, nil // crypto/tls answers unrecognized_name
			}
			return s.ca.Certificate(n.id, p.Host, hello)
		},
	}
}
