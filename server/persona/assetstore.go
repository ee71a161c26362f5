package persona

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/linuxarena/ctis/server/api"
	"github.com/linuxarena/ctis/server/durable"
)

// The assets of a trajectory are bodies, "<random>.body", and one list of what
// they are, which is replaced in one step: so thousands of files become visible at
// once, and are there, or not, after a crash. A body that the list does not name is
// of an upload that was not committed, and is swept at the next start.
//
// What is served is the index in memory. It has content of a body only, never a
// name from outside, and follows no link.

const assetListName = "assets.json"

// storedAsset is an asset as it stands in the list on disk.
type storedAsset struct {
	Path     string    `json:"path"`
	File     string    `json:"file"`
	Size     int64     `json:"size"`
	SHA256   string    `json:"sha256"`
	Modified time.Time `json:"modified"`
	Mode     uint32    `json:"mode"`
	Seed     bool      `json:"seed"`
}

type storedAssets struct {
	Assets []storedAsset `json:"assets"`
	Seeded *api.Seeded   `json:"seeded"`
}

// loadAssets reads the list of assets into the index and deletes bodies that it
// does not name. A list that cannot be read is kept, and all bodies with it, for
// whoever looks into it.
func (t *tenant) loadAssets(root *os.Root, dir string, files []fs.DirEntry) error {
	bodies := make(map[string]int64)
	for _, f := range files {
		if strings.HasSuffix(f.Name(), bodySuffix) && f.Type().IsRegular() {
			fi, err := f.Info()
			if err != nil {
				return err
			}
			bodies[f.Name()] = fi.Size()
		}
	}
	text, err := fs.ReadFile(root.FS(), path.Join(dir, assetListName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var list storedAssets
	if err == nil && json.Unmarshal(text, &list) != nil {
		return nil
	}
	for _, a := range list.Assets {
		size, ok := bodies[a.File]
		if !ok || size != a.Size || api.CheckAssetPath(a.Path) != nil {
			continue // lost by a power failure: that file alone is not served
		}
		delete(bodies, a.File)
		t.set(api.EndpointAssets, &entry{Key: a.Path, File: a.File, Size: a.Size, SHA256: a.SHA256, Modified: a.Modified, Mode: a.Mode, Seed: a.Seed})
	}
	t.seeded = list.Seeded
	for _, f := range files {
		_, loose := bodies[f.Name()]
		if loose || strings.HasPrefix(f.Name(), durable.TempPrefix) {
			if err := root.Remove(path.Join(dir, f.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// Assets lists what a trajectory's personas serve under /assets.
func (f *Files) Assets(trajectory string) (*api.AssetList, error) {
	t, err := f.tenant(trajectory)
	if err != nil {
		return nil, err
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	list := &api.AssetList{Assets: []api.Asset{}, Seeded: t.seeded}
	for _, e := range t.buckets[api.EndpointAssets] {
		list.Assets = append(list.Assets, e.asset())
	}
	slices.SortFunc(list.Assets, byPath)
	return list, nil
}

func (e *entry) asset() api.Asset {
	return api.Asset{Path: e.Key, Size: e.Size, SHA256: e.SHA256, Type: mediaType(e.Key), Modified: e.Modified.UTC(), Mode: e.Mode, Seed: e.Seed}
}

func byPath(a, b api.Asset) int { return cmp.Compare(a.Path, b.Path) }

// CommitAssets makes an upload visible, if it is what the caller says it sent. It
// is visible and on stable storage, or neither. Refusals are of type *[api.Error].
func (f *Files) CommitAssets(trajectory, name string, commit api.AssetCommit) (*api.AssetsCommitted, error) {
	t, err := f.tenant(trajectory)
	if err != nil {
		return nil, err
	}
	t.changing.Lock()
	defer t.changing.Unlock()
	t.mu.RLock()
	s := t.staged[name]
	t.mu.RUnlock()
	if s == nil {
		return nil, api.Errorf(404, api.CodeNotFound, "there is no upload %q of assets of %q", clip(name), trajectory)
	}
	if s.sum != commit.AssetSum {
		return nil, api.Errorf(409, api.CodeConflict, "what arrived of the assets is not what was sent: %d files, %d bytes, digest %s; sent were %d, %d, %s",
			s.sum.Files, s.sum.Bytes, s.sum.Digest, commit.Files, commit.Bytes, clip(commit.Digest))
	}
	next, seeded, gone := t.merged(s, commit)
	if err := checkTree(next, s.entries); err != nil {
		return nil, err
	}
	if err := f.writeAssets(t, next, seeded); err != nil {
		return nil, err
	}
	done := &api.AssetsCommitted{Assets: []api.Asset{}, Replaced: []string{}}
	t.mu.Lock()
	if t.gone {
		t.mu.Unlock()
		return nil, errGone
	}
	for _, e := range gone {
		if _, still := next[e.Key]; still && commit.SeededFrom == "" {
			done.Replaced = append(done.Replaced, e.Key)
		}
	}
	t.buckets[api.EndpointAssets], t.seeded = next, seeded
	delete(t.staged, name)
	t.mu.Unlock()
	b := f.bucket(trajectory, "", api.EndpointAssets)
	for _, e := range gone { // those that cannot be deleted are swept at the next start
		_ = f.root.Remove(b.rel(e.File))
	}
	for _, e := range s.entries {
		if next[e.Key] != e {
			_ = f.root.Remove(b.rel(e.File)) // a file put by hand stands in its place
		} else if commit.SeededFrom == "" {
			done.Assets = append(done.Assets, e.asset())
		}
	}
	slices.SortFunc(done.Assets, byPath)
	slices.Sort(done.Replaced)
	return done, nil
}

// merged is what the index will be, and which entries of the present one go. What
// was put by hand wins over a seed, because it was meant to change that.
func (t *tenant) merged(s *stage, commit api.AssetCommit) (next map[string]*entry, seeded *api.Seeded, gone []*entry) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	next, seeded = make(map[string]*entry), t.seeded
	isSeed := commit.SeededFrom != ""
	for key, e := range t.buckets[api.EndpointAssets] {
		if isSeed && e.Seed {
			gone = append(gone, e)
			continue
		}
		next[key] = e
	}
	for _, e := range s.entries {
		e.Seed = isSeed
		if old := next[e.Key]; old != nil {
			if isSeed {
				continue
			}
			gone = append(gone, old)
		}
		next[e.Key] = e
	}
	if isSeed {
		seeded = &api.Seeded{From: commit.SeededFrom, AssetSum: s.sum, Deleted: []string{}}
	}
	return next, seeded, gone
}

// checkTree refuses what no file system could hold, and more than a trajectory may
// have. added is what of it is new.
func checkTree(all map[string]*entry, added []*entry) error {
	var bytes, names int64
	for key, e := range all {
		bytes, names = bytes+e.Size, names+int64(len(key))
		for dir := path.Dir(key); dir != "."; dir = path.Dir(dir) {
			if file := all[dir]; file != nil && slices.Contains(added, file) && !slices.Contains(added, e) {
				return api.Errorf(409, api.CodeConflict, "asset %q cannot be a file: it is a directory, with %q in it", dir, key)
			} else if file != nil {
				return api.Errorf(409, api.CodeConflict, "asset %q needs a directory %q, and that is a file", key, dir)
			}
		}
	}
	if len(all) > api.MaxAssets || names > api.MaxAssetNames || bytes > maxServed {
		return api.Errorf(507, api.CodeStorage, "a trajectory may have %d assets of %d bytes together", api.MaxAssets, int64(maxServed))
	}
	return nil
}

// maxServed bounds what one trajectory's assets come to together, further names of
// a file counted in: uploads are bounded one by one.
const maxServed = 4 * api.MaxAssetBytes

// writeAssets replaces the list on disk. The caller holds changing.
func (f *Files) writeAssets(t *tenant, all map[string]*entry, seeded *api.Seeded) error {
	list := storedAssets{Assets: make([]storedAsset, 0, len(all)), Seeded: seeded}
	for _, e := range all {
		list.Assets = append(list.Assets, storedAsset{e.Key, e.File, e.Size, e.SHA256, e.Modified, e.Mode, e.Seed})
	}
	slices.SortFunc(list.Assets, func(a, b storedAsset) int { return cmp.Compare(a.Path, b.Path) })
	text, err := json.Marshal(list)
	if err != nil {
		return err
	}
	b := f.bucket(t.name, "", api.EndpointAssets)
	err = durable.WriteFile(b.abs(assetListName), text, 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		return errGone // its directory was taken away
	}
	if err != nil {
		return fmt.Errorf("assets of %q: %w", t.name, err)
	}
	return nil
}

// SeedDeleted records that the seed directory is gone in a container. Refusals are
// of type *[api.Error].
func (f *Files) SeedDeleted(trajectory, container string) error {
	t, err := f.tenant(trajectory)
	if err != nil {
		return err
	}
	t.changing.Lock()
	defer t.changing.Unlock()
	t.mu.RLock()
	seeded, all := t.seeded, t.buckets[api.EndpointAssets]
	t.mu.RUnlock()
	switch {
	case seeded == nil:
		return api.Errorf(409, api.CodeConflict, "no seed directory of %q was copied", trajectory)
	case slices.Contains(seeded.Deleted, container):
		return nil
	case len(seeded.Deleted) >= maxSeeded || container == "" || len(container) > maxKey:
		return api.Errorf(400, api.CodeInvalid, "%q cannot be noted among %d containers", clip(container), len(seeded.Deleted))
	}
	next := *seeded
	next.Deleted = append(slices.Clone(seeded.Deleted), container)
	if err := f.writeAssets(t, all, &next); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.seeded = &next
	return nil
}

// maxSeeded bounds the containers of one default service, replicas and those that
// were made anew together.
const maxSeeded = 1000

func clip(s string) string { return s[:min(len(s), 200)] }
