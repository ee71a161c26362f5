package server

import (
	"time"

	"github.com/linuxarena/ctis/server/wire"
)

// block is a header block that is coming: nothing else may come before its end.
type block struct {
	stream uint32 // 0 without one
	ended  bool   // END_STREAM
	bytes  []byte
	small  int // frames that held less than they could
	begun  time.Time
}

// fragment takes the payload of a HEADERS or CONTINUATION frame, or the
// beginning of one that is too long.
func (f *framed) fragment(p []byte) {
	h, b := f.frame, &f.block
	whole := len(p) == h.Length
	if h.Type == wire.FrameHeaders {
		b.stream, b.ended, b.small = h.Stream, h.Has(wire.FlagEndStream), 0
		b.bytes = b.bytes[:0]
		var ok bool
		if p, ok = unpad(h, p); !ok && whole {
			f.fail(wire.ProtocolError, "HEADERS is shorter than its padding and priority", nil, b.begun)
			return
		}
	}
	if h.Length < wire.MinFrame {
		b.small++
	}
	room := h2BlockLimit - len(b.bytes)
	b.bytes = append(b.bytes, p[:min(len(p), room)]...)
	switch {
	case !whole || len(p) > room:
		f.fail(wire.EnhanceYourCalm, "header block is longer than is collected", f.partialHead(), b.begun)
	case h.Has(wire.FlagEndHeaders):
		f.endBlock()
		b.stream = 0
		if cap(b.bytes) > 2*wire.MinFrame {
			b.bytes = nil
		}
	case b.small > h2Frames:
		f.fail(wire.EnhanceYourCalm, "header block comes in too many frames", f.partialHead(), b.begun)
	}
}

// unpad takes the padding and the priority away from HEADERS (RFC 9113 §6.2).
func unpad(h wire.Frame, p []byte) ([]byte, bool) {
	pad, priority := 0, 0
	if h.Has(wire.FlagPadded) {
		if len(p) == 0 {
			return nil, false
		}
		pad, p = int(p[0]), p[1:]
	}
	if h.Has(wire.FlagPriority) {
		priority = 5
	}
	if len(p) < pad+priority {
		return nil, false
	}
	return p[priority : len(p)-pad], true
}

// partialHead is what can be read of a block whose end does not come: the
// connection ends with it, so the decoder may be left where it stops.
func (f *framed) partialHead() *wire.Head {
	if f.block.stream == 0 && f.framing && f.frame.Type == wire.FrameHeaders {
		f.block.bytes, _ = unpad(wire.Frame{Flags: f.frame.Flags &^ wire.FlagPadded}, f.part)
		if f.frame.Has(wire.FlagPadded) && len(f.part) > 0 {
			f.block.bytes, _ = unpad(wire.Frame{Flags: f.frame.Flags &^ wire.FlagPadded}, f.part[1:])
		}
	} else if f.block.stream != 0 && f.frame.Type == wire.FrameContinuation {
		f.block.bytes = append(f.block.bytes, f.part...)
	}
	fields, _, _ := f.decoder.Decode(f.block.bytes, rawHeadLimit) // it ends within a field
	return headOf(fields)
}

// headOf is nil when fields say nothing.
func headOf(fields [][2]string) *wire.Head {
	if len(fields) == 0 {
		return nil
	}
	head, _, _ := wire.ParseH2(fields, false) // only what is in it counts
	return head
}

// endBlock decides what becomes of a block that is whole.
func (f *framed) endBlock() {
	b := &f.block
	fields, cut, err := f.decoder.Decode(b.bytes, rawHeadLimit)
	if err != nil {
		f.fail(wire.CompressionError, err.Error(), headOf(fields), b.begun)
		return
	}
	if b.stream%2 == 0 {
		f.fail(wire.ProtocolError, "HEADERS on a stream of the server", headOf(fields), b.begun)
		return
	}
	s, idle := f.stream(b.stream)
	switch {
	case idle:
		f.open(fields, cut)
	case s != nil && !s.sent:
		f.trailers(s, fields, cut)
	case s == nil && b.ended && !hasPseudo(fields):
		// Trailers of a request that was answered before its end.
	default:
		f.fail(wire.StreamClosed, "HEADERS on a stream that is over", headOf(fields), b.begun)
	}
}

func hasPseudo(fields [][2]string) bool {
	for _, f := range fields {
		if len(f[0]) > 0 && f[0][0] == ':' {
			return true
		}
	}
	return false
}

// open takes a request.
func (f *framed) open(fields [][2]string, cut bool) {
	b := &f.block
	head, declared, refusal := wire.ParseH2(fields, b.ended)
	var raw []byte
	if cut {
		refusal = &wire.Refusal{Status: wire.StatusHeaderTooLarge, Reason: "header is longer than is collected"}
		raw = b.bytes
	}
	size := fieldsSize(fields)
	f.mu.Lock()
	f.last = b.stream
	crowded := f.active >= h2Streams
	f.mu.Unlock()
	// A few bytes can stand for a long head (RFC 7541 §7), so what is open at once is bounded too.
	if f.tenant.heads.Add(size) > h2Heads || crowded {
		f.tenant.heads.Add(-size)
		f.refuseCrowded(b.stream, head, b.begun)
		f.inject(wire.AppendCode(nil, wire.FrameRSTStream, b.stream, wire.RefusedStream), false)
		return
	}
	s := &stream{bodied: !b.ended, sent: b.ended, left: declared, size: size}
	if refusal != nil {
		s.refused, s.left = f.refuse(b.stream, head, raw, refusal, b.begun), -1
	} else {
		s.message = &message{
			start: b.begun, method: head.Method, target: head.Target, proto: head.Proto, host: head.Host,
			fields: head.Fields, turn: wire.Turn{Minor: 1},
		}
		if head.Authority != "" {
			s.message.host = head.Authority
		}
	}
	f.mu.Lock()
	f.byID[b.stream] = s
	f.active++
	f.mu.Unlock()
	f.pass(s, head, fields)
}

// fieldsSize is what fields take in memory, as HPACK counts it (RFC 7541 §4.1).
func fieldsSize(fields [][2]string) (n int64) {
	for _, f := range fields {
		n += int64(len(f[0]) + len(f[1]) + 32)
	}
	return n
}

// pass encodes a request for net/http. What stands for a refused one has the
// method that decides about a body, and nothing else of it.
func (f *framed) pass(s *stream, head *wire.Head, fields [][2]string) {
	var out []byte
	put := func(name, value string) { out = wire.AppendField(out, name, value) }
	method, target := head.Method, head.Target
	if s.refused != nil {
		fields, target = nil, "/"
		if method != "HEAD" {
			method = "POST"
		}
	}
	put(":method", method)
	put(":scheme", "https")
	put(":path", target)
	if s.refused == nil && head.Authority != "" {
		put(":authority", head.Authority)
	}
	put("stream", streamNumber(f.block.stream))
	for _, field := range fields {
		// Trailers end here, so net/http need not know of them.
		if field[0][0] != ':' && field[0] != "trailer" {
			put(field[0], field[1])
		}
	}
	f.ready = wire.AppendBlock(f.ready, f.block.stream, out, f.block.ended)
}

// trailers takes the fields after a body. To net/http the body ends without:
// it would only take those that were announced.
func (f *framed) trailers(s *stream, fields [][2]string, cut bool) {
	id, ended := f.block.stream, f.block.ended
	fields, refusal := wire.ParseH2Trailers(fields)
	fault := ""
	switch {
	case cut:
		fault = "trailers are longer than are collected"
	case refusal != nil:
		fault = refusal.Reason
	case !ended:
		fault = "HEADERS within a body"
	case s.left > 0:
		fault = "body is shorter than content-length"
	}
	f.change(id, func(s *stream) {
		s.sent = true
		if s.message == nil {
			return
		}
		s.message.trailers = fields
		if fault != "" {
			s.message.fault = fault
		}
	})
	f.ready = wire.AppendFrame(f.ready, wire.FrameData, wire.FlagEndStream, id)
}
