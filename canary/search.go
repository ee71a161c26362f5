package canary

import (
	"bytes"
	"errors"
	"hash/maphash"
	"io"
	"strings"
)

// window is how much is looked at in one piece, in bytes, besides the overlap. short is
// up to where texts are also tried in ways that cost a multiple of their size.
const (
	window = 1 << 20
	short  = 64 << 10
	// maxSeen bounds how many hashes are remembered.
	maxSeen = 1 << 16
)

// search is the search of one input.
type search struct {
	*Finder
	place  string
	result Result
	left   int64           // of [MaxDerived]
	seen   map[uint64]bool // what was searched already, by hash
	starts int             // compressed streams that were tried
}

var seed = maphash.MakeSeed()

// windows searches a stream piece by piece. Where at is not nil it is the same bytes,
// readable anywhere. chain is what was undone to come here.
func (s *search) windows(r io.Reader, at io.ReaderAt, size int64, chain []string, depth int) error {
	room := window + s.overlap + 1
	if at != nil && size <= window {
		room = int(size) + 1
	}
	buf := make([]byte, 0, room)
	var base int64 // of buf in the stream
	for {
		n, err := io.ReadFull(r, buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		end := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		if err != nil && !end {
			if len(buf) > 0 {
				s.view(buf, at, base, size, len(buf), chain, depth)
			}
			return err
		}
		fresh := len(buf) // where the next window begins
		if !end {
			fresh -= s.overlap
		}
		s.view(buf, at, base, size, fresh, chain, depth)
		if end {
			return nil
		}
		base += int64(fresh)
		buf = buf[:copy(buf, buf[fresh:])]
	}
}

// derived searches what was decoded, whole, unless it was before.
func (s *search) derived(b []byte, chain []string, name string, depth int) {
	if len(b) < 2 || !s.spend(int64(len(b))) {
		return
	}
	h := maphash.Bytes(seed, b)
	if s.seen[h] {
		return
	}
	if len(s.seen) == maxSeen {
		clear(s.seen) // to search something twice costs time only
	}
	s.seen[h] = true
	chain = append(chain[:len(chain):len(chain)], name)
	s.view(b, bytes.NewReader(b), 0, int64(len(b)), len(b), chain, depth+1)
}

// spend takes from what may be decoded.
func (s *search) spend(n int64) bool {
	if s.left < n {
		s.left = 0
		s.result.Cut = true
		return false
	}
	s.left -= n
	return true
}

// view searches bytes as they are, and then as what they may be. b stands at base of
// what at reads, which has size bytes; what begins behind fresh is the next window's.
func (s *search) view(b []byte, at io.ReaderAt, base, size int64, fresh int, chain []string, depth int) {
	if s.match(b, chain) || depth >= maxDepth {
		return // once found, what else it may be does not matter any more
	}
	hits := len(s.result.Hits)
	s.compressed(b, at, base, size, fresh, chain, depth)
	if depth > 0 && !worth(b) {
		return
	}
	undoings := []func(b []byte, chain []string, depth int){ // the likely ones first
		s.base64, s.hex, s.percent, s.escapes, s.entities, s.quoted, s.noNULs, s.decimal, s.base32,
	}
	if !rearranged(chain) {
		undoings = append(undoings, s.multipart, s.values, s.joined, s.turned)
	}
	for _, undo := range undoings {
		if len(s.result.Hits) > hits {
			return
		}
		undo(b, chain, depth)
	}
}

// The names of what puts the same bytes into another order or leaves some out. One such
// step is taken on the way to a secret, anywhere on it: of all their combinations there
// are too many.
const (
	inReverse = "reversed"
	inPieces  = "split"
)

func rearranged(chain []string) bool {
	for _, name := range chain {
		if name == inReverse || strings.HasPrefix(name, inPieces) {
			return true
		}
	}
	return false
}

func (s *search) match(b []byte, chain []string) bool {
	for _, n := range s.needles {
		if bytes.Contains(b, n.bytes) {
			s.hit(chain, n.name)
			return true
		}
	}
	if len(b) <= short && bytes.Contains(lower(b), s.folded) {
		s.hit(chain, "other letter case")
		return true
	}
	return false
}

// worthRun is how many printable characters in a row noise does not have.
const worthRun = 12

// worth tells whether bytes that were decoded may hold text, in which more is encoded.
// Noise, which most decoding of what was not encoded gives, is not taken further.
func worth(b []byte) bool {
	run, zeros := 0, 0
	for _, c := range b {
		switch {
		case c >= ' ' && c < 0x7f, c == '\n', c == '\r', c == '\t':
			if run++; run == worthRun {
				return true
			}
			continue
		case c == 0:
			zeros++
		}
		run = 0
	}
	return zeros*3 >= len(b)
}
