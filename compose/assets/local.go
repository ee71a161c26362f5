package assets

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/linuxarena/ctis/server/api"
)

// Source is a file or directory of this machine and the path it is served under.
type Source struct {
	Path string // on this machine
	Dest string // below /assets; "" for the contents of a directory at its top
}

// Place says where each of paths is served, as cp says where it copies to: dest is
// what a single one is called, and the directory that all go into when it ends with
// a slash or there are several. A path that ends in "." means the contents of that
// directory. An *[Error] says what is wrong with dest.
func Place(paths []string, dest string) ([]Source, error) {
	into := strings.HasSuffix(dest, "/") || dest == "." || len(paths) > 1
	top := strings.TrimSuffix(strings.TrimPrefix(dest, "./"), "/")
	if top == "." {
		top = ""
	}
	if strings.HasPrefix(dest, "/") {
		return nil, &Error{Msg: fmt.Sprintf("destination %q is absolute", dest), Do: "it is a path below /assets: write " + fmt.Sprintf("%q", "./"+strings.Trim(dest, "/"))}
	}
	if top != "" {
		if err := api.CheckAssetPath(top); err != nil {
			return nil, &Error{Msg: fmt.Sprintf("destination %q cannot be served: %v", dest, err), Do: "it is a path below /assets, such as \"tools/install.sh\" or \"tools/\""}
		}
	}
	var all []Source
	seen := map[string]string{}
	for _, p := range paths {
		at := top
		base := filepath.Base(p)
		contents := base == "." || base == ".." || strings.HasSuffix(p, string(filepath.Separator)+".")
		if into && !contents {
			at = path.Join(top, base)
		}
		if before, twice := seen[at]; twice && !contents {
			return nil, &Error{Msg: fmt.Sprintf("%q and %q would both be %q", before, p, at), Do: "put them one after the other, under two names"}
		}
		seen[at] = p
		all = append(all, Source{p, at})
	}
	return all, nil
}

// Send uploads files and whole directories. Links and whatever else is no regular
// file are refused, all of them named in one *[Error].
func Send(w *api.AssetWriter, sources []Source, progress Progress) error {
	l := &local{to: w, sent: map[string]string{}, tell: progress}
	for _, s := range sources {
		if err := l.source(s); err != nil {
			return err
		}
	}
	return refusal("what is to be put", l.refused, "put copies of the files themselves")
}

type local struct {
	to      *api.AssetWriter
	sent    map[string]string // source by served path
	refused []string
	bytes   int64
	tell    Progress
}

func (l *local) source(s Source) error {
	fi, err := os.Lstat(s.Path)
	if err != nil {
		return unreadable(s.Path, err)
	}
	if !fi.IsDir() {
		dir, base := filepath.Split(s.Path)
		if dir == "" {
			dir = "."
		}
		root, err := os.OpenRoot(dir)
		if err != nil {
			return unreadable(dir, err)
		}
		defer root.Close()
		if s.Dest == "" {
			return &Error{Msg: fmt.Sprintf("%q is a file and has no name to be served under", s.Path), Do: fmt.Sprintf("name it: %q", base)}
		}
		return l.file(root, base, s.Path, s.Dest, fi.Mode())
	}
	root, err := os.OpenRoot(s.Path)
	if err != nil {
		return unreadable(s.Path, err)
	}
	defer root.Close()
	return fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return unreadable(filepath.Join(s.Path, name), err)
		}
		if d.IsDir() {
			return nil
		}
		return l.file(root, name, filepath.Join(s.Path, name), path.Join(s.Dest, name), d.Type())
	})
}

// file sends the file called name below root, which is where says to people.
func (l *local) file(root *os.Root, name, where, dest string, mode fs.FileMode) error {
	switch {
	case mode&fs.ModeSymlink != 0:
		l.refused = append(l.refused, fmt.Sprintf("%q is a link", where))
		return nil
	case !mode.IsRegular():
		l.refused = append(l.refused, fmt.Sprintf("%q is %s", where, kind(mode)))
		return nil
	}
	if err := api.CheckAssetPath(dest); err != nil {
		l.refused = append(l.refused, fmt.Sprintf("%q: %v", where, err))
		return nil
	}
	if before, twice := l.sent[dest]; twice {
		return &Error{Msg: fmt.Sprintf("%q and %q would both be %q", before, where, dest), Do: "put them one after the other, under two names"}
	}
	if len(l.sent) >= api.MaxAssets {
		return tooMuch("more than %d files", api.MaxAssets)
	}
	l.sent[dest] = where
	f, err := root.OpenFile(name, os.O_RDONLY|nonblocking, 0)
	if err != nil {
		return unreadable(where, err)
	}
	defer f.Close() // only read
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	if !fi.Mode().IsRegular() { // it is another one than a moment ago
		return fmt.Errorf("%q changed while it was read", where)
	}
	if fi.Size() > api.MaxAssetBytes-l.bytes {
		return tooMuch("more than %d bytes (at %q)", int64(api.MaxAssetBytes), where)
	}
	a := api.Asset{Path: dest, Size: fi.Size(), Mode: uint32(fi.Mode().Perm()), Modified: fi.ModTime().UTC()}
	_, err = l.to.File(a, &counted{r: io.Reader(f), files: len(l.sent), bytes: &l.bytes, tell: l.tell})
	var full *fs.PathError
	if errors.As(err, &full) {
		return fmt.Errorf("read %q: %w", where, err)
	}
	return err
}

// unreadable says of a path of this machine, as it was given, what is wrong with it.
func unreadable(where string, err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		err = at.Err // which names another path: the one below the directory that is open
	}
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return &Error{Msg: fmt.Sprintf("there is no %q", where), Do: "name files and directories of this machine, as seen from the current directory"}
	case errors.Is(err, fs.ErrPermission):
		return &Error{Msg: fmt.Sprintf("%q may not be read", where), Do: "run ctis as a user who may, or put a copy"}
	}
	return fmt.Errorf("read %q: %w", where, err)
}

// kind says what is no regular file.
func kind(mode fs.FileMode) string {
	switch {
	case mode&fs.ModeNamedPipe != 0:
		return "a named pipe"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	case mode&fs.ModeDevice != 0:
		return "a device"
	}
	return "no regular file"
}
