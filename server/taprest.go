package server

import (
	"net"
	"net/http"

	"github.com/linuxarena/ctis/server/wire"
)

// noteRest hears that a connection has ended, on the goroutine that served it.
func noteRest(c net.Conn, state http.ConnState) {
	if t, ok := c.(*tap); ok && state == http.StateClosed {
		t.noteRest()
	}
}

// noteRest records what was received behind the last request that was served: one
// that asked for the connection's end, or whose answer ended it. Where the handler
// left bytes of a body, net/http has read on after it and may still be reading, and
// the record says that the body is not whole.
func (t *tap) noteRest() {
	if !t.whole || t.hijacked() || t.err != nil || t.fault != nil || t.tenant.isGone() {
		return
	}
	raw := t.in[wire.LeadingBlank(t.in):]
	if len(raw) == 0 {
		return
	}
	t.unanswered(nil, raw, "bytes after the last request of the connection", t.server.now())
}
