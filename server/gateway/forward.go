package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/linuxarena/ctis/server/api"
	"github.com/linuxarena/ctis/server/backend"
	"github.com/linuxarena/ctis/server/conduit"
)

// The rules of a request that goes to an upstream are:
//
//   - Only a host that its trajectory claims is asked, at the scheme and port that were
//     claimed. Nothing the client says changes where it goes.
//   - Method, target and body pass as they are. Of the fields the client's Host and the
//     one that carries the key are ours; those of one connection, and those that say
//     who is asking on whose behalf, go. The key's stands last, where nothing the client
//     names in its Connection field takes it away.
//   - It is sent once. What fails is told, and a redirect is an answer like any other.

// serve answers one request from the simulator.
func (g *Gateway) serve(ctx context.Context, c *conduit.Call) {
	if refused := g.busy.begin(c.Trajectory); refused != "" {
		c.Fail(&backend.Failure{Status: http.StatusServiceUnavailable, Reason: refused})
		return
	}
	defer g.busy.end(c.Trajectory)
	u, ok := g.claims.upstream(c.Trajectory, c.Host)
	if !ok {
		c.Fail(bad("is not asked: the gateway has no claim of it by this trajectory; ctis up with the same --id registers it anew"))
		return
	}
	key := ""
	if u.KeyEnv != "" {
		if key, ok = g.keys.value(u.KeyEnv); !ok {
			c.Fail(&backend.Failure{Status: http.StatusServiceUnavailable, Reason: "is not asked: no key for it was delivered; set " + u.KeyEnv + " and run ctis up again"})
			return
		}
	}
	x := &exchange{gateway: g, call: c, upstream: u, key: key, secret: newSecret(key, u.AuthPrefix)}
	err := x.run(ctx)
	var f *backend.Failure
	switch {
	case err == nil, errors.Is(err, errTunnelled), ctx.Err() != nil: // nothing is left to say, or nobody listens
	case errors.As(err, &f):
		if x.secret != nil {
			f = &backend.Failure{Status: f.Status, Reason: x.secret.maskText(f.Reason)}
		}
		c.Fail(f)
	default:
		g.log.Debug("a request ended", "trajectory", c.Trajectory, "host", c.Host) // the link broke
	}
}

// exchange is one request on its way to an upstream and back.
type exchange struct {
	gateway  *Gateway
	call     *conduit.Call
	upstream api.Upstream
	key      string
	secret   *secret // nil without a key
}

func (x *exchange) run(ctx context.Context) error {
	r := route{x.call.Trajectory, x.call.Host}
	if !x.call.WebSocket {
		if s := x.gateway.pool.join(r); s != nil {
			return x.over2(ctx, s)
		}
	}
	conn := x.gateway.pool.take(r)
	if conn == nil {
		var err error
		if conn, err = x.gateway.dial(ctx, x.upstream, x.call.WebSocket); err != nil {
			return err
		}
		if c, ok := conn.(*tls.Conn); ok && c.ConnectionState().NegotiatedProtocol == "h2" {
			s, err := share(ctx, c, x.upstream.Host)
			if err != nil {
				return err
			}
			if !s.join() {
				return bad("takes no request on its connection")
			}
			x.gateway.pool.offer(r, s)
			return x.over2(ctx, s)
		}
	}
	return x.over1(ctx, r, conn)
}

// over1 makes the exchange over HTTP/1.1.
func (x *exchange) over1(ctx context.Context, r route, conn backend.Conn) error {
	e := backend.Over(ctx, conn, x.gateway.patience)
	err := e.Do(x.request(), x.call.Body)
	if err == nil && e.Switched && x.secret != nil && slices.ContainsFunc(e.Fields, func(f [2]string) bool { return strings.EqualFold(f[0], "Sec-WebSocket-Extensions") }) {
		err = bad("compresses its WebSocket although it was not asked to, and its key could not be seen there")
	} else if err == nil && e.Switched {
		err = x.call.Start(&conduit.Head{Status: e.Status, Fields: x.secret.maskFields(e.Fields), Length: -1, Switched: true})
		if err == nil {
			err = x.tunnel(e)
		}
	} else if err == nil {
		err = x.answer(&conduit.Head{Status: e.Status, Fields: e.Fields, Length: e.BodyLength()}, e)
	}
	if err != nil {
		e.Close()
		return err
	}
	trailers := x.secret.maskFields(e.Trailers)
	// Before the client knows that the response is whole: it may ask on at once.
	if conn, ok := e.Release(); ok {
		x.gateway.pool.give(r, conn)
	}
	return x.call.End(trailers)
}

// over2 makes it over HTTP/2.
func (x *exchange) over2(ctx context.Context, s *shared) error {
	defer s.leave()
	q := x.request()
	f, err := s.ask(ctx, q, x.call.Body, x.gateway.patience)
	if err != nil {
		return err
	}
	defer f.close()
	if err := x.answer(&conduit.Head{Status: f.resp.StatusCode, Fields: fields(f.resp.Header), Length: f.length(q.Method)}, f); err != nil {
		return err
	}
	return x.call.End(x.secret.maskFields(fields(f.resp.Trailer)))
}

// answer passes a response on but for its end.
func (x *exchange) answer(h *conduit.Head, whole io.Reader) error {
	body := whole
	if how := coding(h.Fields); x.secret != nil && how != "" && h.Length != 0 {
		undo, ok := decoders[how]
		if !ok {
			return bad("answered with a body compressed as %q, in which its key could not be seen", how)
		}
		h.Fields, h.Length = decoded(h.Fields), -1
		body = &lazy{from: whole, open: undo}
	}
	h.Fields = x.secret.maskFields(h.Fields)
	if err := x.call.Start(h); err != nil {
		return err
	}
	if err := x.pass(body); err != nil {
		return err
	}
	// What a decoder left is the rest of its own framing.
	n, err := io.CopyN(io.Discard, whole, 1<<16)
	switch {
	case err == nil:
		return bad("sent %d bytes and more behind its compressed body", n)
	case err != io.EOF:
		return err
	}
	return nil
}

// pass sends a body on, piece by piece as it comes.
func (x *exchange) pass(body io.Reader) error {
	send := func(p []byte) error { _, err := x.call.Write(p); return err }
	if x.secret == nil {
		return relay(body, send, func() error { return nil })
	}
	r := newRedactor(x.secret, send)
	return relay(body, func(p []byte) error { _, err := r.Write(p); return err }, r.flush)
}

// passFrames sends on what comes over a WebSocket.
func (x *exchange) passFrames(from io.Reader) error {
	if x.secret == nil {
		return x.pass(from)
	}
	f := newFrames(x.secret, func(p []byte) error { _, err := x.call.Write(p); return err })
	return relay(from, func(p []byte) error { _, err := f.Write(p); return err }, f.end)
}

// relay reads to the end, with each piece sent as it comes.
func relay(body io.Reader, send func([]byte) error, end func() error) error {
	buf := make([]byte, 16<<10)
	for {
		n, err := body.Read(buf)
		if n > 0 {
			if werr := send(buf[:n]); werr != nil {
				return werr
			}
		}
		switch {
		case err == io.EOF:
			return end()
		case err != nil:
			var f *backend.Failure
			if !errors.As(err, &f) {
				err = bad("broke off within its compressed response: %v", err)
			}
			return errors.Join(err, end())
		}
	}
}

// tunnel passes both directions of a WebSocket on, until both have ended.
func (x *exchange) tunnel(e *backend.Exchange) error {
	conn, early, err := e.Conn()
	if err != nil {
		return bad("broke off at the switch to WebSocket")
	}
	up := make(chan struct{})
	go func() {
		defer close(up)
		if _, err := io.Copy(conn, x.call.Body); err == nil {
			_ = conn.CloseWrite() // the upstream may be gone
		} else {
			_ = conn.Close() // wakes the other direction
		}
	}()
	if err = x.passFrames(early); err == nil {
		err = x.call.End(nil) // this direction is over, the other may go on
	}
	if err != nil {
		var f *backend.Failure
		if errors.As(err, &f) {
			x.call.Fail(f)
		}
		_ = x.call.Body.Close() // wakes the other direction
		_ = conn.Close()
	}
	<-up
	return errTunnelled
}

// errTunnelled ends an exchange in which everything was said: what was to be told of
// its end was told in the stream.
var errTunnelled = errors.New("the connection was a WebSocket's")

// request is what the upstream gets.
func (x *exchange) request() *backend.Request {
	q := &backend.Request{
		Method: x.call.Method, Target: x.call.Target, Host: hostField(x.upstream),
		Length: x.call.Length, WebSocket: x.call.WebSocket, GoesOn: true,
	}
	for _, f := range x.call.Fields {
		switch {
		case x.key == "":
		case sameName(f[0], x.upstream.AuthHeader):
			continue
		case strings.EqualFold(f[0], "Accept-Encoding"):
			continue
		case x.call.WebSocket && strings.EqualFold(f[0], "Sec-WebSocket-Extensions"):
			continue // compressed messages could not be looked into
		}
		q.Fields = append(q.Fields, f)
	}
	if x.key != "" {
		q.Own = [][2]string{{"Accept-Encoding", "identity"}, {x.upstream.AuthHeader, x.upstream.AuthPrefix + x.key}}
	}
	return q
}

// lazy opens a decoder when the first byte is asked for: some need bytes to begin, and
// the head is to go on before there are any.
type lazy struct {
	from io.Reader
	open func(io.Reader) (io.Reader, error)
	body io.Reader
}

// Read implements [io.Reader].
func (l *lazy) Read(p []byte) (int, error) {
	if l.body == nil {
		body, err := l.open(l.from)
		if err != nil {
			return 0, err
		}
		l.body = body
	}
	return l.body.Read(p)
}
