package compose

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// An environment may come from anywhere, so what is read of it is bounded
// before it is understood: the kind and size of each file here, the depth of
// what it says in limits.go, the files that Compose reads in inventory.go.

// maxFile is the most that is read of one file, in bytes. Real ones have a
// hundredth of it.
const maxFile = 1 << 20

// refusedError is a file that is not read, or that is not understood further.
type refusedError struct {
	path    string
	line    int // 0: the whole file
	column  int
	message string // what about it is refused, after its name
	hint    string
}

func (e *refusedError) Error() string { return fmt.Sprintf("%q %s", e.path, e.message) }

// readFile reads a file of an environment. Nothing else may: a pipe would never
// end, a device would never stop. The error is a *[refusedError], or the file
// system's own.
func readFile(path string) ([]byte, error) {
	// Opening a device can do something, so what it is comes first.
	fi, err := os.Stat(path)
	if err == nil {
		err = acceptable(path, fi)
	}
	if err != nil {
		return nil, err
	}
	// Not to wait for a writer, should it have become a pipe meanwhile.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close() // only read
	if fi, err = f.Stat(); err == nil {
		err = acceptable(path, fi)
	}
	if err != nil {
		return nil, err
	}
	content, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(content) > maxFile {
		err = tooLarge(path) // it grew, or has no size, as in /proc
	}
	return content, err
}

// acceptable refuses what is no regular file of a reasonable size. A directory
// is left to the caller, who knows what it should have been.
func acceptable(path string, fi fs.FileInfo) error {
	kind := ""
	switch mode := fi.Mode(); {
	case mode.IsDir():
		return &fs.PathError{Op: "read", Path: path, Err: syscall.EISDIR}
	case mode.IsRegular() && fi.Size() > maxFile:
		return tooLarge(path)
	case mode.IsRegular():
		return nil
	case mode&fs.ModeNamedPipe != 0:
		kind = "a named pipe"
	case mode&fs.ModeSocket != 0:
		kind = "a socket"
	case mode&fs.ModeDevice != 0:
		kind = "a device"
	default:
		kind = "something else"
	}
	return &refusedError{
		path: path, message: "is " + kind + ", and only a regular file is read",
		hint: "put a file in its place",
	}
}

func tooLarge(path string) error {
	return &refusedError{
		path: path, message: fmt.Sprintf("is larger than %d KiB, the most that is read of one file", maxFile>>10),
		hint: "keep data in files of their own, for example in a volume or an image",
	}
}

// refused reports a file that is not read: at its own place if it has one, else
// where it is mentioned.
func (p *Problems) refused(shown string, at place, e *refusedError) {
	if e.line > 0 {
		at = place{File: shown, Line: e.line, Column: e.column}
	}
	q := p.errorf(at, "%q %s", shown, e.message)
	if at.File == shown {
		q.Message = "this file " + e.message
	}
	q.Hint = e.hint
}
