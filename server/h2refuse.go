package server

import (
	"fmt"
	"net/http"
	"time"

	"github.com/linuxarena/ctis/server/api"
	"github.com/linuxarena/ctis/server/wire"
	"github.com/linuxarena/ctis/templates/pages"
)

// refusedRequest is the answer to a request that is not served. It was recorded
// when the request was read; what net/http sees in the request's place is one
// without a field of the client's, whose handler sends the answer.
type refusedRequest struct{ wire.Answer }

// refuse records a request that is not served, and makes its answer.
func (f *framed) refuse(id uint32, head *wire.Head, raw []byte, refusal *wire.Refusal, start time.Time) *refusedRequest {
	p := f.named(head)
	name := f.nameFor(p)
	facts := f.facts(f.hostFor(p), head.Authority, head.Method, "")
	a := f.errorAnswer(name, refusal.Status, facts)
	body := a.Body
	if head.Method == http.MethodHead {
		body = nil
	}
	r := f.malformed(head, raw, refusalText(id, refusal.Reason), start)
	r.Persona = hostOf(p)
	r.Response = &api.Response{Status: a.Status, Headers: a.Fields, Body: digestOf(body)}
	if err := f.server.record(f.tenant, r); err != nil {
		a = f.errorAnswer(name, http.StatusServiceUnavailable, facts)
	}
	return &refusedRequest{a}
}

// refuseCrowded records a request beyond the streams a connection may have.
func (f *framed) refuseCrowded(id uint32, head *wire.Head, start time.Time) {
	r := f.malformed(head, nil, refusalText(id, "more streams are open than the settings allow"), start)
	r.Persona = hostOf(f.named(head))
	_ = f.server.record(f.tenant, r) // nothing is acknowledged; the store reports its state
}

func refusalText(id uint32, reason string) string {
	return fmt.Sprintf("http/2: stream refused by the protocol layer: %d: %s", id, reason)
}

// errorAnswer is the family's page as HTTP/2 can carry it.
func (f *framed) errorAnswer(serverHeader string, status int, facts pages.Facts) wire.Answer {
	a := wire.ErrorAnswerFor(serverHeader, status, facts, f.server.now())
	fields := a.Fields[:0]
	for _, field := range a.Fields {
		if field[0] != "Connection" && field[0] != "Keep-Alive" {
			fields = append(fields, field)
		}
	}
	a.Fields = fields
	return a
}

// serveFramed is the handler of the HTTP/2 server: it answers what was refused,
// and leaves the rest to the pipeline.
func (s *Server) serveFramed(w http.ResponseWriter, r *http.Request) {
	f, _ := carrierOf(r.Context()).(*framed)
	a := f.refusal(r)
	if a == nil {
		s.serve(w, r)
		return
	}
	h := w.Header()
	h["Content-Type"] = nil // net/http would guess one
	for _, field := range a.Fields {
		h.Set(field[0], field[1])
	}
	w.WriteHeader(a.Status)
	_, _ = w.Write(a.Body) // the client may be gone
}
