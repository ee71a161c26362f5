package server

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"net"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"

	"github.com/linuxarena/ctis/server/api"
	"github.com/linuxarena/ctis/server/journal"
	"github.com/linuxarena/ctis/server/persona"
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
	control *http.ResponseController
	server  *Server
	carrier carrier
	link    *link
	message *message
	persona *api.Persona // whose headers the response has; never nil
	body    *journal.Spool
	record  *api.Record

	header http.Header
	status int
	held   []byte
	size   int64 // of the response's body
	sum    hash.Hash

	state  exchangeState
	failed error // of sending
	note   string
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
		out: w, control: http.NewResponseController(w), server: l.server, carrier: c, link: l, message: m,
		body: l.tenant.journal.NewSpool(), header: make(http.Header, 8),
		record: l.newRecord(api.KindNotFound, m.start),
	}
	x.record.Request = &api.Request{
		Method: m.method, Host: m.host, Target: m.target, Proto: m.proto, Headers: m.fields,
		Body: api.Body{Encoding: api.EncodingNone},
	}
	if m.fields == nil {
		x.record.Request.Headers = [][2]string{}
	}
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

// skipBody says in the record that a body was announced and not received.
func (x *exchange) skipBody(r *http.Request) {
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
		if len(x.held)+len(p) <= holdLimit {
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
	if x.failed != nil {
		return 0, x.failed
	}
	if x.message.head == nil {
		if err := x.awaitWrite(); err != nil {
			x.failed = err
			return 0, err
		}
	}
	n, err := x.out.Write(p)
	x.sum.Write(p[:n])
	x.failed = err
	return n, err
}

// Flush: see [http.Flusher].
func (x *exchange) Flush() { _ = x.FlushError() } // the next write fails too

// FlushError is what [http.ResponseController] calls.
func (x *exchange) FlushError() error {
	x.WriteHeader(http.StatusOK)
	if x.state == holding {
		x.stream()
	}
	if x.state != streaming {
		return http.ErrNotSupported
	}
	return x.control.Flush()
}

// Hijack: see [http.Hijacker]. The record is written before the connection is
// given away.
func (x *exchange) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	t, ok := x.carrier.(*tap)
	if !ok || x.state != holding {
		return nil, nil, http.ErrNotSupported
	}
	if err := x.server.record(x.link.tenant, x.record); err != nil {
		return nil, nil, err
	}
	c, rw, err := x.control.Hijack()
	if err == nil {
		t.hijack()
	}
	x.state = hijacked
	return c, rw, err
}

// Unwrap lets [http.ResponseController] reach deadlines.
func (x *exchange) Unwrap() http.ResponseWriter { return x.out }

// stream records the request without its outcome and begins to send.
func (x *exchange) stream() {
	x.sum = sha256.New()
	if err := x.server.record(x.link.tenant, x.record); err != nil {
		x.unavailable()
		return
	}
	x.state = streaming
	held := x.held
	x.held = nil
	x.sendHead()
	if len(held) > 0 && !x.bodyless() {
		_, _ = x.send(held) // kept in failed
	}
}

// sendHead gives the response's head to net/http. An absent content type stays
// absent: net/http would guess one.
func (x *exchange) sendHead() {
	x.personaHeaders()
	h := x.out.Header()
	for name, values := range x.header {
		h[name] = values
	}
	if _, ok := h["Content-Type"]; !ok {
		h["Content-Type"] = nil
	}
	x.out.WriteHeader(x.status)
}

// sendFrame gives net/http of a prepared head only what it frames the message by.
func (x *exchange) sendFrame() {
	h := x.out.Header()
	h["Date"], h["Content-Type"] = nil, nil
	for _, name := range []string{"Content-Length", "Connection"} {
		if v, ok := x.header[name]; ok {
			h[name] = v
		}
	}
	x.out.WriteHeader(x.status)
}

// personaHeaders are on every response, and on those without a body nothing
// that speaks of one.
func (x *exchange) personaHeaders() {
	switch x.status {
	case http.StatusNotModified:
		x.header.Del("Content-Type")
		fallthrough
	case http.StatusNoContent:
		x.header.Del("Content-Length")
	}
	x.header.Set("Server", x.persona.ServerHeader)
	if x.header.Get("Date") == "" {
		x.header.Set("Date", x.server.now().UTC().Format(wire.DateFormat))
	}
}

// fail answers with the persona's error page. note is for the record.
func (x *exchange) fail(status int, note string) {
	x.note = note
	if sent := wire.WireStatus(status); sent == status && status != http.StatusMisdirectedRequest {
		persona.WriteError(x, x.persona, status)
	} else {
		a := wire.ErrorAnswer(x.persona.ServerHeader, status, x.server.now())
		for _, f := range a.Fields {
			if f[0] != "Connection" {
				x.header.Set(f[0], f[1])
			}
		}
		x.WriteHeader(a.Status)
		_, _ = x.Write(a.Body) // held
	}
	if status != http.StatusNotFound && status != http.StatusMisdirectedRequest && x.message.head != nil {
		x.header.Set("Connection", "close")
	}
}

// abandon records a request whose client is gone: there is nobody to answer.
func (x *exchange) abandon(note string) {
	x.note = note
	x.state = ended
	if err := x.server.record(x.link.tenant, x.record); err == nil {
		x.finish(nil)
	}
	panic(http.ErrAbortHandler) // net/http closes the connection
}

// unavailable answers that nothing was stored, and acknowledges nothing.
func (x *exchange) unavailable() {
	x.state = ended
	a := wire.ErrorAnswer(x.persona.ServerHeader, http.StatusServiceUnavailable, x.server.now())
	h := x.out.Header()
	for _, f := range a.Fields {
		h.Set(f[0], f[1])
	}
	x.out.WriteHeader(a.Status)
	_, _ = x.out.Write(a.Body) // the client may be gone
}

// end is deferred around the handler: it settles what the handler left open.
func (x *exchange) end() {
	defer x.body.Discard()
	if fault := recover(); fault != nil {
		x.panicked(fault)
	}
	switch x.state {
	case holding:
		x.complete()
	case streaming:
		x.finish(x.streamed())
		if x.failed != nil {
			panic(http.ErrAbortHandler)
		}
	case hijacked:
		x.finish(nil)
	}
}

// panicked turns a fault of a handler into a response, or breaks the one off
// that has begun.
func (x *exchange) panicked(fault any) {
	if fault == http.ErrAbortHandler { //nolint:errorlint // the value itself is the signal
		if x.state == holding {
			x.state = ended
			if x.server.record(x.link.tenant, x.record) == nil {
				x.finish(nil)
			}
		} else if x.state == streaming {
			x.finish(x.streamed())
		}
		panic(http.ErrAbortHandler)
	}
	x.server.log.Error("a handler panicked", "trajectory", x.link.tenant.id, "record", x.record.ID,
		"panic", clip(fmt.Sprint(fault)), "stack", string(debug.Stack()))
	x.note = "handler panicked: " + clip(fmt.Sprint(fault))
	if x.state == holding {
		x.status, x.held, x.size = 0, nil, 0
		clear(x.header)
		x.fail(http.StatusInternalServerError, x.note)
		return
	}
	if x.state == streaming {
		x.finish(x.streamed())
	}
	panic(http.ErrAbortHandler)
}

// complete records a held response and sends it.
func (x *exchange) complete() {
	x.WriteHeader(http.StatusOK)
	if x.header.Get("Content-Length") == "" && hasBody(x.status) {
		x.header.Set("Content-Length", strconv.FormatInt(x.size, 10))
	}
	x.personaHeaders()
	fields, closes := x.wireFields()
	x.record.Response = &api.Response{Status: x.status, Headers: fields, Body: digestOf(x.held)}
	x.record.Error = x.note
	x.record.DurationMS = milliseconds(x.server.now().Sub(x.message.start))
	if err := x.server.record(x.link.tenant, x.record); err != nil {
		x.unavailable()
		return
	}
	x.state = ended
	if t, ok := x.carrier.(*tap); ok {
		t.prepare(&readyHead{status: x.status, fields: fields, closes: closes})
		x.sendFrame()
	} else {
		x.sendHead()
	}
	if len(x.held) == 0 {
		return
	}
	if x.message.head == nil && x.awaitWrite() != nil {
		return
	}
	_, _ = x.out.Write(x.held) // the record says what was answered, not what arrived
}

// finish writes the second line of a record.
func (x *exchange) finish(r *api.Response) {
	o := &api.Outcome{
		Seq: x.record.Seq, Outcome: true, Response: r,
		DurationMS: milliseconds(x.server.now().Sub(x.message.start)), Error: x.note,
	}
	if x.failed != nil && o.Error == "" {
		o.Error = "response was not taken whole: " + clip(x.failed.Error())
	}
	x.server.noteStorage(x.link.tenant.journal.Finish(x.record.Seq, o))
}

// streamed describes a response that was sent as it came.
func (x *exchange) streamed() *api.Response {
	fields, _ := x.wireFields()
	r := &api.Response{Status: x.status, Headers: fields, Body: api.Digest{Size: x.size, SHA256: hex.EncodeToString(x.sum.Sum(nil))}}
	if x.bodyless() {
		r.Body.Size = 0
	}
	return r
}

// wireFields lists the header as it is sent, and whether the connection is
// closed after the response.
func (x *exchange) wireFields() (fields [][2]string, closes bool) {
	fields = fieldsOf(x.header)
	if x.message.head == nil {
		return fields, false
	}
	t := x.message.turn
	t.Close = t.Close || strings.EqualFold(x.header.Get("Connection"), "close")
	if x.state == streaming && x.header.Get("Content-Length") == "" && !x.bodyless() {
		if t.Minor >= 1 {
			fields = append(fields, [2]string{"Transfer-Encoding", "chunked"})
		} else {
			t.Close = true
		}
	}
	return wire.DialectOf(x.persona.ServerHeader).Arrange(fields, t), t.Close
}

// bodyless says whether what handlers write is only counted.
func (x *exchange) bodyless() bool { return x.message.method == http.MethodHead || !hasBody(x.status) }

func hasBody(status int) bool {
	return status >= http.StatusOK && status != http.StatusNoContent && status != http.StatusNotModified
}
