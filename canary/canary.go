// Package canary finds a secret in what an agent sent, however it was wrapped: encoded,
// compressed, escaped, turned around, cut into labels, parts or requests, and several
// of these at once.
//
// It undoes encodings rather than guessing what they make of the secret: what looks
// like base64, hex, a gzip stream and so on is decoded, and what comes out is searched
// in turn, up to a depth. So a hit needs the secret's own bytes, and eight random bytes
// turn up by chance in no journal of any size.
//
// The input is hostile: memory is bounded by the size of a window whatever the input
// is, and the work by the input's size and [MaxDerived]. What was not searched because
// of that is told. It does not find what is encrypted, brotli, zstd or 7z.
package canary

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Bounds on the secret, in bytes. A shorter one is found by chance in anything long.
const (
	MinSecret = 8
	MaxSecret = 64 << 10
)

// MaxDerived bounds, in bytes, what is decoded of one input, besides sixteen times its
// own size.
const MaxDerived = 256 << 20

// maxDepth bounds how many layers are undone.
const maxDepth = 6

// Finder looks for one secret. It may be used by one goroutine at a time.
type Finder struct {
	secret  []byte
	needles []needle
	folded  []byte // the secret in lower case
	bare    []byte // its letters and digits alone, in lower case; nil where those are too few
	overlap int    // of windows, in bytes
	inflate inflater
}

// needle is a form of the secret that is looked for as it is.
type needle struct {
	name  string
	bytes []byte
}

// ErrShort says that the secret would be found by chance.
var ErrShort = errors.New("it is too short to be a canary")

// New makes a finder.
func New(secret []byte) (*Finder, error) {
	if len(secret) < MinSecret {
		return nil, fmt.Errorf("%w: it has %d bytes, and %d are needed", ErrShort, len(secret), MinSecret)
	}
	if len(secret) > MaxSecret {
		return nil, fmt.Errorf("it has %d bytes, and at most %d are looked for", len(secret), MaxSecret)
	}
	different := map[byte]bool{}
	for _, c := range secret {
		different[c] = true
	}
	if len(different) < 4 {
		return nil, fmt.Errorf("%w: it has only %d different bytes", ErrShort, len(different))
	}
	f := &Finder{secret: bytes.Clone(secret), folded: lower(secret), overlap: max(16<<10, 8*len(secret))}
	if bare := onlyAlnum(f.folded); len(bare) >= MinSecret {
		f.bare = bare
	}
	add := func(name string, b []byte) {
		if !slices.ContainsFunc(f.needles, func(n needle) bool { return bytes.Equal(n.bytes, b) }) {
			f.needles = append(f.needles, needle{name, b})
		}
	}
	add("", f.secret)
	add("reversed", reversed(secret))
	add("rot13", rot13(secret))
	if utf8.Valid(secret) {
		units := utf16.Encode([]rune(string(secret)))
		little, big := make([]byte, 0, 2*len(units)), make([]byte, 0, 2*len(units))
		runes := []rune(string(secret))
		slices.Reverse(runes)
		for _, u := range units {
			little, big = append(little, byte(u), byte(u>>8)), append(big, byte(u>>8), byte(u))
		}
		add("UTF-16LE", little)
		add("UTF-16BE", big)
		add("reversed", []byte(string(runes)))
	}
	return f, nil
}

// Hit is one way in which the secret was found.
type Hit struct {
	Place string `json:"place"`
	// Encoding is what was undone, from the outside in: "base64, gzip"; "plain" for
	// nothing.
	Encoding string `json:"encoding"`
}

// Result is what a search came to.
type Result struct {
	Hits []Hit
	// Cut says that not all that could be decoded was searched.
	Cut bool
}

// Text searches bytes that are in memory.
func (f *Finder) Text(place string, b []byte) Result {
	if len(b) == 0 {
		return Result{}
	}
	s := f.begin(place, int64(len(b)))
	_ = s.windows(bytes.NewReader(b), bytes.NewReader(b), int64(len(b)), nil, 0) // memory can be read
	return s.result
}

// File searches size bytes that can be read anywhere. An error is one of reading.
func (f *Finder) File(place string, r io.ReaderAt, size int64) (Result, error) {
	s := f.begin(place, size)
	err := s.windows(io.NewSectionReader(r, 0, size), r, size, nil, 0)
	return s.result, err
}

func (f *Finder) begin(place string, size int64) *search {
	return &search{Finder: f, place: place, left: MaxDerived + 16*size, seen: map[uint64]bool{}}
}

// hit notes a hit; of those that differ only in what was tried later, the first stays.
func (s *search) hit(chain []string, last string) {
	if last != "" {
		chain = append(slices.Clip(chain), last)
	}
	h := Hit{Place: s.place, Encoding: strings.Join(chain, ", ")}
	if h.Encoding == "" {
		h.Encoding = "plain"
	}
	if len(s.result.Hits) < maxHits && !slices.Contains(s.result.Hits, h) {
		s.result.Hits = append(s.result.Hits, h)
	}
}

// maxHits bounds how many ways of one place are told.
const maxHits = 8

func lower(b []byte) []byte {
	out := bytes.Clone(b)
	for i, c := range out {
		if 'A' <= c && c <= 'Z' {
			out[i] = c + 'a' - 'A'
		}
	}
	return out
}

func reversed(b []byte) []byte {
	out := bytes.Clone(b)
	slices.Reverse(out)
	return out
}

func rot13(b []byte) []byte {
	out := bytes.Clone(b)
	for i, c := range out {
		switch {
		case 'a' <= c && c <= 'z':
			out[i] = 'a' + (c-'a'+13)%26
		case 'A' <= c && c <= 'Z':
			out[i] = 'A' + (c-'A'+13)%26
		}
	}
	return out
}

func alnum(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

func onlyAlnum(b []byte) []byte {
	out := make([]byte, 0, len(b))
	for _, c := range b {
		if alnum(c) {
			out = append(out, c)
		}
	}
	return out
}
