// Package conduit is what the simulator and the gateway say to each other over the
// link network, which nobody else is on.
//
// A connection is TLS 1.3 with a certificate at both ends. Each end makes its own key
// when it starts for the first time; the host carries the fingerprint of one to the
// other over their administrative interfaces, so no secret ever travels, and each end
// speaks with that one peer only.
//
// Inside, a connection carries one exchange after the other, as frames:
//
//	simulator → gateway   open, then data and end: the request and its body
//	gateway → simulator   head, then data and end: the response and its body,
//	                      or failure, at any time: there is no response, or no more of it
//
// After a head that switches protocols, data and end are the bytes of either
// direction and their end. Whoever loses interest closes the connection.
package conduit

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// The kinds of frame.
const (
	frameOpen byte = iota + 1
	frameHead
	frameData
	frameEnd
	frameFailure
)

// Bounds, in bytes. Heads are bounded by what package wire and package backend accept;
// the bound here is above both.
const (
	maxHead     = 2 << 20
	maxData     = 32 << 10
	frameHeader = 5
	maxFields   = 1 << 15
)

// Open is a request without its body, which is of Length bytes.
type Open struct {
	Trajectory string
	Host       string // the upstream's, as registered
	Method     string
	Target     string      // in origin form, byte for byte
	Fields     [][2]string // as the client sent them, hop-by-hop ones included
	Length     int64
	WebSocket  bool // the client asks to go on with WebSocket, and may
}

// Head is a response without its body.
type Head struct {
	Status   int
	Fields   [][2]string
	Length   int64 // of the body; -1: not known
	Switched bool  // to WebSocket
}

var errProtocol = errors.New("the other end of the link speaks another protocol")

// reader reads frames.
type reader struct{ br *bufio.Reader }

// next reads the header of a frame.
func (r reader) next() (kind byte, size int, err error) {
	var h [frameHeader]byte
	if _, err := io.ReadFull(r.br, h[:]); err != nil {
		return 0, 0, err
	}
	n := binary.BigEndian.Uint32(h[1:])
	limit := uint32(maxHead)
	if h[0] == frameData {
		limit = maxData
	}
	if h[0] < frameOpen || h[0] > frameFailure || n > limit {
		return 0, 0, errProtocol
	}
	return h[0], int(n), nil
}

// payload reads the whole of a frame that is no data.
func (r reader) payload(size int) (decoder, error) {
	b := make([]byte, size)
	_, err := io.ReadFull(r.br, b)
	return decoder{b: b}, err
}

// encoder builds a frame; its header is filled in by frame.
type encoder struct{ b []byte }

func newFrame(kind byte) *encoder { return &encoder{b: []byte{kind, 0, 0, 0, 0}} }

func (e *encoder) text(s string) {
	e.b = binary.AppendUvarint(e.b, uint64(len(s)))
	e.b = append(e.b, s...)
}

func (e *encoder) number(n int64) { e.b = binary.AppendVarint(e.b, n) }

func (e *encoder) flag(v bool) {
	n := int64(0)
	if v {
		n = 1
	}
	e.number(n)
}

func (e *encoder) fields(list [][2]string) {
	e.number(int64(len(list)))
	for _, f := range list {
		e.text(f[0])
		e.text(f[1])
	}
}

// frame is the finished frame.
func (e *encoder) frame() ([]byte, error) {
	size := len(e.b) - frameHeader
	if size > maxHead {
		return nil, fmt.Errorf("a head of %d bytes is more than the link carries", size)
	}
	binary.BigEndian.PutUint32(e.b[1:], uint32(size))
	return e.b, nil
}

// decoder takes a payload apart. The first thing that is not there is an error, and
// everything after it empty.
type decoder struct {
	b   []byte
	err error
}

func (d *decoder) fail() { d.b, d.err = nil, errProtocol }

func (d *decoder) text() string {
	n, k := binary.Uvarint(d.b)
	if k <= 0 || n > uint64(len(d.b)-k) {
		d.fail()
		return ""
	}
	s := string(d.b[k : k+int(n)])
	d.b = d.b[k+int(n):]
	return s
}

func (d *decoder) number() int64 {
	n, k := binary.Varint(d.b)
	if k <= 0 {
		d.fail()
		return 0
	}
	d.b = d.b[k:]
	return n
}

func (d *decoder) flag() bool { return d.number() == 1 }

func (d *decoder) fields() [][2]string {
	n := d.number()
	if n < 0 || n > maxFields {
		d.fail()
		return nil
	}
	list := make([][2]string, 0, min(n, 64))
	for range n {
		f := [2]string{d.text(), d.text()}
		if d.err != nil {
			return nil
		}
		list = append(list, f)
	}
	return list
}

// end is the decoder's verdict: everything was there, and nothing more.
func (d *decoder) end() error {
	if d.err == nil && len(d.b) > 0 {
		d.fail()
	}
	return d.err
}

func (o *Open) encode() ([]byte, error) {
	e := newFrame(frameOpen)
	e.text(o.Trajectory)
	e.text(o.Host)
	e.text(o.Method)
	e.text(o.Target)
	e.fields(o.Fields)
	e.number(o.Length)
	e.flag(o.WebSocket)
	return e.frame()
}

func decodeOpen(d decoder) (*Open, error) {
	o := &Open{Trajectory: d.text(), Host: d.text(), Method: d.text(), Target: d.text(), Fields: d.fields(), Length: d.number(), WebSocket: d.flag()}
	if err := d.end(); err != nil {
		return nil, err
	}
	if o.Length < 0 {
		return nil, errProtocol
	}
	return o, nil
}

func (h *Head) encode() ([]byte, error) {
	e := newFrame(frameHead)
	e.number(int64(h.Status))
	e.fields(h.Fields)
	e.number(h.Length)
	e.flag(h.Switched)
	return e.frame()
}

func decodeHead(d decoder) (*Head, error) {
	h := &Head{Status: int(d.number()), Fields: d.fields(), Length: d.number(), Switched: d.flag()}
	if err := d.end(); err != nil {
		return nil, err
	}
	if h.Status < 100 || h.Status > 999 {
		return nil, errProtocol
	}
	return h, nil
}
