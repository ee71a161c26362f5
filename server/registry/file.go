package registry

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/linuxarena/ctis/server/api"
	"github.com/linuxarena/ctis/server/durable"
)

// A registration is kept as <id>.json: an envelope with the format's version
// and a digest of the content, so that a file half written, edited or of a
// later version is never taken for a registration.

const (
	fileVersion = 4 // from 2 on with what only one trajectory at a time can have, and with backends; from 3 on with rules; from 4 on with upstreams
	oldVersion  = 1 // the oldest that is read
	fileSuffix  = ".json"
	maxFile     = 64 << 20 // bytes; a registration has at most half of that
)

type envelope struct {
	Version int             `json:"version"`
	SHA256  string          `json:"sha256"` // of Content as it stands in the file
	Content json.RawMessage `json:"content"`
}

type content struct {
	Since        time.Time        `json:"since"`
	Registration api.Registration `json:"registration"`
}

func write(dir string, t *Trajectory) error {
	c, err := json.Marshal(content{Since: t.Since, Registration: t.Registration})
	if err != nil {
		return fmt.Errorf("registration of %q: %w", t.Trajectory, err)
	}
	if len(c) > maxFile/2 {
		return invalid("registration of %q is not stored: with all its rules it has %d bytes, and %d are allowed", t.Trajectory, len(c), maxFile/2)
	}
	sum := sha256.Sum256(c)
	b, err := json.Marshal(envelope{Version: fileVersion, SHA256: hex.EncodeToString(sum[:]), Content: c})
	if err != nil {
		return fmt.Errorf("registration of %q: %w", t.Trajectory, err)
	}
	if err := durable.WriteFile(filepath.Join(dir, t.Trajectory+fileSuffix), b, 0o600); err != nil {
		return fmt.Errorf("registration of %q is not stored: %w", t.Trajectory, err)
	}
	return nil
}

func remove(dir, id string) error {
	err := os.Remove(filepath.Join(dir, id+fileSuffix))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("registration of %q is not removed: %w", id, err)
	}
	return durable.SyncDir(dir)
}

// readAll reads every registration in dir and sets the damaged ones aside.
func readAll(dir string) (list []*Trajectory, problems []string, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, nil, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, nil, err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), durable.TempPrefix) {
			_ = os.Remove(filepath.Join(dir, e.Name())) // of a write that a crash cut short
			continue
		}
		id, ok := strings.CutSuffix(e.Name(), fileSuffix)
		if !ok || !ValidID(id) {
			continue
		}
		path := filepath.Join(dir, e.Name())
		t, err := read(path, id)
		if err == nil {
			list = append(list, t)
			continue
		}
		aside, moveErr := setAside(path)
		if moveErr != nil {
			return nil, nil, fmt.Errorf("registration %q is damaged and cannot be set aside: %w", path, moveErr)
		}
		problems = append(problems, fmt.Sprintf("registration of %s was damaged (%v) and is set aside as %s", id, err, filepath.Base(aside)))
	}
	return list, problems, nil
}

func read(path, id string) (*Trajectory, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // only read
	b, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return nil, err
	}
	var e envelope
	if err := json.Unmarshal(b, &e); err != nil {
		return nil, fmt.Errorf("it is no JSON: %w", err)
	}
	if e.Version < oldVersion || e.Version > fileVersion {
		return nil, fmt.Errorf("its version is %d, known are %d to %d", e.Version, oldVersion, fileVersion)
	}
	if sum := sha256.Sum256(e.Content); hex.EncodeToString(sum[:]) != e.SHA256 {
		return nil, errors.New("its digest is another one")
	}
	var c content
	if err := json.Unmarshal(e.Content, &c); err != nil {
		return nil, fmt.Errorf("its content cannot be read: %w", err)
	}
	if c.Registration.Trajectory != id {
		return nil, errors.New("it belongs to another trajectory")
	}
	return &Trajectory{Registration: c.Registration, Since: c.Since}, nil
}

// setAside renames a damaged file to a name that is not taken.
func setAside(path string) (string, error) {
	for n := 1; ; n++ {
		aside := fmt.Sprintf("%s.damaged-%d", path, n)
		if _, err := os.Lstat(aside); errors.Is(err, fs.ErrNotExist) {
			return aside, os.Rename(path, aside)
		}
	}
}
