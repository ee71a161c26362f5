package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/linuxarena/ctis/server/api"
)

// recover reads a journal once, from beginning to end: it finds where the next
// line goes, counts, checks the chain, and cuts off what a crash left at the
// end. The journal is returned also with an error, for its name to be known.
//
// A line is good when it has a line's layout and is vouched for: by the link of
// the line after it or, where that link does not fit, by being whole JSON. What
// follows the last good line is the tail a crash left, and so is a last line
// that does not link to the one before. Damage further up stays where it is:
// it is evidence too, and later lines are still good.
func (s *Store) recover(name string) (*Journal, error) {
	j := s.newJournal(name)
	j.resting = name != api.Unattributed // until its trajectory is served
	if err := j.countBodies(); err != nil {
		return j, err
	}
	for _, c := range []*lostCount{&j.drops, &j.misses} {
		if p := c.load(j.countPath(c)); p != "" {
			s.problem(fmt.Sprintf("journal of %q: %s", name, p))
		}
	}
	segments, size, missing, err := findSegments(j.dir)
	if err != nil {
		return j, err
	}
	r := recovery{j: j, prev: j.prev}
	for _, n := range missing {
		r.report("segment %q is missing", segment{n: n}.name())
	}
	if len(segments) > 0 { // else it was killed before the first line
		j.segments = segments
		if err := r.scan(size); err != nil {
			return j, err
		}
	}
	j.checkEnd(r.report)
	s.mu.Lock()
	s.problems = append(s.problems, r.problems...)
	s.mu.Unlock()

	j.drops.total = max(j.drops.total, j.drops.told)
	j.misses.total = max(j.misses.total, j.misses.told)
	j.cuts.total += j.cuts.told                                 // what checkEnd found is none of those that were told
	if j.cuts.untold()+j.drops.untold()+j.misses.untold() > 0 { // killed between two gap records
		j.mu.Lock()
		defer j.mu.Unlock()
		if err := j.tellGap(); err != nil {
			s.problem(err.Error())
		}
	}
	return j, nil
}

// countBodies makes sure there is a place for bodies and counts those there.
func (j *Journal) countBodies() error {
	if err := os.MkdirAll(j.bodyDir(), 0o700); err != nil {
		return err
	}
	d, err := os.Open(j.bodyDir())
	if err != nil {
		return err
	}
	defer d.Close()
	for {
		entries, err := d.ReadDir(1024)
		for _, e := range entries {
			if fi, err := e.Info(); err == nil && fi.Mode().IsRegular() {
				j.bodyBytes += fi.Size()
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// recovery is the state of one scan. Its view is one line behind: a line is
// judged when the next one is known.
type recovery struct {
	j        *Journal
	problems []string
	damage   int
	suspect  []int64 // damaged lines since the last good one: tail, or worth a report

	end  int64  // behind the last good line
	prev []byte // digest of the line before line, good or not

	line  []byte // the line to be judged
	off   int64
	whole bool // line ended with a newline
	next  int64
}

// scan judges the lines of all segments, which have size bytes, and takes off the tail.
func (r *recovery) scan(size int64) error {
	root, err := os.OpenRoot(r.j.dir)
	if err != nil {
		return err
	}
	files := &segmentReader{root: root, segments: func() []segment { return r.j.segments }}
	defer files.close()
	lines := files.lines(0, size)
	defer lines.close()
	for {
		line, off, err := lines.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil && !errors.Is(err, errTorn) {
			return err
		}
		r.judge(line, false)
		r.line = append(r.line[:0], line...)
		// What is good is vouched for or JSON: a line that lacks its newline at the end
		// of a segment that is not the last is neither followed nor whole.
		r.off, r.next = off, lines.off
		r.whole = err == nil && r.next-off == int64(len(line))+1
	}
	r.judge(nil, true)
	if r.end < size {
		return r.cut(size)
	}
	return nil
}

// judge decides about r.line, now that its successor is known.
func (r *recovery) judge(successor []byte, last bool) {
	if r.next == 0 {
		return // nothing read yet
	}
	sum := digest(r.line)
	h, good := parseHead(r.line)
	good = good && r.whole
	if good {
		next, ok := parseHead(successor)
		vouched := ok && bytes.Equal(next.prev, sum)
		good = vouched || json.Valid(r.line)
	}
	linked := good && bytes.Equal(h.prev, r.prev)
	r.prev = sum
	if last && !linked {
		return
	}
	if !good {
		if len(r.suspect) < maxDamage {
			r.suspect = append(r.suspect, r.off)
		}
		return
	}
	for _, off := range r.suspect {
		r.report("the line at byte %d is damaged", off)
	}
	r.suspect = r.suspect[:0]
	if !linked {
		r.report("the line at byte %d (record %d) does not link to the one before it", r.off, h.seq)
	}
	r.end = r.next
	r.j.account(h, r.line, r.report)
	r.j.prev = sum
	r.j.size = r.next
}

// account counts one good line.
func (j *Journal) account(h head, line []byte, report func(string, ...any)) {
	if h.outcome {
		delete(j.unresolved, h.seq)
		if bytes.Contains(line, fieldTruncated) { // of a response or a tunnel
			j.truncated++
		}
		return
	}
	if h.seq != j.seq+1 {
		report("record %d follows record %d", h.seq, j.seq)
	}
	j.seq = h.seq
	if h.awaitsOutcome(line) {
		j.unresolved[h.seq] = struct{}{}
	}
	if bytes.Contains(line, fieldTruncated) {
		j.truncated++
	}
	if j.store.o.Effect != nil {
		if e, err := effectOf(line); err != nil {
			report("record %d does not say what its rule changed: %v", h.seq, err)
		} else if e != nil {
			j.store.o.Effect(j.name, e)
		}
	}
	if _, after, ok := bytes.Cut(line, fieldDropped); ok {
		digits := after[:max(0, bytes.IndexAny(after, ",}"))]
		n, err := strconv.ParseUint(string(digits), 10, 64)
		if err != nil {
			report("record %d does not say how many it stands for", h.seq)
		}
		switch {
		case bytes.Contains(line, []byte(causeStorage)):
			j.misses.told += n
		case bytes.Contains(line, []byte(causeCut)):
			j.cuts.told += n
		default:
			j.drops.told += n
		}
	}
}

// maxDamage bounds the problems reported about one journal.
const maxDamage = 20

func (r *recovery) report(format string, args ...any) {
	r.damage++
	if r.damage > maxDamage {
		return
	}
	p := fmt.Sprintf("journal of %q: ", r.j.name) + fmt.Sprintf(format, args...)
	if r.damage == maxDamage {
		p += " (more is not listed)"
	}
	r.problems = append(r.problems, p)
}

// cut sets the tail aside and takes it off the journal: what is left of the segment it
// begins in is copied to a name ending in .cut-<n>, and segments after that get such a
// name. Where the copy cannot be made, on a full disk, the next line goes over it.
func (r *recovery) cut(size int64) error {
	r.damage = 0 // this is told however much was told before
	end := size
	for last := r.j.last(); len(r.j.segments) > 1 && last.start >= r.end; last = r.j.last() {
		aside, err := moveAside(filepath.Join(r.j.dir, last.name()), "cut")
		if err != nil {
			return err
		}
		r.report("%d unfinished bytes at the end were moved to %q", end-last.start, aside)
		end = last.start
		r.j.segments = r.j.segments[:len(r.j.segments)-1]
	}
	r.j.unsynced = append(r.j.unsynced, r.j.dir)
	if end == r.end {
		return nil
	}
	f, err := os.OpenFile(r.j.path(), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	from := r.end - r.j.last().start
	aside, err := setAside(io.NewSectionReader(f, from, end-r.end), f.Name())
	if err == nil {
		err = f.Truncate(from)
	}
	if err != nil {
		r.j.torn = true
		r.report("%d unfinished bytes at the end could not be set aside: %v", end-r.end, err)
		return nil
	}
	r.report("%d unfinished bytes at the end were moved to %q", end-r.end, aside)
	return nil
}

// setAside copies the tail to the first free name beside the journal.
func setAside(tail io.Reader, path string) (string, error) {
	for n := 1; ; n++ {
		name := path + ".cut-" + strconv.Itoa(n)
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return "", err
		}
		_, err = io.Copy(f, tail)
		if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
			os.Remove(name) // half a copy is worse than none: the tail is still in the journal
			return "", err
		}
		return name, nil
	}
}
