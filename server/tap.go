package server

import (
	"errors"
	"io"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/linuxarena/ctis/server/wire"
)

// tap stands between a connection and net/http's HTTP/1 parser. The rules:
//
//   - A head reaches the parser whole, and only if package wire accepts it. What
//     it does not accept is recorded and answered here.
//   - No Read crosses from one message into the next, except for the single
//     byte net/http reads ahead to notice that a client is gone.
//   - Bytes that never become a request give exactly one record.
//   - Deadlines are those of the tap: net/http's own know nothing of progress.
//
// One goroutine reads at a time, and what is written comes from the goroutine
// that serves the connection; mu guards only what net/http does beside them.
type tap struct {
	*link
	writer // response side, in tapwrite.go

	phase   phase
	in      []byte    // received and not yet passed on
	room    []byte    // empty; what in begins at again once all of it was passed on
	given   int       // 1 when the read-ahead took the head's first byte
	scanned int       // bytes of in known to hold no end of head
	blank   []byte    // line ends skipped before the head, the first of them
	since   time.Time // when those began to come
	first   time.Time // when the present message's first byte came
	count   int       // messages so far
	pass    []byte    // of the head, still to be passed on
	current *message  // the one that was passed on last, in slot
	whole   bool      // its handler has read all of it
	seat    seat      // of who works on it
	slot    message
	header  http.Header // of the response, kept from one to the next
	body    wire.Body
	fault   *wire.Refusal // of the body
	err     error         // ends all reading

	mu      sync.Mutex
	aborted bool      // net/http wants a blocked Read to return
	busy    bool      // a handler runs
	reading bool      // a Read of the connection may be blocked
	armed   time.Time // the connection's read deadline

	served atomic.Bool // a handler is to begin, or has not ended
	raw    atomic.Bool // the connection was hijacked
}

type phase uint8

const (
	phaseHead phase = iota
	phasePass
	phaseBody
)

func newTap(l *link) *tap { return &tap{link: l, seat: seat{tenant: l.tenant}} }

// Close also gives back the seat of whoever worked on the last message.
func (t *tap) Close() error {
	t.seat.yield()
	return t.link.Close()
}

// Read passes on what net/http may see.
func (t *tap) Read(p []byte) (int, error) {
	if t.hijacked() {
		return t.readRaw(p)
	}
	for {
		if t.err != nil {
			return 0, t.err
		}
		switch t.phase {
		case phaseHead:
			t.skipBlank()
			if len(p) == 1 && t.given == 0 && len(t.in) > 0 {
				p[0], t.given = t.in[0], 1
				return 1, nil
			}
			if end := wire.EndOfHead(t.in, t.scanned); end > 0 {
				t.begin(end)
				continue
			}
			if refusal := wire.Hopeless(t.in); refusal != nil {
				t.count++
				t.refuse(nil, t.in, refusal)
				continue
			}
			t.scanned = len(t.in)
			if len(t.in) >= wire.MaxHead {
				t.refuseUnfinished()
				continue
			}
			if err := t.fill(); err != nil {
				return 0, t.interrupted(err)
			}
		case phasePass:
			n := copy(p, t.pass)
			if t.pass = t.pass[n:]; len(t.pass) == 0 {
				t.phase = phaseBody
			}
			return n, nil
		case phaseBody:
			if t.body.Done() {
				t.next()
				continue
			}
			return t.readBody(p)
		}
	}
}

// begin looks at a complete head.
func (t *tap) begin(end int) {
	t.seat.take()
	raw := t.in[:end:end]
	head, refusal := wire.ParseHead(raw)
	if refusal != nil && head != nil { // what nginx refuses, another server may take
		head, refusal = wire.ParseHeadFor(raw, t.nameFor(t.named(head)))
	}
	if refusal == nil && t.misplaced {
		refusal = &wire.Refusal{Status: wire.StatusPlainToTLS, Reason: "plain http on the tls port"}
	}
	t.count++
	if refusal != nil {
		t.refuse(head, raw, refusal)
		return
	}
	t.current, t.fault, t.whole = t.message(head), nil, false
	t.body.Reset(head)
	t.pass = head.Forward(raw)[t.given:]
	t.in = t.in[end:]
	t.phase = phasePass
	t.served.Store(true)
	t.expectHandler()
}

// refuseUnfinished answers a head that is longer than any that is collected.
func (t *tap) refuseUnfinished() {
	t.count++
	head, refusal := wire.ParseHead(t.in)
	if refusal == nil || refusal.Status == http.StatusBadRequest && head != nil {
		refusal = &wire.Refusal{Status: wire.StatusHeaderTooLarge, Reason: "header does not end within the bytes that are collected"}
	}
	t.refuse(head, t.in, refusal)
}

// refuse records the message, answers it and ends the connection.
func (t *tap) refuse(head *wire.Head, raw []byte, refusal *wire.Refusal) {
	t.err = io.EOF // net/http closes on it without a word
	t.answer(head, raw, refusal, t.first)
}

func (t *tap) readBody(p []byte) (int, error) {
	if t.fault != nil {
		t.err = t.fault
		return 0, t.err
	}
	n := copy(p, t.in)
	if n > 0 {
		t.in = t.in[n:]
	} else {
		var err error
		t.seat.yield()
		n, err = t.receive(p)
		if t.served.Load() {
			t.seat.take()
		}
		if n == 0 && err != nil {
			if !errors.Is(err, os.ErrDeadlineExceeded) || !t.isAborted() {
				t.err = err
			}
			return 0, err
		}
	}
	k, fault := t.body.Scan(p[:n])
	t.fault = fault
	if k < n {
		t.in = append(append(make([]byte, 0, n-k+len(t.in)), p[k:n]...), t.in...)
	}
	if k == 0 && fault != nil {
		t.err = fault
		return 0, t.err
	}
	return k, nil
}

// offence is why the body is malformed, and the bytes from there on.
func (t *tap) offence() (reason string, raw []byte) {
	if t.fault == nil {
		return "", nil
	}
	return t.fault.Reason, append(append(raw, t.body.Line()...), t.in...)
}

// next is the boundary between two messages.
func (t *tap) next() {
	t.phase, t.given, t.scanned, t.blank = phaseHead, 0, 0, nil
	t.first, t.since = time.Time{}, time.Time{}
	if len(t.in) > 0 {
		t.first = t.server.now()
	}
}

func (t *tap) skipBlank() {
	if t.given > 0 || t.scanned > 0 {
		return
	}
	n := wire.LeadingBlank(t.in)
	if n == 0 {
		return
	}
	if len(t.blank) == 0 {
		t.blank = append(t.blank, t.in[:n]...)
	}
	if t.since.IsZero() {
		t.since = t.first
	}
	if t.in = t.in[n:]; len(t.in) == 0 {
		t.first = time.Time{} // the message has not begun
	}
}

// fill receives more of a head.
func (t *tap) fill() error {
	if len(t.in) == 0 {
		t.in = t.room // of the head before, nothing is referred to any more
	}
	if cap(t.in)-len(t.in) < 512 {
		t.in = append(make([]byte, 0, max(4<<10, min(2*cap(t.in), wire.MaxHead+512))), t.in...)
		if t.room == nil {
			t.room = t.in[:0]
		}
	}
	if !t.served.Load() { // else this is net/http looking whether the client is still there
		t.seat.yield()
	}
	n, err := t.receive(t.in[len(t.in):cap(t.in)])
	if n > 0 && t.first.IsZero() {
		t.first = t.server.now()
	}
	t.in = t.in[:len(t.in)+n]
	if n > 0 {
		return nil // an error beside data comes again
	}
	return err
}

// interrupted judges the end of reading in a head.
func (t *tap) interrupted(err error) error {
	timeout := errors.Is(err, os.ErrDeadlineExceeded)
	if timeout && t.isAborted() {
		return err // net/http only wanted the Read to return
	}
	t.err = err
	raw, start := t.in, t.first
	if len(raw) == 0 {
		if len(t.blank) == 0 || t.count > 0 {
			return err // line ends after a message mean nothing
		}
		raw, start = t.blank, t.since
	}
	reason := "connection was closed before the end of a request head"
	if timeout {
		reason = "timed out before the end of a request head"
	}
	t.count++
	head, _ := wire.ParseHead(raw)
	t.unanswered(head, raw, reason, start)
	return err
}

// message is what the handler of head will be told. It is made before the
// handler and the read-ahead run side by side.
func (t *tap) message(h *wire.Head) *message {
	m := &t.slot
	*m = message{
		start: t.first, head: h, method: h.Method, target: h.Target, proto: h.Proto, host: h.Host, fields: h.Fields,
		turn: wire.Turn{Minor: h.Minor, Asked: h.KeepAlive, Close: h.Close},
	}
	if h.Authority != "" {
		m.host = h.Authority
	}
	return m
}

// enter: see carrier.
func (t *tap) enter(*http.Request) *message {
	t.mu.Lock()
	t.busy = true
	t.mu.Unlock()
	t.expectResponse(t.current.turn)
	return t.current
}

// scratch: see carrier. Messages of a connection follow one another, and all of
// them are one tenant's, so they can share it.
func (t *tap) scratch() http.Header {
	const ordinary = 16 // fields
	if t.header == nil || len(t.header) > ordinary {
		t.header = make(http.Header, 8)
	}
	clear(t.header)
	return t.header
}

func (t *tap) leave() {
	t.served.Store(false)
	t.seat.yield() // the response is still to be sent
	t.mu.Lock()
	t.busy = false
	t.mu.Unlock()
}
