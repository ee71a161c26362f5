package journal

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"

	"github.com/linuxarena/ctis/server/api"
)

// maxAhead bounds how many outcomes are remembered while records before them
// are still to be delivered.
const maxAhead = 1 << 16

// outcomes finds the second lines of records delivered in order. It runs ahead
// of the delivery through the file and remembers where outcomes of records yet
// to come stand, so each line is read at most twice however exchanges overlap.
// Only with more than maxAhead of them (one exchange that outlasts so many
// others) is a single outcome looked for on its own.
type outcomes struct {
	lines *lines // how far it has run; nil before the first search
	found map[uint64]span
	done  uint64 // records up to here were delivered or passed
}

// pass forgets what is no longer asked for.
func (o *outcomes) pass(seq uint64) {
	o.done = seq
	delete(o.found, seq)
}

// outcome finds the outcome of the record seq that stands at first. It returns
// nil where there is none, which in a sound journal does not happen: records
// without one are known (unresolved, running).
func (r *reading) outcome(seq uint64, first span) (*api.Outcome, error) {
	defer r.ahead.pass(seq)
	if at, ok := r.ahead.found[seq]; ok {
		return r.decodeOutcome(at)
	}
	if r.ahead.lines == nil {
		r.ahead.lines = r.file.lines(first.off, r.size)
	}
	if len(r.ahead.found) >= r.j.store.maxAhead {
		maps.DeleteFunc(r.ahead.found, func(seq uint64, _ span) bool { return seq <= r.ahead.done })
	}
	for len(r.ahead.found) < r.j.store.maxAhead {
		line, off, err := r.ahead.lines.next()
		if errors.Is(err, io.EOF) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("journal of %q: %w", r.j.name, err)
		}
		h, ok := parseHead(line)
		if !ok || !h.outcome {
			continue
		}
		at := span{off, len(line)}
		if h.seq == seq {
			return r.decodeOutcome(at)
		}
		if h.seq > r.ahead.done {
			r.ahead.found[h.seq] = at
		}
	}
	return r.search(seq, r.ahead.lines.off)
}

// search looks for one outcome from off on.
func (r *reading) search(seq uint64, off int64) (*api.Outcome, error) {
	var found *span
	err := r.each(off, r.size, func(line []byte, at span) error {
		if h, ok := parseHead(line); ok && h.outcome && h.seq == seq {
			found = &at
			return errFound
		}
		return nil
	})
	if found != nil {
		return r.decodeOutcome(*found)
	}
	return nil, err
}

var errFound = errors.New("found") // ends a search

// found is err, and nil for the end of a search.
func found(err error) error {
	if errors.Is(err, errFound) {
		return nil
	}
	return err
}

func (r *reading) decodeOutcome(at span) (*api.Outcome, error) {
	var buf []byte
	line, err := r.at(at, &buf)
	if err != nil {
		return nil, err
	}
	o := new(api.Outcome)
	if err := json.Unmarshal(line, o); err != nil {
		return nil, fmt.Errorf("journal of %q: %w", r.j.name, err)
	}
	return o, nil
}
