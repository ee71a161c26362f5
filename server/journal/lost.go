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
	"time"

	"github.com/linuxarena/ctis/server/api"
)

// Requests that have no record of their own are counted, and the journal says so.
//
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
//
// What a full disk means: a request that cannot be written is not acknowledged, and
// counted in the file "missed" ([Journal.Missed]). That file is made with the journal,
// and changed in place, which takes no room. A record of kind gap tells the number as
// soon as one can be written.

// quotaSlack is how far, in bytes, lines may go beyond the quota once no body
// is kept any more.
const quotaSlack = 64 << 20

// Why requests have no record, as gap records say it. Recovery knows them by it.
const (
	causeQuota   = "requests dropped: quota"
	causeCut     = "records that were on stable storage are missing at the end of the journal before this"
	causeStorage = "requests have no record and were not acknowledged: the journal could not be written"
)

// lostCount counts the requests that have no record of their own for one cause.
type lostCount struct {
	cause       string
	total       uint64
	told        uint64 // in gap records
	flush       bool   // counted since the last flush
	first, last time.Time
}

func (c *lostCount) untold() uint64 { return c.total - c.told }

// add counts one more in the file at path, in place: the count is shorter than anything
// a disk writes by halves.
func (c *lostCount) add(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(fmt.Appendf(nil, countFormat, c.total+1), 0)
	if err != nil {
		if fi, serr := f.Stat(); serr == nil && fi.Size() == 0 {
			os.Remove(path) // made just now: none is better than one that is no count
		}
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	c.total++
	c.flush = true
	return nil
}

const countFormat = "%020d\n"

// load reads the count that an earlier process left. One that cannot be read is
// set aside and told of; then what the gap records tell is what is known.
func (c *lostCount) load(path string) (problem string) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	var n uint64
	if err == nil {
		n, err = strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64)
		if err == nil && (fmt.Sprintf(countFormat, n) != string(b) || n > math.MaxInt64) {
			err = errors.New("it is no count as one is written")
		}
	}
	if err == nil {
		c.total = n
		return ""
	}
	what := filepath.Base(path)
	aside, moveErr := moveAside(path, "damaged")
	if moveErr != nil {
		return fmt.Sprintf("the count of %s requests is damaged (%v) and cannot be set aside: %v", what, err, moveErr)
	}
	return fmt.Sprintf("the count of %s requests was damaged (%v) and is set aside as %q; requests %s after the last gap record are not counted", what, err, aside, what)
}

// moveAside gives a file a name beside its own that is not taken: it says why, and a number.
func moveAside(path, why string) (string, error) {
	for n := 1; ; n++ {
		aside := path + "." + why + "-" + strconv.Itoa(n)
		if _, err := os.Lstat(aside); errors.Is(err, fs.ErrNotExist) {
			return aside, os.Rename(path, aside)
		}
	}
}

// gapRoom is kept free for the gap records that may have to stand before a line.
const gapRoom = 2 << 10

// fits reports whether a record's line may be written. The lock is held.
func (j *Journal) fits(l *line) bool {
	return j.size+int64(l.len())+gapRoom <= j.store.o.Quota+j.store.slack
}

// drop counts a request for which there is no room. The lock is held.
func (j *Journal) drop() error {
	if err := j.ready(); err != nil {
		return err
	}
	if err := j.drops.add(j.countPath(&j.drops)); err != nil {
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

// countPath is where a count is kept.
func (j *Journal) countPath(c *lostCount) string {
	if c == &j.misses {
		return filepath.Join(j.dir, "missed")
	}
	return filepath.Join(j.dir, "dropped")
}

// prepareCounts makes room for what is counted when there is none any more. Where there
// is none now, that count is in memory only.
func (j *Journal) prepareCounts() {
	path := j.countPath(&j.misses)
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		if err := os.WriteFile(path, fmt.Appendf(nil, countFormat, 0), 0o600); err != nil {
			os.Remove(path) // half a count is none
			return
		}
		j.unsynced = append(j.unsynced, path)
	}
}

// Missed counts a request that [Journal.Append] refused with [ErrStorage], that was not
// acknowledged for it, and that will not be appended again. The journal tells of it as
// soon as it can be written: with the next record, or with [Journal.TellMissed].
func (j *Journal) Missed() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed || j.broken != nil {
		return
	}
	c := &j.misses
	if err := c.add(j.countPath(c)); err != nil {
		c.total++ // known as long as the process lives
		j.store.o.Log.Error("requests without a record are counted in memory only", "trajectory", j.name, "err", err)
	}
	c.last = j.store.o.Now()
	if c.first.IsZero() {
		c.first = c.last
	}
	j.changed()
}

// TellMissed records the requests that Missed counted, as a gap. It does nothing where
// there are none that were not told.
func (j *Journal) TellMissed() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.misses.untold() == 0 {
		return nil
	}
	return j.tellGap()
}

// tellGap writes gap records for the requests that have none. The lock is held.
func (j *Journal) tellGap() error {
	for _, c := range []*lostCount{&j.cuts, &j.drops, &j.misses} {
		if err := j.tell(c); err != nil {
			return err
		}
	}
	return nil
}

func (j *Journal) tell(c *lostCount) error {
	n := c.untold()
	if n == 0 {
		return nil
	}
	text := fmt.Sprintf("%d %s", n, c.cause)
	if !c.first.IsZero() {
		text += fmt.Sprintf(", from %s to %s", c.first.UTC().Format(time.RFC3339Nano), c.last.UTC().Format(time.RFC3339Nano))
	}
	now := j.store.o.Now()
	l, err := encode(&api.Record{
		ID:         NewID(now),
		Time:       api.Time{Time: now},
		Trajectory: j.name,
		Kind:       api.KindGap,
		Error:      text,
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
	c.told = c.total
	c.first, c.last = time.Time{}, time.Time{}
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
