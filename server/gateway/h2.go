package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/linuxarena/ctis/server/backend"
)

// Upstreams that choose HTTP/2 are spoken with in it, all requests of one trajectory to
// one host over one connection. What is sent, and how often, is the same.

// shared is a connection that several requests are on.
type shared struct {
	conn      *http.ClientConn
	transport *http.Transport
	mu        sync.Mutex
	users     int
	idle      *time.Timer // ends it; nil while it has users
}

const (
	pingAfter     = 15 * time.Second // without a frame: whoever is gone is noticed
	maxHeadFields = 64 << 10         // bytes of a response's fields, as on HTTP/1
	// unread is how many bytes of one response are taken that nobody has read yet: an
	// agent can let many wait.
	unread = 256 << 10
)

// share makes HTTP/2 of a connection on which both sides chose it.
func share(ctx context.Context, c *tls.Conn, host string) (*shared, error) {
	protocols := new(http.Protocols)
	protocols.SetHTTP2(true)
	var once sync.Once
	s := &shared{transport: &http.Transport{
		DialTLSContext: func(context.Context, string, string) (net.Conn, error) {
			var given net.Conn
			once.Do(func() { given = c })
			if given == nil {
				return nil, errors.New("its connection has ended")
			}
			return given, nil
		},
		Protocols: protocols, DisableCompression: true, MaxResponseHeaderBytes: maxHeadFields,
		HTTP2: &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingAfter, MaxReceiveBufferPerStream: unread},
	}}
	var err error
	if s.conn, err = s.transport.NewClientConn(ctx, "https", net.JoinHostPort(host, "443")); err != nil {
		_ = c.Close() // nothing was asked
		return nil, bad("was not spoken with: HTTP/2: %v", err)
	}
	return s, nil
}

// join takes the connection for one request more; false when it is of no more use.
func (s *shared) join() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.idle != nil {
		if !s.idle.Stop() {
			return false // its time is over
		}
		s.idle = nil
	}
	if s.conn.Err() != nil || s.conn.Reserve() != nil {
		if s.users == 0 {
			s.end()
		}
		return false
	}
	s.users++
	return true
}

// leave ends a request's use.
func (s *shared) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users--; s.users == 0 {
		s.idle = time.AfterFunc(idleTime, s.end)
	}
}

func (s *shared) end() { _ = s.conn.Close() } // whoever is on it sees an error

// framed is a request over HTTP/2 and its response.
type framed struct {
	patience backend.Patience
	cancel   context.CancelCauseFunc
	ctx      context.Context
	late     *time.Timer // ends a response that pauses for too long
	resp     *http.Response
}

var (
	errNoAnswer = &backend.Failure{Status: http.StatusGatewayTimeout, Reason: "timed out before the end of its response's head"}
	errSilence  = &backend.Failure{Status: http.StatusGatewayTimeout, Reason: "timed out within its response"}
)

// ask sends q, and gives the response once its head is there.
func (s *shared) ask(ctx context.Context, q *backend.Request, body io.Reader, patience backend.Patience) (*framed, error) {
	f := &framed{patience: patience}
	f.ctx, f.cancel = context.WithCancelCause(ctx)
	// The body may still be on its way when the answer is here.
	var answered atomic.Bool
	late := time.AfterFunc(patience.Answer, func() {
		if !answered.Load() {
			f.cancel(errNoAnswer)
		}
	})
	defer late.Stop()
	r := (&http.Request{
		Method: q.Method, Host: q.Host, Header: headerOf(q), ContentLength: q.Length, Body: http.NoBody,
		// The host in front keeps a target that begins with "//" what it is.
		URL: &url.URL{Scheme: "https", Host: q.Host, Opaque: "//" + q.Host + q.Target},
	}).WithContext(f.ctx)
	if q.Length > 0 {
		r.Body = io.NopCloser(&timely{body, func() {
			if !answered.Load() {
				late.Reset(patience.Answer)
			}
		}})
	}
	var err error
	f.resp, err = s.conn.RoundTrip(r)
	answered.Store(true)
	if err != nil {
		defer f.cancel(nil)
		return nil, f.failure(err, "before the end of its response's head")
	}
	f.late = time.AfterFunc(patience.Silence, func() { f.cancel(errSilence) })
	return f, nil
}

// timely calls read with every piece that is taken.
type timely struct {
	io.Reader
	read func()
}

// Read implements [io.Reader].
func (t *timely) Read(p []byte) (int, error) {
	t.read()
	return t.Reader.Read(p)
}

// headerOf are the fields that HTTP/1 would have: the rules are written there.
func headerOf(q *backend.Request) http.Header {
	h := http.Header{"User-Agent": {""}} // of its own, net/http would send another
	for i, line := range strings.Split(string(q.Head()), "\r\n") {
		name, value, ok := strings.Cut(line, ": ")
		if i == 0 || !ok {
			continue
		}
		switch name = http.CanonicalHeaderKey(name); name {
		case "Host", "Connection", "Content-Length", "Upgrade":
		case "User-Agent":
			h[name] = []string{value}
		default:
			h[name] = append(h[name], value)
		}
	}
	return h
}

// Read reads the body, as it comes.
func (f *framed) Read(p []byte) (int, error) {
	f.late.Reset(f.patience.Silence)
	n, err := f.resp.Body.Read(p)
	if err != nil && err != io.EOF {
		err = f.failure(err, "within its response")
	}
	return n, err
}

func (f *framed) close() {
	f.late.Stop()
	f.cancel(nil)
	_ = f.resp.Body.Close() // everything was read, or is given up
}

// failure tells why there is no response, or no more of it.
func (f *framed) failure(err error, during string) error {
	var known *backend.Failure
	switch cause := context.Cause(f.ctx); {
	case errors.As(err, &known):
		return known
	case errors.As(cause, &known):
		return known
	case cause != nil:
		return cause
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return bad("closed the connection %s", during)
	}
	return bad("broke off %s: HTTP/2: %v", during, err)
}

// fields are those of a header, in the order of their names: on HTTP/2 it says nothing.
func fields(h http.Header) [][2]string {
	list := [][2]string{}
	for name, values := range h {
		for _, v := range values {
			list = append(list, [2]string{name, v})
		}
	}
	slices.SortStableFunc(list, func(a, b [2]string) int { return strings.Compare(a[0], b[0]) })
	return list
}

// length is that of the body; -1 where only its end tells.
func (f *framed) length(method string) int64 {
	if method == http.MethodHead || f.resp.StatusCode == http.StatusNoContent || f.resp.StatusCode == http.StatusNotModified {
		return 0
	}
	return f.resp.ContentLength
}
