package server

import (
	"bytes"
	"io"
	"net/http"
	"time"

	"github.com/linuxarena/ctis/server/api"
	"github.com/linuxarena/ctis/server/wire"
)

// writer is the state of a tap's response side.
type writer struct {
	out    outState
	turn   wire.Turn
	name   string         // the Server header of the response
	held   []byte         // of a response head that is not complete
	ready  *readyResponse // to send in place of net/http's
	packet []byte
	until  time.Time // the connection's write deadline
}

type outState uint8

const (
	outNothing outState = iota // no handler runs: net/http has nothing to say
	outHead                    // a response head comes
	outBody                    // everything passes
	outEnd                     // everything was said: nothing passes
)

// pieceSize is how much is written under one deadline.
const pieceSize = 64 << 10

// Write puts response heads into the form of the imitated server. What net/http
// says by itself, before any handler, is recorded and said in that form too.
func (t *tap) Write(p []byte) (int, error) {
	if t.hijacked() {
		return t.Conn.Write(p)
	}
	switch t.out {
	case outEnd:
		return len(p), nil
	case outNothing:
		status := wire.StatusOf(p)
		if status < http.StatusBadRequest {
			status = http.StatusBadRequest
		}
		t.err = io.EOF
		t.answer(t.current.head, nil, &wire.Refusal{Status: status, Reason: "the http parser refuses the request"}, t.current.start)
		return len(p), nil
	case outBody:
		return t.send(p)
	}
	t.held = append(t.held, p...)
	for t.out == outHead {
		end := bytes.Index(t.held, []byte("\r\n\r\n"))
		if end < 0 {
			return len(p), nil
		}
		if t.ready != nil {
			t.out = outEnd // net/http believes there is no body
			if err := t.sendReady(t.held[:end+4]); err != nil {
				return 0, err
			}
			return len(p), nil
		}
		var status int
		t.packet, status = wire.RewriteHead(t.packet[:0], t.held[:end+4], t.name, t.turn)
		t.held = t.held[end+4:]
		if status >= http.StatusOK || status == http.StatusSwitchingProtocols {
			t.packet = append(t.packet, t.held...)
			t.held, t.out = t.held[:0], outBody
		}
		if _, err := t.send(t.packet); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// send writes to the connection. A reader that takes nothing for the time of a
// piece is given up.
func (t *tap) send(p []byte) (int, error) {
	t.seat.yield() // the client may take its time
	done := 0
	for {
		piece := p[done:min(len(p), done+pieceSize)]
		if err := t.awaitWrite(); err != nil {
			return done, err
		}
		n, err := t.Conn.Write(piece)
		if done += n; err != nil || done == len(p) {
			return done, err
		}
	}
}

// awaitWrite gives the next write at least WriteProgress. It asks for somewhat
// more, so that on a busy connection the deadline need not move for each.
func (t *tap) awaitWrite() error {
	now, limit := time.Now(), t.server.limits.WriteProgress
	if !t.until.Before(now.Add(limit)) {
		return nil
	}
	t.until = now.Add(limit + limit/8)
	return t.Conn.SetWriteDeadline(t.until)
}

// SetWriteDeadline leaves the deadlines of pieces alone.
func (t *tap) SetWriteDeadline(at time.Time) error {
	if t.hijacked() {
		return t.Conn.SetWriteDeadline(at)
	}
	return nil
}

// SetDeadline is called on hijacked connections.
func (t *tap) SetDeadline(at time.Time) error {
	if err := t.SetReadDeadline(at); err != nil {
		return err
	}
	return t.SetWriteDeadline(at)
}

// expectHandler: a request was passed on, and until its handler begins there is
// nothing to write.
func (t *tap) expectHandler() { t.out = outNothing }

func (t *tap) expectResponse(turn wire.Turn) {
	t.out, t.held, t.ready = outHead, t.held[:0], nil
	t.turn = wire.Turn{Minor: turn.Minor, Asked: turn.Asked, Close: turn.Minor == 0}
	t.name = t.tenant.serverHeader()
}

// readyResponse is a response that is complete. Its form in the dialect was
// needed for the record already, and its body is in memory, so net/http, which
// would only copy and measure it, hears of no response at all: the empty one it
// then makes says when to send this one, and whether the connection stays.
type readyResponse struct {
	status int
	fields [][2]string // arranged
	closes bool        // what they say about the connection
	body   []byte
	cut    bool // the body is less than the fields say, and the connection ends with it
}

func (t *tap) prepare(r *readyResponse) { t.ready = r }

// packetSize is up to where head and body are sent as one, and how much of a
// buffer a connection keeps.
const packetSize = 8 << 10

// sendReady sends the response that was prepared, at the head net/http wrote.
func (t *tap) sendReady(head []byte) error {
	r := t.ready
	t.ready = nil
	// net/http may decide otherwise about the connection: the server stops, or
	// bytes of the request were left.
	closes := bytes.Contains(head, []byte("\r\nConnection: close\r\n"))
	if t.turn.Minor == 0 {
		closes = !bytes.Contains(head, []byte("\r\nConnection: keep-alive\r\n"))
	}
	fields := r.fields
	if closes != r.closes {
		fields = wire.DialectOf(t.name).Arrange(fields, wire.Turn{Minor: t.turn.Minor, Asked: t.turn.Asked, Close: closes, Spelled: t.turn.Spelled})
	}
	t.packet = wire.AppendHeadTo(t.packet[:0], t.name, t.turn.Minor, r.status, fields)
	body := r.body
	if len(t.packet)+len(body) <= packetSize {
		t.packet, body = append(t.packet, body...), nil
	}
	_, err := t.send(t.packet)
	if err == nil && len(body) > 0 {
		_, err = t.send(body)
	}
	if cap(t.packet) > 2*packetSize {
		t.packet = nil
	}
	if err == nil && r.cut {
		t.linger()
		return errCut
	}
	return err
}

// speakAs names the server whose head the response gets.
func (t *tap) speakAs(serverHeader string) { t.name = serverHeader }

// answer records a message that is not served, answers it, and lets the answer
// arrive.
func (t *tap) answer(head *wire.Head, raw []byte, refusal *wire.Refusal, start time.Time) {
	t.out = outEnd
	p := t.named(head)
	name, method, host := t.nameFor(p), "", ""
	if head != nil {
		method, host = head.Method, head.Host
	}
	a := wire.RefusalAnswer(name, refusal, t.facts(t.hostFor(p), host, method, ""), t.server.now())
	if a.Silent {
		t.unanswered(head, raw, refusal.Reason, start)
		return
	}
	isHead := method == http.MethodHead
	body := a.Body
	if isHead {
		body = nil
	}
	r := t.malformed(head, raw, refusal.Reason, start)
	r.Persona = hostOf(p)
	r.Response = &api.Response{Status: a.Status, Headers: a.Fields, Body: digestOf(body)}
	if err := t.server.record(t.tenant, r); err != nil {
		a = wire.ErrorAnswer(name, http.StatusServiceUnavailable, t.server.now())
	}
	if _, err := t.send(a.Append(nil, name, isHead)); err != nil {
		return
	}
	t.linger()
}

// unanswered records a message that ended before it could be answered.
func (t *tap) unanswered(head *wire.Head, raw []byte, reason string, start time.Time) {
	t.out = outEnd
	r := t.malformed(head, raw, reason, start)
	r.Persona = hostOf(t.named(head))
	_ = t.server.record(t.tenant, r) // nobody waits for an answer; the store reports its state
}
