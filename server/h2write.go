package server

import (
	"encoding/binary"
	"errors"
	"strings"
	"time"

	"github.com/linuxarena/ctis/server/wire"
)

// writing is what goes to the client.
type writing struct {
	greeted  bool
	settings bool // net/http's came
	muted    bool // nothing is sent any more
	decoded  *wire.Decoder
	rest     []byte // of a frame net/http has not written whole
	packet   []byte
	head     []byte // header block of net/http that has not ended
	over     bool   // END_STREAM of it
}

// greeting is what nginx sends first: at most 128 streams, 64 KiB each, frames
// as long as can be; and the connection's window as wide as can be. net/http
// keeps the same limit of a stream, but says other things, so what it says is
// kept back.
var greeting = func() []byte {
	const widen = 1<<31 - 1 - (64<<10 - 1)
	var settings []byte
	for _, s := range []struct {
		id    uint16
		value uint32
	}{{0x3, h2Streams}, {0x4, h2Window}, {0x5, 1<<24 - 1}} {
		settings = binary.BigEndian.AppendUint16(settings, s.id)
		settings = binary.BigEndian.AppendUint32(settings, s.value)
	}
	b := wire.AppendFrame(nil, wire.FrameSettings, 0, 0, settings...)
	return wire.AppendCode(b, wire.FrameWindowUpdate, 0, widen)
}()

// greet speaks first, before the client said anything.
func (f *framed) greet() {
	f.outMu.Lock()
	first := !f.greeted
	f.greeted = true
	f.outMu.Unlock()
	if first {
		f.inject(greeting, false)
	}
}

// inject sends frames of our own, between two of net/http's.
func (f *framed) inject(frames []byte, last bool) {
	f.outMu.Lock()
	defer f.outMu.Unlock()
	if f.muted {
		return
	}
	f.muted = last
	if f.Conn.SetWriteDeadline(time.Now().Add(f.server.limits.WriteProgress)) != nil {
		return // the connection is closed
	}
	_, _ = f.Conn.Write(frames) // the next read or write sees the error
}

// Write sends net/http's frames: whole ones only, so that others can go between.
func (f *framed) Write(p []byte) (int, error) {
	f.outMu.Lock()
	defer f.outMu.Unlock()
	if f.muted {
		return len(p), nil
	}
	in := p
	if len(f.rest) > 0 {
		f.rest = append(f.rest, p...)
		in = f.rest
	}
	f.packet = f.packet[:0]
	for len(in) >= wire.FrameSize {
		h := wire.ParseFrame(in)
		if len(in) < wire.FrameSize+h.Length {
			break
		}
		if err := f.forward(h, in[:wire.FrameSize+h.Length]); err != nil {
			return 0, err
		}
		in = in[wire.FrameSize+h.Length:]
	}
	f.rest = append(f.rest[:0], in...)
	if len(f.packet) > 0 {
		if _, err := f.Conn.Write(f.packet); err != nil {
			return 0, err
		}
	}
	if cap(f.packet) > 2*holdLimit {
		f.packet = nil
	}
	return len(p), nil
}

// forward puts a frame of net/http's into the packet, as it shall be sent.
func (f *framed) forward(h wire.Frame, frame []byte) error {
	payload := frame[wire.FrameSize:]
	switch h.Type {
	case wire.FrameHeaders, wire.FrameContinuation:
		return f.respond(h, payload)
	case wire.FrameData:
		if h.Has(wire.FlagEndStream) {
			f.change(h.Stream, func(s *stream) { s.answered = true })
		}
	case wire.FrameRSTStream:
		f.serverReset(h.Stream, binary.BigEndian.Uint32(payload))
	case wire.FrameGoAway:
		if code := binary.BigEndian.Uint32(payload[4:]); code != 0 {
			f.noteFailure("http/2: connection error "+wire.ErrorName(code), nil, f.start)
		}
	case wire.FrameSettings:
		if !f.settings && !h.Has(wire.FlagAck) {
			f.settings = true
			return nil
		}
	case wire.FrameWindowUpdate:
		if h.Stream == 0 {
			return nil // see window
		}
	}
	f.packet = append(f.packet, frame...)
	return nil
}

// respond encodes a response's head anew, in the order of the server it names.
func (f *framed) respond(h wire.Frame, payload []byte) error {
	f.head = append(f.head, payload...)
	if h.Type == wire.FrameHeaders {
		f.over = h.Has(wire.FlagEndStream)
	}
	if !h.Has(wire.FlagEndHeaders) {
		return nil
	}
	fields, cut, err := f.decoded.Decode(f.head, 64<<20)
	f.head = f.head[:0]
	if err != nil || cut {
		return errors.Join(errors.New("response head cannot be read"), err)
	}
	if f.over {
		f.change(h.Stream, func(s *stream) { s.answered = true })
	}
	var block []byte
	if f.resized.Swap(false) {
		block = wire.AppendTableUpdate(block)
	}
	name, powered, final := "", "", true
	for _, field := range fields {
		switch field[0] {
		case "server":
			name = field[1]
		case "x-powered-by": // by which Express names itself
			if wire.Identity(field[1]) != "Server" {
				powered = field[1]
			}
		case ":status":
			final = field[1][0] != '1'
		}
	}
	if len(fields) > 0 && fields[0][0] == ":status" {
		block = wire.AppendResponseField(block, fields[0][0], fields[0][1])
		if fields = fields[1:]; final {
			switch {
			case name != "":
			case powered != "":
				name = powered
			default:
				name = f.tenant.serverHeader()
				fields = append(fields, [2]string{strings.ToLower(wire.Identity(name)), name})
			}
			wire.DialectOf(name).Sort(fields)
		}
	}
	for _, field := range fields {
		block = wire.AppendResponseField(block, field[0], field[1])
	}
	f.packet = wire.AppendBlock(f.packet, h.Stream, block, f.over)
	return nil
}
