package server

import (
	"maps"
	"net/http"
	"slices"
	"strconv"

	"github.com/linuxarena/ctis/server/wire"
)

// streams are those of a connection that net/http, its handlers or the client
// may still name; mu guards them and what is in them.
type streams struct {
	byID   map[uint32]*stream
	last   uint32 // the highest the client opened
	active int    // opened and neither reset nor over in both directions
}

type stream struct {
	message  *message
	refused  *refusedRequest // recorded, and answered instead of served
	entered  bool            // its handler began
	sent     bool            // the request is over
	answered bool            // the response is over
	reset    bool            // by either side
	closed   bool            // counted out of active
	bodied   bool            // a body follows the head
	left     int64           // of the declared body; -1 without one
	size     int64           // of the fields of its head, as [fieldsSize] counts
}

// maxUnheard bounds the requests of a connection that are kept for a handler
// although their client has reset them.
const maxUnheard = h2Streams

// streamField carries a stream's number from here to its handler. It is the
// first field net/http sees, so a client's field of that name comes after it.
const streamField = "Stream"

func streamNumber(id uint32) string { return strconv.FormatUint(uint64(id), 10) }

// streamOf reads that number.
func streamOf(r *http.Request) uint32 {
	id, err := strconv.ParseUint(r.Header.Get(streamField), 10, 32)
	if err != nil {
		return 0 // not reached: net/http only sees what is encoded here
	}
	return uint32(id)
}

// enter: see carrier.
func (f *framed) enter(r *http.Request) *message {
	id := streamOf(r)
	if values := r.Header[streamField]; len(values) > 1 {
		r.Header[streamField] = values[1:]
	} else {
		delete(r.Header, streamField)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.byID[id]
	if s == nil {
		panic(http.ErrAbortHandler) // its record is written
	}
	s.entered = true
	f.tidy(id, s)
	return s.message
}

// refusal is the answer to a request that stands in the place of a refused one,
// nil for any other.
func (f *framed) refusal(r *http.Request) *refusedRequest {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s := f.byID[streamOf(r)]; s != nil {
		return s.refused
	}
	return nil
}

// remainder is what came of a message after its head: trailers, and why its
// body is malformed.
func (f *framed) remainder(m *message) (trailers [][2]string, fault string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return m.trailers, m.fault
}

// tidy counts a stream out when it is over, and forgets it when nobody will ask
// for it any more. f.mu is held.
func (f *framed) tidy(id uint32, s *stream) {
	if !s.closed && (s.reset || s.sent && s.answered) {
		s.closed = true
		f.active--
	}
	if s.closed && (s.entered || s.refused != nil) {
		f.forget(id)
	}
}

// forget lets go of a stream and of what its head took. f.mu is held.
func (f *framed) forget(id uint32) {
	if s := f.byID[id]; s != nil {
		f.tenant.heads.Add(-s.size)
		delete(f.byID, id)
	}
}

// change lets with alter a stream.
func (f *framed) change(id uint32, with func(*stream)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s := f.byID[id]; s != nil {
		with(s)
		f.tidy(id, s)
	}
}

// stream is the one with that number, nil for one that is over. idle says that
// it was never opened.
func (f *framed) stream(id uint32) (s *stream, idle bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s = f.byID[id]; s != nil && s.closed {
		s = nil
	}
	return s, id > f.last || id%2 == 0
}

// clientReset notes that the client gave a stream up. The requests that wait for a
// handler then are bounded, so the oldest of too many is recorded without one.
func (f *framed) clientReset(id uint32) {
	f.mu.Lock()
	var lost *stream
	if s := f.byID[id]; s != nil {
		s.reset = true
		f.tidy(id, s)
	}
	if len(f.byID)-f.active > maxUnheard {
		oldest := uint32(0)
		for id, s := range f.byID {
			if s.closed && (oldest == 0 || id < oldest) {
				oldest = id
			}
		}
		lost = f.byID[oldest]
		f.forget(oldest)
	}
	f.mu.Unlock()
	f.noteUnheard(lost, "client reset the stream before it was served")
}

// serverReset is told of net/http's RST_STREAM before it is sent: a request that
// no handler has is recorded then.
func (f *framed) serverReset(id, code uint32) {
	f.mu.Lock()
	s := f.byID[id]
	if s != nil {
		s.reset = true
		f.tidy(id, s)
		if s.entered || s.refused != nil {
			s = nil
		} else {
			f.forget(id)
		}
	}
	f.mu.Unlock()
	f.noteUnheard(s, "stream refused by the protocol layer: "+streamNumber(id)+": "+wire.ErrorName(code))
}

// unheard says whether there are requests that no handler has begun with.
func (f *framed) unheard() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.byID {
		if !s.entered && s.refused == nil {
			return true
		}
	}
	return false
}

// sweep records the requests that no handler has begun with.
func (f *framed) sweep() {
	var lost []*stream
	f.mu.Lock()
	for _, id := range slices.Sorted(maps.Keys(f.byID)) {
		if s := f.byID[id]; !s.entered && s.refused == nil {
			lost = append(lost, s)
		}
		f.forget(id)
	}
	f.mu.Unlock()
	for _, s := range lost {
		f.noteUnheard(s, "connection ended before the request was served")
	}
}

// noteUnheard records a request that reached no handler.
func (f *framed) noteUnheard(s *stream, reason string) {
	if s == nil {
		return
	}
	m := s.message
	head := &wire.Head{Method: m.method, Target: m.target, Proto: m.proto, Host: m.host, Fields: append(m.fields, m.trailers...)}
	r := f.malformed(head, nil, "http/2: "+reason, m.start)
	r.Request.Body.Truncated = s.bodied
	r.Persona = hostOf(f.named(head))
	_ = f.server.record(f.tenant, r) // nobody is answered; the store reports its state
}
