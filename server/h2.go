package server

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/linuxarena/ctis/server/api"
	"github.com/linuxarena/ctis/server/wire"
)

// framed stands between an HTTP/2 connection and net/http's server, as tap does
// on HTTP/1. The rules:
//
//   - Every frame is read here first. A header block is decoded, judged by
//     package wire and encoded anew, so net/http only sees requests it takes.
//   - A request that is refused is recorded at once. net/http gets a request of
//     ours in its place (h2refuse.go), so that streams and windows have one owner.
//   - What breaks the connection is recorded before the GOAWAY that says so.
//   - net/http's responses are decoded and put into the imitated server's order.
//
// The connection's window is kept here too, because net/http does not hear of
// all DATA. One goroutine reads at a time and one writes; locks are taken
// in the order inMu, outMu, mu.
type framed struct {
	*link
	start time.Time

	inMu sync.Mutex // held while received bytes are looked at
	reading

	outMu sync.Mutex // held while something is sent
	writing
	resized atomic.Bool // the client changed the size of its header table

	mu sync.Mutex
	streams
	tail   []byte // the last bytes received, up to twice rawLimit
	failed bool   // what broke the connection is recorded
	ended  sync.Once
}

func newFramed(l *link, start time.Time) *framed {
	return &framed{
		link: l, start: start,
		reading: reading{decoder: wire.NewDecoder()},
		writing: writing{decoded: wire.NewDecoder()},
		streams: streams{byID: map[uint32]*stream{}},
	}
}

// settle is how long after the connection's end a request may still be on its
// way into a handler.
const settle = 500 * time.Millisecond

// Close also records what reached no handler.
func (f *framed) Close() error {
	err := f.link.Close() // first: who reads or writes lets go then
	f.ended.Do(func() {
		f.inMu.Lock()
		f.broken(nil)
		f.inMu.Unlock()
		if f.unheard() {
			f.server.later(settle, f.sweep)
		} else {
			f.sweep() // nothing to record; what the streams took is given back
		}
	})
	return err
}

// SetReadDeadline leaves the deadlines of the frames alone: net/http sets one
// until it has the preface, and then ends it.
func (f *framed) SetReadDeadline(at time.Time) error {
	f.inMu.Lock()
	defer f.inMu.Unlock()
	if f.prefaced > 0 {
		return nil
	}
	return f.Conn.SetReadDeadline(at)
}

// fail records what breaks the connection, says so and ends it.
func (f *framed) fail(code uint32, reason string, head *wire.Head, start time.Time) {
	f.err = errBroken
	f.noteFailure("http/2: connection error "+wire.ErrorName(code)+": "+reason, head, start)
	f.mu.Lock()
	last := f.last
	f.mu.Unlock()
	f.inject(wire.AppendGoAway(nil, last, code), true)
}

// noteFailure records what breaks the connection, the first time.
func (f *framed) noteFailure(reason string, head *wire.Head, start time.Time) {
	f.mu.Lock()
	again := f.failed
	f.failed = true
	tail := slices.Clone(f.tail[max(0, len(f.tail)-rawLimit):])
	f.mu.Unlock()
	if again {
		return
	}
	r := f.malformed(head, tail, reason, start)
	r.Persona = hostOf(f.named(head))
	_ = f.server.record(f.tenant, r) // nothing is acknowledged; the store reports its state
}

func (f *framed) leave() {}

// scratch: see carrier.
func (f *framed) scratch() http.Header { return make(http.Header, 8) }

// fieldsOf lists a header in alphabetical order.
func fieldsOf(h http.Header) [][2]string {
	return appendFields(make([][2]string, 0, len(h)+2), h)
}

// appendFields is fieldsOf into fields, which must be empty.
func appendFields(fields [][2]string, h http.Header) [][2]string {
	for name, values := range h {
		for _, v := range values {
			fields = append(fields, [2]string{name, v})
		}
	}
	slices.SortStableFunc(fields, func(a, b [2]string) int { return strings.Compare(a[0], b[0]) })
	return fields
}

// newHTTP makes the two HTTP servers: both get connections whose TLS is already
// ended, so that a tap stands between TLS and parser.
func (s *Server) newHTTP() {
	base := func() *http.Server {
		return &http.Server{
			Handler:     http.HandlerFunc(s.serve),
			ErrorLog:    boundedLog(s.log),
			ConnContext: connContext,
			Protocols:   new(http.Protocols),
		}
	}
	s.h1 = base()
	s.h1.Protocols.SetHTTP1(true)
	s.h1.MaxHeaderBytes = 2 * wire.MaxHead // the tap's own limit is lower
	s.h1.DisableGeneralOptionsHandler = true

	s.h2 = base()
	s.h2.Handler = http.HandlerFunc(s.serveFramed)
	s.h2.IdleTimeout = s.limits.Idle // on HTTP/1 the tap's deadlines count
	s.h2.Protocols.SetUnencryptedHTTP2(true)
	s.h2.ReadHeaderTimeout = s.limits.RequestHead
	s.h2.MaxHeaderBytes = h2HeaderBytes
	s.h2.DisableGeneralOptionsHandler = true
	s.h2.HTTP2 = &http.HTTP2Config{
		// Of what h2write.go promises, net/http keeps the window of a stream. The
		// others are wider here: streams are counted in h2stream.go, and all their
		// windows together never fill that of the connection.
		MaxConcurrentStreams:          2 * h2Streams,
		MaxReceiveBufferPerStream:     h2Window,
		MaxReceiveBufferPerConnection: h2ConnWindow,
		WriteByteTimeout:              s.limits.WriteProgress,
	}
}

var _ = []carrier{(*tap)(nil), (*framed)(nil)}

func tlsRecord(version uint16, sni, alpn string) *api.TLS {
	names := map[uint16]string{0x0303: "1.2", 0x0304: "1.3"}
	return &api.TLS{Version: names[version], SNI: sni, ALPN: alpn}
}
