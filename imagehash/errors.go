package imagehash

import (
	"errors"
	"fmt"
	"io/fs"
)

// MissingInputError says that a source in the Dockerfile matches nothing that
// would be sent to the build.
type MissingInputError struct {
	Dockerfile string
	Line       int    // of the instruction, from 1
	Path       string // the source, expanded
	Ignored    int    // matches that an ignore file keeps out
	IgnoreFile string // the ignore file, if Ignored > 0
}

func (e *MissingInputError) Error() string {
	if e.Ignored > 0 {
		return fmt.Sprintf("%s:%d: source %q matches only files that %s keeps out; change the ignore file or the instruction",
			e.Dockerfile, e.Line, e.Path, e.IgnoreFile)
	}
	return fmt.Sprintf("%s:%d: source %q matches no file in the build context; create it or change the instruction",
		e.Dockerfile, e.Line, e.Path)
}

// SyntaxError says that the Dockerfile cannot be read, or reads its context in a
// way whose inputs cannot be told from the file.
type SyntaxError struct {
	Dockerfile string
	Line       int // from 1; 0 if it concerns the whole file
	Message    string
	Err        error // may be nil
}

func (e *SyntaxError) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("%s: %s", e.Dockerfile, e.Message)
	}
	return fmt.Sprintf("%s:%d: %s", e.Dockerfile, e.Line, e.Message)
}

func (e *SyntaxError) Unwrap() error { return e.Err }

// NameError says that an input cannot be part of a hash: its name or link target
// has a newline, a NUL or bytes that are not UTF-8, or it is neither a file, a
// directory nor a symbolic link.
type NameError struct {
	Path string
	Why  string
}

func (e *NameError) Error() string {
	return fmt.Sprintf("build input %q %s; remove it or add it to the ignore file", e.Path, e.Why)
}

// ChangedInputError says that an input is not what it was when it was hashed.
type ChangedInputError struct {
	Path string
	Err  error // why it could not be read again; may be nil
}

func (e *ChangedInputError) Error() string {
	return fmt.Sprintf("build input %q changed after it was found; try again when nothing edits the source", e.Path)
}

func (e *ChangedInputError) Unwrap() error { return e.Err }

// changed tells an input that vanished since it was found from one that cannot be
// read.
func changed(p string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return &ChangedInputError{Path: p, Err: err}
	}
	return fmt.Errorf("read build input %q: %w", p, err)
}
