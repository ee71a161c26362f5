package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"
)

// changed notes that there is something to flush. The journal's lock is held.
func (j *Journal) changed() {
	j.flush = true
	select {
	case j.store.dirty <- struct{}{}:
	default: // the flusher already knows
	}
}

// flusher brings what was written to stable storage, in batches: it wakes at
// the first line, lets more arrive for SyncEvery, and flushes every journal
// that changed. An idle store costs nothing.
func (s *Store) flusher() {
	for {
		select {
		case <-s.done:
			return
		case <-s.dirty:
		}
		batch := time.NewTimer(s.o.SyncEvery)
		select {
		case <-s.done:
			batch.Stop()
			return
		case <-batch.C:
		}
		for _, j := range s.all() {
			if err := j.sync(); err != nil {
				s.problem(fmt.Sprintf("journal of %q: flushing to disk failed, the last lines may not survive a power failure: %v", j.name, err))
			}
		}
	}
}

// sync flushes bodies before the lines that name them, and segments in their order.
func (j *Journal) sync() error {
	j.mu.Lock()
	paths, full, flush, f := j.unsynced, j.full, j.flush, j.file
	for _, c := range []*lostCount{&j.drops, &j.misses} {
		if c.flush {
			paths = append(paths, j.countPath(c), j.dir)
			c.flush = false
		}
	}
	j.unsynced, j.full, j.flush = nil, nil, false
	upTo := anchor{j.seq, j.size}
	j.mu.Unlock()

	var errs []error
	for _, p := range paths {
		errs = append(errs, syncPath(p))
	}
	for _, f := range full {
		errs = append(errs, f.Sync(), f.Close())
	}
	if flush && f != nil {
		errs = append(errs, f.Sync())
	}
	err := errors.Join(errs...)
	if flush && err == nil {
		j.setAnchor(upTo)
	}
	return err
}

// syncPath flushes a file, or the names in a directory.
func syncPath(path string) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // removed since
	}
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
