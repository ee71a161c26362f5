package trust

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
)

// What one archive of a container's files may hold. Certificate stores are a
// few megabytes in a few hundred entries.
const (
	maxArchive = 256 << 20 // bytes of the stream
	maxEntries = 50_000
	maxKept    = 128 << 20 // bytes of content kept in memory
	maxFile    = 16 << 20  // bytes of one file that is kept; larger ones are known by name alone
)

// entry is one file of a container.
type entry struct {
	header tar.Header
	data   []byte // of a regular file, when loaded
	loaded bool
}

func (e *entry) isLink() bool    { return e.header.Typeflag == tar.TypeSymlink }
func (e *entry) isDir() bool     { return e.header.Typeflag == tar.TypeDir }
func (e *entry) isRegular() bool { return e.header.Typeflag == tar.TypeReg }

// readTree reads an archive the engine made of root, an absolute path, into
// entries by absolute path. The engine names the entries from the last element
// of root down; anything else, and an entry given twice, is refused. Nothing in
// the stream is believed: sizes count as read, not as announced.
func readTree(r io.Reader, root string) (map[string]*entry, error) {
	limited := &io.LimitedReader{R: r, N: maxArchive}
	tr := tar.NewReader(limited)
	entries := map[string]*entry{}
	kept := 0
	for {
		h, err := tr.Next()
		if err == io.EOF {
			return entries, nil
		}
		if err == nil && len(entries) == maxEntries {
			err = fmt.Errorf("more than %d entries", maxEntries)
		}
		if err != nil {
			if limited.N <= 0 {
				err = fmt.Errorf("more than %d bytes", maxArchive)
			}
			return nil, fmt.Errorf("archive of %q: %w", root, err)
		}
		name, err := rebase(h.Name, root)
		if err != nil {
			return nil, fmt.Errorf("archive of %q: %w", root, err)
		}
		if _, twice := entries[name]; twice {
			return nil, fmt.Errorf("archive of %q: entry %q is there twice", root, h.Name)
		}
		e := &entry{header: *h}
		entries[name] = e
		switch h.Typeflag {
		case tar.TypeLink: // a second name of a file that came before
			target, err := rebase(h.Linkname, root)
			if err != nil {
				return nil, fmt.Errorf("archive of %q: link %q: %w", root, h.Name, err)
			}
			first, ok := entries[target]
			if !ok || !first.isRegular() {
				return nil, fmt.Errorf("archive of %q: hard link %q leads nowhere", root, h.Name)
			}
			e.data, e.loaded = first.data, first.loaded
			e.header.Typeflag, e.header.Linkname, e.header.Size = tar.TypeReg, "", first.header.Size
		case tar.TypeReg:
			if h.Size > maxFile {
				continue
			}
			if e.data, err = io.ReadAll(tr); err != nil {
				return nil, fmt.Errorf("archive of %q: entry %q: %w", root, h.Name, err)
			}
			e.loaded = true
			if kept += len(e.data); kept > maxKept {
				return nil, fmt.Errorf("archive of %q: more than %d bytes of content", root, maxKept)
			}
		}
	}
}

// rebase turns an entry's name, which starts with the last element of root,
// into an absolute path.
func rebase(name, root string) (string, error) {
	base := path.Base(root)
	for _, part := range strings.Split(name, "/") {
		if part == ".." {
			return "", fmt.Errorf("entry %q leads out of it", name)
		}
	}
	clean := strings.TrimPrefix(path.Clean("/"+name), "/")
	if clean == base {
		return root, nil
	}
	below, ok := strings.CutPrefix(clean, base+"/")
	if !ok || path.IsAbs(name) || strings.ContainsRune(name, 0) {
		return "", fmt.Errorf("entry %q is not below it", name)
	}
	return path.Join(root, below), nil
}

var errLinks = errors.New("leads through too many symbolic links")
