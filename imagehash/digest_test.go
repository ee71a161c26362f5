package imagehash

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"
)

func asError[T error](err error, target *T) bool { return errors.As(err, target) }

// meddler is a file system in which something happens when a file is read.
type meddler struct {
	fs.FS
	path string
	do   func()
}

func (m meddler) Lstat(p string) (fs.FileInfo, error) { return fs.Lstat(m.FS, p) }
func (m meddler) ReadLink(p string) (string, error)   { return fs.ReadLink(m.FS, p) }
func (m meddler) ReadFile(p string) ([]byte, error)   { return fs.ReadFile(m.FS, p) }
func (m meddler) Open(p string) (fs.File, error) {
	f, err := m.FS.Open(p)
	if p != m.path || err != nil {
		return f, err
	}
	return &meddled{File: f, do: m.do}, nil
}

type meddled struct {
	fs.File
	do func()
}

func (f *meddled) Read(p []byte) (int, error) {
	n, err := f.File.Read(p)
	if f.do != nil {
		f.do()
		f.do = nil
	}
	return n, err
}

func TestFileThatIsWrittenWhileItIsHashedHasNoHash(t *testing.T) {
	const victim = "server/main.go"
	for name, do := range map[string]func(path string) error{
		"grows": func(p string) error {
			f, err := os.OpenFile(p, os.O_APPEND|os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			_, err = f.WriteString("more")
			return errors.Join(err, f.Close())
		},
		"shrinks":   func(p string) error { return os.Truncate(p, 3) },
		"rewritten": func(p string) error { return os.WriteFile(p, []byte("package mean\n"), 0o644) },
		"chmod":     func(p string) error { return os.Chmod(p, 0o755) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, fixed())
			in, err := Read(t.Context(), meddler{FS: os.DirFS(dir), path: victim, do: func() {
				if err := do(filepath.Join(dir, victim)); err != nil {
					t.Error(err)
				}
			}}, Options{Dockerfile: "Dockerfile"})
			if err != nil {
				t.Fatal(err)
			}
			_, err = in.Sum(t.Context())
			var ce *ChangedInputError
			if !errors.As(err, &ce) || ce.Path != victim {
				t.Errorf("error = %v, want a *ChangedInputError for %s", err, victim)
			}
		})
	}
}

func TestFilesLargerThanTheBufferAreHashedWhole(t *testing.T) {
	for _, size := range []int{0, 1, readSize - 1, readSize, readSize + 1, 3*readSize + 7} {
		data := make([]byte, size)
		for i := range data {
			data[i] = byte(i * 7)
		}
		s := sum(t, fstest.MapFS{"Dockerfile": {Data: []byte("FROM scratch\nCOPY f /\n")}, "f": {Data: data}}, nil)
		if got := s.Inputs[0]; got.Digest != hexDigest(data) || got.Size != int64(size) {
			t.Errorf("%d bytes: %+v", size, got)
		}
	}
}

// Whichever goroutine fails first, the same trouble is told.
func TestTheFirstOfSeveralTroublesIsTold(t *testing.T) {
	m := fstest.MapFS{"Dockerfile": {Data: []byte("FROM scratch\nCOPY . /\n")}}
	for i := range 200 {
		m[fmt.Sprintf("f%03d", i)] = &fstest.MapFile{Data: []byte("x")}
	}
	in, err := Read(t.Context(), m, Options{Dockerfile: "Dockerfile"})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 200 {
		delete(m, fmt.Sprintf("f%03d", i))
	}
	_, err = in.Sum(t.Context())
	var ce *ChangedInputError
	if !errors.As(err, &ce) || ce.Path != "f000" {
		t.Errorf("error = %v, want that of f000", err)
	}
}

func BenchmarkReadAndSum(b *testing.B) {
	dir := b.TempDir()
	for i := range 20000 {
		p := filepath.Join(dir, fmt.Sprintf("d%d/e%d", i%100, i%7), fmt.Sprintf("f%d", i))
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(p), 0o644); err != nil {
			b.Fatal(err)
		}
	}
	ignored := "**/testdata\n**/*_test.go\n**/__pycache__\n**/*.pyc\nnode_modules\n.git\n"
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "Dockerfile"), []byte("FROM scratch\nCOPY . /\n"), 0o644),
		os.WriteFile(filepath.Join(dir, ".dockerignore"), []byte(ignored), 0o644)); err != nil {
		b.Fatal(err)
	}
	var in *Inputs
	b.Run("Read", func(b *testing.B) {
		for b.Loop() {
			var err error
			if in, err = Read(b.Context(), os.DirFS(dir), Options{Dockerfile: "Dockerfile"}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("Sum", func(b *testing.B) {
		for b.Loop() {
			s, err := in.Sum(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			io.WriteString(io.Discard, s.Hash)
		}
	})
}
