package evidence

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// Bounds of what is read of an export, in bytes. A line of the journal is bounded by
// the simulator.
const (
	maxManifest = 256 << 20
	maxLine     = 16 << 20
)

// VerifyJournal checks a journal where it is.
func VerifyJournal(ctx context.Context, src Source) (*Report, error) {
	before, err := src.Status(ctx)
	if err != nil {
		return nil, err
	}
	audit := NewAuditor()
	if err := src.Lines(ctx, func(line []byte) error { audit.Line(line); return nil }); err != nil {
		return nil, err
	}
	after, err := src.Status(ctx)
	if err != nil {
		return nil, err
	}
	for _, sum := range audit.Files() {
		body, err := src.Open(ctx, sum)
		if errors.Is(err, fs.ErrNotExist) {
			audit.NoBody(sum)
			continue
		}
		if err != nil {
			return nil, err
		}
		err = audit.Body(sum, body)
		if err := errors.Join(err, body.Close()); err != nil {
			return nil, fmt.Errorf("read body %q: %w", sum, err)
		}
	}
	if before != nil && after != nil {
		audit.Told(*before, *after)
	}
	return audit.Report(), nil
}

// ErrNoExport says that a directory is no sealed export.
var ErrNoExport = errors.New("is no sealed export of a journal")

// VerifyExport checks an export, and that its seal is want where that is not empty. It
// returns the seal it has. What is wrong with the export is in the report; an error
// says that it could not be read.
func VerifyExport(dir, want string) (seal string, report *Report, err error) {
	root, err := os.OpenRoot(dir) // no name in it leads out of it
	if err != nil {
		return "", nil, err
	}
	defer root.Close()
	v := &verifier{root: root, Auditor: NewAuditor()}
	m, seal, err := v.manifest(want)
	if err != nil {
		return "", nil, err
	}
	if m == nil {
		return seal, v.Report(), nil
	}
	if err := v.names(m); err != nil {
		return "", nil, err
	}
	if err := v.files(m); err != nil {
		return "", nil, err
	}
	if v.Account() != m.Account {
		v.problems.add("the journal is not the one the manifest describes: %s", differences(v.Account(), m.Account))
	}
	if m.Before != nil && m.After != nil {
		v.Told(*m.Before, *m.After)
	}
	v.Lacks(m.Missing...)
	return seal, v.Report(), nil
}

// differences names the fields in which two accounts differ.
func differences(a, b Account) string {
	fields := func(a Account) map[string]any {
		raw, _ := json.Marshal(a) // plain fields
		var m map[string]any
		_ = json.Unmarshal(raw, &m)
		return m
	}
	has, said := fields(a), fields(b)
	var out []string
	for name := range has {
		if has[name] != said[name] {
			out = append(out, fmt.Sprintf("%s is %v, said to be %v", name, has[name], said[name]))
		}
	}
	slices.Sort(out)
	return strings.Join(out, "; ")
}

type verifier struct {
	root *os.Root
	*Auditor
}

// open opens a regular file; a link is none.
func (v *verifier) open(name string) (*os.File, error) {
	fi, err := v.root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !fi.Mode().IsRegular() {
		return nil, fmt.Errorf("%q is no regular file", name)
	}
	return v.root.Open(name)
}

func (v *verifier) read(name string, limit int64) ([]byte, error) {
	f, err := v.open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = fmt.Errorf("%q is longer than the %d bytes it may have", name, limit)
	}
	return b, err
}

// manifest reads manifest and seal; nil where it cannot be trusted to say anything.
func (v *verifier) manifest(want string) (*Manifest, string, error) {
	seal, sealErr := v.read(sealFile, 1<<10)
	raw, err := v.read(manifestFile, maxManifest)
	if errors.Is(err, fs.ErrNotExist) && errors.Is(sealErr, fs.ErrNotExist) {
		return nil, "", fmt.Errorf("%q %w", v.root.Name(), ErrNoExport)
	}
	if err := errors.Join(err, sealErr); err != nil {
		v.problems.add("manifest and seal: %v", err)
		return nil, "", nil
	}
	has := sum(raw)
	if string(seal) != sealLine(has) {
		v.problems.add("the seal does not fit the manifest: one of the two was changed")
		return nil, has, nil
	}
	if want != "" && !strings.EqualFold(want, has) {
		v.problems.add("the seal is %s, and %s was noted: this is not the export that was made then", has, want)
		return nil, has, nil
	}
	m := new(Manifest)
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(m); err != nil {
		v.problems.add("manifest: %v", err)
		return nil, has, nil
	}
	if m.Format != Format {
		v.problems.add("the manifest's format is %q, and this ctis reads %q", m.Format, Format)
		return nil, has, nil
	}
	return m, has, nil
}

// names compares what is there with what the manifest lists.
func (v *verifier) names(m *Manifest) error {
	listed := map[string]bool{manifestFile: true, sealFile: true}
	for _, f := range m.Files {
		if listed[f.Path] {
			v.problems.add("the manifest lists %q twice", f.Path)
		}
		listed[f.Path] = true
	}
	return fs.WalkDir(v.root.FS(), ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case path == "." || path == bodiesDir && d.IsDir():
		case d.IsDir():
			v.problems.add("%q is no part of the export", path)
			return fs.SkipDir
		case !listed[path]:
			v.problems.add("%q is no part of the export", path)
		}
		return nil
	})
}

// files checks every file the manifest lists, and the journal's lines.
func (v *verifier) files(m *Manifest) error {
	// The journal first: it says which bodies there are.
	i := slices.IndexFunc(m.Files, func(f File) bool { return f.Path == journalFile })
	if i < 0 {
		v.problems.add("the manifest lists no %q", journalFile)
		return nil
	}
	if err := v.file(m.Files[i], v.lines); err != nil {
		return err
	}
	there := map[string]bool{}
	for _, f := range m.Files {
		digest, ok := strings.CutPrefix(f.Path, bodiesDir+"/")
		switch {
		case f.Path == journalFile:
		case !ok:
			v.problems.add("the manifest lists %q, which is no file of an export", f.Path)
		default:
			there[digest] = true
			if err := v.file(f, func(r io.Reader) error { return v.Body(digest, r) }); err != nil {
				return err
			}
		}
	}
	for _, digest := range v.Files() {
		if !there[digest] {
			v.NoBody(digest)
		}
	}
	return nil
}

// file compares a file with what the manifest says; read reads all of it.
func (v *verifier) file(f File, read func(io.Reader) error) error {
	file, err := v.open(f.Path)
	if err != nil {
		v.problems.add("%q cannot be read: %v", f.Path, err)
		return nil
	}
	defer file.Close()
	h := newHash()
	if err := read(io.TeeReader(file, h)); err != nil {
		return fmt.Errorf("read %q: %w", f.Path, err)
	}
	if h.size != f.Size || h.sum() != f.SHA256 {
		v.problems.add("%q was changed: it has %d bytes with SHA-256 %s, the manifest says %d and %s", f.Path, h.size, h.sum(), f.Size, f.SHA256)
	}
	return nil
}

// lines checks the lines of a journal's file.
func (v *verifier) lines(r io.Reader) error {
	b := bufio.NewReaderSize(r, 256<<10)
	var line []byte
	for {
		part, err := b.ReadSlice('\n')
		line = append(line, part[:min(len(part), max(0, maxLine-len(line)))]...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF):
			if len(line) > 0 {
				v.problems.add("the last line has no end: the file was cut off")
			}
			return nil
		case err != nil:
			return err
		}
		v.Line(bytes.TrimSuffix(line, []byte("\n")))
		line = line[:0]
	}
}
