package journal

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/linuxarena/ctis/server/api"
)

// follow goes on with what is written from now on, in the order of completion.
func (r *reading) follow() error {
	pos := r.size
	for {
		size, ok := r.j.wait(r.ctx, pos)
		if !ok {
			return r.ctx.Err() // nil where the journal is what ended
		}
		if err := r.each(pos, size, r.deliverNew); err != nil {
			return err
		}
		pos = size
	}
}

// deliverNew yields one line written since the following began, or, when it
// completes a record, that record.
func (r *reading) deliverNew(line []byte, at span) error {
	if r.q.Raw {
		return r.deliver(line, at)
	}
	h, ok := parseHead(line)
	switch {
	case !ok:
		return nil
	case h.outcome:
		at, ok := r.waiting[h.seq]
		if !ok {
			return nil
		}
		delete(r.waiting, h.seq)
		var o api.Outcome
		if err := json.Unmarshal(line, &o); err != nil {
			return fmt.Errorf("journal of %q: outcome of record %d: %w", r.j.name, h.seq, err)
		}
		var buf []byte
		first, err := r.at(at, &buf)
		if err != nil {
			return err
		}
		return r.yieldJoined(first, &o)
	case !r.filter.selects(h, line):
		return nil
	case h.awaitsOutcome(line):
		r.waiting[h.seq] = at
		return nil
	}
	return r.yield(line)
}

// wait returns the journal's size once it is above pos; false when ctx, the
// journal or the store ends first, or the journal rests.
func (j *Journal) wait(ctx context.Context, pos int64) (size int64, ok bool) {
	for {
		j.mu.Lock()
		size = j.size
		if size <= pos && (j.closed || j.resting) {
			j.mu.Unlock()
			return 0, false
		}
		if j.wake == nil {
			j.wake = make(chan struct{})
		}
		wake := j.wake
		j.mu.Unlock()
		if size > pos {
			return size, true
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return 0, false
		case <-j.store.done:
			return 0, false
		}
	}
}
