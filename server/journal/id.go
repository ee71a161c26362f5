package journal

import (
	"crypto/rand"
	"encoding/binary"
	"sync"
	"time"
)

// crockford is the alphabet of ULIDs: no I, L, O or U.
const crockford = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

// entropy is random bytes fetched for many ids at once: asking the system for
// ten costs as much as asking it for a page of them.
type entropy struct {
	bytes [640]byte
	used  int
}

var entropies = sync.Pool{New: func() any { return &entropy{used: len(entropy{}.bytes)} }}

func (e *entropy) take(p []byte) {
	if e.used+len(p) > len(e.bytes) {
		rand.Read(e.bytes[:]) // never fails: the program ends instead
		e.used = 0
	}
	taken := e.bytes[e.used : e.used+len(p)]
	copy(p, taken)
	clear(taken) // nothing in memory tells an id that was given out
	e.used += len(p)
}

// NewID makes a ULID: 48 bits of milliseconds, then 80 random ones, as 26
// characters that sort by time. The random part comes from the system's
// generator, so one id tells nothing about another.
func NewID(t time.Time) string {
	var raw [16]byte
	b := entropies.Get().(*entropy)
	b.take(raw[6:])
	entropies.Put(b)
	ms := uint64(t.UnixMilli())
	hi := ms<<16 | uint64(raw[6])<<8 | uint64(raw[7])
	lo := binary.BigEndian.Uint64(raw[8:])

	// 26 digits of five bits hold 130; the first digit's upper two are zero.
	var out [26]byte
	for i := len(out) - 1; i >= 0; i-- {
		out[i] = crockford[lo&31]
		lo = lo>>5 | hi<<59
		hi >>= 5
	}
	return string(out[:])
}
