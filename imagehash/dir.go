package imagehash

import (
	"io/fs"
	"os"
)

// Dir is the build context in a directory: [os.DirFS], whose files are hashed and
// built, on Linux, without waiting for a program to fill a pipe and without following
// a symbolic link. What was a file when it was found may be either by the time it is
// read, and is then refused.
func Dir(name string) fs.FS {
	if files, ok := os.DirFS(name).(directory); ok {
		return dir{files, name}
	}
	return os.DirFS(name)
}

// directory is what [os.DirFS] says it gives.
type directory interface {
	fs.StatFS
	fs.ReadFileFS
	fs.ReadDirFS
	fs.ReadLinkFS
}

type dir struct {
	directory
	name string
}

// inputFS is a context that opens what was found to be a file in a way of its own.
type inputFS interface {
	openInput(name string) (fs.File, error)
}

// openInput opens what was found to be a file.
func openInput(fsys fs.FS, p string) (fs.File, error) {
	open := fsys.Open
	if own, ok := fsys.(inputFS); ok {
		open = own.openInput
	}
	f, err := open(p)
	if err == nil {
		return f, nil
	}
	if fi, e := fs.Lstat(fsys, p); e == nil && !fi.Mode().IsRegular() {
		return nil, &ChangedInputError{Path: p, Err: err}
	}
	return nil, changed(p, err)
}
