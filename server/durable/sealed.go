package durable

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// sealed is a file of JSON with the version of its format and a digest of its
// content, so that one half written, edited or of a later version is taken for none.
type sealed struct {
	Version int             `json:"version"`
	SHA256  string          `json:"sha256"` // of Content as it stands in the file
	Content json.RawMessage `json:"content"`
}

// maxSealed bounds what is read of a file, in bytes.
const maxSealed = 64 << 20

// WriteSealed replaces the file at path by one with v as its content.
func WriteSealed(path string, version int, v any, mode fs.FileMode) error {
	c, err := json.Marshal(v)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(c)
	b, err := json.Marshal(sealed{Version: version, SHA256: hex.EncodeToString(sum[:]), Content: c})
	if err != nil {
		return err
	}
	return WriteFile(path, b, mode)
}

// ReadSealed reads a file of that version into v. One that is not there is an error
// that matches [fs.ErrNotExist].
func ReadSealed(path string, version int, v any) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // only read
	b, err := io.ReadAll(io.LimitReader(f, maxSealed))
	if err != nil {
		return err
	}
	var s sealed
	if err := json.Unmarshal(b, &s); err != nil {
		return errors.New("it is no JSON") // what it is instead may be secret
	}
	if s.Version != version {
		return fmt.Errorf("its version is %d, known is %d", s.Version, version)
	}
	if sum := sha256.Sum256(s.Content); hex.EncodeToString(sum[:]) != s.SHA256 {
		return errors.New("its digest is another one")
	}
	if err := json.Unmarshal(s.Content, v); err != nil {
		return errors.New("its content cannot be read")
	}
	return nil
}

// SetAside renames a damaged file to a name that is not taken, and gives that.
func SetAside(path string) (string, error) {
	for n := 1; ; n++ {
		aside := fmt.Sprintf("%s.damaged-%d", path, n)
		if _, err := os.Lstat(aside); errors.Is(err, fs.ErrNotExist) {
			return aside, os.Rename(path, aside)
		}
	}
}
