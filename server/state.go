package server

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/linuxarena/ctis/server/ca"
	"github.com/linuxarena/ctis/server/journal"
	"github.com/linuxarena/ctis/server/persona"
	"github.com/linuxarena/ctis/server/registry"
)

// openState opens everything under the state directory.
func (s *Server) openState(o Options) error {
	if err := os.MkdirAll(o.StateDir, 0o700); err != nil {
		return fmt.Errorf("state directory: %w", err)
	}
	var err error
	if s.lock, err = lockDir(o.StateDir); err != nil {
		return err
	}
	// Not the authority's: to make another one unasked would cut containers off.
	for _, name := range []string{"registry", "journal", "tmp", "files", "rules"} {
		if err := s.clearFor(filepath.Join(o.StateDir, name)); err != nil {
			return err
		}
	}
	if s.ca, err = ca.Load(filepath.Join(o.StateDir, "ca"), s.now); err != nil {
		return err
	}
	if s.registry, err = registry.Load(filepath.Join(o.StateDir, "registry"), s.now); err != nil {
		return fmt.Errorf("registrations: %w", err)
	}
	var damaged []string
	if s.memories, damaged, err = newMemories(filepath.Join(o.StateDir, "rules")); err != nil {
		return fmt.Errorf("what rules remember: %w", err)
	}
	s.found = append(s.found, damaged...)
	if s.journal, err = journal.Open(journal.Options{
		Dir: filepath.Join(o.StateDir, "journal"), Temp: filepath.Join(o.StateDir, "tmp"),
		BodyLimit: o.BodyLimit, Quota: o.Quota, Now: s.now, Log: s.log,
		Effect: s.memories.note,
	}); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	if s.files, err = persona.OpenFiles(filepath.Join(o.StateDir, "files")); err != nil {
		return fmt.Errorf("stored files: %w", err)
	}
	s.handlers = persona.NewHandlers(s.files, s.log)
	if err = s.openGateway(o.StateDir); err != nil {
		return err
	}
	for _, p := range slices.Concat(s.found, s.registry.Problems(), s.journal.Problems(), s.distrusted()) {
		s.log.Warn("found at start", "problem", p)
	}
	s.changing.Lock()
	defer s.changing.Unlock()
	s.reroute()
	s.memories.settle(func(id string) bool { _, ok := s.registry.Lookup(id); return ok })
	return nil
}

// clearFor sets aside what stands where a directory belongs.
func (s *Server) clearFor(dir string) error {
	fi, err := os.Stat(dir)
	if err != nil || fi.IsDir() {
		return nil //nolint:nilerr // what makes the directory says what is wrong
	}
	for n := 1; ; n++ {
		aside := fmt.Sprintf("%s.damaged-%d", dir, n)
		if _, err := os.Lstat(aside); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := os.Rename(dir, aside); err != nil {
			return fmt.Errorf("state directory: %q is no directory and cannot be set aside: %w", dir, err)
		}
		s.found = append(s.found, fmt.Sprintf("%q was no directory and is set aside as %q; what it should have held is gone", dir, filepath.Base(aside)))
		return nil
	}
}

// distrusted names trajectories that are older than the certificate authority:
// it was lost, and their containers trust the one before.
func (s *Server) distrusted() (problems []string) {
	for _, t := range s.registry.Snapshot() {
		if t.Since.Before(s.ca.Created()) {
			problems = append(problems, "containers of trajectory "+t.Trajectory+" do not trust this simulator: its certificate authority was lost and made anew; take the trajectory down and set it up again")
		}
	}
	return problems
}

// lockDir keeps a second process away from the state: two would write one
// journal. The lock goes with the process, however it ends.
func lockDir(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("state directory: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close() // nothing was written
		return nil, fmt.Errorf("state directory %q is in use by another process (%w); stop that one or choose another with --state", dir, err)
	}
	return f, nil
}

// release gives back what New took.
func (s *Server) release() error {
	var errs []error
	for _, l := range append(s.plainListeners, s.tlsListeners...) {
		_ = l.Close() // may be closed already
	}
	if s.adminListener != nil {
		_ = s.adminListener.Close() // may be closed already
	}
	if s.gateway != nil {
		s.gateway.client.Close()
	}
	if s.journal != nil {
		errs = append(errs, s.journal.Close())
	}
	if s.lock != nil {
		errs = append(errs, s.lock.Close())
	}
	if s.bell != nil {
		errs = append(errs, s.bell.close())
	}
	return errors.Join(errs...)
}
