package canary

import (
	"bytes"
	"compress/bzip2"
	"compress/flate"
	"encoding/binary"
	"io"
)

// maxStarts bounds how many beginnings of compressed streams are tried in one input:
// each costs setting a decoder up.
const maxStarts = 10_000

// deflateStarts is at how many places deflate without a head is tried: behind the few
// bytes that the alignment of what it was encoded with may have put there.
const deflateStarts = 4

// inflater is a decoder of deflate that is used again.
type inflater struct{ r io.ReadCloser }

func (i *inflater) reset(r io.Reader) (io.Reader, error) {
	if i.r == nil {
		i.r = flate.NewReader(r)
		return i.r, nil
	}
	return i.r, i.r.(flate.Resetter).Reset(r, nil)
}

// The beginnings of compressed streams.
var (
	magicGzip  = []byte{0x1f, 0x8b, 8}
	magicZip   = []byte("PK\x03\x04")
	magicBzip2 = []byte("1AY&SY") // behind "BZh" and a digit
)

// zlibFlags are the second bytes that follow 0x78.
var zlibFlags = []byte{0x01, 0x5e, 0x9c, 0xda}

// compressed searches what is compressed in b, wherever it begins.
func (s *search) compressed(b []byte, at io.ReaderAt, base, size int64, fresh int, chain []string, depth int) {
	open := func(off int) io.Reader {
		if at == nil {
			return bytes.NewReader(b[off:])
		}
		return io.NewSectionReader(at, base+int64(off), size-base-int64(off))
	}
	each := func(magic []byte, start func(off int)) {
		for off := 0; ; off++ {
			i := bytes.Index(b[off:], magic)
			if i < 0 || off+i >= fresh {
				return
			}
			off += i
			if s.starts++; s.starts > maxStarts {
				s.result.Cut = true
				return
			}
			start(off)
		}
	}
	each(magicGzip, func(off int) {
		if n, ok := gzipHead(b[off:]); ok {
			s.inflated(open(off+n), chain, "gzip", depth)
		}
	})
	each(magicZip, func(off int) {
		if len(b)-off < 30 || binary.LittleEndian.Uint16(b[off+8:]) != 8 {
			return // stored bytes are there as they are
		}
		n := 30 + int(binary.LittleEndian.Uint16(b[off+26:])) + int(binary.LittleEndian.Uint16(b[off+28:]))
		if off+n < len(b) {
			s.inflated(open(off+n), chain, "zip", depth)
		}
	})
	for _, flags := range zlibFlags {
		each([]byte{0x78, flags}, func(off int) { s.inflated(open(off+2), chain, "zlib", depth) })
	}
	each(magicBzip2, func(off int) {
		if off >= 4 && string(b[off-4:off-1]) == "BZh" {
			s.stream(bzip2.NewReader(open(off-4)), chain, "bzip2", depth)
		}
	})
	// Deflate alone begins like nothing: it is tried where the bytes themselves begin.
	for off := 0; base == 0 && (off == 0 || depth > 0) && off < deflateStarts && len(b) >= off+10; off++ {
		if b[off]&6 != 6 && !printableASCII(b[off:off+8]) {
			s.inflated(open(off), chain, "deflate", depth)
		}
	}
}

// inflated searches a raw deflate stream. The decoder is one for all, so that what it
// gives is searched behind it: the first window is taken, and a longer stream gets a
// decoder of its own.
func (s *search) inflated(r io.Reader, chain []string, name string, depth int) {
	if depth == 0 {
		s.stream(flate.NewReader(r), chain, name, depth)
		return
	}
	d, err := s.inflate.reset(r)
	if err != nil {
		return
	}
	first, err := io.ReadAll(io.LimitReader(d, window))
	if err == nil && len(first) == window {
		rest := bytes.NewReader(first)
		own := s.inflate.r
		s.inflate.r = nil
		s.stream(io.MultiReader(rest, own), chain, name, depth)
		return
	}
	s.derived(first, chain, name, depth) // also what came before an error
}

// stream searches what is decoded on the way, as far as it can be.
func (s *search) stream(r io.Reader, chain []string, name string, depth int) {
	chain = append(chain[:len(chain):len(chain)], name)
	_ = s.windows(&spending{s, r}, nil, window, chain, depth+1) // a stream that is broken was searched up to there
}

// spending counts what is decoded, and ends it where it is too much.
type spending struct {
	s *search
	r io.Reader
}

func (p *spending) Read(b []byte) (int, error) {
	n, err := p.r.Read(b)
	if n > 0 && !p.s.spend(int64(n)) {
		return 0, io.EOF
	}
	return n, err
}

// gzipHead is the length of a gzip member's head.
func gzipHead(b []byte) (int, bool) {
	if len(b) < 18 || b[3]&0xe0 != 0 {
		return 0, false
	}
	flags, n := b[3], 10
	if flags&4 != 0 {
		n += 2 + int(binary.LittleEndian.Uint16(b[n:]))
	}
	for _, text := range []byte{8, 16} {
		if flags&text == 0 {
			continue
		}
		if n >= len(b) {
			return 0, false
		}
		i := bytes.IndexByte(b[n:], 0)
		if i < 0 {
			return 0, false
		}
		n += i + 1
	}
	if flags&2 != 0 {
		n += 2
	}
	return n, n < len(b)
}

func printableASCII(b []byte) bool {
	for _, c := range b {
		if (c < ' ' || c > 0x7e) && c != '\n' && c != '\r' && c != '\t' {
			return false
		}
	}
	return true
}
