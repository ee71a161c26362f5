package persona

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"
	"sync"
	"syscall"
)

// Files holds what agents stored (data, public) and what was seeded (assets),
// by trajectory, on disk:
//
//	<trajectory>/assets/                    one per trajectory; see assetstore.go
//	<trajectory>/<digest of host>/data/     one per persona
//	<trajectory>/<digest of host>/public/
//
// In the others, a key is two files: "<SHA-256 of the key>.json" describes it and
// names the other, "<random>.body", which holds the bytes. The description is
// written last and replaced in one step, so a key has its old content or its
// new one, also after a crash. No name on disk is made of what an agent sent,
// and everything is opened below one os.Root.
//
// What agents store is bounded per trajectory, in bytes and in what the index
// of keys takes in memory; assets, which come from the environment, as package
// api says.
type Files struct {
	dir  string
	root *os.Root

	mu      sync.Mutex
	tenants map[string]*tenant
}

// Limits on what the agents of one trajectory may store.
const (
	maxStored = 2 << 30 // bytes of content
	maxIndex  = 8 << 20 // bytes of keys, types and entryCost
	entryCost = 256     // bytes an entry costs beside its key and type, roughly
)

var (
	errFull = errors.New("the trajectory's storage is full")
	errGone = errors.New("the trajectory was removed")
)

// isFull reports whether an error means that there is no room.
func isFull(err error) bool {
	return errors.Is(err, errFull) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// removedPrefix begins the names of directories that are being deleted.
const removedPrefix = ".removed-"

// OpenFiles opens the files below dir, which is made if it does not exist.
func OpenFiles(dir string) (*Files, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("persona files: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("persona files: %w", err)
	}
	f := &Files{dir: dir, root: root, tenants: make(map[string]*tenant)}
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return nil, errors.Join(fmt.Errorf("persona files: %w", err), root.Close())
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), removedPrefix) { // killed while deleting
			if err := root.RemoveAll(e.Name()); err != nil {
				return nil, errors.Join(fmt.Errorf("persona files: %w", err), root.Close())
			}
		}
	}
	return f, nil
}

// Close releases the directory. Files that are being served stay readable.
func (f *Files) Close() error { return f.root.Close() }

// trajectoryName is SPEC §14's rule for ids. It also keeps names from being paths.
var trajectoryName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,62}$`)

// Remove deletes all files of a trajectory. An unknown one is no error.
func (f *Files) Remove(trajectory string) error {
	if !trajectoryName.MatchString(trajectory) {
		return fmt.Errorf("persona files: %q is no trajectory id", trajectory)
	}
	removed := removedPrefix + rand.Text()
	f.mu.Lock()
	if t, ok := f.tenants[trajectory]; ok {
		t.leave()
		delete(f.tenants, trajectory)
	}
	err := f.root.Rename(trajectory, removed)
	f.mu.Unlock()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = f.root.RemoveAll(removed)
	}
	if err != nil {
		return fmt.Errorf("persona files of %q: %w", trajectory, err)
	}
	return nil
}

// validName reports whether a name is a relative path as files have them.
func validName(name string) bool {
	if name == "" || len(name) > maxKey || strings.ContainsRune(name, 0) || hasDots(name) {
		return false
	}
	for segment := range strings.SplitSeq(name, "/") {
		if segment == "" {
			return false
		}
	}
	return true
}

// bucket addresses the files of one endpoint: of a host, or with host "" of the
// whole trajectory.
func (f *Files) bucket(trajectory, host, endpoint string) bucket {
	p := endpoint
	if host != "" {
		sum := sha256.Sum256([]byte(host))
		p = path.Join(hex.EncodeToString(sum[:16]), endpoint)
	}
	return bucket{files: f, trajectory: trajectory, path: p}
}

// tenant returns the trajectory's index, read from disk on first use.
func (f *Files) tenant(trajectory string) (*tenant, error) {
	if !trajectoryName.MatchString(trajectory) {
		return nil, fmt.Errorf("persona files: %q is no trajectory id", trajectory)
	}
	f.mu.Lock()
	t, ok := f.tenants[trajectory]
	if !ok {
		t = &tenant{name: trajectory, buckets: make(map[string]map[string]*entry), staged: make(map[string]*stage)}
		f.tenants[trajectory] = t
	}
	f.mu.Unlock()
	t.once.Do(func() { t.err = t.load(f.root) })
	if t.err != nil {
		return nil, fmt.Errorf("persona files of %q: %w", trajectory, t.err)
	}
	return t, nil
}
