package wire

import (
	"encoding/binary"
	"net/netip"
	"strings"
)

// Hello is what a TLS ClientHello says in the clear.
type Hello struct {
	SNI  string // as sent; "" without the extension
	ALPN []string
}

// MaxHello bounds the bytes of a ClientHello, record headers included.
// crypto/tls refuses handshake messages above 64 KiB.
const MaxHello = 66 << 10

const (
	recordHandshake  = 22
	recordHeader     = 5
	maxRecord        = 16384 + 256
	helloClient      = 1
	extensionSNI     = 0
	extensionALPN    = 16
	handshakeMessage = 4 // bytes of a handshake message's header
)

// ParseHello reads a ClientHello from the bytes of a connection's beginning.
// done is false while more bytes are needed. The message may be spread over
// several records.
func ParseHello(b []byte) (h Hello, done bool, refusal *Refusal) {
	var msg []byte
	for {
		if len(b) > 0 && b[0] != recordHandshake {
			return h, true, &Refusal{Status: 400, Reason: "tls: first bytes are no handshake record"}
		}
		if len(b) < recordHeader {
			return h, false, nil
		}
		if b[1] != 3 {
			return h, true, &Refusal{Status: 400, Reason: "tls: record of an unknown version"}
		}
		n := int(binary.BigEndian.Uint16(b[3:]))
		if n == 0 || n > maxRecord {
			return h, true, &Refusal{Status: 400, Reason: "tls: handshake record of an impossible length"}
		}
		part := b[recordHeader:min(len(b), recordHeader+n)]
		msg = append(msg, part...)
		if len(msg) > 0 && msg[0] != helloClient {
			return h, true, &Refusal{Status: 400, Reason: "tls: first handshake message is no client hello"}
		}
		if len(msg) >= handshakeMessage {
			want := int(msg[1])<<16 | int(msg[2])<<8 | int(msg[3])
			if want+handshakeMessage > MaxHello-1024 {
				return h, true, &Refusal{Status: 400, Reason: "tls: client hello is too long"}
			}
			if len(msg) >= handshakeMessage+want {
				ok := h.parse(msg[handshakeMessage : handshakeMessage+want])
				if !ok {
					return h, true, &Refusal{Status: 400, Reason: "tls: client hello is damaged"}
				}
				return h, true, nil
			}
		}
		if len(part) < n {
			return h, false, nil
		}
		b = b[recordHeader+n:]
	}
}

// parse reads the message's fields in their order (RFC 8446 §4.1.2).
func (h *Hello) parse(b []byte) bool {
	r := reader{b: b, ok: true}
	r.take(2 + 32)    // version, random
	r.take(r.uint(1)) // session id
	r.take(r.uint(2)) // cipher suites
	r.take(r.uint(1)) // compression methods
	if len(r.b) == 0 {
		return r.ok // no extensions at all is legal
	}
	ext := r.sub(2)
	if len(r.b) > 0 {
		return false
	}
	for r.ok && len(ext.b) > 0 && ext.ok {
		kind, body := ext.uint(2), ext.sub(2)
		switch kind {
		case extensionSNI:
			list := body.sub(2)
			for list.ok && len(list.b) > 0 {
				nameType, name := list.uint(1), list.sub(2)
				if nameType == 0 && h.SNI == "" {
					h.SNI = string(name.b)
				}
			}
			body.ok = body.ok && list.ok
		case extensionALPN:
			list := body.sub(2)
			for list.ok && len(list.b) > 0 {
				h.ALPN = append(h.ALPN, string(list.sub(1).b))
			}
			body.ok = body.ok && list.ok
		}
		r.ok = r.ok && body.ok
	}
	return r.ok && ext.ok
}

// NamesHost says whether the SNI is a name that can select a persona: an
// address, which clients must not send but do, selects none.
func (h Hello) NamesHost() bool {
	if h.SNI == "" {
		return false
	}
	_, err := netip.ParseAddr(strings.Trim(h.SNI, "[]"))
	return err != nil
}

// reader takes length-prefixed values off b; ok turns false at the first that
// is not all there.
type reader struct {
	b  []byte
	ok bool
}

func (r *reader) take(n int) []byte {
	if !r.ok || n > len(r.b) {
		r.ok, r.b = false, nil
		return nil
	}
	p := r.b[:n]
	r.b = r.b[n:]
	return p
}

func (r *reader) uint(size int) int {
	n := 0
	for _, c := range r.take(size) {
		n = n<<8 | int(c)
	}
	return n
}

func (r *reader) sub(size int) *reader {
	n := r.uint(size)
	return &reader{b: r.take(n), ok: r.ok}
}
