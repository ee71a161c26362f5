package server

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/linuxarena/ctis/server/api"
	"github.com/linuxarena/ctis/server/backend"
	"github.com/linuxarena/ctis/server/journal"
	"github.com/linuxarena/ctis/server/wire"
)

// tunnelRest is how long one side may still speak after the other has ended.
const tunnelRest = 10 * time.Second

// tunnel is a connection that was WebSocket's after its handshake. What the client
// sends is collected as a request's body is, each piece before the backend gets it;
// the outcome says what it was, and how much came back.
type tunnel struct {
	x        *exchange
	client   net.Conn
	backend  backend.Conn
	sent     *journal.Spool
	received *journal.Spool
}

// tunnelTo passes bytes both ways after a switch to WebSocket, until both are done.
func (x *exchange) tunnelTo(e reply, conn func() (backend.Conn, io.Reader, error)) error {
	x.takeOver(e)
	x.personaHeaders(x.server.now())
	x.header["Connection"], x.header["Upgrade"] = []string{"upgrade"}, []string{"websocket"}
	fields, _ := x.wireFields()
	client, rw, err := x.Hijack()
	if err != nil {
		return &backend.Failure{Status: http.StatusBadGateway, Reason: "switched to WebSocket, and its client cannot: " + err.Error()}
	}
	defer client.Close() //nolint:errcheck // everything was said
	x.own.response = api.Response{Status: x.status, Headers: fields, Body: digestOf(nil)}
	x.switched = &x.own.response
	t := &tunnel{x: x, client: client, sent: x.link.tenant.journal.NewSpool(), received: x.link.tenant.journal.NewAnswer()}
	defer t.sent.Discard()
	defer t.received.Discard()
	if _, err = client.Write(wire.AppendHead(nil, x.persona.ServerHeader, x.status, fields)); err != nil {
		x.note = "client left at the switch to WebSocket"
		return nil
	}
	var early io.Reader
	if t.backend, early, err = conn(); err != nil {
		x.note = "the other side left at the switch to WebSocket"
		return nil
	}
	t.run(rw.Reader, early)
	x.tunnel = &api.Tunnel{
		Sent:     x.link.tenant.journal.Keep(t.sent),
		Received: api.Received(x.link.tenant.journal.Keep(t.received)),
	}
	if err := t.sent.Err(); err != nil {
		x.server.noteStorage(err)
		x.note = "what the client sent could not be stored, so the connection was ended"
	}
	return nil
}

// run ends when both directions have.
func (t *tunnel) run(fromClient *bufio.Reader, fromBackend io.Reader) {
	up := make(chan struct{})
	go func() {
		defer close(up)
		if t.pump(fromClient, t.backend, func(p []byte) error { _, err := t.sent.Write(p); return err }) {
			_ = t.backend.CloseWrite()                                // the backend may be gone
			_ = t.backend.SetReadDeadline(time.Now().Add(tunnelRest)) // it is closed at the end either way
		} else {
			_ = t.backend.Close() // wakes the other direction
		}
	}()
	whole := t.pump(fromBackend, t.client, func(p []byte) error {
		_, err := t.received.Write(p)
		return err
	})
	if whole {
		t.x.link.halfClose()
		_ = t.client.SetReadDeadline(time.Now().Add(tunnelRest)) // it is closed at the end either way
	} else {
		_ = t.x.link.socket.Close() // wakes the other direction
	}
	<-up
}

// pump passes one direction on, each piece after note has taken it. It is true when
// its source ended in good order.
func (t *tunnel) pump(from io.Reader, to net.Conn, note func([]byte) error) bool {
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	for {
		n, err := from.Read(*buf)
		if n > 0 {
			if note((*buf)[:n]) != nil || to.SetWriteDeadline(time.Now().Add(t.x.server.limits.WriteProgress)) != nil {
				return false
			}
			if _, err := to.Write((*buf)[:n]); err != nil {
				return false
			}
		}
		if err != nil {
			return err == io.EOF
		}
	}
}
