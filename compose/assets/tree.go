package assets

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/linuxarena/ctis/server/api"
)

// maxEntries bounds what an archive has besides files: directories and links.
const maxEntries = 2 * api.MaxAssets

// sink gets the files of an archive as they come. *[api.AssetWriter] is one.
type sink interface {
	File(a api.Asset, content io.Reader) (api.Asset, error)
	Link(a, of api.Asset) error
}

// tree is what an archive of a directory holds, by path below that directory.
type tree struct {
	files   map[string]api.Asset // regular files, links followed once resolved
	dirs    map[string]bool
	links   map[string]link
	refused []string // what cannot be served, each with the reason

	names, bytes int64
}

type link struct {
	target string
	asset  api.Asset // path, time and mode of the link's own
}

// readTree reads an archive the engine made of dir, an absolute path, passes its
// files to to, and then the links to files in it as further files. What cannot be
// served is in refused; an archive that cannot be what it claims, or beyond the
// limits, is an error. Nothing in the stream is believed: sizes count as read.
func readTree(r io.Reader, dir string, to sink, progress Progress) (*tree, error) {
	t := &tree{files: map[string]api.Asset{}, dirs: map[string]bool{}, links: map[string]link{}}
	end := &api.EndOfTar{R: r}
	in := tar.NewReader(end)
	for {
		h, err := in.Next()
		if err == io.EOF {
			err = end.Check()
			if err == nil {
				break
			}
		}
		if err == nil {
			err = t.add(h, in, dir, to, progress)
		}
		if err == nil {
			_, err = io.Copy(io.Discard, in) // of what is refused
			end.Mark()
		}
		if err != nil {
			return nil, fmt.Errorf("archive of %q: %w", dir, err)
		}
	}
	if err := t.check(); err != nil {
		return nil, fmt.Errorf("archive of %q: %w", dir, err)
	}
	if err := t.follow(dir, to); err != nil {
		return nil, err
	}
	slices.Sort(t.refused)
	return t, nil
}

// add takes one entry in.
func (t *tree) add(h *tar.Header, content io.Reader, dir string, to sink, progress Progress) error {
	name, err := rebase(h.Name, dir)
	if err != nil {
		return err
	}
	if api.SparseInTar(h) {
		return fmt.Errorf("entry %q is sparse", h.Name)
	}
	if t.has(name) {
		return fmt.Errorf("entry %q is there twice", h.Name)
	}
	if name == "" {
		if h.Typeflag != tar.TypeDir {
			return errors.New("it is not of a directory")
		}
		t.dirs[""] = true
		return nil
	}
	if t.names += int64(len(name)); t.names > api.MaxAssetNames || len(t.files)+len(t.dirs)+len(t.links)+len(t.refused) >= maxEntries {
		return tooMuch("more than %d files and directories, or %d bytes of their names", maxEntries, api.MaxAssetNames)
	}
	if h.Typeflag == tar.TypeDir {
		t.dirs[name] = true
		return nil
	}
	if err := api.CheckAssetPath(name); err != nil {
		t.refuse(name, err.Error())
		return nil
	}
	a := api.Asset{Path: name, Size: h.Size, Mode: uint32(h.Mode & 0o7777), Modified: h.ModTime.UTC()}
	switch h.Typeflag {
	case tar.TypeReg:
		if len(t.files) >= api.MaxAssets {
			return tooMuch("more than %d files", api.MaxAssets)
		}
		if h.Size < 0 || h.Size > api.MaxAssetBytes-t.bytes {
			return tooMuch("more than %d bytes (at %q)", int64(api.MaxAssetBytes), name)
		}
		sent, err := to.File(a, &counted{r: content, files: len(t.files), bytes: &t.bytes, tell: progress})
		if err != nil {
			return err
		}
		t.files[name] = sent
	case tar.TypeLink:
		return t.addName(a, h.Linkname, dir, to)
	case tar.TypeSymlink:
		t.links[name] = link{h.Linkname, a}
	case tar.TypeChar, tar.TypeBlock:
		t.refuse(name, "is a device")
	case tar.TypeFifo:
		t.refuse(name, "is a named pipe")
	default:
		t.refuse(name, fmt.Sprintf("is of the unknown type %q", h.Typeflag))
	}
	return nil
}

// addName takes a second name of a file that came before: to the archive every
// further name of a file with several is a link.
func (t *tree) addName(a api.Asset, of, dir string, to sink) error {
	target, err := rebase(of, dir)
	if err != nil {
		return fmt.Errorf("hard link %q: %w", a.Path, err)
	}
	if l, ok := t.links[target]; ok {
		l.asset.Path = a.Path
		t.links[a.Path] = l
		return nil
	}
	first, ok := t.files[target]
	if !ok {
		t.refuse(a.Path, fmt.Sprintf("is a hard link to %q, which is no file of it", target))
		return nil
	}
	return t.addLink(a, first, to)
}

func (t *tree) addLink(a, of api.Asset, to sink) error {
	if len(t.files) >= api.MaxAssets {
		return tooMuch("more than %d files", api.MaxAssets)
	}
	if err := to.Link(a, of); err != nil {
		return err
	}
	a.Size, a.SHA256 = of.Size, of.SHA256
	t.files[a.Path] = a
	return nil
}

func (t *tree) has(name string) bool {
	_, file := t.files[name]
	_, link := t.links[name]
	return file || link || t.dirs[name]
}

func (t *tree) refuse(name, why string) {
	t.refused = append(t.refused, fmt.Sprintf("%q %s", name, why))
}

// check refuses what no file system holds: something below what is no directory.
func (t *tree) check() error {
	if !t.dirs[""] {
		return errors.New("it is not of a directory")
	}
	for _, names := range []func(func(string) bool){keys(t.files), keys(t.links), keys(t.dirs)} {
		for name := range names {
			for dir := path.Dir(name); dir != "." && dir != "/"; dir = path.Dir(dir) {
				if !t.dirs[dir] && t.has(dir) {
					return fmt.Errorf("entry %q is below %q, which is no directory", name, dir)
				}
			}
		}
	}
	return nil
}

func keys[V any](m map[string]V) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// rebase turns an entry's name, which starts with the last element of dir, into the
// path below dir; "" is dir itself.
func rebase(name, dir string) (string, error) {
	if strings.ContainsRune(name, 0) || path.IsAbs(name) || slices.Contains(strings.Split(name, "/"), "..") {
		return "", fmt.Errorf("entry %q leads out of it", name)
	}
	clean, base := path.Clean(name), path.Base(dir)
	if clean == base {
		return "", nil
	}
	below, ok := strings.CutPrefix(clean, base+"/")
	if !ok {
		return "", fmt.Errorf("entry %q is not below it", name)
	}
	return below, nil
}

func tooMuch(format string, args ...any) error {
	return &Error{Msg: fmt.Sprintf("it has "+format, args...), Do: "serve less, or large files by a backend"}
}

// counted counts what is read of a file.
type counted struct {
	r     io.Reader
	files int
	bytes *int64
	tell  Progress
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	*c.bytes += int64(n)
	if c.tell != nil {
		c.tell(c.files, *c.bytes)
	}
	return n, err
}

// digests is the sink of a look: it keeps nothing but what the files are.
type digests struct{}

func (digests) File(a api.Asset, content io.Reader) (api.Asset, error) {
	h := sha256.New()
	n, err := io.Copy(h, content)
	if err == nil && n != a.Size {
		err = io.ErrUnexpectedEOF
	}
	a.SHA256 = hex.EncodeToString(h.Sum(nil))
	return a, err
}

func (digests) Link(api.Asset, api.Asset) error { return nil }
