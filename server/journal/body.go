package journal

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
)

// bodyName is what a kept body is called. It keeps names from being paths.
var bodyName = regexp.MustCompile(`^[0-9a-f]{64}$`)

// Body opens a body that is kept beside the journal, by its SHA-256 in hex, and says
// how many bytes it has. One that is not there is an error of kind [fs.ErrNotExist].
func (j *Journal) Body(sum string) (body io.ReadCloser, size int64, err error) {
	if !bodyName.MatchString(sum) {
		return nil, 0, fmt.Errorf("journal of %q: %q names no body: %w", j.name, sum, fs.ErrNotExist)
	}
	f, err := os.Open(filepath.Join(j.bodyDir(), sum))
	if err != nil {
		return nil, 0, fmt.Errorf("journal of %q: %w", j.name, err)
	}
	fi, err := f.Stat()
	if err == nil && !fi.Mode().IsRegular() {
		err = fs.ErrNotExist
	}
	if err != nil {
		return nil, 0, errors.Join(fmt.Errorf("journal of %q: body %q: %w", j.name, sum, err), f.Close())
	}
	return f, fi.Size(), nil
}
