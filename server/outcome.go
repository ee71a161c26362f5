package server

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/linuxarena/ctis/server/api"
	"github.com/linuxarena/ctis/server/persona"
	"github.com/linuxarena/ctis/server/wire"
	"github.com/linuxarena/ctis/templates/pages"
)

// end is deferred around the handler: it settles what the handler left open.
func (x *exchange) end() {
	defer x.seat.yield()
	defer x.discard()
	if fault := recover(); fault != nil {
		x.panicked(fault)
	}
	switch x.state {
	case holding:
		x.complete()
	case streaming:
		if x.cut && x.failed == nil && x.size > 0 && !x.bodyless() {
			x.failed = x.cutShort() // all of it came before it was known where half of it is: its end is missing
		}
		x.finish(x.streamed())
		if _, ok := x.carrier.(*tap); ok && x.failed == errCut { //nolint:errorlint // it is wrapped nowhere
			x.link.linger()
		}
		if x.failed != nil {
			panic(http.ErrAbortHandler)
		}
	case hijacked:
		x.finish(x.switched)
	}
}

// panicked turns a fault of a handler into a response, or breaks the one off
// that has begun.
func (x *exchange) panicked(fault any) {
	if fault == http.ErrAbortHandler { //nolint:errorlint // the value itself is the signal
		if x.state == holding {
			x.state = ended
			if x.commit() == nil {
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
	x.revise()
	x.measure()
	now := x.server.now()
	x.personaHeaders(now)
	fields, closes := x.wireFields()
	if x.cut && len(x.held) == 0 {
		x.cut = false
		if x.note == "" {
			x.note = "the answer has no body to be " + x.cutNote
		}
	}
	if x.cut {
		x.held = x.held[:len(x.held)/2]
		x.note = x.cutNote
	}
	x.own.response = api.Response{Status: x.status, Headers: fields, Body: x.answered(x.held)}
	if x.committed {
		x.finish(&x.own.response)
	} else {
		x.record.Response = &x.own.response
		x.record.Error = x.note
		x.record.DurationMS = milliseconds(now.Sub(x.message.start))
		if err := x.write(); err != nil {
			x.unavailable()
			return
		}
	}
	x.state = ended
	if t, ok := x.carrier.(*tap); ok {
		// Sent when net/http, which has heard of no response, ends the request.
		x.own.ready = readyResponse{status: x.status, fields: fields, closes: closes, body: x.held, cut: x.cut}
		t.prepare(&x.own.ready)
		if closes {
			x.out.Header().Set("Connection", "close")
		}
		return
	}
	x.seat.yield()
	x.sendHead()
	if len(x.held) == 0 || x.awaitWrite() != nil {
		return
	}
	_, _ = x.out.Write(x.held) // the record says what was answered, not what arrived
	if x.cut {
		_ = x.control().Flush() // the client may be gone
		panic(http.ErrAbortHandler)
	}
}

// measure states the length of a held response. On HTTP/1 one that was stated
// otherwise ends the connection: its handler gave up half way, and the client
// shall notice.
func (x *exchange) measure() {
	if !hasBody(x.status) {
		return
	}
	if lengths, ok := x.header["Content-Length"]; x.bare || ok && len(lengths) == 0 && x.message.method == http.MethodHead {
		return // the family states none
	}
	stated, err := strconv.ParseInt(x.header.Get("Content-Length"), 10, 64)
	switch {
	case err != nil || stated < 0:
		x.header["Content-Length"] = []string{strconv.FormatInt(x.size, 10)}
	case stated != x.size && x.message.head != nil && x.message.method != http.MethodHead:
		x.header.Set("Connection", "close")
		x.held = x.held[:min(stated, x.size)]
	}
}

// finish writes the second line of a record.
func (x *exchange) finish(r *api.Response) {
	o := &api.Outcome{
		Seq: x.record.Seq, Outcome: true, Response: r,
		DurationMS: milliseconds(x.server.now().Sub(x.message.start)), Error: x.note,
		Tunnel: x.tunnel,
	}
	if x.failed != nil && o.Error == "" {
		o.Error = "response was not taken whole: " + clip(x.failed.Error())
	}
	x.server.finish(x.link.tenant.journal, o)
}

// fail answers with the persona's error page. note is for the record.
func (x *exchange) fail(status int, note string) {
	x.note = note
	if sent := wire.WireStatus(status); sent == status && status != http.StatusMisdirectedRequest {
		persona.WriteError(x, x.persona, status, x.facts())
	} else {
		a := wire.ErrorAnswerFor(x.persona.ServerHeader, status, x.facts(), x.server.now())
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

// facts are what error pages say about the request.
func (x *exchange) facts() pages.Facts {
	path, _ := wire.SplitTarget(x.message.target)
	return x.link.facts(x.persona.Host, x.message.host, x.message.method, path)
}

// abandon records a request whose client is gone: there is nobody to answer.
func (x *exchange) abandon(note string) {
	x.note = note
	x.state = ended
	if x.commit() == nil {
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

// sendHead gives the response's head to net/http. An absent content type stays
// absent: net/http would guess one.
func (x *exchange) sendHead() {
	x.reviseHead()
	x.personaHeaders(x.server.now())
	h := x.out.Header()
	for name, values := range x.header {
		h[name] = values
	}
	if t, ok := x.carrier.(*tap); ok {
		t.turn.Spelled = x.spelled
	}
	if _, ok := h["Content-Type"]; !ok {
		h["Content-Type"] = nil
	}
	x.out.WriteHeader(x.status)
}

// personaHeaders are on every response, and on those without a body nothing
// that speaks of one.
func (x *exchange) personaHeaders(now time.Time) {
	switch x.status {
	case http.StatusNotModified:
		if pages.FamilyOf(x.persona.ServerHeader) != pages.Lighttpd { // which leaves it
			x.header.Del("Content-Type")
		}
		fallthrough
	case http.StatusNoContent:
		x.header.Del("Content-Length")
	}
	if x.bare || x.genuine {
		return
	}
	name := x.persona.ServerHeader
	delete(x.header, "Server") // a backend's
	x.header[wire.Identity(name)] = []string{name}
	if pages.FamilyOf(name) == pages.Cloudflare {
		x.header["Cf-Ray"] = []string{x.ray()}
	}
	if x.message.head != nil && x.status != http.StatusSwitchingProtocols && wire.ClosesAlways(name) {
		x.header["Connection"] = []string{"close"}
	}
	if x.header.Get("Date") == "" {
		x.header["Date"] = []string{x.server.dates.at(now)}
	}
}

// streamed describes a response that was sent as it came.
func (x *exchange) streamed() *api.Response {
	fields, _ := x.wireFields()
	fields = append(fields, x.trailers...)
	return &api.Response{Status: x.status, Headers: fields, Body: x.streamedBody()}
}

// wireFields lists the header as it is sent, and whether the connection is
// closed after the response.
func (x *exchange) wireFields() (fields [][2]string, closes bool) {
	fields = appendFields(x.own.fields[:0], x.header)
	if x.message.head == nil {
		return wire.DialectOf(x.persona.ServerHeader).Order(fields), false
	}
	t := x.message.turn
	t.Spelled = x.spelled
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

// ray is Cloudflare's name for a request: a number, and where it was taken.
func (x *exchange) ray() string {
	sum := sha256.Sum256([]byte(x.record.ID))
	return hex.EncodeToString(sum[:8]) + "-FRA"
}

// unparsed answers as a server whose parser gave up: with nothing the family's
// applications would add.
func (x *exchange) unparsed(refusal *wire.Refusal) {
	a := wire.RefusalAnswer(x.persona.ServerHeader, refusal, x.facts(), x.server.now())
	x.bare, x.note = true, refusal.Reason
	for _, f := range a.Fields {
		x.header[f[0]] = []string{f[1]}
	}
	x.WriteHeader(a.Status)
	_, _ = x.Write(a.Body) // held
}

func hasBody(status int) bool {
	return status >= http.StatusOK && status != http.StatusNoContent && status != http.StatusNotModified
}
