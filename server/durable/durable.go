// Package durable writes files that are there, whole, after a crash: for state
// that is small and replaced as a whole.
package durable

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// TempPrefix begins the names of files that are being written. One that is there
// at start was left by a crash and means nothing.
const TempPrefix = ".new-"

// WriteFile replaces the file at path, or leaves the one that is there: the
// data goes to a temporary file beside it, is flushed, and takes the name in
// one step.
func WriteFile(path string, data []byte, mode fs.FileMode) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), TempPrefix+"*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = f.Close()           // the first error is the one that tells
			_ = os.Remove(f.Name()) // nobody reads it; the next start ignores it
		}
	}()
	if err := f.Chmod(mode); err != nil {
		return err
	}
	if _, err := f.Write(data); err != nil {
		return fmt.Errorf("write %q: %w", path, err)
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("flush %q: %w", path, err)
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(path))
}

// SyncDir flushes a directory, so that names made or removed in it stay so.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	if err := d.Sync(); err != nil {
		_ = d.Close() // the first error is the one that tells
		return err
	}
	return d.Close()
}
