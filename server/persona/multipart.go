package persona

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"os"
	"strings"
)

// maxParts is how many files one form may carry.
const maxParts = 1000

// errForm is a form that cannot be read, or carries no file.
var errForm = errors.New("the form is not usable")

// part is one file of a form, collected beside the files it will join.
type part struct {
	name string
	file string // relative to the root; "" once it was given away
	size int64
	sum  string
	b    bucket
}

func (p *part) Size() int64    { return p.size }
func (p *part) SHA256() string { return p.sum }

// LinkTo gives the file its final name.
func (p *part) LinkTo(path string) error {
	if err := os.Rename(p.b.abs(p.file), path); err != nil {
		return err
	}
	p.file = ""
	return nil
}

type parts []*part

// discard deletes what was not given away.
func (ps parts) discard() {
	for _, p := range ps {
		if p.file != "" {
			_ = p.b.files.root.Remove(p.b.rel(p.file)) // else swept at the next start
		}
	}
}

// formFiles collects the files of a form before any of them is stored, so that
// a broken form stores nothing. What it returns must be discarded, also with an
// error. Fields that are no files are on record and otherwise ignored.
func (h *Handlers) formFiles(r *Request, b bucket, boundary string) (all parts, err error) {
	if boundary == "" {
		return nil, errForm
	}
	body, err := r.Body.Open()
	if err != nil {
		return nil, err
	}
	defer body.Close()                                      // only read from
	if _, err := b.files.tenant(b.trajectory); err != nil { // its first use sweeps: before there is something of ours
		return nil, err
	}
	if err := b.makeDir(); err != nil {
		return nil, err
	}
	form := multipart.NewReader(body, boundary)
	for {
		in, err := form.NextRawPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return all, fmt.Errorf("%w: %w", errForm, err)
		}
		name, isFile := fileName(in.Header.Get("Content-Disposition"))
		if !isFile {
			continue
		}
		if len(all) == maxParts {
			return all, fmt.Errorf("%w: more than %d files", errForm, maxParts)
		}
		p, err := b.collect(name, in)
		if p != nil {
			all = append(all, p)
		}
		if err != nil {
			return all, err
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%w: no file in it", errForm)
	}
	return all, nil
}

// collect writes a part's bytes to a file. A file input nobody chose a file for
// comes without name and bytes, and is none: it returns nil.
func (b bucket) collect(name string, in io.Reader) (*part, error) {
	p := &part{name: name, file: rand.Text() + ".new", b: b}
	f, err := b.files.root.OpenFile(b.rel(p.file), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	sum := sha256.New()
	from := &source{r: in}
	p.size, err = io.Copy(io.MultiWriter(f, sum), from)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if from.err != nil {
		err = fmt.Errorf("%w: %w", errForm, from.err)
	}
	p.sum = hex.EncodeToString(sum.Sum(nil))
	if err == nil && p.name == "" {
		if p.size == 0 {
			parts{p}.discard()
			return nil, nil
		}
		p.name = newID()
	}
	return p, err
}

// source tells errors of reading the form from those of writing the file.
type source struct {
	r   io.Reader
	err error
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

// fileName takes a file's name out of a Content-Disposition: its last segment,
// whichever slashes the client's system uses, since only the name was meant.
// It is "" when that leaves nothing that can name a file.
func fileName(disposition string) (name string, isFile bool) {
	_, params, err := mime.ParseMediaType(disposition)
	if err != nil {
		// Not as RFC 6266 wants it, but a file if it says so.
		return "", strings.Contains(strings.ToLower(disposition), "filename")
	}
	name, isFile = params["filename"]
	if i := strings.LastIndexAny(name, `/\`); i >= 0 {
		name = name[i+1:]
	}
	if !validName(name) {
		name = ""
	}
	return name, isFile
}
