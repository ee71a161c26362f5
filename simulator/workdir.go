package simulator

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// workPrefixes begin the names of the directories in which images are made.
var workPrefixes = []string{"ctis-build-", "ctis-program-"}

// youngWork is how old a directory is before it can be one whose process died: a
// process needs a moment between making it and holding it.
const youngWork = time.Minute

// makeWorkDir makes a directory to build in, below the system's directory for such
// things, and removes what killed processes left there. This process holds it until
// done removes it.
func makeWorkDir(prefix string) (dir string, done func() error, err error) {
	SweepWork()
	dir, err = os.MkdirTemp("", prefix)
	if err != nil {
		return "", nil, fmt.Errorf("make a directory to build in: %w", err)
	}
	leave := func() {}
	if hold := holdDir(dir); hold != nil {
		leave = hold
	}
	return dir, func() error { defer leave(); return os.RemoveAll(dir) }, nil
}

// SweepWork removes directories in which images were being made by processes of this
// user that were killed, and tells how many. One that cannot be removed is left for
// the next time: nothing depends on it.
func SweepWork() (removed int) {
	entries, err := os.ReadDir(os.TempDir())
	if err != nil {
		return 0
	}
	for _, e := range entries {
		if e.IsDir() && isWork(e.Name()) && sweep(filepath.Join(os.TempDir(), e.Name())) == nil {
			removed++
		}
	}
	return removed
}

func isWork(name string) bool {
	for _, prefix := range workPrefixes {
		if number, ok := strings.CutPrefix(name, prefix); ok && number != "" && strings.Trim(number, "0123456789") == "" {
			return true
		}
	}
	return false
}

var errInUse = errors.New("in use, or not this user's")

func sweep(dir string) error {
	fi, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if !fi.IsDir() || !mine(fi) || time.Since(fi.ModTime()) < youngWork {
		return errInUse
	}
	leave := holdDir(dir)
	if leave == nil {
		return errInUse
	}
	defer leave()
	return os.RemoveAll(dir)
}
