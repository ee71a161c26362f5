package persona

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/linuxarena/ctis/server/api"
	"github.com/linuxarena/ctis/server/durable"
	"github.com/linuxarena/ctis/server/journal"
)

// stage is an upload of assets that is whole and on stable storage, and not served.
type stage struct {
	entries []*entry
	sum     api.AssetSum
	since   time.Time
}

// stageLife is how long an upload waits for being committed. Its sender does that at
// once, or was killed.
const stageLife = 10 * time.Minute

// StageAssets takes an upload (see [api.AssetReader]) up to its end. Nothing of it
// stays when it fails. Refusals are of type *[api.Error].
func (f *Files) StageAssets(trajectory string, from io.Reader) (_ *api.AssetsStaged, err error) {
	t, err := f.tenant(trajectory)
	if err != nil {
		return nil, err
	}
	b := f.bucket(trajectory, "", api.EndpointAssets)
	name, s := rand.Text(), &stage{}
	t.mu.Lock()
	for other, old := range t.staged {
		if old != nil && time.Since(old.since) > stageLife {
			delete(t.staged, other)
			b.discard(old)
		}
	}
	switch {
	case t.gone:
		err = errGone
	case len(t.staged) >= api.MaxAssetStages:
		err = api.Errorf(409, api.CodeHeld, "%d uploads of assets of %q are in work", len(t.staged), trajectory)
	default:
		t.staged[name] = nil // its place; it cannot be committed yet
	}
	t.mu.Unlock()
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			t.mu.Lock()
			delete(t.staged, name)
			t.mu.Unlock()
			b.discard(s)
		}
	}()
	if err := b.makeDir(); err != nil {
		return nil, err
	}
	if err := b.receive(s, from); err != nil {
		return nil, err
	}
	if err := b.flushAll(s.entries); err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.gone {
		return nil, errGone
	}
	s.since = time.Now()
	t.staged[name] = s
	return &api.AssetsStaged{Stage: name, AssetSum: s.sum}, nil
}

// receive writes the bodies of an upload.
func (b bucket) receive(s *stage, from io.Reader) error {
	root := b.files.root
	fileOf := make(map[string]string) // by path
	r := api.NewAssetReader(from)
	room := roomyWriter{dir: b.abs("")}
	var added *entry
	add := func(a api.Asset) *entry {
		added = &entry{Key: a.Path, File: rand.Text() + bodySuffix, Size: a.Size, Modified: a.Modified, Mode: a.Mode}
		s.entries, fileOf[a.Path] = append(s.entries, added), added.File
		return added
	}
	for {
		err := r.Next(func(a api.Asset, content io.Reader) error {
			out, err := root.OpenFile(b.rel(add(a).File), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
			if err != nil {
				return err
			}
			room.to = out
			_, err = io.Copy(&room, content)
			return errors.Join(err, out.Close())
		}, func(a, of api.Asset) error {
			// A second name on disk too, so that each can go by itself.
			return root.Link(b.rel(fileOf[of.Path]), b.rel(add(a).File))
		})
		if err == io.EOF {
			s.sum = r.Sum()
			return nil
		}
		if errors.Is(err, fs.ErrNotExist) {
			return errGone // its directory was taken away
		}
		if err != nil {
			return err
		}
		added.SHA256 = r.Files()[added.Key].SHA256
	}
}

// roomyWriter leaves a part of the volume free for what all journals still have to
// say. It looks now and then, since others write at the same time.
type roomyWriter struct {
	to      io.Writer
	dir     string
	written int64 // since the last look
	looked  bool
}

const lookEvery = 16 << 20 // bytes

func (w *roomyWriter) Write(p []byte) (int, error) {
	if w.written += int64(len(p)); !w.looked || w.written >= lookEvery {
		w.looked, w.written = true, 0
		if free, ok := journal.RoomOn(w.dir); ok && free < lookEvery {
			return 0, fmt.Errorf("the state volume has no room for more assets: %w", syscall.ENOSPC)
		}
	}
	return w.to.Write(p)
}

// flushers is how many files are flushed at once: a file system that keeps a
// journal of its own writes those of many in one go.
const flushers = 32

// flushAll brings bodies to stable storage, the names that lead to them included.
func (b bucket) flushAll(entries []*entry) error {
	work := make(chan *entry)
	errs := make(chan error, flushers)
	var all sync.WaitGroup
	for range flushers {
		all.Go(func() {
			var failed error
			for e := range work {
				if failed == nil {
					failed = b.flushBody(e)
				}
			}
			errs <- failed
		})
	}
	for _, e := range entries {
		work <- e
	}
	close(work)
	all.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			return err
		}
	}
	for _, dir := range []string{b.abs(""), filepath.Join(b.files.dir, b.trajectory), b.files.dir} {
		if err := durable.SyncDir(dir); err != nil {
			return err
		}
	}
	return nil
}

func (b bucket) flushBody(e *entry) error {
	body, err := b.files.root.Open(b.rel(e.File))
	if err != nil {
		return err
	}
	return errors.Join(body.Sync(), body.Close())
}

// discard deletes the bodies of an upload; what cannot be deleted is swept at the
// next start.
func (b bucket) discard(s *stage) {
	for _, e := range s.entries {
		_ = b.files.root.Remove(b.rel(e.File))
	}
}

// DropAssets gives an upload up. An unknown one, or one that is being received, is
// no error: the latter ends with its sender.
func (f *Files) DropAssets(trajectory, name string) error {
	t, err := f.tenant(trajectory)
	if err != nil {
		return err
	}
	t.changing.Lock() // not while it is being committed
	defer t.changing.Unlock()
	t.mu.Lock()
	s := t.staged[name]
	if s != nil {
		delete(t.staged, name)
	}
	t.mu.Unlock()
	if s != nil {
		f.bucket(trajectory, "", api.EndpointAssets).discard(s)
	}
	return nil
}
