//go:build unix

package simulator

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
)

// turn is a file that one process at a time has the lock of.
type turn struct{ f *os.File }

// openTurn opens the file, or gives nil where there can be none.
func openTurn(name string) *turn {
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return nil
	}
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil
	}
	return &turn{f}
}

// take tries to get the lock. Where locks do not work, as on some network file
// systems, nobody waits for them.
func (t *turn) take() bool {
	err := syscall.Flock(int(t.f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	return !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR)
}

// leave gives the turn to the next. The file stays: removing it would let two
// processes hold the locks of two files of one name.
func (t *turn) leave() { _ = t.f.Close() }
