package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// The file "flushed" beside a journal says how far it was on stable storage: a journal
// that ends earlier when it is opened has lost its end, which no chain of digests shows.
// It is changed in place after each flush, and may be behind, never ahead.

// anchor is what it says.
type anchor struct {
	seq  uint64
	size int64 // bytes of all segments
}

const anchorFormat = "%020d %020d\n"

func (j *Journal) anchorPath() string { return filepath.Join(j.dir, "flushed") }

// setAnchor notes what was flushed. That it cannot is no harm: it is then behind.
func (j *Journal) setAnchor(a anchor) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.moved { // another journal has, or will have, that place
		return
	}
	f, err := os.OpenFile(j.anchorPath(), os.O_WRONLY|os.O_CREATE, 0o600)
	if err == nil {
		_, err = fmt.Fprintf(f, anchorFormat, a.seq, a.size)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		j.store.o.Log.Debug("what was flushed is not noted", "trajectory", j.name, "err", err)
	}
}

// checkEnd compares what was found with what was flushed. The lock is not needed yet.
func (j *Journal) checkEnd(report func(string, ...any)) {
	b, err := os.ReadFile(j.anchorPath())
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(b) == 0 {
		return // nothing was flushed yet
	}
	var a anchor
	if err == nil {
		_, err = fmt.Sscanf(string(b), anchorFormat, &a.seq, &a.size)
	}
	if err != nil {
		report("it is not known how far it was on stable storage: %v", err)
		return
	}
	if j.size >= a.size && j.seq >= a.seq {
		return
	}
	report("its end is missing: it has %d records in %d bytes, and %d in %d were on stable storage", j.seq, j.size, a.seq, a.size)
	if a.seq > j.seq {
		j.cuts.total += a.seq - j.seq
	}
}
