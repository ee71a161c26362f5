package persona

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/linuxarena/ctis/server/api"
)

// tenant is the index of one trajectory's files. Its lock covers the index and
// the renaming that makes it true, never the moving of bytes.
type tenant struct {
	name string
	once sync.Once // load
	err  error

	mu      sync.RWMutex
	gone    bool
	buckets map[string]map[string]*entry // by bucket path, then key
	bytes   int64                        // of content agents stored
	index   int64                        // see maxIndex
	seeded  *api.Seeded                  // nil: no seed directory was copied; replaced, never changed

	changing sync.Mutex        // one change of the assets at a time; taken before mu
	staged   map[string]*stage // uploads of assets, by name; guarded by mu
}

// entry describes what a key holds. It does not change once it is in the index.
type entry struct {
	Key      string
	File     string
	Size     int64
	SHA256   string
	Type     string
	Modified time.Time
	Mode     uint32 // of an asset: permission bits, for people only
	Seed     bool   // of an asset: it came with the seed directory
}

// description is an entry as it stands on disk. Keys can be any bytes, which
// JSON text cannot hold.
type description struct {
	Key      []byte    `json:"key"`
	File     string    `json:"file"`
	Size     int64     `json:"size"`
	SHA256   string    `json:"sha256"`
	Type     string    `json:"type"`
	Modified time.Time `json:"modified"`
}

func (e *entry) describe() ([]byte, error) {
	return json.Marshal(description{[]byte(e.Key), e.File, e.Size, e.SHA256, e.Type, e.Modified})
}

func (e *entry) cost() int64 { return int64(len(e.Key)+len(e.Type)) + entryCost }

// digestTag is an entity tag that changes exactly with the content.
func (e *entry) digestTag() string { return `"` + e.SHA256 + `"` }

const (
	descriptionSuffix = ".json"
	bodySuffix        = ".body"
)

// descriptionName is the file that describes a key.
func descriptionName(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:]) + descriptionSuffix
}

// load reads the index from disk and deletes what a crash left half done:
// bodies no description names, and descriptions that never got their name.
func (t *tenant) load(root *os.Root) error {
	err := fs.WalkDir(root.FS(), t.name, func(p string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() || p == t.name {
			return err
		}
		return t.loadBucket(root, p)
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (t *tenant) loadBucket(root *os.Root, dir string) error {
	files, err := fs.ReadDir(root.FS(), dir)
	if err != nil {
		return err
	}
	bucketPath := strings.TrimPrefix(dir, t.name+"/")
	if bucketPath == api.EndpointAssets {
		return t.loadAssets(root, dir, files)
	}
	loose := make(map[string]int64) // bodies by name
	for _, f := range files {
		if strings.HasSuffix(f.Name(), bodySuffix) && f.Type().IsRegular() {
			fi, err := f.Info()
			if err != nil {
				return err
			}
			loose[f.Name()] = fi.Size()
		}
	}
	damaged := false
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), descriptionSuffix) || !f.Type().IsRegular() {
			continue
		}
		b, err := fs.ReadFile(root.FS(), path.Join(dir, f.Name()))
		if err != nil {
			return err
		}
		var d description
		size, ok := int64(0), json.Unmarshal(b, &d) == nil
		if ok {
			size, ok = loose[d.File]
		}
		if !ok || size != d.Size || descriptionName(string(d.Key)) != f.Name() {
			damaged = true // by a power failure; kept for whoever looks into it
			continue
		}
		delete(loose, d.File)
		t.set(bucketPath, &entry{Key: string(d.Key), File: d.File, Size: d.Size, SHA256: d.SHA256, Type: d.Type, Modified: d.Modified})
	}
	if damaged {
		return nil // a body may belong to a description that cannot be read
	}
	for _, f := range files {
		_, isLoose := loose[f.Name()]
		if f.Type().IsRegular() && (isLoose || !strings.HasSuffix(f.Name(), bodySuffix) && !strings.HasSuffix(f.Name(), descriptionSuffix)) {
			if err := root.Remove(path.Join(dir, f.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// set puts an entry into the index and returns the one it replaces. The lock is held.
func (t *tenant) set(bucketPath string, e *entry) (old *entry) {
	keys := t.buckets[bucketPath]
	if keys == nil {
		keys = make(map[string]*entry)
		t.buckets[bucketPath] = keys
	}
	old = keys[e.Key]
	keys[e.Key] = e
	t.count(bucketPath, e, 1)
	t.count(bucketPath, old, -1)
	return old
}

// unset takes a key out of the index. The lock is held.
func (t *tenant) unset(bucketPath string, e *entry) {
	delete(t.buckets[bucketPath], e.Key)
	t.count(bucketPath, e, -1)
}

func (t *tenant) count(bucketPath string, e *entry, sign int64) {
	if e != nil && bucketPath != api.EndpointAssets {
		t.bytes += sign * e.Size
		t.index += sign * e.cost()
	}
}

// admit reports whether there is room for e. The lock is held.
func (t *tenant) admit(bucketPath string, e *entry) error {
	if t.gone {
		return errGone
	}
	if bucketPath == api.EndpointAssets {
		return nil
	}
	bytes, index := t.bytes+e.Size, t.index+e.cost()
	if old := t.buckets[bucketPath][e.Key]; old != nil {
		bytes, index = bytes-old.Size, index-old.cost()
	}
	if bytes > maxStored || index > maxIndex {
		return errFull
	}
	return nil
}

// leave makes later changes fail: the trajectory's files are about to go.
func (t *tenant) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.gone = true
}
