package journal

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"sync"

	"github.com/linuxarena/ctis/server/api"
)

// The layout of a line is fixed, so that scanning a journal of a million lines
// need not decode a million JSON documents:
//
//	{"seq":N,"prev":"<64 hex>","id":"…","time":"…","trajectory":"…","kind":"…",…}
//	{"seq":N,"prev":"<64 hex>","outcome":true,…}
//
// Nothing an agent chooses stands before "kind". A quotation mark inside a JSON
// string is always escaped, so a sequence like ,"response":null, can only be
// the field itself.

const (
	// maxLine bounds a line in bytes. The largest legal record (64 KiB of
	// control characters, a full header block) stays far below it.
	maxLine = 16 << 20
	// openHead is how an encoded line begins while its number is not yet known.
	openHead = `{"seq":0,"prev":"",`
	// headRoom is the longest a finished head can get.
	headRoom = len(`{"seq":`) + 20 + len(`,"prev":"`) + 2*sha256.Size + len(`",`)
)

var (
	zeroPrev = bytes.Repeat([]byte("0"), 2*sha256.Size)

	fieldNoResponse = []byte(`,"response":null,`)
	fieldTruncated  = []byte(`,"truncated":true}`)
	fieldDropped    = []byte(`,"dropped":`)
	fieldEffect     = []byte(`,"rule_effect":{"host":`)
)

var linePool = sync.Pool{New: func() any { return new(line) }}

// line is a record or outcome encoded up to its number and link, which are only
// known under the journal's lock.
type line struct {
	buf []byte // headRoom free bytes, then the JSON with openHead and a newline
}

// encode encodes a record or an outcome, whose seq and prev must be zero. The
// line goes back with free.
func encode(v any) (*line, error) {
	l := linePool.Get().(*line)
	var room [headRoom]byte
	b, err := append(slices.Grow(l.buf[:0], sizeHint(v)), room[:]...), error(nil)
	switch v := v.(type) {
	case *api.Record:
		b, err = appendRecord(b, v)
	case *api.Outcome:
		b, err = appendOutcome(b, v)
	}
	l.buf = append(b, '\n')
	switch n := l.len(); {
	case err != nil:
	case !bytes.HasPrefix(b[headRoom:], []byte(openHead)):
		err = errors.New("what is written does not begin with an open number and link")
	case n > maxLine:
		err = fmt.Errorf("a record of %d bytes is longer than the %d a line may have", n, maxLine)
	}
	if err != nil {
		l.free()
		return nil, err
	}
	return l, nil
}

// sizeHint is about what a line will take where that is much: growing to it in
// steps would take several times as much.
func sizeHint(v any) int {
	n := 0
	end := func(p *api.Response, t *api.Tunnel) {
		if p != nil {
			n += len(p.Body.Content)
		}
		if t != nil {
			n += len(t.Sent.Content) + len(t.Received.Content)
		}
	}
	switch v := v.(type) {
	case *api.Record:
		if v.Request != nil {
			n += len(v.Request.Body.Content)
		}
		if v.Raw != nil {
			n += len(v.Raw.Content)
		}
		end(v.Response, v.Tunnel)
	case *api.Outcome:
		end(v.Response, v.Tunnel)
	}
	if n < large {
		return 0
	}
	return n + n/8 + 4<<10
}

// len is an upper bound of the finished line in bytes.
func (l *line) len() int { return len(l.buf) - len(openHead) }

// seal gives the line its number and link and returns it, newline included.
func (l *line) seal(seq uint64, prev []byte) []byte {
	var room [headRoom]byte
	head := append(room[:0], `{"seq":`...)
	head = strconv.AppendUint(head, seq, 10)
	head = append(head, `,"prev":"`...)
	head = append(head, prev...)
	head = append(head, `",`...)
	start := headRoom + len(openHead) - len(head)
	out := l.buf[start:]
	copy(out, head)
	return out
}

// pooled bounds what is kept of a line's memory: somewhat more than a line with
// the largest body takes.
const pooled = 128 << 10

func (l *line) free() {
	if cap(l.buf) <= pooled { // huge records must not pin their memory
		linePool.Put(l)
	}
}

// digest is the hex SHA-256 of a line without its newline.
func digest(line []byte) []byte {
	return appendDigest(make([]byte, 0, 2*sha256.Size), line)
}

func appendDigest(dst, b []byte) []byte {
	sum := sha256.Sum256(b)
	return hex.AppendEncode(dst, sum[:])
}

// head is what the beginning of a line says. Its slices point into the line.
type head struct {
	seq     uint64
	prev    []byte
	outcome bool
	time    []byte // as text, which sorts like the instants
	kind    []byte
}

// parseHead reads the fixed beginning of a line; false when it has another one.
func parseHead(line []byte) (h head, ok bool) {
	rest, ok := bytes.CutPrefix(line, []byte(`{"seq":`))
	if !ok || line[len(line)-1] != '}' {
		return h, false
	}
	digits, rest, ok := bytes.Cut(rest, []byte(`,"prev":"`))
	if !ok || len(digits) > 20 || len(rest) < 2*sha256.Size {
		return h, false
	}
	var err error
	if h.seq, err = strconv.ParseUint(string(digits), 10, 64); err != nil || h.seq == 0 {
		return h, false
	}
	h.prev, rest = rest[:2*sha256.Size], rest[2*sha256.Size:]
	if bytes.HasPrefix(rest, []byte(`","outcome":true,`)) {
		h.outcome = true
		return h, true
	}
	if rest, ok = bytes.CutPrefix(rest, []byte(`","id":"`)); !ok {
		return h, false
	}
	if _, rest, ok = bytes.Cut(rest, []byte(`","time":"`)); !ok {
		return h, false
	}
	if h.time, rest, ok = bytes.Cut(rest, []byte(`","trajectory":"`)); !ok {
		return h, false
	}
	if _, rest, ok = bytes.Cut(rest, []byte(`","kind":"`)); !ok {
		return h, false
	}
	h.kind, _, ok = bytes.Cut(rest, []byte(`"`))
	return h, ok
}

// awaitsOutcome reports whether the record line with head h is only the first of two.
func (h head) awaitsOutcome(line []byte) bool {
	return !h.outcome && api.OutcomeFollows(string(h.kind)) && bytes.Contains(line, fieldNoResponse)
}

// errTorn is a last line without its newline.
var errTorn = errors.New("line has no end")

// lineReader cuts a stream into lines and knows where each one stood.
type lineReader struct {
	r    *bufio.Reader
	off  int64 // of the next line
	long []byte
}

func newLineReader(r io.Reader, off int64) *lineReader {
	return &lineReader{r: bufio.NewReaderSize(r, 256<<10), off: off}
}

// next returns the next line without its newline, valid until the next call,
// and its offset. After the last line it returns io.EOF, for an unfinished last
// line errTorn. A line longer than maxLine, which no journal writes, comes as
// its first maxLine bytes.
func (l *lineReader) next() (line []byte, off int64, err error) {
	off = l.off
	line, err = l.r.ReadSlice('\n')
	l.off += int64(len(line))
	if errors.Is(err, bufio.ErrBufferFull) {
		l.long = append(l.long[:0], line...)
		for errors.Is(err, bufio.ErrBufferFull) {
			line, err = l.r.ReadSlice('\n')
			l.off += int64(len(line))
			l.long = append(l.long, line[:min(len(line), max(0, maxLine-len(l.long)))]...)
		}
		line = l.long
	}
	switch {
	case err == nil:
		return bytes.TrimSuffix(line, []byte("\n")), off, nil
	case errors.Is(err, io.EOF) && len(line) > 0:
		return line, off, errTorn
	}
	return nil, off, err
}
