// Package journal is the durable record of everything every trajectory sent to
// the simulator and what it got back.
//
// A trajectory's journal is a directory: journal.jsonl and the segments after it hold
// one JSON line per exchange (api.Record), a second one (api.Outcome) where the outcome
// was only known later, and bodies/ holds what is too large for a line, named by its
// SHA-256. Each line carries the digest of the line before it, and records are
// numbered from 1 without gaps.
//
// The promises, in the order in which they are kept:
//
//   - What was acknowledged is in the file: Append and Finish return nil only
//     after write(2) took the whole line, and a body kept as a file is in place
//     before the line that names it. Killing the process loses nothing.
//   - Lines reach stable storage in batches, [Options.SyncEvery] apart, never
//     holding up a writer.
//   - What does not fit a trajectory's quota is itself on record: first bodies
//     are left out (truncated), then whole requests (kind gap, see lost.go).
//   - What a full disk has no room for is not acknowledged, is counted where no room
//     is needed, and is on record as a gap once there is room again.
//   - Opening repairs what a crash left: an unfinished tail is set aside, never
//     deleted, and everything before it is kept as it is.
//
// Package journal does not decide what is recorded or when; the pipeline does.
package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/linuxarena/ctis/server/api"
)

// Limits that apply where [Options] names none.
const (
	DefaultBodyLimit int64 = 1 << 30
	DefaultQuota     int64 = 2 << 30
	DefaultSyncEvery       = 100 * time.Millisecond
)

// ErrStorage says that the journal could not be written: a full disk, or one
// that fails. Nothing was acknowledged, and nothing may be: the caller answers
// 503. Writing works again by itself once the disk does.
var ErrStorage = errors.New("the journal cannot be written")

// large is from where on, in bytes of bodies, a line is treated as long.
const large = 16 << 10

// Options configure a [Store]. Dir must be set.
type Options struct {
	Dir       string        // journal root: one directory per trajectory
	Temp      string        // where bodies are collected; on Dir's filesystem, so that they can be linked. Default: Dir + ".tmp"
	BodyLimit int64         // bytes; a longer body is not kept
	Quota     int64         // bytes on disk per trajectory
	Segment   int64         // bytes of lines in one file; one line of a longer file may be longer
	SyncEvery time.Duration // how long a written line may wait for stable storage
	Now       func() time.Time
	Log       *slog.Logger
	// Effect is told of what requests changed in what rules remember, while journals
	// are opened: for each record that says so, in the order of its journal, several
	// journals at a time.
	Effect func(journal string, e *api.RuleEffect)
}

// Store holds the journals of all trajectories.
type Store struct {
	o        Options
	openFile func(path string) (file, error) // tests put a failing disk here
	slack    int64                           // quotaSlack, and less in tests
	maxAhead int                             // likewise
	maxLent  int64                           // likewise
	roomFor  func(dir string) (int64, bool)  // RoomOn, and what tests say

	long  chan struct{} // holds one for each long line in work
	dirty chan struct{} // something waits to be flushed
	done  chan struct{} // closed by Close: ends flusher and followers
	wg    sync.WaitGroup

	mu       sync.RWMutex
	closed   bool
	journals map[string]*Journal
	problems []string
}

// trajectoryName is SPEC §14's rule for ids. It also keeps names from being paths.
var trajectoryName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,62}$`)

// Open opens the journals below o.Dir and repairs what a crash left in them;
// [Store.Problems] tells what that was. It empties o.Temp of collected bodies.
func Open(o Options) (*Store, error) {
	return open(o, openJournalFile)
}

func open(o Options, openFile func(string) (file, error)) (*Store, error) {
	if o.Dir == "" {
		return nil, errors.New("journal: no directory given")
	}
	if o.Temp == "" {
		o.Temp = filepath.Clean(o.Dir) + ".tmp"
	}
	if o.BodyLimit <= 0 {
		o.BodyLimit = DefaultBodyLimit
	}
	if o.Quota <= 0 {
		o.Quota = DefaultQuota
	}
	if o.Segment <= 0 {
		o.Segment = DefaultSegment
	}
	if o.SyncEvery <= 0 {
		o.SyncEvery = DefaultSyncEvery
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	for _, dir := range []string{o.Dir, o.Temp} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("journal: %w", err)
		}
	}
	if err := removeSpools(o.Temp); err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	if err := finishRemovals(o.Dir); err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	s := &Store{
		o:        o,
		openFile: openFile,
		slack:    quotaSlack,
		maxAhead: maxAhead,
		maxLent:  maxLent,
		roomFor:  RoomOn,
		long:     make(chan struct{}, 4*runtime.GOMAXPROCS(0)),
		dirty:    make(chan struct{}, 1),
		done:     make(chan struct{}),
		journals: make(map[string]*Journal),
	}
	if err := s.recoverAll(); err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	s.wg.Go(s.flusher)
	return s, nil
}

// recoverAll opens every journal found, as many at a time as there are processors.
func (s *Store) recoverAll() error {
	entries, err := os.ReadDir(s.o.Dir)
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	slots := make(chan struct{}, runtime.GOMAXPROCS(0))
	for _, e := range entries {
		if !e.IsDir() || !validName(e.Name()) { // lost+found of a volume, for one
			continue
		}
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			j, err := s.recover(e.Name())
			s.mu.Lock()
			defer s.mu.Unlock()
			s.journals[e.Name()] = j
			if err != nil {
				j.broken = err
				s.problems = append(s.problems, fmt.Sprintf("journal of %q cannot be read: %v", e.Name(), err))
			}
		})
	}
	wg.Wait()
	slices.Sort(s.problems)
	return nil
}

// validName tells names of journals from other entries and from paths.
func validName(name string) bool {
	id, _ := api.SplitArchived(name)
	return name == api.Unattributed || trajectoryName.MatchString(id)
}

// Close stops following readers, accounts for dropped requests, flushes every
// journal to stable storage and closes the files. Later appends fail.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	s.mu.Unlock()
	close(s.done)
	s.wg.Wait()

	var errs []error
	for _, j := range s.all() {
		errs = append(errs, j.close())
	}
	return errors.Join(errs...)
}

// Problems lists what recovery had to cut, set aside or found damaged, and
// flushes that failed since. It is never nil, so that it encodes as a list.
func (s *Store) Problems() []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return append([]string{}, s.problems...)
}

// maxProblems bounds what is kept about a disk that fails in ever new ways.
const maxProblems = 1000

// problem notes p once.
func (s *Store) problem(p string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.problems) < maxProblems && !slices.Contains(s.problems, p) {
		s.problems = append(s.problems, p)
		s.o.Log.Error("journal", "problem", p)
	}
}

// Journal returns a trajectory's journal and creates it on first use. The name
// must be a trajectory id or [api.Unattributed].
func (s *Store) Journal(trajectory string) (*Journal, error) {
	if j, ok := s.Lookup(trajectory); ok {
		return j, nil
	}
	if trajectory != api.Unattributed && !trajectoryName.MatchString(trajectory) {
		return nil, fmt.Errorf("journal: %q is no trajectory id", trajectory)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, fmt.Errorf("journal of %q: %w: the store is closed", trajectory, ErrStorage)
	}
	if j, ok := s.journals[trajectory]; ok {
		return j, nil
	}
	j := s.newJournal(trajectory)
	if err := os.MkdirAll(j.bodyDir(), 0o700); err != nil {
		return nil, fmt.Errorf("journal of %q: %w: %w", trajectory, ErrStorage, err)
	}
	j.prepareCounts()
	j.unsynced = append(j.unsynced, s.o.Dir, j.dir)
	s.journals[trajectory] = j
	return j, nil
}

// Lookup returns a trajectory's journal if there is one.
func (s *Store) Lookup(trajectory string) (*Journal, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	j, ok := s.journals[trajectory]
	return j, ok
}

func (s *Store) all() []*Journal {
	s.mu.RLock()
	defer s.mu.RUnlock()
	all := make([]*Journal, 0, len(s.journals))
	for _, j := range s.journals {
		all = append(all, j)
	}
	return all
}

// removeSpools deletes the bodies that were being collected when the process
// ended. Only files named like ours: the directory may hold other things.
func removeSpools(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), spoolPrefix) && e.Type().IsRegular() {
			if err := os.Remove(filepath.Join(dir, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}
