package server

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/linuxarena/ctis/server/api"
	"github.com/linuxarena/ctis/server/persona"
	"github.com/linuxarena/ctis/server/rule"
	"github.com/linuxarena/ctis/server/wire"
	"github.com/linuxarena/ctis/templates/pages"
)

// The life of a request, in its only order:
//
//	identify  → whose connection it came over, which persona its Host names
//	gate      → which endpoint of the persona, if any, the path names
//	receive   → the whole body, whatever the endpoint: what was sent is evidence
//	rules     → the first of the persona's rules that matches answers, or passes on
//	handler   → decides the response; where that is a backend or an upstream, the
//	            record is in the file before either hears of the request
//	headers   → the persona's, on every response
//	journal   → the record is in the file
//	response  → and only then its first byte is sent
//
// The rules here are: nothing is answered that is not recorded first (where it
// cannot be recorded, the answer is 503 and acknowledges nothing); nothing that
// reaches this function leaves without a record; and no step looks beyond the
// tenant of the connection.

// serve is the handler of both HTTP servers.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	c := carrierOf(r.Context())
	m := c.enter(r)
	defer c.leave()
	l := c.base()
	served, crowded := l.tenant.begin(s.limits.Requests)
	if !served {
		panic(http.ErrAbortHandler) // the connection is being cut
	}
	defer l.tenant.end()

	x := newExchange(w, c, m)
	defer x.end()

	p := s.identify(x)
	path, query := wire.SplitTarget(m.target)
	if p != nil {
		// Before the body, which may not arrive whole.
		x.record.Kind, x.record.Endpoint = persona.Match(p, path)
		if l.tenant.upstreams[p.Host] && m.method != http.MethodConnect { // which would ask for a tunnel, to anywhere
			x.record.Kind, x.record.Endpoint = api.KindUpstream, ""
		}
		if m.head != nil && !x.passesOn() && wire.Shouts(p.ServerHeader) {
			m.method = strings.ToUpper(m.method)
			r.Method = m.method
		}
	}
	if crowded {
		x.skipBody(r)
		x.fail(http.StatusServiceUnavailable, "more requests of this trajectory are in work than are served at once")
		return
	}
	var rules *rule.Host
	if p != nil {
		rules = l.tenant.rulesOf(p.Host)
	}
	if x.passesOn() || rules != nil && rules.Set().ReadsBodies() {
		x.body.Hold()
	}
	if !x.receive(r) {
		return
	}
	switch {
	case misdirected(l, m):
		x.record.Kind, x.record.Endpoint = api.KindRefused, ""
		x.fail(http.StatusMisdirectedRequest, "host differs from the name the connection was made for")
	case x.unknownMethod():
		x.unparsed(&wire.Refusal{Status: http.StatusBadRequest, Reason: "the imitated parser knows no such method", Cause: wire.CauseMethod, Detail: m.method})
	case p == nil:
		x.fail(http.StatusNotFound, "")
	case rules != nil && s.scripted(x, r, rules):
	case x.record.Kind == api.KindBackend:
		x.seat.yield()
		r, stop := x.attend(r)
		defer stop()
		s.relay(x, r, p)
	case x.record.Kind == api.KindUpstream:
		x.seat.yield()
		r, stop := x.attend(r)
		defer stop()
		s.forward(x, r, p.Host)
	default:
		x.own.asked = persona.Request{
			HTTP:       r,
			Path:       path,
			RawQuery:   query,
			Trajectory: l.tenant.id,
			Persona:    p,
			Endpoint:   x.record.Endpoint,
			RecordID:   x.record.ID,
			Scheme:     l.scheme(),
			Head:       m.head,
			Body:       x.body,
			Now:        s.now(),
		}
		s.handlers.Serve(x, x.record.Kind, &x.own.asked)
	}
}

// passesOn says whether somebody else decides the response.
func (x *exchange) passesOn() bool {
	return x.record.Kind == api.KindBackend || x.record.Kind == api.KindUpstream
}

// unknownMethod says whether the imitated server's parser refuses the method. A
// webhook takes any, and so does whatever is not answered here.
func (x *exchange) unknownMethod() bool {
	switch x.record.Kind {
	case api.KindRoot, api.KindData, api.KindAssets, api.KindPublic, api.KindNotFound:
		return x.message.head != nil && pages.FamilyOf(x.persona.ServerHeader) == pages.Express && !wire.NodeKnows(x.message.method)
	}
	return false
}

// identify finds the persona the request is for. Without a Host (HTTP/1.0) it is
// the one the TLS connection was made for.
func (s *Server) identify(x *exchange) *api.Persona {
	p := x.link.tenant.persona(x.message.host)
	if x.message.host == "" && x.link.tls != nil {
		p = x.link.persona
	}
	x.speakAs(p)
	return p
}

// misdirected: the name of the TLS connection and that of the request disagree
// (RFC 9110 §15.5.20).
func misdirected(l *link, m *message) bool {
	if l.tls == nil || m.host == "" || !(wire.Hello{SNI: l.tls.SNI}).NamesHost() {
		return false
	}
	return wire.NormalHost(m.host) != wire.NormalHost(l.tls.SNI)
}

// receive collects the body. It is false when the request ends here: the body
// is malformed, too long, broken off, or cannot be stored.
func (x *exchange) receive(r *http.Request) bool {
	limit := x.server.limits.RequestBody
	if r.ContentLength > limit {
		x.skipBody(r)
		x.fail(http.StatusRequestEntityTooLarge, "body is longer than is received")
		return false
	}
	if h := x.message.head; r.ContentLength == 0 && h != nil && h.Minor >= 1 && h.Expects() && wire.ContinuesWithoutBody(x.persona.ServerHeader) {
		x.out.WriteHeader(http.StatusContinue)
	}
	err := x.spool(r, limit)
	x.keepBody()
	if err == nil && x.body.Err() != nil {
		err = errNotStored // read whole, but what was kept of it is not in place
	}
	fault := ""
	switch c := x.carrier.(type) {
	case *tap:
		x.addTrailers(c.body.Trailers, c.body.Extras)
	case *framed:
		var trailers [][2]string
		trailers, fault = c.remainder(x.message)
		x.addTrailers(trailers, nil)
	}
	switch {
	case err == nil && fault == "":
		if t, ok := x.carrier.(*tap); ok {
			t.whole = true
		}
		return true
	case errors.Is(err, errTooLong):
		x.record.Request.Body.Truncated = true // its end never came
		x.fail(http.StatusRequestEntityTooLarge, "body is longer than is received")
	case errors.Is(err, errNotStored):
		x.server.noteStorage(x.body.Err())
		x.fail(http.StatusServiceUnavailable, "body could not be stored")
	case fault != "":
		x.refuseBody(errors.New(fault))
	case x.malformedBody(err):
		x.refuseBody(err)
	default:
		x.abandon("client broke off within the body: " + clip(err.Error()))
	}
	return false
}

var (
	errTooLong   = errors.New("body is too long")
	errNotStored = errors.New("body is not stored")
)

// spool reads the body to its end, into where it is collected.
func (x *exchange) spool(r *http.Request, limit int64) error {
	if r.Body == nil || r.Body == http.NoBody {
		return x.body.Close()
	}
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	defer x.body.Close() //nolint:errcheck // an error is kept and asked for with Err
	for {
		if err := x.awaitBody(); err != nil {
			return err
		}
		n, err := x.read(r, *buf)
		if _, werr := x.body.Write((*buf)[:n]); werr != nil {
			return errNotStored
		}
		if x.body.Size() > limit {
			return errTooLong
		}
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
	}
}

// read reads of the body. On HTTP/1 the tap knows when that waits for the client.
func (x *exchange) read(r *http.Request, p []byte) (int, error) {
	if x.message.head == nil {
		x.seat.yield()
		defer x.seat.take()
	}
	return r.Body.Read(p)
}

// awaitBody sets the deadline of the next read where the tap does not.
func (x *exchange) awaitBody() error {
	if x.message.head != nil {
		return nil
	}
	return x.control().SetReadDeadline(time.Now().Add(x.server.limits.BodyProgress))
}

// awaitWrite sets the deadline of the next write where the tap does not.
func (x *exchange) awaitWrite() error {
	return x.control().SetWriteDeadline(time.Now().Add(x.server.limits.WriteProgress))
}

// refuseBody answers a body that breaks the rules. The bytes that do are kept.
func (x *exchange) refuseBody(err error) {
	reason := clip(err.Error())
	if t, ok := x.carrier.(*tap); ok {
		if offence, raw := t.offence(); offence != "" {
			kept := x.link.keep(raw, rawLimit)
			reason, x.record.Raw = offence, &kept
		}
	}
	x.record.Kind = api.KindMalformed
	x.fail(http.StatusBadRequest, "body: "+reason)
}

// malformedBody tells a body that breaks the rules from one that was broken
// off. On HTTP/1 the tap sees the bytes; what net/http refuses beyond that ends
// neither with the connection nor in a timeout.
func (x *exchange) malformedBody(err error) bool {
	if t, ok := x.carrier.(*tap); ok {
		return t.fault != nil || t.err == nil
	}
	return false
}
