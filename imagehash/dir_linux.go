package imagehash

import (
	"io"
	"io/fs"
	"path"
	"syscall"
	"time"
)

// openInput opens a file. An [os.File] would be offered to the runtime's poller first,
// in vain: half the system calls that a small file takes are of that.
func (d dir) openInput(name string) (fs.File, error) {
	fd, err := again(func() (int, error) {
		return syscall.Open(d.name+"/"+name, syscall.O_RDONLY|syscall.O_CLOEXEC|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	})
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return &plainFile{fd: fd, name: name}, nil
}

// again repeats a system call that a signal interrupted.
func again(call func() (int, error)) (n int, err error) {
	for {
		if n, err = call(); err != syscall.EINTR {
			return n, err
		}
	}
}

// plainFile is an open file of one goroutine.
type plainFile struct {
	fd   int // -1 is closed
	name string
}

func (f *plainFile) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	n, err := again(func() (int, error) { return syscall.Read(f.fd, p) })
	switch {
	case err != nil:
		return 0, &fs.PathError{Op: "read", Path: f.name, Err: err}
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

func (f *plainFile) Stat() (fs.FileInfo, error) {
	fi := &plainInfo{name: path.Base(f.name)}
	if _, err := again(func() (int, error) { return 0, syscall.Fstat(f.fd, &fi.stat) }); err != nil {
		return nil, &fs.PathError{Op: "stat", Path: f.name, Err: err}
	}
	return fi, nil
}

// Close closes the file. After an error, EINTR too, Linux has closed it all the same.
func (f *plainFile) Close() error {
	fd := f.fd
	f.fd = -1
	if err := syscall.Close(fd); err != nil {
		return &fs.PathError{Op: "close", Path: f.name, Err: err}
	}
	return nil
}

// plainInfo says of a file what there is to hash.
type plainInfo struct {
	name string
	stat syscall.Stat_t
}

func (i *plainInfo) Name() string       { return i.name }
func (i *plainInfo) Size() int64        { return i.stat.Size }
func (i *plainInfo) IsDir() bool        { return i.Mode().IsDir() }
func (i *plainInfo) ModTime() time.Time { return time.Unix(i.stat.Mtim.Unix()) }
func (i *plainInfo) Sys() any           { return &i.stat }

// Mode is permission and whether it is a file; what else it may be is not told apart.
func (i *plainInfo) Mode() fs.FileMode {
	perm := fs.FileMode(i.stat.Mode & 0o777)
	if i.stat.Mode&syscall.S_IFMT != syscall.S_IFREG {
		return perm | fs.ModeIrregular
	}
	return perm
}
