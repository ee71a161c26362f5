package wire

import (
	"math"
	"strconv"
)

// Limits of chunked coding, in bytes: one size line with its extensions, and
// the trailer section. They are below those of net/http, so that this package
// refuses first.
const (
	maxChunkLine = 4000
	maxTrailer   = 4000
	maxExtras    = 8 << 10
)

// Body follows the body of one request through the bytes of a connection, so
// that the end of the message is known to the byte.
type Body struct {
	state   bodyState
	left    int64  // of the body, or of the present chunk
	line    []byte // the line being read
	trailer int    // bytes of trailer so far
	// Trailers are the fields after a chunked body; Extras are the chunk
	// extensions, one a line. Both are bounded.
	Trailers [][2]string
	Extras   []byte
}

type bodyState uint8

const (
	bodyDone bodyState = iota
	bodyLength
	chunkSize
	chunkData
	chunkEnd
	chunkTrailer
)

// Reset starts the body that h announces.
func (b *Body) Reset(h *Head) {
	*b = Body{line: b.line[:0]}
	switch {
	case h.Chunked:
		b.state = chunkSize
	case h.Length > 0:
		b.state, b.left = bodyLength, h.Length
	}
}

// Done says whether the last byte of the body has been seen.
func (b *Body) Done() bool { return b.state == bodyDone }

// Line is what has been seen of a size or trailer line that is not complete, or
// that was refused.
func (b *Body) Line() []byte { return b.line }

// Scan follows the body through p and gives the number of bytes that belong to
// it. It stops at the body's end, and with a refusal at the first byte that
// cannot be part of it.
func (b *Body) Scan(p []byte) (int, *Refusal) {
	n := 0
	for n < len(p) && b.state != bodyDone {
		switch b.state {
		case bodyLength, chunkData:
			k := int(min(b.left, int64(len(p)-n)))
			n += k
			if b.left -= int64(k); b.left > 0 {
				continue
			}
			if b.state == bodyLength {
				b.state = bodyDone
			} else {
				b.state = chunkEnd
			}
		default:
			c := p[n]
			if len(b.line) == 0 && b.state == chunkEnd && c != '\r' || len(b.line) == 1 && b.state == chunkEnd && c != '\n' {
				return n, &Refusal{Status: 400, Reason: "chunk data is not followed by a line end"}
			}
			if c != '\n' && len(b.line) > 0 && b.line[len(b.line)-1] == '\r' {
				return n, &Refusal{Status: 400, Reason: "carriage return inside a chunk line"}
			}
			n++
			b.line = append(b.line, c)
			if len(b.line) > maxChunkLine {
				return n, &Refusal{Status: 400, Reason: "chunk line longer than " + strconv.Itoa(maxChunkLine) + " bytes"}
			}
			if c != '\n' {
				continue
			}
			if r := b.endLine(); r != nil {
				return n, r
			}
			b.line = b.line[:0]
		}
	}
	return n, nil
}

func (b *Body) endLine() *Refusal {
	if len(b.line) < 2 || b.line[len(b.line)-2] != '\r' {
		return &Refusal{Status: 400, Reason: "chunk line ends in a bare line feed"}
	}
	line := b.line[:len(b.line)-2]
	switch b.state {
	case chunkEnd:
		b.state = chunkSize
	case chunkSize:
		return b.size(line)
	case chunkTrailer:
		if len(line) == 0 {
			b.state = bodyDone
			return nil
		}
		if b.trailer += len(b.line); b.trailer > maxTrailer {
			return &Refusal{Status: 400, Reason: "trailer longer than " + strconv.Itoa(maxTrailer) + " bytes"}
		}
		var h Head
		r := h.field(string(line), 0, 0)
		b.Trailers = append(b.Trailers, h.Fields...)
		return r
	}
	return nil
}

func (b *Body) size(line []byte) *Refusal {
	n, i := int64(0), 0
	for ; i < len(line) && hex(line[i]); i++ {
		if i >= 16 || n > math.MaxInt64>>4 {
			return &Refusal{Status: 400, Reason: "chunk size is too large"}
		}
		n = n<<4 | int64(unhex(line[i]))
	}
	if i == 0 {
		return &Refusal{Status: 400, Reason: "chunk size is no number"}
	}
	if rest := line[i:]; len(rest) > 0 && rest[0] == ';' {
		if len(b.Extras)+len(rest) < maxExtras {
			b.Extras = append(append(b.Extras, rest...), '\n')
		}
	} else {
		for _, c := range rest {
			if c != ' ' && c != '\t' {
				return &Refusal{Status: 400, Reason: "chunk size is followed by something else than an extension"}
			}
		}
	}
	b.left = n
	if b.state = chunkData; n == 0 {
		b.state = chunkTrailer
	}
	return nil
}

func unhex(c byte) byte {
	if digit(c) {
		return c - '0'
	}
	return c | 0x20 - 'a' + 10
}
