package wire

import (
	"encoding/binary"
	"strconv"
)

// The HTTP/2 frames that matter here (RFC 9113 §6).
const (
	frameHeaders   = 0x1
	frameRSTStream = 0x3
	frameGoAway    = 0x7
	frameHeader    = 9
)

// Preface is what an HTTP/2 client sends first.
const Preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// Frames follows the HTTP/2 frames in one direction of a connection, so that
// requests the protocol layer refuses by itself can be counted.
type Frames struct {
	Skip   int    // bytes before the first frame: the client's preface
	head   []byte // of the present frame
	body   []byte // its first bytes, where they matter
	left   int    // bytes of its payload not seen yet
	stream uint32 // the highest stream that sent HEADERS

	Streams uint64 // streams opened by HEADERS so far
	Failure uint32 // the last error code of a GOAWAY, 0 for none
	Resets  uint64 // RST_STREAM frames with an error code
}

// Scan follows the frames through p.
func (f *Frames) Scan(p []byte) {
	if f.Skip > 0 {
		n := min(f.Skip, len(p))
		f.Skip -= n
		p = p[n:]
	}
	for len(p) > 0 {
		if len(f.head) < frameHeader {
			n := min(frameHeader-len(f.head), len(p))
			f.head = append(f.head, p[:n]...)
			p = p[n:]
			if len(f.head) < frameHeader {
				return
			}
			f.left = int(f.head[0])<<16 | int(f.head[1])<<8 | int(f.head[2])
			f.body = f.body[:0]
		}
		n := min(f.left, len(p))
		if len(f.body) < 8 {
			f.body = append(f.body, p[:min(n, 8-len(f.body))]...)
		}
		p = p[n:]
		if f.left -= n; f.left == 0 {
			f.end()
			f.head = f.head[:0]
		}
	}
}

func (f *Frames) end() {
	switch f.head[3] {
	case frameHeaders:
		if id := binary.BigEndian.Uint32(f.head[5:]) & (1<<31 - 1); id > f.stream {
			f.stream = id
			f.Streams++
		}
	case frameRSTStream:
		if len(f.body) >= 4 && binary.BigEndian.Uint32(f.body) != 0 {
			f.Resets++
		}
	case frameGoAway:
		if len(f.body) >= 8 {
			f.Failure = binary.BigEndian.Uint32(f.body[4:])
		}
	}
}

// ErrorName names an HTTP/2 error code (RFC 9113 §7).
func ErrorName(code uint32) string {
	names := [...]string{"NO_ERROR", "PROTOCOL_ERROR", "INTERNAL_ERROR", "FLOW_CONTROL_ERROR", "SETTINGS_TIMEOUT",
		"STREAM_CLOSED", "FRAME_SIZE_ERROR", "REFUSED_STREAM", "CANCEL", "COMPRESSION_ERROR", "CONNECT_ERROR",
		"ENHANCE_YOUR_CALM", "INADEQUATE_SECURITY", "HTTP_1_1_REQUIRED"}
	if int(code) < len(names) {
		return names[code]
	}
	return "code " + strconv.FormatUint(uint64(code), 10)
}
