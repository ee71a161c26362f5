package journal

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/linuxarena/ctis/server/api"
)

// Journal is the record of one trajectory. It may be used by any number of
// goroutines. Its lock is held for the writing of a line and for counting,
// never while encoding, flushing or reading.
type Journal struct {
	store *Store
	name  string
	dir   string

	// unresolved are records of earlier processes whose outcome never came.
	// Recovery fills it; it does not change afterwards.
	unresolved map[uint64]struct{}
	// broken is why this journal cannot be used, if recovery could not read it.
	broken error

	mu       sync.Mutex
	segments []segment           // never empty; only added to, so that a copy of it stays true
	file     file                // the last segment's; nil until the first line of this process
	closed   bool                //
	moved    bool                // its directory is no longer, or not for long, at dir
	resting  bool                // nobody writes to it at present: who follows it has seen all
	size     int64               // bytes of complete lines in all segments; nothing beyond counts
	torn     bool                // bytes may stand beyond size
	seq      uint64              // of the last record
	prev     []byte              // digest of the last line, hex
	running  map[uint64]struct{} // records whose outcome is still to come
	wake     chan struct{}       // closed by the next line; nil when nobody waits

	bodyBytes int64 // in bodies/ and in spools
	lent      int64 // bytes of bodies that are only passed on, see Spool.Hold
	truncated uint64
	drops     lostCount // beyond the quota
	misses    lostCount // that could not be written
	cuts      lostCount // that were written once, see anchor.go

	flush    bool     // lines were written since the last flush
	full     []file   // segments that are written to no more, and not flushed yet
	unsynced []string // files and directories to flush besides segments
}

// file is what a journal needs of its file.
type file interface {
	io.WriterAt
	Truncate(size int64) error
	Sync() error
	Close() error
}

func openJournalFile(path string) (file, error) {
	return os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
}

func (s *Store) newJournal(name string) *Journal {
	return &Journal{
		store:      s,
		name:       name,
		dir:        filepath.Join(s.o.Dir, name),
		unresolved: make(map[uint64]struct{}),
		segments:   []segment{{n: 1}},
		drops:      lostCount{cause: causeQuota},
		misses:     lostCount{cause: causeStorage},
		cuts:       lostCount{cause: causeCut},
		prev:       slices.Clone(zeroPrev),
		running:    make(map[uint64]struct{}),
	}
}

// path is that of the segment which is written to.
func (j *Journal) path() string    { return filepath.Join(j.dir, j.last().name()) }
func (j *Journal) last() segment   { return j.segments[len(j.segments)-1] }
func (j *Journal) bodyDir() string { return filepath.Join(j.dir, "bodies") }

// Append writes r as the next record and gives it its Seq and Prev, and its ID,
// Time and Trajectory if it has none. When it returns nil, the line is in the
// file. A nil Response announces an outcome: [Journal.Finish] must follow,
// except for the kinds refused, malformed and gap.
//
// A record the quota has no room for is counted as dropped instead; its Seq is
// then 0, which Finish accepts and ignores.
//
// An error that is [ErrStorage] means that nothing was recorded.
func (j *Journal) Append(r *api.Record) error {
	if !slices.Contains(api.Kinds, r.Kind) {
		return fmt.Errorf("journal of %q: %q is no kind of record", j.name, r.Kind)
	}
	if r.Time.IsZero() {
		r.Time = api.Time{Time: j.store.o.Now()}
	}
	if r.ID == "" {
		r.ID = NewID(r.Time.Time)
	}
	if r.Trajectory == "" {
		r.Trajectory = j.name
	}
	stored := *r
	stored.Seq, stored.Prev, stored.OutcomeUnknown = 0, "", false
	stored.Request = lossless(r.Request)
	stored.Response = losslessResponse(r.Response)
	defer j.store.turn(&stored)()
	l, err := encode(&stored)
	if err != nil {
		return fmt.Errorf("journal of %q: %w", j.name, err)
	}
	defer l.free()

	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.fits(l) {
		r.Seq, r.Prev = 0, ""
		return j.drop()
	}
	if err := j.tellGap(); err != nil {
		return err
	}
	prev := string(j.prev)
	if err := j.write(l, j.seq+1); err != nil {
		return err
	}
	j.seq++
	r.Seq, r.Prev = j.seq, prev
	if r.Response == nil && api.OutcomeFollows(r.Kind) {
		j.running[r.Seq] = struct{}{}
	}
	if incomplete(r) {
		j.truncated++
	}
	return nil
}

// turn waits for a turn to make the line of a record or an outcome; the caller ends it.
// Lines waiting for the lock are memory: of long ones only some are made.
func (s *Store) turn(v any) (end func()) {
	if sizeHint(v) == 0 {
		return func() {}
	}
	s.long <- struct{}{}
	return func() { <-s.long }
}

// incomplete reports whether a body of r was not kept whole.
func incomplete(r *api.Record) bool {
	return r.Request != nil && r.Request.Body.Truncated || r.Raw != nil && r.Raw.Truncated || lacking(r.Response, r.Tunnel)
}

// lacking is incomplete of what ends an exchange.
func lacking(p *api.Response, t *api.Tunnel) bool {
	return p != nil && p.Body.Truncated || t != nil && (t.Sent.Truncated || t.Received.Truncated)
}

// Finish writes the outcome of the record seq, which must have been appended
// without one. After an [ErrStorage] it may be called again.
func (j *Journal) Finish(seq uint64, o *api.Outcome) error {
	if seq == 0 {
		return nil // dropped for quota
	}
	stored := *o
	stored.Seq, stored.Prev, stored.Outcome = 0, "", true
	stored.Response = losslessResponse(o.Response)
	defer j.store.turn(&stored)()
	l, err := encode(&stored)
	if err != nil {
		return fmt.Errorf("journal of %q: %w", j.name, err)
	}
	defer l.free()

	j.mu.Lock()
	defer j.mu.Unlock()
	if _, ok := j.running[seq]; !ok {
		return fmt.Errorf("journal of %q: record %d awaits no outcome", j.name, seq)
	}
	prev := string(j.prev)
	if err := j.write(l, seq); err != nil {
		return err
	}
	delete(j.running, seq)
	if lacking(o.Response, o.Tunnel) {
		j.truncated++
	}
	o.Seq, o.Prev, o.Outcome = seq, prev, true
	return nil
}

// write puts a line at the end of the file. The lock is held. Whatever goes
// wrong, the file still ends with the last complete line as far as readers,
// later writers and recovery are concerned.
func (j *Journal) write(l *line, seq uint64) error {
	if err := j.ready(); err != nil {
		return err
	}
	b := l.seal(seq, j.prev)
	if used := j.size - j.last().start; used > 0 && used+int64(len(b)) > j.store.o.Segment {
		j.rotate()
	}
	if _, err := j.file.WriteAt(b, j.size-j.last().start); err != nil {
		j.torn = true
		j.mend() // now if the disk lets us, else before the next line
		return j.storageError(err)
	}
	j.size += int64(len(b))
	j.prev = appendDigest(j.prev[:0], b[:len(b)-1])
	j.changed()
	if j.wake != nil {
		close(j.wake)
		j.wake = nil
	}
	return nil
}

// ready opens the file if need be and removes what a failed write left behind.
func (j *Journal) ready() error {
	if j.broken != nil {
		return j.storageError(j.broken)
	}
	if j.closed {
		return j.storageError(os.ErrClosed)
	}
	if j.file == nil {
		f, err := j.store.openFile(j.path())
		if err != nil {
			return j.storageError(err)
		}
		j.file = f
		j.unsynced = append(j.unsynced, j.dir)
	}
	if err := j.mend(); err != nil {
		return j.storageError(err)
	}
	return nil
}

// rotate begins the next segment, whose name is flushed with the line that comes. Where
// it cannot be made the present one goes on: that no file can be had is no reason to
// refuse evidence. The lock is held.
func (j *Journal) rotate() {
	next := segment{n: j.last().n + 1, start: j.size}
	f, err := j.store.openFile(filepath.Join(j.dir, next.name()))
	if err == nil {
		err = f.Truncate(0) // what a broken off attempt left, if anything
	}
	if err != nil {
		j.store.problem(fmt.Sprintf("journal of %q: segment %d goes on beyond its length, for no further one can be made: %v", j.name, j.last().n, err))
		if f != nil {
			f.Close() // nothing was written to it
		}
		return
	}
	j.full = append(j.full, j.file)
	j.file = f
	j.segments = append(j.segments, next)
	j.unsynced = append(j.unsynced, j.dir)
}

// mend cuts the last segment back to its last complete line.
func (j *Journal) mend() error {
	if !j.torn {
		return nil
	}
	if err := j.file.Truncate(j.size - j.last().start); err != nil {
		return err
	}
	j.torn = false
	return nil
}

func (j *Journal) storageError(err error) error {
	return fmt.Errorf("journal of %q: %w: %w", j.name, ErrStorage, err)
}

// Rest ends the following of the journal, once what is there was delivered: its
// trajectory is gone. Lines that still come are written like any.
func (j *Journal) Rest() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.resting = true
	if j.wake != nil {
		close(j.wake)
		j.wake = nil
	}
}

// Closed says whether the journal takes no lines any more.
func (j *Journal) Closed() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.closed
}

// Live lets the journal be followed again.
func (j *Journal) Live() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.resting = false
}

// Status says how complete the journal is.
func (j *Journal) Status() api.JournalStatus {
	j.mu.Lock()
	defer j.mu.Unlock()
	return api.JournalStatus{
		Records:   j.seq,
		Bytes:     j.size + j.bodyBytes,
		Truncated: j.truncated,
		Dropped:   j.drops.total + j.misses.total + j.cuts.total,
	}
}

// close accounts for drops, flushes and closes the file.
func (j *Journal) close() error {
	j.mu.Lock()
	err := j.tellGap()
	j.closed = true
	if j.wake != nil {
		close(j.wake) // who follows it has seen all there will be
		j.wake = nil
	}
	j.mu.Unlock()
	if err == nil {
		err = j.sync()
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.file != nil {
		if cerr := j.file.Close(); err == nil {
			err = cerr
		}
		j.file = nil
	}
	return err
}
