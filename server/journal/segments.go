package journal

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
)

// A journal's lines stand in segments: journal.jsonl, then journal-000002.jsonl and so
// on, each begun when the one before has no room for another line. One after another
// they are the journal, as if it were one file; the chain of digests goes on from each
// to the next. So a place in a journal is an offset in all of it, which stays the same
// however many segments follow, and only package-internal code knows where one ends.
//
// The rules here are: a line stands in one segment whole; only the last segment is
// written to; and one that is not the last never changes again.

// DefaultSegment is how long a segment becomes, in bytes, where [Options] say nothing.
const DefaultSegment int64 = 64 << 20

// segment is one file of a journal.
type segment struct {
	n     int   // counted from 1
	start int64 // of its first byte, in the journal
}

const firstSegment = "journal.jsonl"

func (s segment) name() string {
	if s.n == 1 {
		return firstSegment
	}
	return fmt.Sprintf("journal-%06d.jsonl", s.n)
}

var laterSegment = regexp.MustCompile(`^journal-([0-9]{6,9})\.jsonl$`)

// segmentNumber is the number of the segment with a name, 0 for other files.
func segmentNumber(name string) int {
	if name == firstSegment {
		return 1
	}
	m := laterSegment.FindStringSubmatch(name)
	if m == nil {
		return 0
	}
	n, err := strconv.Atoi(m[1])
	if err != nil || n < 2 || (segment{n: n}).name() != name {
		return 0
	}
	return n
}

// findSegments lists the segments in dir with their places, and says where the last one
// ends. Numbers that are missing between them are told; what they held is gone.
func findSegments(dir string) (segments []segment, size int64, missing []int, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, 0, nil, err
	}
	for _, e := range entries {
		if n := segmentNumber(e.Name()); n > 0 {
			segments = append(segments, segment{n: n})
		}
	}
	slices.SortFunc(segments, func(a, b segment) int { return a.n - b.n })
	want := 1
	for i := range segments {
		for ; want < segments[i].n && len(missing) < maxDamage; want++ {
			missing = append(missing, want)
		}
		want = segments[i].n + 1
		fi, err := os.Stat(filepath.Join(dir, segments[i].name()))
		if err != nil {
			return nil, 0, nil, err
		}
		if !fi.Mode().IsRegular() {
			return nil, 0, nil, fmt.Errorf("%q is no regular file", segments[i].name())
		}
		segments[i].start = size
		size += fi.Size()
	}
	return segments, size, missing, nil
}

// segmentAt is the index of the segment that has the byte at off, which there must be.
func segmentAt(segments []segment, off int64) int {
	i, found := slices.BinarySearchFunc(segments, off, func(s segment, off int64) int {
		switch {
		case s.start < off:
			return -1
		case s.start > off:
			return 1
		}
		return 0
	})
	if !found {
		return i - 1
	}
	for i+1 < len(segments) && segments[i+1].start == off { // this one is empty
		i++
	}
	return i
}

// segmentReader reads a journal's segments. One goroutine uses it.
type segmentReader struct {
	root     *os.Root // the journal's directory, also when it gets another name
	segments func() []segment

	at segment // file is that one's
	f  *os.File
}

func (r *segmentReader) close() {
	if r.f != nil {
		r.f.Close() // only read from
	}
	r.root.Close() // likewise
}

// ReadAt reads what stands in one segment at off of the journal.
func (r *segmentReader) ReadAt(b []byte, off int64) (int, error) {
	segments := r.segments()
	if len(segments) == 0 {
		return 0, io.EOF
	}
	s := segments[segmentAt(segments, off)]
	if r.f == nil || r.at.n != s.n {
		f, err := r.root.Open(s.name())
		if err != nil {
			return 0, err
		}
		if r.f != nil {
			r.f.Close() // only read from
		}
		r.f, r.at = f, s
	}
	return r.f.ReadAt(b, off-s.start)
}

// lines reads the lines between off and end, which are where lines begin.
func (r *segmentReader) lines(off, end int64) *lines {
	return &lines{from: r, off: off, end: end}
}

// lines cuts a part of a journal into lines, over the ends of segments.
type lines struct {
	from *segmentReader
	off  int64 // of the next line
	end  int64

	f      *os.File
	reader *lineReader
	stop   int64 // where reader ends
}

// next is that of [lineReader]. A line without its newline at the end of a segment that
// is not the last comes as a line: more follows it.
func (l *lines) next() (line []byte, off int64, err error) {
	for {
		if l.reader == nil {
			if l.off >= l.end {
				return nil, l.off, io.EOF
			}
			if err := l.open(); err != nil {
				return nil, l.off, err
			}
		}
		line, off, err = l.reader.next()
		l.off = l.reader.off
		switch {
		case errors.Is(err, io.EOF) && l.off < l.stop:
			return nil, l.off, fmt.Errorf("%q is shorter than it was: %w", filepath.Base(l.f.Name()), io.ErrUnexpectedEOF)
		case errors.Is(err, io.EOF):
			l.close()
			continue
		case errors.Is(err, errTorn) && l.off < l.end:
			err = nil
		}
		return line, off, err
	}
}

// open begins the segment that has the next line.
func (l *lines) open() error {
	segments := l.from.segments()
	if len(segments) == 0 {
		return fs.ErrNotExist
	}
	i := segmentAt(segments, l.off)
	l.stop = l.end
	if i+1 < len(segments) {
		l.stop = min(l.stop, segments[i+1].start)
	}
	f, err := l.from.root.Open(segments[i].name())
	if err != nil {
		return err
	}
	l.f = f
	l.reader = newLineReader(io.NewSectionReader(f, l.off-segments[i].start, l.stop-l.off), l.off)
	return nil
}

func (l *lines) close() {
	if l.f != nil {
		l.f.Close() // only read from
	}
	l.f, l.reader = nil, nil
}
