package backend

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httputil"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Exchange is one request to a backend and its response. One goroutine uses it.
type Exchange struct {
	// Known once [Exchange.Do] returned nil:
	Status int
	Fields [][2]string // end to end, order and case as sent
	// Switched says that the backend goes on with WebSocket; see [Exchange.Conn].
	Switched bool
	// Trailers are the fields after a chunked body, once Read returned io.EOF.
	Trailers [][2]string

	conn     Conn
	br       *bufio.Reader
	patience Patience
	method   string
	body     io.Reader
	left     int64 // of a body of stated length
	length   int64 // of it, -1 without
	read     int64
	chunked  bool
	goesOn   bool // the connection, after the response, as far as its head says
	err      error

	mu       sync.Mutex
	answered bool          // the head came: time for it runs no more
	started  bool          // somebody sends, or has
	sending  chan struct{} // closed when he is done
	sendErr  error         // set before sending is closed
	unwatch  func() bool
}

// readBuffer is how much of a response is received at once, in bytes.
const readBuffer = 8 << 10

// maxInterim bounds the 1xx responses before the one that counts. They are not
// passed on: nothing is said to a client before its request's outcome begins.
const maxInterim = 32

// Open connects to a backend. The connection is closed when ctx ends; Close must
// be called. Its error is a *[Failure], or ctx's.
func Open(ctx context.Context, r Route, p Patience) (*Exchange, error) {
	c, err := dial(ctx, r, p.Connect)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, err
	}
	return Over(ctx, c, p), nil
}

// Do sends the request with its body, of q.Length bytes, and reads the response's
// head. A backend that answers before it has taken the whole body is listened to
// while the rest is sent. The error is a *[Failure].
func (e *Exchange) Do(q *Request, body io.Reader) error {
	e.method = q.Method
	if err := e.wait(); err != nil {
		return failed(err, "before the request was sent")
	}
	e.started = true
	go func() {
		defer close(e.sending)
		if e.sendErr = e.send(q, body); errors.Is(e.sendErr, errBody) {
			_ = e.conn.Close() // half a request must not look like a whole one
		}
	}()
	for range maxInterim {
		h, err := readHead(e.br)
		if err != nil {
			return e.unanswered(err)
		}
		switch {
		case h.status == 101:
			return e.switched(h, q)
		case h.status >= 200:
			return e.accept(h)
		}
	}
	return bad("sent interim responses without end")
}

// unanswered tells why no head came, and how far the request had got.
func (e *Exchange) unanswered(err error) error {
	_ = e.conn.Close() // it is given up; whoever still sends ends
	<-e.sending
	during := "before the end of its response's head"
	switch {
	case errors.Is(e.sendErr, errBody):
		return bad("was not sent the whole request: " + e.sendErr.Error())
	case e.sendErr != nil:
		during = "before it had taken the request"
	}
	return failed(err, during)
}

// errBody is a request's body that cannot be read back.
var errBody = errors.New("its body cannot be read")

// pieceSize is how much of a body is sent under one deadline, in bytes.
const pieceSize = 1 << 20

// send writes the request. What it cannot write, the missing response tells.
func (e *Exchange) send(q *Request, body io.Reader) error {
	if err := e.conn.SetWriteDeadline(time.Now().Add(e.patience.Answer)); err != nil {
		return err
	}
	if _, err := e.conn.Write(q.Head()); err != nil {
		return err
	}
	for left := q.Length; left > 0; {
		if err := e.conn.SetWriteDeadline(time.Now().Add(e.patience.Answer)); err != nil {
			return err
		}
		n, err := io.CopyN(e.conn, body, min(left, pieceSize))
		if err != nil {
			return whose(err)
		}
		left -= n
		if err := e.wait(); err != nil {
			return err
		}
	}
	return nil
}

// whose tells a body that cannot be read from a backend that does not take it: the
// copying wraps both alike.
func whose(err error) error {
	for _, taker := range []error{syscall.ECONNRESET, syscall.EPIPE, syscall.ETIMEDOUT, syscall.EHOSTUNREACH, os.ErrDeadlineExceeded, net.ErrClosed} {
		if errors.Is(err, taker) {
			return err
		}
	}
	return fmt.Errorf("%w: %w", errBody, err)
}

// wait begins the time for the response's head anew, unless that has come.
func (e *Exchange) wait() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.answered {
		return nil
	}
	return e.conn.SetReadDeadline(time.Now().Add(e.patience.Answer))
}

// accept takes the head of the response.
func (e *Exchange) accept(h *head) error {
	f, err := h.framing(e.method)
	if err != nil {
		return err
	}
	e.mu.Lock()
	e.answered = true
	e.mu.Unlock()
	e.Status, e.Fields = h.status, EndToEnd(h.fields)
	e.length, e.left, e.chunked = f.length, f.length, f.chunked
	e.goesOn = h.minor > 0 && !named(h.fields)["close"] && (f.chunked || f.length >= 0)
	if f.chunked {
		e.body = httputil.NewChunkedReader(e.br)
	}
	return nil
}

// switched takes the head that ends HTTP on the connection.
func (e *Exchange) switched(h *head, q *Request) error {
	protocol := ""
	for _, f := range h.fields {
		if strings.EqualFold(f[0], "Upgrade") {
			protocol = f[1]
		}
	}
	if !q.WebSocket || !strings.EqualFold(protocol, "websocket") || !named(h.fields)["upgrade"] {
		return bad("switched to a protocol that was not asked for")
	}
	e.mu.Lock()
	e.answered = true
	e.mu.Unlock()
	e.Status, e.Fields, e.Switched = h.status, EndToEnd(h.fields), true
	return nil
}

// Waits says whether the next Read waits for the backend rather than give what has
// come already, or an end that is known.
func (e *Exchange) Waits() bool { return !e.Ended() && e.br.Buffered() == 0 }

// Ended says whether a body of stated length has been read whole.
func (e *Exchange) Ended() bool { return e.length >= 0 && e.left == 0 }

// Read reads the response's body, as it comes. It ends with io.EOF, or with a
// *[Failure] where the response broke off.
func (e *Exchange) Read(p []byte) (int, error) {
	if e.err == nil && e.Ended() {
		e.err = io.EOF
	}
	if e.err != nil {
		return 0, e.err
	}
	if err := e.conn.SetReadDeadline(time.Now().Add(e.patience.Silence)); err != nil {
		e.err = failed(err, "within its response")
		return 0, e.err
	}
	n, err := e.receive(p)
	e.read += int64(n)
	if err != nil {
		e.err = err
	}
	if n > 0 {
		return n, nil
	}
	return 0, err
}

func (e *Exchange) receive(p []byte) (int, error) {
	switch {
	case e.chunked:
		n, err := e.body.Read(p)
		if err == io.EOF {
			return n, e.trailers()
		}
		if err != nil {
			return n, failed(err, "within its chunked response")
		}
		return n, nil
	case e.length >= 0:
		n, err := e.br.Read(p[:min(int64(len(p)), e.left)])
		e.left -= int64(n)
		if err != nil && e.left > 0 {
			return n, failed(err, "within its response")
		}
		return n, nil
	}
	n, err := e.br.Read(p)
	if err != nil && err != io.EOF {
		return n, failed(err, "within its response")
	}
	return n, err
}

// trailers reads what is behind the last chunk.
func (e *Exchange) trailers() error {
	left := maxHead
	fields, err := readFields(e.br, &left)
	if err != nil {
		return failed(err, "within its response's trailers")
	}
	e.Trailers = EndToEnd(fields)
	return io.EOF
}

// Conn gives the connection away after a switch of protocols, and what was read
// ahead of it. Close still has to be called.
func (e *Exchange) Conn() (Conn, io.Reader, error) {
	<-e.sending // the request had no body
	return e.conn, e.br, e.conn.SetDeadline(time.Time{})
}

// Close ends the exchange and its connection. When it returns nobody reads the
// request's body any more.
func (e *Exchange) Close() {
	e.unwatch()
	_ = e.conn.Close() // everything was read, or is given up
	if e.started {
		<-e.sending
	}
}
