package server

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"net/textproto"
	"strconv"

	"github.com/linuxarena/ctis/server/api"
	"github.com/linuxarena/ctis/server/backend"
	"github.com/linuxarena/ctis/server/persona"
	"github.com/linuxarena/ctis/server/wire"
)

// The rules of what goes to backends are:
//
//   - The request is in the journal before the backend hears of it, so that a backend
//     never knows of anything the journal does not.
//   - A backend is one address, called from the simulator's own address in that
//     network, on the interface that has it. No name is resolved, and no connection
//     is used twice.
//   - The response is passed on as it comes. Nothing of it is waited for.

// pinned is where the backend of a persona is.
type pinned struct {
	service string
	route   backend.Route // Peer is invalid where the backend's address is not known
}

// pinsOf finds the simulator's own address on each backend's network.
func pinsOf(r *api.Registration) *map[string]pinned {
	m := map[string]pinned{}
	for _, p := range r.Personas {
		if p.Backend == nil {
			continue
		}
		to := pinned{service: p.Backend.Service}
		at := p.Backend.Pin.Address
		for _, n := range r.Networks {
			for _, own := range n.Addresses {
				if n.ID == p.Backend.Pin.Network && at.IsValid() && own.Is4() == at.Is4() && !to.route.Local.IsValid() {
					to.route = backend.Route{Local: own, Peer: netip.AddrPortFrom(at, p.Backend.Port)}
				}
			}
		}
		m[p.Host] = to
	}
	return &m
}

// hand counts a request that a backend gets; false when it has too many already.
func (n *tenant) hand(limit int) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.proxied >= limit {
		return false
	}
	n.proxied++
	return true
}

func (n *tenant) handed() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.proxied--
}

// relay answers a request with what the persona's backend says to it.
func (s *Server) relay(x *exchange, r *http.Request, p *api.Persona) {
	n := x.link.tenant
	to := (*n.pinned.Load())[p.Host]
	switch {
	case !x.body.Readable():
		x.turnAway(http.StatusInsufficientStorage, "there is no room for a body of "+strconv.FormatInt(x.body.Size(), 10)+" bytes until its backend has it")
		return
	case !n.hand(s.limits.Proxied):
		x.turnAway(http.StatusServiceUnavailable, "more requests of this trajectory are with its backends than are served at once")
		return
	}
	defer n.handed()
	if x.commit() != nil {
		x.unavailable()
		return
	}
	x.settle(r, s.converse(x, r, to), "backend", to.says)
}

// settle ends an exchange that was passed on as it turned out. what names the other
// side, says tells of it in the journal's words.
func (x *exchange) settle(r *http.Request, err error, what string, says func(string) string) {
	var f *backend.Failure
	switch {
	case err == nil:
	case r.Context().Err() != nil:
		x.abandonBackend("client left before the " + what + "'s response was whole")
	case !errors.As(err, &f):
		x.turnAway(http.StatusBadGateway, says(err.Error()))
	case x.state == holding:
		x.header = x.carrier.scratch() // what was taken over of the response
		x.spelled, x.status, x.held, x.size, x.genuine = nil, 0, nil, 0, false
		x.turnAway(f.Status, says(f.Reason))
	default:
		x.note = says(f.Reason)
		panic(http.ErrAbortHandler) // the client shall see that it is not whole
	}
}

// reply is the response of whoever a request was passed on to.
type reply struct {
	body interface {
		io.Reader
		Waits() bool
		Ended() bool
	}
	status   int
	fields   [][2]string
	trailers func() [][2]string // once body was read to its end
	streams  bool               // nothing of it is held back
}

func replyOf(e *backend.Exchange) reply {
	return reply{body: e, status: e.Status, fields: e.Fields, trailers: func() [][2]string { return e.Trailers }}
}

func (p pinned) says(what string) string {
	where := "backend " + strconv.Quote(p.service)
	if p.route.Peer.IsValid() {
		where += " (" + p.route.Peer.String() + ")"
	}
	return where + " " + what
}

// turnAway answers with the persona's error page. The request came whole, so the
// connection can stay.
func (x *exchange) turnAway(status int, note string) {
	x.note = note
	persona.WriteError(x, x.persona, status, x.facts())
}

// abandonBackend ends an exchange whose client is gone.
func (x *exchange) abandonBackend(note string) {
	x.note = note
	if x.state == holding {
		x.abandon(note)
	}
	panic(http.ErrAbortHandler)
}

// converse makes the exchange with a backend and passes its response on.
func (s *Server) converse(x *exchange, r *http.Request, to pinned) error {
	if !to.route.Peer.IsValid() {
		return &backend.Failure{Status: http.StatusBadGateway, Reason: "is not pinned: nothing is known of its address"}
	}
	body, err := x.body.Open()
	if err != nil {
		return &backend.Failure{Status: http.StatusServiceUnavailable, Reason: "was not asked: " + err.Error()}
	}
	defer body.Close() //nolint:errcheck // only read
	to.route.Interface = s.interfaces.holder(to.route.Local)
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	e, err := backend.Open(ctx, to.route, backend.Patience{Connect: s.limits.Connect, Answer: s.limits.Answer, Silence: s.limits.Silence})
	if err != nil {
		return err
	}
	defer e.Close()
	if err := e.Do(x.toBackend(), body); err != nil {
		return err
	}
	if e.Switched {
		return x.tunnelTo(replyOf(e), e.Conn)
	}
	return x.passOn(replyOf(e))
}

// toBackend is the request as the backend gets it.
func (x *exchange) toBackend() *backend.Request {
	m := x.message
	return &backend.Request{
		Method: m.method, Target: wire.OriginForm(m.target), Host: x.persona.Host, Fields: m.fields,
		Client: x.link.ip, Scheme: x.link.scheme(), AskedHost: m.host,
		Length: x.body.Size(), WebSocket: m.head != nil && x.body.Size() == 0 && backend.AsksForWebSocket(m.method, m.turn.Minor, m.fields),
	}
}

// passOn sends a response to the client.
func (x *exchange) passOn(e reply) error {
	x.takeOver(e)
	if e.streams || e.body.Waits() || x.bodyless() {
		x.Flush()
	}
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	for {
		n, err := e.body.Read(*buf)
		if n > 0 {
			if _, werr := x.Write((*buf)[:n]); werr != nil {
				return nil //nolint:nilerr // kept in failed; end tells
			}
		}
		switch {
		case err == io.EOF:
			x.addResponseTrailers(e.trailers())
			return nil
		case err != nil:
			return err
		case !e.body.Ended():
			x.Flush()
		}
		if x.failed != nil || x.state == ended {
			return nil
		}
	}
}

// takeOver makes the head of a response that of ours.
func (x *exchange) takeOver(e reply) {
	for _, f := range e.fields {
		name := textproto.CanonicalMIMEHeaderKey(f[0])
		x.header[name] = append(x.header[name], f[1])
	}
	x.spelled = wire.SpellingOf(e.fields)
	x.WriteHeader(e.status)
}

// addResponseTrailers has net/http send fields after the body.
func (x *exchange) addResponseTrailers(fields [][2]string) {
	if len(fields) == 0 || x.bodyless() {
		return
	}
	x.Flush() // a response that is held is sent with its length, and then has no trailers
	h := x.out.Header()
	for _, f := range fields {
		name := http.TrailerPrefix + textproto.CanonicalMIMEHeaderKey(f[0])
		h[name] = append(h[name], f[1])
	}
	x.trailers = fields
}
