package server

import "github.com/linuxarena/ctis/server/wire"

// beginData looks at the header of a DATA frame. Its payload is passed on as it
// comes, in frames of ours: one of a client may be longer than net/http should
// hold in memory.
func (f *framed) beginData() {
	h := f.frame
	f.window(h.Length)
	s, idle := f.stream(h.Stream)
	switch {
	case idle:
		f.fail(wire.ProtocolError, "DATA for a stream that was not opened", nil, f.server.now())
	case h.Has(wire.FlagPadded) && h.Length == 0:
		f.fail(wire.FrameSizeError, "padded DATA without a length of padding", nil, f.server.now())
	case s == nil:
		// The client may not have heard yet that the stream is over.
		f.sink, f.framing = true, h.Length > 0
	case s.sent:
		f.mu.Lock()
		over := s.message != nil && s.message.fault != ""
		f.mu.Unlock()
		if !over {
			f.fail(wire.StreamClosed, "DATA after the end of a request", nil, f.server.now())
			return
		}
		f.sink, f.framing = true, h.Length > 0
	case h.Has(wire.FlagPadded):
		f.pad = -1 // its length comes first
	default:
		f.beginPayload(s)
	}
}

// beginPayload weighs the data of a frame against the declared length. f.left is
// what follows in the frame, f.pad of it no data.
func (f *framed) beginPayload(s *stream) {
	n := int64(f.left - f.pad)
	ended := f.frame.Has(wire.FlagEndStream)
	switch {
	case s.left >= 0 && n > s.left:
		// What was declared is the body, and the rest breaks it off.
		f.endBody("body is longer than content-length")
		f.relay(int(s.left), true)
	case s.left > n && ended:
		f.endBody("body is shorter than content-length")
		f.relay(int(n), true)
	case ended:
		f.endBody("")
		f.relay(int(n), true)
	default:
		if s.left >= 0 {
			s.left -= n
		}
		f.relay(int(n), false)
	}
}

// relay sets how much of the frame is passed on, and with the end of the
// request behind it or not.
func (f *framed) relay(n int, ended bool) {
	f.pad = f.left - n
	f.frame.Flags = 0
	if ended {
		f.frame.Flags = wire.FlagEndStream
	}
	if n > 0 {
		return
	}
	if ended {
		f.ready = wire.AppendFrame(f.ready, wire.FrameData, wire.FlagEndStream, f.frame.Stream)
	}
	f.sink = true
	f.framing = f.left > 0
}

// endBody notes that all of a request came, and what is wrong with it.
func (f *framed) endBody(fault string) {
	f.change(f.frame.Stream, func(s *stream) {
		s.sent = true
		if s.message != nil && fault != "" {
			s.message.fault = fault
		}
	})
}

// data passes on what came of a DATA frame.
func (f *framed) data() bool {
	if len(f.in) == 0 {
		return false
	}
	if f.pad < 0 {
		f.pad = int(f.in[0])
		f.in = f.in[1:]
		if f.left--; f.pad > f.left {
			f.fail(wire.ProtocolError, "padding is longer than its frame", nil, f.server.now())
			return true
		}
		s, _ := f.stream(f.frame.Stream)
		if s == nil {
			f.sink, f.framing = true, f.left > 0
			return true
		}
		// net/http counts padding too: it gets it first, for what follows can
		// then be cut anywhere.
		padding := make([]byte, 1+f.pad)
		padding[0] = byte(f.pad)
		f.ready = wire.AppendFrame(f.ready, wire.FrameData, wire.FlagPadded, f.frame.Stream, padding...)
		f.beginPayload(s)
		return true
	}
	n := min(len(f.in), f.left-f.pad)
	flags := byte(0)
	if f.left -= n; f.left == f.pad {
		flags = f.frame.Flags
		f.sink, f.framing = true, f.left > 0
	}
	f.ready = wire.AppendFrame(f.ready, wire.FrameData, flags, f.frame.Stream, f.in[:n]...)
	f.in = f.in[n:]
	return true
}

// drop skips what net/http shall not see of a frame.
func (f *framed) drop() bool {
	if len(f.in) == 0 {
		return false
	}
	n := min(len(f.in), f.left)
	f.in = f.in[n:]
	f.left -= n
	f.framing = f.left > 0
	return true
}

// window counts what was taken of the connection's window, and gives it back in
// one piece, rarely, as nginx does. So it is not what bounds a client: that is
// the window of each stream, which is net/http's.
func (f *framed) window(n int) {
	const refill = 1 << 30
	if f.used += n; f.used >= refill {
		f.inject(wire.AppendCode(nil, wire.FrameWindowUpdate, 0, uint32(f.used)), false)
		f.used = 0
	}
}
