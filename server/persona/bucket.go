package persona

import (
	"cmp"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/linuxarena/ctis/templates/pages"
)

// bucket is the files of one endpoint of one trajectory. It is only an address:
// making one touches nothing.
type bucket struct {
	files      *Files
	trajectory string
	path       string // below the trajectory's directory
}

// content is bytes that can be made a file without changing hands.
type content interface {
	Size() int64
	SHA256() string
	LinkTo(path string) error
}

func (b bucket) rel(name string) string { return path.Join(b.trajectory, b.path, name) }
func (b bucket) abs(name string) string { return filepath.Join(b.files.dir, b.rel(name)) }

// put makes c the content of key, if what it holds so far is as only wants it.
func (b bucket) put(key, contentType string, modified time.Time, c content, only condition) (e *entry, replaced bool, err error) {
	t, err := b.files.tenant(b.trajectory)
	if err != nil {
		return nil, false, err
	}
	e = &entry{Key: key, File: rand.Text() + bodySuffix, Size: c.Size(), SHA256: c.SHA256(), Type: contentType, Modified: modified}
	t.mu.RLock()
	err = t.admit(b.path, e) // before any byte moves, and once more when it counts
	if err == nil {
		err = only.check(t.buckets[b.path][key])
	}
	t.mu.RUnlock()
	if err != nil {
		return nil, false, err
	}
	old, err := b.place(t, e, c, only)
	if err != nil {
		return nil, false, err
	}
	if old != nil {
		// A reader that is about to open it looks again. One that cannot be
		// deleted is swept at the next start.
		_ = b.files.root.Remove(b.rel(old.File))
	}
	return e, old != nil, nil
}

// place writes body and description and lets the key name them.
func (b bucket) place(t *tenant, e *entry, c content, only condition) (old *entry, err error) {
	root := b.files.root
	if err := b.makeDir(); err != nil {
		return nil, err
	}
	draft := rand.Text() + ".new"
	defer func() {
		if err != nil { // leave nothing behind; the next start would sweep it
			_ = root.Remove(b.rel(e.File))
			_ = root.Remove(b.rel(draft))
		}
	}()
	if err := c.LinkTo(b.abs(e.File)); err != nil {
		return nil, err
	}
	text, err := e.describe()
	if err != nil {
		return nil, err
	}
	if err := root.WriteFile(b.rel(draft), text, 0o600); err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := errors.Join(t.admit(b.path, e), only.check(t.buckets[b.path][e.Key])); err != nil {
		return nil, err
	}
	if err := root.Rename(b.rel(draft), b.rel(descriptionName(e.Key))); err != nil {
		return nil, err
	}
	return t.set(b.path, e), nil
}

func (b bucket) makeDir() error { return b.files.root.MkdirAll(b.rel(""), 0o700) }

// open opens what key holds; content is nil when it holds nothing.
func (b bucket) open(key string) (e *entry, content *os.File, err error) {
	t, err := b.files.tenant(b.trajectory)
	if err != nil {
		return nil, nil, err
	}
	for {
		before := e
		t.mu.RLock()
		e = t.buckets[b.path][key]
		t.mu.RUnlock()
		if e == nil {
			return nil, nil, nil
		}
		content, err = b.files.root.Open(b.rel(e.File))
		if errors.Is(err, fs.ErrNotExist) && e != before {
			continue // replaced in between: look again
		}
		return e, content, err
	}
}

// lookup returns what the index says about key, nil for nothing.
func (b bucket) lookup(key string) (*entry, error) {
	t, err := b.files.tenant(b.trajectory)
	if err != nil {
		return nil, err
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.buckets[b.path][key], nil
}

// remove deletes a key, if what it holds is as only wants it; found says whether
// it was there.
func (b bucket) remove(key string, only condition) (found bool, err error) {
	t, err := b.files.tenant(b.trajectory)
	if err != nil {
		return false, err
	}
	t.mu.Lock()
	e := t.buckets[b.path][key]
	if e == nil || t.gone {
		t.mu.Unlock()
		return false, nil
	}
	err = only.check(e)
	if err == nil {
		err = b.files.root.Remove(b.rel(descriptionName(key)))
	}
	if err == nil {
		t.unset(b.path, e)
	}
	t.mu.Unlock()
	if err != nil {
		return true, err
	}
	_ = b.files.root.Remove(b.rel(e.File)) // else swept at the next start
	return true, nil
}

// list returns up to limit entries in the order of their keys, behind the key after.
func (b bucket) list(after string, limit int) ([]*entry, error) {
	t, err := b.files.tenant(b.trajectory)
	if err != nil {
		return nil, err
	}
	var all []*entry
	t.mu.RLock()
	for key, e := range t.buckets[b.path] {
		if key > after {
			all = append(all, e)
		}
	}
	t.mu.RUnlock()
	slices.SortFunc(all, func(a, b *entry) int { return cmp.Compare(a.Key, b.Key) })
	return all[:min(limit, len(all))], nil
}

// children lists the names directly below prefix, which is "" or ends with a
// slash: directories first, as nginx does, at most limit. found is false when
// nothing is there.
func (b bucket) children(prefix string, limit int) (entries []pages.Entry, found bool, err error) {
	t, err := b.files.tenant(b.trajectory)
	if err != nil {
		return nil, false, err
	}
	type child struct {
		name string
		dir  bool
	}
	byName := make(map[child]pages.Entry)
	t.mu.RLock()
	for key, e := range t.buckets[b.path] {
		rest, ok := strings.CutPrefix(key, prefix)
		if !ok || rest == "" {
			continue
		}
		name, _, dir := strings.Cut(rest, "/")
		c := child{name, dir}
		entry := pages.Entry{Name: name, Dir: dir, Size: e.Size, ModTime: e.Modified}
		if before, ok := byName[c]; ok && before.ModTime.After(entry.ModTime) {
			entry.ModTime = before.ModTime
		}
		byName[c] = entry
	}
	t.mu.RUnlock()
	for _, e := range byName {
		entries = append(entries, e)
	}
	slices.SortFunc(entries, func(a, b pages.Entry) int {
		if a.Dir != b.Dir {
			if a.Dir {
				return -1
			}
			return 1
		}
		return cmp.Compare(a.Name, b.Name)
	})
	return entries[:min(limit, len(entries))], len(entries) > 0, nil
}
