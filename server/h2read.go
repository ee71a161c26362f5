package server

import (
	"errors"
	"io"
	"os"
	"time"

	"github.com/linuxarena/ctis/server/wire"
)

// reading is what comes from the client, on its way to net/http.
type reading struct {
	decoder  *wire.Decoder
	room     []byte // received into
	in       []byte // of it, not yet looked at
	ready    []byte // for net/http
	taken    int    // of ready
	prefaced int    // bytes of the preface that came
	settled  bool   // the first frame came
	armed    bool   // the connection has a read deadline of the block's

	framing bool // within a frame
	frame   wire.Frame
	left    int    // bytes of it that did not come yet
	part    []byte // its header, then its payload where that is needed whole
	most    int    // bytes of payload that are collected
	pad     int    // bytes of padding at the end of DATA
	sink    bool   // its payload is dropped
	used    int    // of the connection's window, not given back yet

	block block
	err   error // ends all reading
}

// smallFrame bounds the frames that are passed on whole: SETTINGS with as many
// entries as net/http takes.
const smallFrame = 100 * 6

// errBroken is the end of a connection that was told so.
var errBroken = errors.New("http/2 connection error")

// Read gives net/http the frames it may see.
func (f *framed) Read(p []byte) (int, error) {
	f.greet()
	for {
		f.inMu.Lock()
		n, err := f.next(p)
		f.inMu.Unlock()
		if err == errBroken { //nolint:errorlint // the value itself is the signal
			f.linger()
			err = io.EOF // net/http closes on it without a word
		}
		if n > 0 || err != nil {
			return n, err
		}
		if err := f.receive(); err != nil {
			f.inMu.Lock()
			f.broken(err)
			f.inMu.Unlock()
			return 0, err
		}
	}
}

// next passes on what is there. It gives nothing when more must be received.
func (f *framed) next(p []byte) (int, error) {
	for {
		if f.taken < len(f.ready) {
			n := copy(p, f.ready[f.taken:])
			f.taken += n
			return n, nil
		}
		f.ready, f.taken = f.ready[:0], 0
		if f.err != nil {
			return 0, f.err
		}
		if !f.step() {
			return 0, nil
		}
	}
}

// receive reads once from the connection. Only a header block has a deadline: a
// connection without one is net/http's to end, and bodies have their handler's.
func (f *framed) receive() error {
	f.inMu.Lock()
	var until time.Time
	if f.inHead() {
		until = time.Now().Add(f.server.limits.RequestHead - f.server.now().Sub(f.block.begun))
	}
	change := f.settled && (f.inHead() || f.armed)
	f.armed = f.inHead() || f.armed && !f.settled
	if f.room == nil {
		f.room = make([]byte, wire.MinFrame)
	}
	room := f.room
	f.inMu.Unlock()
	if change {
		if err := f.Conn.SetReadDeadline(until); err != nil {
			return err
		}
	}
	n, err := f.Conn.Read(room)
	if n == 0 && err != nil {
		return err
	}
	f.inMu.Lock()
	f.in = room[:n]
	f.inMu.Unlock()
	f.mu.Lock()
	f.tail = append(f.tail, room[max(0, n-rawLimit):n]...)
	if len(f.tail) > 2*rawLimit {
		f.tail = append(f.tail[:0], f.tail[len(f.tail)-rawLimit:]...)
	}
	f.mu.Unlock()
	return nil // an error beside data comes again
}

func (f *framed) inHead() bool {
	return f.block.stream != 0 || f.framing && f.frame.Type == wire.FrameHeaders
}

// broken judges the end of reading: a head that had begun is recorded.
func (f *framed) broken(err error) {
	if f.err != nil {
		return
	}
	f.err = io.EOF
	switch {
	case f.prefaced > 0 && f.prefaced < len(wire.Preface):
		f.noteFailure("http/2: connection was closed within the client's preface", nil, f.start)
	case f.inHead():
		reason := "http/2: connection was closed before the end of a request head"
		if errors.Is(err, os.ErrDeadlineExceeded) {
			reason = "http/2: timed out before the end of a request head"
		}
		f.noteFailure(reason, f.partialHead(), f.block.begun)
	}
}

// step looks at the next of the received bytes. It is false when more are
// needed.
func (f *framed) step() bool {
	switch {
	case f.prefaced < len(wire.Preface):
		return f.preface()
	case !f.framing:
		if !f.gather(wire.FrameSize) {
			return false
		}
		f.frame = wire.ParseFrame(f.part)
		f.part = f.part[:0]
		f.left, f.pad, f.sink, f.framing = f.frame.Length, 0, false, true
		f.begin()
		return true
	case f.sink:
		return f.drop()
	case f.frame.Type == wire.FrameData:
		return f.data()
	case !f.gather(min(f.frame.Length, f.most)):
		return false
	}
	payload := f.part
	f.part = f.part[:0]
	f.left -= len(payload)
	f.sink, f.framing = true, f.left > 0
	f.whole(payload)
	if cap(f.part) > 2*wire.MinFrame {
		f.part = nil
	}
	return true
}

// preface compares the client's first bytes.
func (f *framed) preface() bool {
	n := min(len(f.in), len(wire.Preface)-f.prefaced)
	if n == 0 {
		return false
	}
	if string(f.in[:n]) != wire.Preface[f.prefaced:f.prefaced+n] {
		f.fail(wire.ProtocolError, "the client's preface is missing", nil, f.start)
		return true
	}
	f.ready = append(f.ready, f.in[:n]...)
	f.in = f.in[n:]
	if f.prefaced += n; f.prefaced == len(wire.Preface) {
		f.armed = true // by net/http: ended before the next Read
	}
	return true
}

// gather collects size bytes in part.
func (f *framed) gather(size int) bool {
	n := min(size-len(f.part), len(f.in))
	f.part = append(f.part, f.in[:n]...)
	f.in = f.in[n:]
	return len(f.part) == size
}

// begin looks at a frame's header.
func (f *framed) begin() {
	h := f.frame
	broken := func(code uint32, reason string) { f.fail(code, reason, nil, f.server.now()) }
	if !f.settled {
		if f.settled = true; h.Type != wire.FrameSettings {
			broken(wire.ProtocolError, "the first frame is not SETTINGS")
			return
		}
	}
	if f.block.stream != 0 && (h.Type != wire.FrameContinuation || h.Stream != f.block.stream) {
		f.fail(wire.ProtocolError, "header block is interrupted", f.partialHead(), f.block.begun)
		return
	}
	if size := fixedSize(h.Type); size > 0 && h.Length != size {
		broken(wire.FrameSizeError, "frame has not the size of its type")
		return
	}
	f.most = smallFrame
	switch h.Type {
	case wire.FrameData:
		f.beginData()
	case wire.FrameHeaders:
		f.most = h2BlockLimit
		f.block.begun = f.server.now()
		if h.Stream == 0 {
			broken(wire.ProtocolError, "HEADERS without a stream")
		}
	case wire.FrameContinuation:
		f.most = h2BlockLimit
		if f.block.stream == 0 {
			broken(wire.ProtocolError, "CONTINUATION without a header block")
		}
	case wire.FramePushPromise:
		broken(wire.ProtocolError, "PUSH_PROMISE of a client")
	case wire.FrameSettings:
		if h.Length > smallFrame {
			broken(wire.EnhanceYourCalm, "SETTINGS longer than they can usefully be")
		}
	case wire.FrameGoAway:
		if h.Length < 8 || h.Stream != 0 {
			broken(wire.FrameSizeError, "GOAWAY is malformed")
		}
		f.most = 8 // its text means nothing to net/http
	case wire.FrameRSTStream, wire.FramePing, wire.FrameWindowUpdate, wire.FramePriority:
	default:
		f.sink, f.framing = true, h.Length > 0
	}
}

// fixedSize is what the payload of some types must have, 0 for the others.
func fixedSize(kind byte) int {
	switch kind {
	case wire.FramePriority:
		return 5
	case wire.FrameRSTStream, wire.FrameWindowUpdate:
		return 4
	case wire.FramePing:
		return 8
	}
	return 0
}

// whole takes a frame whose payload is there.
func (f *framed) whole(payload []byte) {
	h := f.frame
	switch h.Type {
	case wire.FrameHeaders, wire.FrameContinuation:
		f.fragment(payload)
		return
	case wire.FramePriority:
		return // means nothing any more (RFC 9113 §5.3.2)
	case wire.FrameGoAway:
		return // we open no streams, and the client may go on opening some (RFC 9113 §6.8); net/http would not serve them
	case wire.FrameRSTStream, wire.FrameWindowUpdate:
		s, idle := f.stream(h.Stream)
		if h.Stream == 0 && h.Type == wire.FrameWindowUpdate {
			break
		}
		if idle {
			f.fail(wire.ProtocolError, "frame for a stream that was not opened", nil, f.server.now())
			return
		}
		if s == nil {
			return
		}
		if h.Type == wire.FrameRSTStream {
			f.clientReset(h.Stream)
		}
	case wire.FrameSettings:
		for i := 0; i+6 <= len(payload); i += 6 {
			if payload[i] == 0 && payload[i+1] == wire.SettingTableSize {
				f.resized.Store(true)
			}
		}
	}
	f.ready = wire.AppendFrame(f.ready, h.Type, h.Flags, h.Stream, payload...)
}
