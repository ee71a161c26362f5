package wire

import (
	"encoding/binary"
	"strconv"
)

// Preface is what an HTTP/2 client sends first.
const Preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// The HTTP/2 frame types (RFC 9113 §6).
const (
	FrameData = iota
	FrameHeaders
	FramePriority
	FrameRSTStream
	FrameSettings
	FramePushPromise
	FramePing
	FrameGoAway
	FrameWindowUpdate
	FrameContinuation
)

// Flags of frames. EndStream has the value of SETTINGS' ACK.
const (
	FlagAck        = 0x1
	FlagEndStream  = 0x1
	FlagEndHeaders = 0x4
	FlagPadded     = 0x8
	FlagPriority   = 0x20
)

// The settings and error codes that matter here (RFC 9113 §6.5.2 and §7).
const (
	SettingTableSize = 0x1

	ProtocolError    = 0x1
	StreamClosed     = 0x5
	FrameSizeError   = 0x6
	RefusedStream    = 0x7
	CompressionError = 0x9
	EnhanceYourCalm  = 0xb
)

// FrameSize is that of a frame's header, MinFrame the payload every peer takes.
const (
	FrameSize = 9
	MinFrame  = 16 << 10
)

// Frame is the header of an HTTP/2 frame.
type Frame struct {
	Length int // of the payload
	Type   byte
	Flags  byte
	Stream uint32
}

// ParseFrame reads a frame's header, which b holds.
func ParseFrame(b []byte) Frame {
	return Frame{
		Length: int(b[0])<<16 | int(b[1])<<8 | int(b[2]),
		Type:   b[3],
		Flags:  b[4],
		Stream: binary.BigEndian.Uint32(b[5:]) & (1<<31 - 1),
	}
}

// Has says whether a flag is set.
func (f Frame) Has(flag byte) bool { return f.Flags&flag != 0 }

// Append writes the header.
func (f Frame) Append(dst []byte) []byte {
	dst = append(dst, byte(f.Length>>16), byte(f.Length>>8), byte(f.Length), f.Type, f.Flags)
	return binary.BigEndian.AppendUint32(dst, f.Stream)
}

// AppendFrame writes a whole frame.
func AppendFrame(dst []byte, kind, flags byte, stream uint32, payload ...byte) []byte {
	return append(Frame{len(payload), kind, flags, stream}.Append(dst), payload...)
}

// AppendBlock writes a header block in as many frames as it needs.
func AppendBlock(dst []byte, stream uint32, block []byte, ended bool) []byte {
	f := Frame{Type: FrameHeaders, Stream: stream}
	if ended {
		f.Flags = FlagEndStream
	}
	for {
		if f.Length = min(len(block), MinFrame); f.Length == len(block) {
			f.Flags |= FlagEndHeaders
		}
		dst = append(f.Append(dst), block[:f.Length]...)
		if block = block[f.Length:]; len(block) == 0 {
			return dst
		}
		f.Type, f.Flags = FrameContinuation, 0
	}
}

// AppendCode writes a frame whose payload is one number: RST_STREAM and
// WINDOW_UPDATE.
func AppendCode(dst []byte, kind byte, stream, code uint32) []byte {
	return binary.BigEndian.AppendUint32(Frame{4, kind, 0, stream}.Append(dst), code)
}

// AppendGoAway writes the frame that ends a connection.
func AppendGoAway(dst []byte, last, code uint32) []byte {
	dst = binary.BigEndian.AppendUint32(Frame{8, FrameGoAway, 0, 0}.Append(dst), last)
	return binary.BigEndian.AppendUint32(dst, code)
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
