package trust

import (
	"archive/tar"
	"context"
	"io"
	"os"
	"path"
	"strings"

	"github.com/containerd/errdefs"
)

// treeRoots are read whole, at once: nearly everything asked for is in them, and
// every call costs the engine a mount of the container's file system.
var treeRoots = [...]string{"/etc/ssl", "/etc/pki"}

// maxHops bounds symbolic links in one path, as the kernel does.
const maxHops = 40

// files is a container's file system as far as it has been looked at.
type files struct {
	eng     Engine
	id      string
	entries map[string]*entry // nil: known to be missing
	trees   map[string]bool   // treeRoots that are loaded
}

func newFiles(eng Engine, id string) *files {
	dir := func() *entry { return &entry{header: tar.Header{Typeflag: tar.TypeDir}} }
	return &files{
		eng: eng, id: id, trees: map[string]bool{},
		// An image where /etc is something else than a directory boots nothing.
		entries: map[string]*entry{"/": dir(), "/etc": dir()},
	}
}

// resolve follows every symbolic link of p inside the container's root, where
// ".." stops. It returns the real path, also when nothing is there (nil entry).
func (f *files) resolve(ctx context.Context, p string) (string, *entry, error) {
	at, rest, hops := "/", split(p), 0
	for len(rest) > 0 {
		step := rest[0]
		rest = rest[1:]
		if step == ".." {
			at = path.Dir(at)
			continue
		}
		next := path.Join(at, step)
		e, err := f.lstat(ctx, next)
		switch {
		case err != nil:
			return "", nil, err
		case e == nil:
			return path.Join(append([]string{next}, rest...)...), nil, nil
		case e.isLink():
			if hops++; hops > maxHops {
				return "", nil, &FileError{Path: p, Why: errLinks.Error()}
			}
			if path.IsAbs(e.header.Linkname) {
				at = "/"
			}
			rest = append(split(e.header.Linkname), rest...)
			continue
		case len(rest) > 0 && !e.isDir():
			return "", nil, &FileError{Path: next, Why: "is not a directory"}
		}
		at = next
	}
	e, err := f.lstat(ctx, at)
	return at, e, err
}

func split(p string) []string {
	return strings.FieldsFunc(path.Clean(p), func(r rune) bool { return r == '/' })
}

// lstat looks at a path whose directory is real. Nil means that nothing is
// there.
func (f *files) lstat(ctx context.Context, p string) (*entry, error) {
	for {
		if e, known := f.entries[p]; known {
			return e, nil
		}
		root := ""
		for _, r := range treeRoots {
			if p == r || strings.HasPrefix(p, r+"/") {
				root = r
			}
		}
		if root == "" {
			return f.stat(ctx, p)
		}
		if f.trees[root] {
			return nil, nil
		}
		if err := f.load(ctx, root); err != nil {
			return nil, err
		}
		f.trees[root] = true
	}
}

// stat asks the engine about one path. Of a link it says where it ends, with
// every further link followed inside the container's root.
func (f *files) stat(ctx context.Context, p string) (*entry, error) {
	s, err := f.eng.ContainerStatPath(ctx, f.id, p)
	if errdefs.IsNotFound(err) {
		f.entries[p] = nil
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	h := tar.Header{Typeflag: tar.TypeReg, Size: s.Size, ModTime: s.Mtime, Mode: int64(s.Mode.Perm())}
	switch {
	case s.Mode&os.ModeSymlink != 0:
		h.Typeflag, h.Linkname = tar.TypeSymlink, path.Clean("/"+s.LinkTarget)
	case s.Mode.IsDir():
		h.Typeflag = tar.TypeDir
	case !s.Mode.IsRegular():
		h.Typeflag = tar.TypeChar // some device: only that it is no file matters
	}
	f.entries[p] = &entry{header: h}
	return f.entries[p], nil
}

// there tells whether something is at a path, in one question outside the trees:
// links on the way are the engine's to follow.
func (f *files) there(ctx context.Context, p string) (bool, error) {
	for _, r := range treeRoots {
		if strings.HasPrefix(p, r+"/") {
			_, e, err := f.resolve(ctx, p)
			return e != nil, err
		}
	}
	if e, known := f.entries[p]; known {
		return e != nil, nil
	}
	_, err := f.eng.ContainerStatPath(ctx, f.id, p)
	if errdefs.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}

// load reads everything at and below p.
func (f *files) load(ctx context.Context, p string) error {
	stream, _, err := f.eng.CopyFromContainer(ctx, f.id, p)
	if errdefs.IsNotFound(err) {
		f.entries[p] = nil
		return nil
	}
	if err != nil {
		return err
	}
	defer stream.Close()
	entries, err := readTree(stream, p)
	if err != nil {
		return err
	}
	// To its end, so that the connection can be used again.
	_, _ = io.Copy(io.Discard, io.LimitReader(stream, 1<<20))
	for name, e := range entries {
		f.entries[name] = e
	}
	return nil
}

// read returns the regular file at a real path with its content.
func (f *files) read(ctx context.Context, p string) (*entry, error) {
	e, err := f.lstat(ctx, p)
	if err != nil {
		return nil, err
	}
	switch {
	case e == nil:
		return nil, &FileError{Path: p, Why: "does not exist"}
	case !e.isRegular():
		return nil, &FileError{Path: p, Why: "is not a regular file"}
	case e.header.Size > maxFile:
		return nil, &FileError{Path: p, Why: "is too large for a file of certificates"}
	case e.loaded:
		return e, nil
	}
	if err := f.load(ctx, p); err != nil {
		return nil, err
	}
	if e = f.entries[p]; e == nil || !e.loaded {
		return nil, &FileError{Path: p, Why: "changed while it was read"}
	}
	return e, nil
}
