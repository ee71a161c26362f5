//go:build unix

package simulator

import (
	"io/fs"
	"os"
	"syscall"
)

// holdDir takes the lock of a directory, which ends with the process at the latest:
// what it starts does not inherit it. It is nil if another process has the lock or
// there is none to be had.
func holdDir(dir string) (leave func()) {
	f, err := os.OpenFile(dir, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_DIRECTORY, 0)
	if err != nil {
		return nil
	}
	if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		_ = f.Close()
		return nil
	}
	return func() { _ = f.Close() }
}

// mine tells whether this user made a file.
func mine(fi fs.FileInfo) bool {
	st, ok := fi.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid()
}
