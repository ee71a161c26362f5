package evidence

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/linuxarena/ctis/server/api"
)

// An export is a directory:
//
//	journal.jsonl   the journal's lines, byte for byte as stored
//	bodies/DIGEST   bodies kept beside the journal, named by their SHA-256
//	manifest.json   a [Manifest]: every file with size and digest, and the account
//	SEAL            the SHA-256 of manifest.json, as sha256sum -c reads it
//
// Nothing else may be in it. The seal binds everything: who noted it elsewhere can tell
// whether any byte was changed since, also by somebody who made a new manifest.
const (
	journalFile  = "journal.jsonl"
	bodiesDir    = "bodies"
	manifestFile = "manifest.json"
	sealFile     = "SEAL"
)

// Format is the format of a manifest.
const Format = "ctis-export/1"

// Manifest describes an export.
type Manifest struct {
	Format   string    `json:"format"`
	Journal  string    `json:"journal"`  // as it was asked for: an id, or ID~N
	Exported time.Time `json:"exported"` // by the host's clock
	// Before and After are what the simulator counted when the reading began and when
	// it had ended; nil where it counts nothing.
	Before *api.JournalStatus `json:"before"`
	After  *api.JournalStatus `json:"after"`
	// Missing is what was known to be lacking when the export was made and no line says:
	// what a sidecar recorded and could not be brought into the journal.
	Missing []string `json:"missing,omitempty"`
	Account
	Files []File `json:"files"` // sorted by path; manifest and seal are not among them
}

// File is a file of an export.
type File struct {
	Path   string `json:"path"` // slash-separated
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// Source is a journal that is exported.
type Source interface {
	Bodies
	// Lines calls yield with each stored line, without its newline.
	Lines(ctx context.Context, yield func(line []byte) error) error
	// Status is what the simulator counts; nil where it counts nothing.
	Status(ctx context.Context) (*api.JournalStatus, error)
}

// Export writes an export of the journal called name into dir, which must be empty. It
// returns the seal and what checking on the way found; a journal that is not sound is
// exported all the same. missing is what the caller knows to be lacking besides; the
// manifest names it.
func Export(ctx context.Context, dir, name string, src Source, now time.Time, missing ...string) (seal string, report *Report, err error) {
	m := Manifest{Format: Format, Journal: name, Exported: now.UTC().Truncate(time.Second), Missing: missing}
	if m.Before, err = src.Status(ctx); err != nil {
		return "", nil, err
	}
	audit := NewAuditor()
	f, err := writeFile(filepath.Join(dir, journalFile), func(w io.Writer) error {
		b := bufio.NewWriterSize(w, 256<<10)
		err := src.Lines(ctx, func(line []byte) error {
			audit.Line(line)
			if _, err := b.Write(line); err != nil {
				return err
			}
			return b.WriteByte('\n')
		})
		return errors.Join(err, b.Flush())
	})
	if err != nil {
		return "", nil, err
	}
	m.Files = append(m.Files, f)
	if m.After, err = src.Status(ctx); err != nil {
		return "", nil, err
	}
	if err := os.Mkdir(filepath.Join(dir, bodiesDir), 0o700); err != nil {
		return "", nil, err
	}
	var bodies []File
	for _, sum := range audit.Files() {
		f, err := exportBody(ctx, dir, sum, src, audit)
		if err != nil {
			return "", nil, err
		}
		if f.Path != "" {
			bodies = append(bodies, f)
		}
	}
	m.Files = append(bodies, m.Files...) // "bodies/…" sorts first
	m.Account = audit.Account()
	if m.Before != nil && m.After != nil {
		audit.Told(*m.Before, *m.After)
	}
	audit.Lacks(m.Missing...)
	seal, err = writeSeal(dir, &m)
	return seal, audit.Report(), err
}

// exportBody copies one body; one that is not there is a problem of the journal, not of
// the export.
func exportBody(ctx context.Context, dir, sum string, src Source, audit *Auditor) (File, error) {
	body, err := src.Open(ctx, sum)
	if errors.Is(err, fs.ErrNotExist) {
		audit.NoBody(sum)
		return File{}, nil
	}
	if err != nil {
		return File{}, err
	}
	defer body.Close()
	path := bodiesDir + "/" + sum
	f, err := writeFile(filepath.Join(dir, bodiesDir, sum), func(w io.Writer) error { return audit.Body(sum, io.TeeReader(body, w)) })
	f.Path = path
	return f, err
}

func writeSeal(dir string, m *Manifest) (seal string, err error) {
	b, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return "", err
	}
	f, err := writeFile(filepath.Join(dir, manifestFile), func(w io.Writer) error {
		_, err := w.Write(append(b, '\n'))
		return err
	})
	if err != nil {
		return "", err
	}
	_, err = writeFile(filepath.Join(dir, sealFile), func(w io.Writer) error {
		_, err := io.WriteString(w, sealLine(f.SHA256))
		return err
	})
	return f.SHA256, err
}

func sealLine(sum string) string { return sum + "  " + manifestFile + "\n" }

// writeFile makes a file on stable storage out of what write writes.
func writeFile(path string, write func(io.Writer) error) (File, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return File{}, err
	}
	h := newHash()
	err = write(io.MultiWriter(f, h))
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return File{}, fmt.Errorf("write %q: %w", path, err)
	}
	return File{Path: filepath.Base(path), Size: h.size, SHA256: h.sum()}, nil
}
