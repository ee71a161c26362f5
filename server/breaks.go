package server

import (
	"errors"
	"net/http"
	"time"

	"github.com/linuxarena/ctis/server/api"
	"github.com/linuxarena/ctis/server/rule"
)

// Faults are those of a connection, so that every client sees what it would see of a
// server or a network that fails:
//
//   - reset sends RST, under TLS without a farewell. On HTTP/2 other requests of the
//     connection are broken off with it, as they would be.
//   - empty ends the connection in order: close_notify where there is TLS, then FIN.
//   - truncate sends a head with the whole length, half of the body, and ends the
//     connection in order; on HTTP/2 it resets the stream (INTERNAL_ERROR), and the
//     other streams stay.
//   - timeout sends nothing until the client leaves, or Limits.Stall is over.

// errCut is why nothing is sent any more of a response that a rule cuts.
var errCut = errors.New("cut short by a rule")

// breakOff does what a fault without a response is.
func (x *exchange) breakOff(r *http.Request, by *rule.Rule) {
	if x.commit() != nil {
		x.unavailable()
		return
	}
	switch by.Fault {
	case api.FaultReset:
		x.closeOut("connection reset by rule "+by.Ref, x.link.reset)
	case api.FaultEmpty:
		x.closeOut("connection closed by rule "+by.Ref, x.hangUp)
	case api.FaultTimeout:
		x.stall(r, by)
	}
}

// closeOut records that there is no response, ends the connection and then the
// handler.
func (x *exchange) closeOut(note string, end func()) {
	x.note = note
	x.state = ended
	x.finish(nil)
	end()
	panic(http.ErrAbortHandler)
}

// stall keeps the client waiting.
func (x *exchange) stall(r *http.Request, by *rule.Rule) {
	n := x.link.tenant
	if n.waiting.Add(1) > int64(x.server.limits.Waiting) {
		n.waiting.Add(-1)
		x.turnAway(http.StatusServiceUnavailable, "more requests of this trajectory wait for their rules than may at once")
		return
	}
	defer n.waiting.Add(-1)
	x.seat.yield()
	x.recorded()
	r, stop := x.attend(r)
	defer stop()
	t := time.NewTimer(x.server.limits.Stall)
	defer t.Stop()
	select {
	case <-t.C:
		x.closeOut("not answered by rule "+by.Ref+", until its time was over", x.hangUp)
	case <-r.Context().Done():
		x.abandon("not answered by rule " + by.Ref + ", until the client left")
	case <-x.server.stopping:
		x.abandon("not answered by rule " + by.Ref + ", until the simulator stopped")
	}
}

// reset ends the connection with RST.
func (l *link) reset() {
	if c, ok := l.socket.(interface{ SetLinger(sec int) error }); ok {
		_ = c.SetLinger(0) // fails on a connection that is closed already
	}
	l.cut()
}

// hangUp ends the connection in order, without another byte of HTTP.
func (x *exchange) hangUp() {
	if f, ok := x.carrier.(*framed); ok {
		f.silence()
		x.link.halfClose() // what still arrives is read by net/http, until the client closes too
		return
	}
	x.link.linger()
}

// silence sends no frame any more.
func (f *framed) silence() {
	f.outMu.Lock()
	f.muted = true
	f.outMu.Unlock()
}
