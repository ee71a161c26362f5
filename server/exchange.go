package server

import (
	"bufio"
	"errors"
	"hash"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/linuxarena/ctis/server/api"
	"github.com/linuxarena/ctis/server/journal"
	"github.com/linuxarena/ctis/server/persona"
	"github.com/linuxarena/ctis/server/rule"
	"github.com/linuxarena/ctis/server/wire"
)

// exchange is one request and its response. It is the ResponseWriter handlers
// write to, and holds back what they write until the record is in the journal:
//
//   - A response that ends within holdLimit bytes is recorded whole, in one
//     line, and then sent.
//   - A longer one, and one that is flushed or hijacked, is recorded without its
//     outcome first; then its bytes go out as they come, and the outcome follows
//     as a second line.
type exchange struct {
	out     http.ResponseWriter
	server  *Server
	carrier carrier
	link    *link
	message *message
	seat    *seat
	persona *api.Persona // whose headers the response has; never nil
	bare    bool         // but for this one, which has nothing added
	genuine bool         // or this one, which is a real host's
	body    *journal.Spool
	record  *api.Record

	header http.Header
	status int
	held   []byte
	size   int64 // of the response's body
	sum    hash.Hash
	kept   *journal.Spool // the body as it is streamed, where it is kept; then sum is nil

	state     exchangeState
	committed bool  // the record is written, its outcome is not
	failed    error // of sending
	note      string
	switched  *api.Response // what ended HTTP on a hijacked connection
	tunnel    *api.Tunnel   // what came then
	trailers  [][2]string   // of a streamed response
	spelled   wire.Spelling // how a backend wrote the header

	rules   *rule.Host        // that decided about the request; nil: none did
	edit    *api.ResponseEdit // what a rule changes of the response
	cut     bool              // a rule sends half of it
	cutNote string
	cutAt   int64 // bytes of a streamed body until there

	// What lives exactly as long as the exchange lives in it: one allocation
	// instead of one for each. Nothing of it is used again for another request.
	own struct {
		record   api.Record
		request  api.Request
		response api.Response
		ready    readyResponse
		asked    persona.Request
		scripted rule.Request
		fields   [10][2]string
		seat     seat
	}
}

type exchangeState uint8

const (
	holding exchangeState = iota
	streaming
	hijacked
	ended // nothing is sent any more
)

// buffers holds what bodies are read through.
var buffers = sync.Pool{New: func() any { b := make([]byte, 32<<10); return &b }}

func newExchange(w http.ResponseWriter, c carrier, m *message) *exchange {
	l := c.base()
	x := &exchange{
		out: w, server: l.server, carrier: c, link: l, message: m,
		body: l.tenant.journal.NewSpool(), header: c.scratch(),
	}
	if t, ok := c.(*tap); ok {
		x.seat = &t.seat
	} else {
		x.own.seat.tenant = l.tenant
		x.seat = &x.own.seat
		x.seat.take()
	}
	x.record = &x.own.record
	l.beginRecord(x.record, api.KindNotFound, m.start)
	q := &x.own.request
	q.Method, q.Host, q.Target, q.Proto, q.Headers = m.method, m.host, m.target, m.proto, m.fields
	if m.head != nil {
		q.Method = m.head.Method // as sent, whatever the server takes it for
	}
	q.Body.Encoding = api.EncodingNone
	if m.fields == nil {
		q.Headers = [][2]string{}
	}
	x.record.Request = q
	return x
}

// speakAs settles whose headers the response has: the default host's where no
// persona was named.
func (x *exchange) speakAs(p *api.Persona) {
	x.persona = p
	if p == nil {
		x.persona = &api.Persona{ServerHeader: api.DefaultServerHeader}
	}
	x.record.Persona = x.persona.Host
	if t, ok := x.carrier.(*tap); ok {
		t.speakAs(x.persona.ServerHeader)
	}
}

// keepBody puts what was received into the record.
func (x *exchange) keepBody() {
	_ = x.body.Close() // an error is kept and asked for with Err
	x.record.Request.Body = x.link.tenant.journal.Keep(x.body)
}

// skipBody says in the record that a body was announced and not received. What
// came of it together with the head is kept.
func (x *exchange) skipBody(r *http.Request) {
	if t, ok := x.carrier.(*tap); ok && r.ContentLength > 0 {
		_, _ = x.body.Write(t.in[:min(int64(len(t.in)), r.ContentLength)]) // an error shows when the record is appended
	}
	x.keepBody()
	x.record.Request.Body.Truncated = r.ContentLength != 0
}

// addTrailers records the fields after a chunked body like those before it, and
// the chunk extensions, which nothing else shows.
func (x *exchange) addTrailers(fields [][2]string, extensions []byte) {
	if len(fields) > 0 {
		h := x.record.Request.Headers
		x.record.Request.Headers = append(h[:len(h):len(h)], fields...)
	}
	if len(extensions) > 0 {
		kept := x.link.keep(extensions, rawLimit)
		x.record.Raw = &kept
	}
}

// Header: see [http.ResponseWriter].
func (x *exchange) Header() http.Header { return x.header }

// WriteHeader: see [http.ResponseWriter]. Interim responses are not passed on.
func (x *exchange) WriteHeader(status int) {
	if x.status == 0 && (status >= http.StatusOK || status == http.StatusSwitchingProtocols) {
		x.status = status
		if e := x.edit; e != nil && e.Status != 0 && status != http.StatusSwitchingProtocols {
			x.status = e.Status
		}
	}
}

// Write: see [http.ResponseWriter].
func (x *exchange) Write(p []byte) (int, error) {
	x.WriteHeader(http.StatusOK)
	x.size += int64(len(p))
	if x.bodyless() {
		return len(p), nil
	}
	if x.state == holding {
		if len(x.held)+len(p) <= x.room() {
			x.held = append(x.held, p...)
			return len(p), nil
		}
		x.stream()
	}
	if x.state != streaming {
		return 0, http.ErrBodyNotAllowed
	}
	return x.send(p)
}

// send writes through, while streaming.
func (x *exchange) send(p []byte) (int, error) {
	x.seat.yield()
	if x.failed == nil && x.message.head == nil {
		x.failed = x.awaitWrite()
	}
	if x.failed != nil {
		x.size -= int64(len(p))
		return 0, x.failed
	}
	whole := p
	if x.cut {
		if x.cutAt == cutAtFirst && len(p) > 0 {
			x.cutAt = int64(min(len(p), holdLimit))
		}
		p = p[:min(int64(len(p)), max(x.cutAt, 0))]
		x.cutAt -= int64(len(p))
	}
	n, err := x.out.Write(p)
	x.sent(p[:n])
	x.size -= int64(len(whole) - n) // of those nothing is sent
	x.failed = err
	if err == nil && len(p) < len(whole) {
		x.failed = x.cutShort()
		return n, x.failed
	}
	return n, err
}

// Flush: see [http.Flusher].
func (x *exchange) Flush() { _ = x.FlushError() } // the next write fails too

// FlushError is what [http.ResponseController] calls.
func (x *exchange) FlushError() error {
	x.WriteHeader(http.StatusOK)
	if x.state == holding && x.holdsAll() {
		return nil // it is to be edited, and sent when it is whole
	}
	if x.state == holding {
		x.stream()
	}
	if x.state != streaming {
		return http.ErrNotSupported
	}
	if x.message.head != nil {
		return x.control().Flush()
	}
	// On HTTP/2 a deadline that passes ends the stream, also while nothing is written.
	err := x.awaitWrite()
	if err == nil {
		err = x.control().Flush()
	}
	return errors.Join(err, x.control().SetWriteDeadline(time.Time{}))
}

// Hijack: see [http.Hijacker]. The record is written before the connection is
// given away.
func (x *exchange) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	t, ok := x.carrier.(*tap)
	if !ok || x.state != holding {
		return nil, nil, http.ErrNotSupported
	}
	if err := x.commit(); err != nil {
		return nil, nil, err
	}
	c, rw, err := x.control().Hijack()
	if err == nil {
		t.hijack()
	}
	x.state = hijacked
	return c, rw, err
}

func (x *exchange) control() *http.ResponseController { return http.NewResponseController(x.out) }

// Unwrap lets [http.ResponseController] reach deadlines.
func (x *exchange) Unwrap() http.ResponseWriter { return x.out }

// commit records the request without its outcome, once. Nobody may have heard of it
// when that fails.
func (x *exchange) commit() error {
	if x.committed {
		return nil
	}
	err := x.write()
	x.committed = err == nil
	return err
}

// write records the request. What it changed in what rules remember is kept with it,
// or taken back.
func (x *exchange) write() error {
	err := x.server.record(x.link.tenant, x.record)
	e := x.record.RuleEffect
	if e == nil {
		return err
	}
	if err == nil && x.record.Seq == 0 { // it has no record of its own
		err = x.server.memories.keep(x.link.tenant.id, e)
		x.server.noteStorage(err)
	}
	if err != nil {
		x.rules.Undo(e)
		x.record.RuleEffect = nil
	}
	return err
}

// stream records the request without its outcome and begins to send.
func (x *exchange) stream() {
	if err := x.commit(); err != nil {
		x.unavailable()
		return
	}
	x.keepStreamed()
	x.state = streaming
	held := x.held
	x.held = nil
	x.beginCut(len(held))
	x.seat.yield()
	x.sendHead()
	if len(held) > 0 && !x.bodyless() {
		_, _ = x.send(held) // kept in failed
	}
}
