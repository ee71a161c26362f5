package server

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
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
	if s.ca, err = ca.Load(filepath.Join(o.StateDir, "ca"), s.now); err != nil {
		return err
	}
	if s.registry, err = registry.Load(filepath.Join(o.StateDir, "registry"), s.now); err != nil {
		return fmt.Errorf("registrations: %w", err)
	}
	if s.journal, err = journal.Open(journal.Options{
		Dir: filepath.Join(o.StateDir, "journal"), Temp: filepath.Join(o.StateDir, "tmp"),
		BodyLimit: o.BodyLimit, Quota: o.Quota, Now: s.now, Log: s.log,
	}); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	if s.files, err = persona.OpenFiles(filepath.Join(o.StateDir, "files")); err != nil {
		return fmt.Errorf("stored files: %w", err)
	}
	s.handlers = persona.NewHandlers(s.files, s.log)
	for _, p := range append(s.registry.Problems(), s.journal.Problems()...) {
		s.log.Warn("found at start", "problem", p)
	}
	s.changing.Lock()
	defer s.changing.Unlock()
	s.reroute()
	return nil
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
	if s.journal != nil {
		errs = append(errs, s.journal.Close())
	}
	if s.lock != nil {
		errs = append(errs, s.lock.Close())
	}
	return errors.Join(errs...)
}
