package server

import (
	"crypto/tls"
	"encoding/binary"
	"io"
	"slices"
	"testing"

	"github.com/linuxarena/ctis/server/wire"
)

// h2conn speaks HTTP/2 in frames as trajectory 2.
type h2conn struct {
	t *testing.T
	*tls.Conn
	decoder *wire.Decoder
	next    uint32
}

// h2answer is what came for one stream, or the end of the connection.
type h2answer struct {
	stream uint32
	fields [][2]string
	body   string
	ended  bool
	reset  int // error code of RST_STREAM, -1 without
	goaway int // the same of GOAWAY
}

func (w *world) h2(host string) *h2conn {
	w.t.Helper()
	c := tls.Client(w.dial(2, w.tls), &tls.Config{ServerName: host, RootCAs: w.roots, NextProtos: []string{"h2"}})
	h := &h2conn{w.t, c, wire.NewDecoder(), 1}
	h.send(append([]byte(wire.Preface), wire.AppendFrame(nil, wire.FrameSettings, 0, 0)...))
	return h
}

func (c *h2conn) send(b []byte) {
	c.t.Helper()
	if _, err := c.Write(b); err != nil {
		c.t.Fatal(err)
	}
}

func (c *h2conn) frame() (wire.Frame, []byte, error) {
	var head [wire.FrameSize]byte
	if _, err := io.ReadFull(c, head[:]); err != nil {
		return wire.Frame{}, nil, err
	}
	f := wire.ParseFrame(head[:])
	payload := make([]byte, f.Length)
	_, err := io.ReadFull(c, payload)
	return f, payload, err
}

// answer reads until a stream is over or the connection is.
func (c *h2conn) answer(id uint32) h2answer {
	c.t.Helper()
	a := h2answer{stream: id, reset: -1, goaway: -1}
	for {
		f, p, err := c.frame()
		if err != nil {
			c.t.Fatalf("waiting for stream %d: %v", id, err)
		}
		if f.Type == wire.FrameGoAway {
			a.goaway = int(binary.BigEndian.Uint32(p[4:]))
			return a
		}
		var fields [][2]string
		if f.Type == wire.FrameHeaders {
			if fields, _, err = c.decoder.Decode(p, 1<<20); err != nil {
				c.t.Fatal(err)
			}
		}
		if f.Stream != id {
			continue
		}
		switch f.Type {
		case wire.FrameHeaders:
			a.fields, a.ended = fields, f.Has(wire.FlagEndStream)
		case wire.FrameData:
			a.body, a.ended = a.body+string(p), f.Has(wire.FlagEndStream)
		case wire.FrameRSTStream:
			a.reset = int(binary.BigEndian.Uint32(p))
			return a
		}
		if a.ended {
			return a
		}
	}
}

func (a h2answer) status() string {
	if len(a.fields) == 0 {
		return ""
	}
	return a.fields[0][1]
}

// requestFields are those of a request that is served, with extra ones.
func requestFields(method, path string, extra ...string) [][2]string {
	fields := [][2]string{{":method", method}, {":scheme", "https"}, {":path", path}, {":authority", "a.example"}}
	for i := 0; i < len(extra); i += 2 {
		fields = append(fields, [2]string{extra[i], extra[i+1]})
	}
	return fields
}

func encode(fields [][2]string) (block []byte) {
	for _, f := range fields {
		block = wire.AppendField(block, f[0], f[1])
	}
	return block
}

// request sends one and gives its stream.
func (c *h2conn) request(fields [][2]string, ended bool) uint32 {
	c.t.Helper()
	id := c.next
	c.next += 2
	c.send(wire.AppendBlock(nil, id, encode(fields), ended))
	return id
}

func data(id uint32, flags byte, content string) []byte {
	return wire.AppendFrame(nil, wire.FrameData, flags, id, []byte(content)...)
}

func without(name string) [][2]string {
	return slices.DeleteFunc(requestFields("POST", "/webhook"), func(f [2]string) bool { return f[0] == name })
}
