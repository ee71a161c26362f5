package journal

import (
	"crypto/rand"
	"encoding/binary"
	"time"
)

// crockford is the alphabet of ULIDs: no I, L, O or U.
const crockford = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

// NewID makes a ULID: 48 bits of milliseconds, then 80 random ones, as 26
// characters that sort by time. The random part comes from the system's
// generator, so one id tells nothing about another.
func NewID(t time.Time) string {
	var raw [16]byte
	rand.Read(raw[6:]) // never fails: the program ends instead
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
