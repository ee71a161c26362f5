package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/linuxarena/ctis/server/api"
)

// What a full quota means:
//
//  1. Lines and bodies together reach Options.Quota: bodies are left out of
//     records (encoding none, truncated), lines are still written. Bodies of
//     answers are left out from half of it on: what came back never takes the
//     room of what was sent.
//  2. Lines alone reach the quota plus quotaSlack: whole requests are dropped.
//     They are still served. Each is counted in the file "dropped" before it is
//     acknowledged, so that not even kill -9 loses count, and records of kind
//     gap tell the number: the first drop at once, then each time the untold
//     ones exceed an eighth of all, when a line fits again, at Close and at
//     Open. So gaps cost a few hundred lines at most, numbers stay without
//     gaps, and the gap records' "dropped" add up to the count.
//
// Outcome lines are always written: each has a record that was let in.

// quotaSlack is how far, in bytes, lines may go beyond the quota once no body
// is kept any more.
const quotaSlack = 64 << 20

// dropCount counts the requests that have no record of their own.
type dropCount struct {
	total uint64
	told  uint64 // in gap records
	flush bool   // counted since the last flush
}

func (d *dropCount) untold() uint64 { return d.total - d.told }

// add counts one more in the file at path, which is replaced in one step: a count
// half written would be none.
func (d *dropCount) add(path string) error {
	temp := path + ".new"
	if err := os.WriteFile(temp, fmt.Appendf(nil, dropFormat, d.total+1), 0o600); err != nil {
		return err
	}
	if err := os.Rename(temp, path); err != nil {
		return err
	}
	d.total++
	d.flush = true
	return nil
}

const dropFormat = "%020d\n"

// load reads the count that an earlier process left. One that cannot be read is
// set aside and told of; then what the gap records tell is what is known.
func (d *dropCount) load(path string) (problem string) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	var n uint64
	if err == nil {
		n, err = strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64)
		if err == nil && (fmt.Sprintf(dropFormat, n) != string(b) || n > math.MaxInt64) {
			err = errors.New("it is no count as one is written")
		}
	}
	if err == nil {
		d.total = n
		return ""
	}
	aside, moveErr := moveAside(path)
	if moveErr != nil {
		return fmt.Sprintf("the count of dropped requests is damaged (%v) and cannot be set aside: %v", err, moveErr)
	}
	return fmt.Sprintf("the count of dropped requests was damaged (%v) and is set aside as %q; requests dropped after the last gap record are not counted", err, aside)
}

// moveAside gives a file a name beside its own that is not taken.
func moveAside(path string) (string, error) {
	for n := 1; ; n++ {
		aside := path + ".damaged-" + strconv.Itoa(n)
		if _, err := os.Lstat(aside); errors.Is(err, fs.ErrNotExist) {
			return aside, os.Rename(path, aside)
		}
	}
}

// gapRoom is kept free for the gap record that may have to stand before a line.
const gapRoom = 1 << 10

// fits reports whether a record's line may be written. The lock is held.
func (j *Journal) fits(l *line) bool {
	return j.size+int64(l.len())+gapRoom <= j.store.o.Quota+j.store.slack
}

// drop counts a request for which there is no room. The lock is held.
func (j *Journal) drop() error {
	if err := j.ready(); err != nil {
		return err
	}
	if err := j.drops.add(j.dropPath()); err != nil {
		return j.storageError(err)
	}
	j.changed()
	if j.drops.told == 0 || j.drops.untold() > j.drops.total/8 {
		if err := j.tellGap(); err != nil {
			j.store.o.Log.Warn("gap not on record yet", "trajectory", j.name, "err", err)
		}
	}
	return nil
}

func (j *Journal) dropPath() string { return filepath.Join(j.dir, "dropped") }

// tellGap writes a gap record for the drops that have none. The lock is held.
func (j *Journal) tellGap() error {
	n := j.drops.untold()
	if n == 0 {
		return nil
	}
	now := j.store.o.Now()
	l, err := encode(&api.Record{
		ID:         NewID(now),
		Time:       api.Time{Time: now},
		Trajectory: j.name,
		Kind:       api.KindGap,
		Error:      fmt.Sprintf("%d requests dropped: quota", n),
		Dropped:    n,
	})
	if err != nil {
		return err
	}
	defer l.free()
	if err := j.write(l, j.seq+1); err != nil {
		return err
	}
	j.seq++
	j.drops.told = j.drops.total
	return nil
}

// bodyRoom is the part of the quota in which bodies may be kept, in bytes: all of it,
// and for answers half.
func (j *Journal) bodyRoom(answer bool) int64 {
	if answer {
		return j.store.o.Quota / 2
	}
	return j.store.o.Quota
}

// reserve takes n bytes of the quota for a body; false when there is no room.
func (j *Journal) reserve(n int64, answer bool) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.size+j.bodyBytes+n > j.bodyRoom(answer) {
		return false
	}
	j.bodyBytes += n
	return true
}

// release gives reserved bytes back.
func (j *Journal) release(n int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.bodyBytes -= n
}

// roomInLine reports whether a body of n bytes may stand inside a line.
func (j *Journal) roomInLine(n int64, answer bool) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.size+j.bodyBytes+n <= j.bodyRoom(answer)
}
