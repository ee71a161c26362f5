package gateway

import "encoding/binary"

// frames passes on what an upstream sends over a WebSocket (RFC 6455 §5), with the
// secret masked in what the frames hold: their headers between two halves of it hide
// nothing. Every frame keeps its length and goes on whole when it has come whole, so
// that no message waits for the next one. Where a frame ends within what may be the
// secret, as much of it is masked as at the end of a stream, and the next frames are
// read as its continuation: of a secret that is cut up, less than halfOpen bytes pass.
//
// Messages and control frames are two streams, because one may come within the other.
// Bits that only an extension gives a meaning are refused: none was agreed on, and what
// is compressed cannot be looked into.
type frames struct {
	to            func([]byte) error
	data, control *redactor

	head    []byte    // of the present frame, as far as it has come
	held    []byte    // head, until it goes on in front of the first of what it heads
	current *redactor // takes what the present frame holds; nil between frames
	left    uint64    // bytes of it that have not come
	mask    []byte    // its masking key, empty for none
	in, out uint64    // bytes of it taken and passed on
}

// errNoWebSocket ends a connection that is not what it was switched to.
var errNoWebSocket = bad("sends what is no WebSocket, or one with an extension it was not asked for")

func newFrames(s *secret, to func([]byte) error) *frames {
	f := &frames{to: to}
	f.data, f.control = newRedactor(s, f.emit), newRedactor(s, f.emit)
	return f
}

// Write takes a piece of the stream. It changes p. Its error is that of passing on, or
// [errNoWebSocket].
func (f *frames) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		if f.current == nil {
			f.head, p = append(f.head, p[0]), p[1:]
			if err := f.begin(); err != nil {
				return 0, err
			}
			continue
		}
		piece := p[:min(uint64(len(p)), f.left)]
		p, f.left = p[len(piece):], f.left-uint64(len(piece))
		f.in = f.xor(piece, f.in)
		if _, err := f.current.Write(piece); err != nil {
			return 0, err
		}
		if err := f.finish(); err != nil {
			return 0, err
		}
	}
	return n, nil
}

// begin looks whether the frame's header is whole, and reads it.
func (f *frames) begin() error {
	const final, reserved, isControl, masked = 0x80, 0x70, 0x08, 0x80
	h := f.head
	if h[0]&reserved != 0 || h[0]&0x07 > 2 {
		return errNoWebSocket
	}
	if len(h) < 2 {
		return nil
	}
	size, at := uint64(h[1]&0x7f), 2
	if h[0]&isControl != 0 && (size > 125 || h[0]&final == 0) {
		return errNoWebSocket
	}
	switch size {
	case 126:
		at += 2
	case 127:
		at += 8
	}
	if f.mask = nil; h[1]&masked != 0 {
		at += 4
	}
	if len(h) < at {
		return nil
	}
	if h[1]&masked != 0 {
		f.mask = append(f.mask, h[at-4:]...)
	}
	switch size {
	case 126:
		size = uint64(binary.BigEndian.Uint16(h[2:]))
	case 127:
		if size = binary.BigEndian.Uint64(h[2:]); size>>63 != 0 {
			return errNoWebSocket
		}
	}
	f.held, f.head = h, nil
	f.left, f.in, f.out = size, 0, 0
	if f.current = f.data; h[0]&isControl != 0 {
		f.current = f.control
	}
	return f.finish()
}

// finish ends the frame if all of it has come. Nothing of it is left when the next one
// begins.
func (f *frames) finish() error {
	if f.left > 0 {
		return nil
	}
	if err := f.current.flush(); err != nil {
		return err
	}
	f.current = nil
	if len(f.held) > 0 {
		return f.emit(nil) // it holds nothing
	}
	return nil
}

// emit passes on a piece of what the frame holds, behind its header.
func (f *frames) emit(p []byte) error {
	b := append(f.held, p...)
	f.out = f.xor(b[len(f.held):], f.out)
	f.held = nil
	return f.to(b)
}

// xor masks or unmasks b, which stands at a place in what the frame holds, and says
// where the next piece does.
func (f *frames) xor(b []byte, at uint64) uint64 {
	if len(f.mask) > 0 {
		for i := range b {
			b[i] ^= f.mask[(at+uint64(i))%4]
		}
	}
	return at + uint64(len(b))
}

// end is the end of the stream. What has come of a frame that was broken off goes on.
func (f *frames) end() error {
	if f.current != nil {
		return f.current.flush()
	}
	if len(f.head) > 0 {
		return f.to(f.head)
	}
	return nil
}
