package conduit

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/linuxarena/ctis/server/backend"
)

// Handler answers one request. It calls Head or Fail of the call, once.
type Handler func(ctx context.Context, c *Call)

// Server is the gateway's end.
type Server struct {
	Identity *Identity
	Peer     func() string // fingerprint of the one peer; "": none yet
	Handle   Handler
	Log      *slog.Logger
	// Handshake bounds how long a peer takes to show who it is; 0 is 10 s.
	Handshake time.Duration

	mu    sync.Mutex
	conns map[net.Conn]struct{}
	ended bool
	work  sync.WaitGroup
}

// maxConns bounds the connections. Each is one request at a time.
const maxConns = 8192

// maxDrain is how much of a body nobody wants is still read, in bytes, so that the
// connection can be used again.
const maxDrain = 1 << 20

// Serve accepts connections until l is closed; the calls end when ctx does. It waits
// for them.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	config := s.Identity.config(s.Peer)
	defer s.work.Wait()
	defer s.closeAll()
	for {
		c, err := l.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return nil
		case err != nil:
			s.Log.Warn("a connection over the link was not accepted", "error", err)
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(50 * time.Millisecond): // too many files, most likely
			}
			continue
		}
		if !s.enter(c) {
			_ = c.Close() // there are too many, or the server ends
			continue
		}
		s.work.Go(func() {
			defer s.leave(c)
			s.serve(ctx, tls.Server(c, config))
		})
	}
}

func (s *Server) enter(c net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended || len(s.conns) >= maxConns {
		return false
	}
	if s.conns == nil {
		s.conns = map[net.Conn]struct{}{}
	}
	s.conns[c] = struct{}{}
	return true
}

func (s *Server) leave(c net.Conn) {
	_ = c.Close() // whatever was to be said was said
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
}

func (s *Server) closeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	for c := range s.conns {
		_ = c.Close() // wakes whoever waits on it
	}
}

// serve carries exchanges over one connection until it ends.
func (s *Server) serve(ctx context.Context, c *tls.Conn) {
	patience := s.Handshake
	if patience == 0 {
		patience = 10 * time.Second
	}
	shake, cancel := context.WithTimeout(ctx, patience)
	err := c.HandshakeContext(shake)
	cancel()
	if err != nil {
		s.Log.Warn("a connection over the link was refused", "peer", c.RemoteAddr().String(), "error", err)
		return
	}
	r := reader{bufio.NewReaderSize(c, maxData+frameHeader)}
	for ctx.Err() == nil {
		kind, size, err := r.next()
		if err != nil || kind != frameOpen {
			return
		}
		d, err := r.payload(size)
		if err != nil {
			return
		}
		open, err := decodeOpen(d)
		if err != nil {
			s.Log.Warn("a request over the link cannot be read", "error", err)
			return
		}
		if !s.exchange(ctx, c, r, open) {
			return
		}
	}
}

// exchange has one request handled; false when the connection is of no more use.
func (s *Server) exchange(ctx context.Context, c *tls.Conn, r reader, open *Open) bool {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	body, feed := io.Pipe()
	call := &Call{Open: open, Body: body, conn: c}
	received := make(chan error, 1)
	go func() {
		err := r.feed(feed)
		if err != nil && !errors.Is(err, errUnwanted) {
			cancel() // the simulator has lost interest, or is gone
		}
		received <- err
	}()
	s.Handle(ctx, call)
	_ = body.Close() // what is left of it is read away
	if !call.ended || call.failed != nil {
		_ = c.NetConn().Close() // wakes who reads; half a response must not look like a whole one
		<-received
		return false
	}
	err := <-received
	if errors.Is(err, errUnwanted) {
		linger(c)
	}
	return err == nil // the next request has begun
}

// errUnwanted is more of a body that nobody wants than is read away.
var errUnwanted = errors.New("more of the body than is read away")

// lingerTime is how long what still comes is read when a response is whole and its
// request is not.
const lingerTime = 2 * time.Second

// linger ends a connection in order. Closed while bytes come in, it would be reset, and
// the reset could reach the simulator before the response has been read (RFC 9112 §9.6).
func linger(c *tls.Conn) {
	_ = c.CloseWrite() // the simulator may be gone
	if tcp, ok := c.NetConn().(*net.TCPConn); ok {
		_ = tcp.CloseWrite()
	}
	if c.NetConn().SetReadDeadline(time.Now().Add(lingerTime)) == nil {
		_, _ = io.Copy(io.Discard, c.NetConn()) // until the simulator, which has the response, closes
	}
}

// feed passes a request's body on, then waits for the first byte of the next request.
// An error says that the connection has ended, or must.
func (r reader) feed(to *io.PipeWriter) error {
	drained := 0
	buf := make([]byte, maxData)
	for {
		kind, size, err := r.next()
		switch {
		case err != nil:
		case kind == frameEnd && size == 0:
			_ = to.Close() // never fails
			_, err := r.br.Peek(1)
			return err
		case kind != frameData:
			err = errProtocol
		default:
			_, err = io.ReadFull(r.br, buf[:size])
		}
		if err != nil {
			_ = to.CloseWithError(io.ErrUnexpectedEOF) // never fails
			return err
		}
		if _, err := to.Write(buf[:size]); err != nil {
			if drained += size; drained > maxDrain {
				return errUnwanted
			}
		}
	}
}

// Call is one request at the gateway.
type Call struct {
	*Open
	// Body is the request's, or the client's direction after a switch of protocols.
	Body io.ReadCloser

	conn   *tls.Conn
	buf    []byte
	ended  bool
	failed error // of writing
}

// writeProgress bounds how long the simulator takes to accept one piece.
const writeProgress = 2 * time.Minute

func (c *Call) write(b []byte) error {
	if c.failed != nil {
		return c.failed
	}
	if c.failed = c.conn.SetWriteDeadline(time.Now().Add(writeProgress)); c.failed == nil {
		_, c.failed = c.conn.Write(b)
	}
	return c.failed
}

// Start sends the response's head.
func (c *Call) Start(h *Head) error {
	b, err := h.encode()
	if err != nil {
		return err
	}
	return c.write(b)
}

// Write sends a piece of the response's body, at once.
func (c *Call) Write(p []byte) (int, error) {
	if c.buf == nil {
		c.buf = make([]byte, maxData+frameHeader)
	}
	sent := 0
	for len(p) > 0 {
		n := copy(c.buf[frameHeader:], p)
		h := c.buf
		h[0], h[1], h[2], h[3], h[4] = frameData, byte(n>>24), byte(n>>16), byte(n>>8), byte(n)
		if err := c.write(h[:frameHeader+n]); err != nil {
			return sent, err
		}
		p, sent = p[n:], sent+n
	}
	return sent, nil
}

// End says that the response is whole.
func (c *Call) End(trailers [][2]string) error {
	e := newFrame(frameEnd)
	e.fields(trailers)
	b, err := e.frame()
	if err == nil {
		err = c.write(b)
	}
	c.ended = err == nil
	return err
}

// Fail says that there is no response, or no more of it. The reason is for the
// journal.
func (c *Call) Fail(f *backend.Failure) {
	e := newFrame(frameFailure)
	status := f.Status
	if status < 400 || status > 599 {
		status = http.StatusBadGateway
	}
	e.number(int64(status))
	e.text(f.Reason)
	if b, err := e.frame(); err == nil {
		c.ended = c.write(b) == nil
	}
}
