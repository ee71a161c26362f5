package server

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/linuxarena/ctis/server/api"
	"github.com/linuxarena/ctis/server/wire"
)

// framed is an HTTP/2 connection. Its frames are followed in both directions:
// a request that the protocol layer refuses reaches no handler, so what was
// opened and never entered a handler, or ended the connection with an error, is
// recorded when the connection closes.
type framed struct {
	*link
	start   time.Time
	entered atomic.Uint64 // requests whose handler began

	inMu  sync.Mutex
	in    wire.Frames
	begin []byte // what should be the preface
	tail  []byte // the last bytes received, up to rawLimit

	outMu  sync.Mutex
	out    wire.Frames
	closed sync.Once
}

func newFramed(l *link, start time.Time) *framed {
	return &framed{link: l, start: start, in: wire.Frames{Skip: len(wire.Preface)}}
}

func (f *framed) Read(p []byte) (int, error) {
	n, err := f.Conn.Read(p)
	if n > 0 {
		f.inMu.Lock()
		f.in.Scan(p[:n])
		if missing := len(wire.Preface) - len(f.begin); missing > 0 {
			f.begin = append(f.begin, p[:min(n, missing)]...)
		}
		f.tail = append(f.tail, p[max(0, n-rawLimit):n]...)
		if over := len(f.tail) - rawLimit; over > rawLimit {
			f.tail = append(f.tail[:0], f.tail[over:]...)
		}
		f.inMu.Unlock()
	}
	return n, err
}

func (f *framed) Write(p []byte) (int, error) {
	f.outMu.Lock()
	f.out.Scan(p)
	f.outMu.Unlock()
	return f.Conn.Write(p)
}

// settle is how long after the connection's end a request may still be on its
// way into a handler.
const settle = 500 * time.Millisecond

// Close also judges the connection.
func (f *framed) Close() error {
	f.closed.Do(func() {
		if f.verdict() == "" {
			return
		}
		f.server.later(settle, func() {
			reason := f.verdict()
			if reason == "" {
				return
			}
			f.inMu.Lock()
			tail := f.tail[max(0, len(f.tail)-rawLimit):]
			f.inMu.Unlock()
			_ = f.server.record(f.tenant, f.malformed(nil, tail, reason, f.start)) // the store reports its state
		})
	})
	return f.link.Close()
}

// verdict is what was wrong with the connection, "" for nothing.
func (f *framed) verdict() string {
	f.inMu.Lock()
	begin, streams := string(f.begin), f.in.Streams
	f.inMu.Unlock()
	f.outMu.Lock()
	failure := f.out.Failure
	f.outMu.Unlock()
	var what []string
	if begin != "" && begin != wire.Preface {
		return "http/2: the client's preface is missing"
	}
	if failure != 0 {
		what = append(what, "connection error "+wire.ErrorName(failure))
	}
	if entered := f.entered.Load(); streams > entered {
		what = append(what, fmt.Sprintf("requests refused by the protocol layer: %d", streams-entered))
	}
	if what == nil {
		return ""
	}
	return "http/2: " + strings.Join(what, ", ")
}

// enter: see carrier.
func (f *framed) enter(r *http.Request) *message {
	f.entered.Add(1)
	return &message{
		start:  f.server.now(),
		method: r.Method,
		target: r.RequestURI,
		proto:  r.Proto,
		host:   r.Host,
		fields: fieldsOf(r.Header),
		turn:   wire.Turn{Minor: 1},
	}
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
	s.h2.IdleTimeout = s.limits.Idle // on HTTP/1 the tap's deadlines count
	s.h2.Protocols.SetUnencryptedHTTP2(true)
	s.h2.ReadHeaderTimeout = s.limits.RequestHead
	s.h2.MaxHeaderBytes = h2HeaderBytes
	s.h2.DisableGeneralOptionsHandler = true
	s.h2.HTTP2 = &http.HTTP2Config{
		MaxConcurrentStreams: h2Streams,
		WriteByteTimeout:     s.limits.WriteProgress,
	}
}

var _ = []carrier{(*tap)(nil), (*framed)(nil)}

// headerSize is what a header takes up, for the limit net/http has of its own
// on HTTP/1 only.
func headerSize(fields [][2]string) int {
	n := 0
	for _, f := range fields {
		n += len(f[0]) + len(f[1]) + len(": ")
	}
	return n
}

func tlsRecord(version uint16, sni, alpn string) *api.TLS {
	names := map[uint16]string{0x0303: "1.2", 0x0304: "1.3"}
	return &api.TLS{Version: names[version], SNI: sni, ALPN: alpn}
}
