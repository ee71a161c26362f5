package conduit

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/linuxarena/ctis/server/backend"
)

// Client is the simulator's end. It keeps connections for the next exchange: nothing
// of one is left on a connection when it is used again.
type Client struct {
	identity *Identity

	mu   sync.Mutex
	at   netip.AddrPort
	peer string // fingerprint
	idle []*tls.Conn
}

// maxIdle is how many connections are kept.
const maxIdle = 64

// NewClient makes a client that knows no gateway yet.
func NewClient(id *Identity) *Client { return &Client{identity: id} }

// Use says where the gateway is and by which fingerprint it is known.
func (c *Client) Use(at netip.AddrPort, fingerprint string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at == at && c.peer == fingerprint {
		return
	}
	c.at, c.peer = at, fingerprint
	for _, conn := range c.idle {
		_ = conn.Close() // nothing is in work on it
	}
	c.idle = nil
}

func (c *Client) fingerprint() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.peer
}

// Start connects, or takes a connection that is there. It is closed when ctx ends;
// Close must be called. The error is a *[backend.Failure], or ctx's.
func (c *Client) Start(ctx context.Context, p backend.Patience) (*Exchange, error) {
	conn, err := c.connect(ctx, p.Connect)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, &backend.Failure{Status: http.StatusBadGateway, Reason: "cannot be reached: the gateway does not take the connection (" + err.Error() + "); the next ctis up sets it right"}
	}
	e := &Exchange{client: c, conn: conn, patience: p, r: reader{bufio.NewReaderSize(conn, maxData+frameHeader)}, sending: make(chan struct{})}
	e.unwatch = context.AfterFunc(ctx, func() { _ = conn.NetConn().Close() })
	return e, nil
}

var errNoGateway = errors.New("it was not told where the gateway is")

func (c *Client) connect(ctx context.Context, patience time.Duration) (*tls.Conn, error) {
	c.mu.Lock()
	at := c.at
	for len(c.idle) > 0 {
		conn := c.idle[len(c.idle)-1]
		c.idle = c.idle[:len(c.idle)-1]
		if backend.StillOpen(conn) {
			c.mu.Unlock()
			return conn, nil
		}
		_ = conn.Close() // the gateway has ended it
	}
	c.mu.Unlock()
	if !at.IsValid() {
		return nil, errNoGateway
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	d := net.Dialer{KeepAlive: 15 * time.Second}
	raw, err := d.DialContext(ctx, "tcp", at.String())
	if err != nil {
		return nil, err
	}
	conn := tls.Client(raw, c.identity.config(c.fingerprint))
	if err := conn.HandshakeContext(ctx); err != nil {
		_ = raw.Close() // nothing was said
		return nil, err
	}
	return conn, nil
}

// give keeps a connection for the next exchange.
func (c *Client) give(conn *tls.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.idle) >= maxIdle || conn.SetDeadline(time.Time{}) != nil {
		_ = conn.Close() // nothing is in work on it
		return
	}
	c.idle = append(c.idle, conn)
}

// Close drops the connections that are kept.
func (c *Client) Close() { c.Use(netip.AddrPort{}, "") }

// Exchange is one request and its response. One goroutine uses it.
type Exchange struct {
	// Known once [Exchange.Do] returned nil:
	Head
	// Trailers are the fields after the body, once Read returned io.EOF.
	Trailers [][2]string

	client   *Client
	conn     *tls.Conn
	r        reader
	patience backend.Patience
	left     int   // of the present data frame
	read     int64 // of the body
	err      error
	started  bool
	// webSocket: its bytes follow the head at once, so no other request can.
	webSocket bool
	sending   chan struct{} // closed when the request is sent
	sendErr   error         // set before sending is closed
	unwatch   func() bool
}

// Do sends the request with its body and reads the response's head. The error is a
// *[backend.Failure].
func (e *Exchange) Do(o *Open, body io.Reader) error {
	head, err := o.encode()
	if err != nil {
		return &backend.Failure{Status: http.StatusBadGateway, Reason: "was not asked: " + err.Error()}
	}
	e.started, e.webSocket = true, o.WebSocket
	go func() {
		defer close(e.sending)
		if e.sendErr = e.send(head, body, o.Length); errors.Is(e.sendErr, errBody) {
			_ = e.conn.NetConn().Close() // the gateway is not to wait for the rest
		} // where the gateway reads no more, its response may have come
	}()
	if err := e.conn.SetReadDeadline(time.Now().Add(e.patience.Answer)); err != nil {
		return e.broken(err)
	}
	kind, size, err := e.r.next()
	if err != nil {
		return e.broken(err)
	}
	d, err := e.r.payload(size)
	switch {
	case err != nil:
		return e.broken(err)
	case kind == frameFailure:
		return decodeFailure(d)
	case kind != frameHead:
		return e.broken(errProtocol)
	}
	h, err := decodeHead(d)
	if err != nil {
		return e.broken(err)
	}
	e.Head = *h
	return nil
}

// errBody is a request whose body its client did not send whole.
var errBody = errors.New("its body cannot be read")

// send writes the request, small ones in one piece.
func (e *Exchange) send(head []byte, body io.Reader, length int64) error {
	w := bufio.NewWriterSize(e.conn, maxData+2*frameHeader)
	progress := func() error {
		deadline := time.Now().Add(e.patience.Answer)
		return errors.Join(e.conn.SetWriteDeadline(deadline), e.conn.SetReadDeadline(deadline))
	}
	if err := progress(); err != nil {
		return err
	}
	if _, err := w.Write(head); err != nil {
		return err
	}
	buf := make([]byte, min(length, maxData-frameHeader)+frameHeader)
	for left := length; left > 0; {
		n := min(left, int64(len(buf)-frameHeader))
		if _, err := io.ReadFull(body, buf[frameHeader:frameHeader+n]); err != nil {
			return fmt.Errorf("%w: %w", errBody, err)
		}
		if left != length {
			if err := progress(); err != nil {
				return err
			}
		}
		if err := writeData(w, buf, int(n)); err != nil {
			return err
		}
		left -= n
	}
	if !e.webSocket { // whose bytes come instead
		if _, err := w.Write([]byte{frameEnd, 0, 0, 0, 0}); err != nil {
			return err
		}
	}
	return w.Flush()
}

// broken tells why the link gave nothing more.
func (e *Exchange) broken(err error) *backend.Failure {
	_ = e.conn.NetConn().Close() // it is given up; whoever still sends ends
	if e.started {
		<-e.sending
		if e.sendErr != nil && !errors.Is(e.sendErr, net.ErrClosed) {
			err = e.sendErr
		}
	}
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return &backend.Failure{Status: http.StatusGatewayTimeout, Reason: "is not answered for: the gateway is silent"}
	}
	return &backend.Failure{Status: http.StatusBadGateway, Reason: "is not answered for: the gateway broke off (" + err.Error() + ")"}
}

func decodeFailure(d decoder) error {
	f := &backend.Failure{Status: int(d.number()), Reason: d.text()}
	if err := d.end(); err != nil || f.Status < 400 || f.Status > 599 {
		return &backend.Failure{Status: http.StatusBadGateway, Reason: errProtocol.Error()}
	}
	return f
}

// Waits says whether the next Read waits for the gateway rather than give what has
// come already, or an end that is known.
func (e *Exchange) Waits() bool { return !e.Ended() && e.left == 0 && e.r.br.Buffered() == 0 }

// Ended says whether a body of stated length has been read whole.
func (e *Exchange) Ended() bool { return e.Length >= 0 && e.read == e.Length }

// Read reads the response's body, as it comes. It ends with io.EOF, or with a
// *[backend.Failure] where the response broke off.
func (e *Exchange) Read(p []byte) (int, error) {
	for e.err == nil && e.left == 0 {
		if !e.Switched { // a WebSocket may be silent for as long as it likes
			if err := e.conn.SetReadDeadline(time.Now().Add(e.patience.Silence)); err != nil {
				e.err = e.broken(err)
				break
			}
		}
		kind, size, err := e.r.next()
		switch {
		case err != nil:
			e.err = e.broken(err)
		case kind == frameData:
			e.left = size
		case kind == frameEnd, kind == frameFailure:
			e.err = e.finish(kind, size)
		default:
			e.err = e.broken(errProtocol)
		}
	}
	if e.err != nil {
		return 0, e.err
	}
	n, err := e.r.br.Read(p[:min(len(p), e.left)])
	e.left -= n
	e.read += int64(n)
	if err != nil {
		e.err = e.broken(err)
		return n, e.err
	}
	return n, nil
}

func (e *Exchange) finish(kind byte, size int) error {
	d, err := e.r.payload(size)
	if err != nil {
		return e.broken(err)
	}
	if kind == frameFailure {
		return decodeFailure(d)
	}
	e.Trailers = d.fields()
	if err := d.end(); err != nil {
		return e.broken(err)
	}
	return io.EOF
}

// Conn gives the two directions after a switch of protocols. Close still has to be
// called.
func (e *Exchange) Conn() (backend.Conn, io.Reader, error) {
	<-e.sending // the request had no body
	return &stream{Conn: e.conn}, e, e.conn.SetDeadline(time.Time{})
}

// Close ends the exchange. A connection on which everything was said is kept for the
// next one. When it returns nobody reads the request's body any more.
func (e *Exchange) Close() {
	if e.err == io.EOF && e.started && !e.webSocket && e.r.br.Buffered() == 0 {
		if backend.Sent(e.sending) && e.sendErr == nil && e.unwatch() {
			e.client.give(e.conn)
			return
		}
	}
	e.unwatch()
	_ = e.conn.NetConn().Close() // everything was read, or is given up
	if e.started {
		<-e.sending
	}
}

// stream writes one direction of a switched connection.
type stream struct {
	net.Conn
	buf []byte
}

// Write sends p in frames.
func (s *stream) Write(p []byte) (int, error) {
	if s.buf == nil {
		s.buf = make([]byte, maxData+frameHeader)
	}
	sent := 0
	for len(p) > 0 {
		n := copy(s.buf[frameHeader:], p)
		if err := writeData(s.Conn, s.buf, n); err != nil {
			return sent, err
		}
		p, sent = p[n:], sent+n
	}
	return sent, nil
}

// CloseWrite says that nothing more comes in this direction.
func (s *stream) CloseWrite() error {
	_, err := s.Conn.Write([]byte{frameEnd, 0, 0, 0, 0})
	return err
}

// writeData sends n bytes that stand behind room for the frame's header in buf.
func writeData(w io.Writer, buf []byte, n int) error {
	buf[0], buf[1], buf[2], buf[3], buf[4] = frameData, byte(n>>24), byte(n>>16), byte(n>>8), byte(n)
	_, err := w.Write(buf[:frameHeader+n])
	return err
}
