package journal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/linuxarena/ctis/server/api"
)

// Read calls yield with each selected line, without its newline; the slice is
// valid during the call. Reading goes to the file and takes no part in writing:
// a slow reader holds nobody up, and a journal is never in memory.
//
// Joined (not q.Raw), records come in the order of their numbers. A record that
// was complete in one line comes byte for byte as stored. One in two lines is
// encoded again with its outcome filled in; where the outcome was lost with an
// earlier process, outcome_unknown is set; where the exchange is still running,
// the record comes as stored, without a response. With q.Follow such a record
// is held back and comes, like new ones, when it is complete.
//
// With q.Raw lines come as stored and in the order of the file. Filters then
// decide about records, an outcome line shares its record's fate, and q.Limit
// counts lines.
//
// Read returns yield's error, ctx's when it ends a plain reading, and nil when
// it ends a following one. Following also ends with the journal: when it is
// closed, and while it rests.
func (j *Journal) Read(ctx context.Context, q api.JournalQuery, yield func(line []byte) error) error {
	if j.broken != nil {
		return fmt.Errorf("journal of %q: %w", j.name, j.broken)
	}
	root, err := j.openDir()
	if err != nil {
		return err
	}
	size, running := j.snapshot()
	r := &reading{
		j: j, ctx: ctx, q: q, yield: yield, file: segmentReader{root: root, segments: j.segmentList},
		filter: newFilter(q), size: size, running: running,
		ahead: outcomes{found: make(map[uint64]span)},
	}
	defer r.close()
	err = r.present()
	if err == nil && q.Follow {
		err = r.follow()
	}
	if q.Follow && ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil
	}
	return err
}

// openDir opens the journal's directory, which a reader then holds on to: the next
// journal of the trajectory may take the place of this one meanwhile.
func (j *Journal) openDir() (*os.Root, error) {
	root, err := os.OpenRoot(j.dir)
	if err != nil {
		return nil, fmt.Errorf("journal of %q: %w", j.name, err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.moved { // so it may be another's directory
		root.Close() // nothing was read
		return nil, fmt.Errorf("journal of %q was set aside or removed just now; read it again", j.name)
	}
	return root, nil
}

// setMoved notes that the directory is about to get another name, or stayed.
func (j *Journal) setMoved(moved bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.moved = moved
}

func (j *Journal) segmentList() []segment {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.segments
}

// snapshot returns the size of what is written and the records then running.
func (j *Journal) snapshot() (size int64, running map[uint64]struct{}) {
	j.mu.Lock()
	defer j.mu.Unlock()
	running = make(map[uint64]struct{}, len(j.running))
	for seq := range j.running {
		running[seq] = struct{}{}
	}
	return j.size, running
}

// span is where a line stands in the journal.
type span struct {
	off int64
	len int
}

// reading is one call of Read.
type reading struct {
	j       *Journal
	ctx     context.Context
	q       api.JournalQuery
	yield   func([]byte) error
	filter  filter
	file    segmentReader
	size    int64               // the reading before following ends here
	running map[uint64]struct{} // at that moment

	// waiting are selected records whose outcome is still to come: following,
	// where they stand; raw, only that they were selected. Their number is
	// bounded by the exchanges running at one time.
	waiting map[uint64]span
	ahead   outcomes
}

func (r *reading) close() {
	if r.ahead.lines != nil {
		r.ahead.lines.close()
	}
	r.file.close()
}

// each calls f with every line between off and end.
func (r *reading) each(off, end int64, f func(line []byte, at span) error) error {
	lines := r.file.lines(off, end)
	defer lines.close()
	for n := 0; ; n++ {
		if n%64 == 0 && r.ctx.Err() != nil {
			return r.ctx.Err()
		}
		line, off, err := lines.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("journal of %q: %w", r.j.name, err)
		}
		if err := f(line, span{off, len(line)}); err != nil {
			return err
		}
	}
}

// present reads what is there. With a limit it goes over the file once to find
// the newest lines, keeping only where they stand, then delivers those.
func (r *reading) present() error {
	r.waiting = make(map[uint64]span)
	if r.q.Limit <= 0 {
		return found(r.each(0, r.size, r.deliver))
	}
	newest := ring{limit: r.q.Limit}
	err := found(r.each(0, r.size, func(line []byte, at span) error {
		h, selected := r.selects(line)
		if !r.q.Raw && r.filter.past(h) {
			return errFound
		}
		if selected && (r.q.Raw || !h.outcome) {
			newest.add(at)
		}
		return nil
	}))
	if err != nil {
		return err
	}
	r.waiting = make(map[uint64]span)
	var buf []byte
	return newest.each(func(at span) error {
		line, err := r.at(at, &buf)
		if err != nil {
			return err
		}
		h, ok := parseHead(line)
		if !ok || r.q.Raw {
			if ok && h.awaitsOutcome(line) {
				r.waiting[h.seq] = at
			}
			return r.yield(line)
		}
		return r.record(h, line, at)
	})
}

// selects reports whether the filters let a line through. An outcome line goes
// with its record, a line nobody can read only with the raw, unfiltered journal.
func (r *reading) selects(line []byte) (h head, selected bool) {
	h, ok := parseHead(line)
	if !ok {
		return h, r.q.Raw && r.filter.all
	}
	if h.outcome {
		_, selected = r.waiting[h.seq]
		delete(r.waiting, h.seq)
		return h, selected || r.filter.all
	}
	if !r.filter.selects(h, line) {
		return h, false
	}
	if r.q.Raw && h.awaitsOutcome(line) {
		r.waiting[h.seq] = span{}
	}
	return h, true
}

// deliver yields one line of what is there.
func (r *reading) deliver(line []byte, at span) error {
	if r.q.Raw {
		if _, selected := r.selects(line); selected {
			return r.yield(line)
		}
		return nil
	}
	h, ok := parseHead(line)
	if !ok || h.outcome {
		return nil
	}
	if r.filter.past(h) {
		return errFound // records come in the order of their numbers
	}
	if !r.filter.selects(h, line) {
		r.ahead.pass(h.seq)
		return nil
	}
	return r.record(h, line, at)
}

// record yields one selected record of what is there, joined.
func (r *reading) record(h head, line []byte, at span) error {
	if !h.awaitsOutcome(line) {
		return r.yield(line)
	}
	if _, ok := r.j.unresolved[h.seq]; ok {
		return r.yieldJoined(line, nil)
	}
	if _, ok := r.running[h.seq]; ok {
		if r.q.Follow {
			r.waiting[h.seq] = at
			return nil
		}
		return r.yield(line)
	}
	o, err := r.outcome(h.seq, at)
	if err != nil {
		return err
	}
	return r.yieldJoined(line, o)
}

// yieldJoined yields a record with its outcome; nil means it was lost.
func (r *reading) yieldJoined(line []byte, o *api.Outcome) error {
	var rec api.Record
	if err := json.Unmarshal(line, &rec); err != nil {
		return fmt.Errorf("journal of %q: %w", r.j.name, err)
	}
	if o == nil {
		rec.OutcomeUnknown = true
	} else {
		rec.Response, rec.DurationMS, rec.Tunnel = o.Response, o.DurationMS, o.Tunnel
		if o.Error != "" {
			rec.Error = o.Error
		}
	}
	joined, err := appendRecord(nil, &rec)
	if err != nil {
		return fmt.Errorf("journal of %q: %w", r.j.name, err)
	}
	return r.yield(joined)
}

// at reads the line at a known place.
func (r *reading) at(at span, buf *[]byte) ([]byte, error) {
	if cap(*buf) < at.len {
		*buf = make([]byte, at.len)
	}
	line := (*buf)[:at.len]
	if _, err := r.file.ReadAt(line, at.off); err != nil {
		return nil, fmt.Errorf("journal of %q: %w", r.j.name, err)
	}
	return line, nil
}
