package imagehash

import (
	"context"
	"errors"
	"io/fs"
	"testing"
	"testing/fstest"
)

// endingFS ends a context after some reads, as an interrupt in the middle does.
type endingFS struct {
	fs.FS
	end   context.CancelFunc
	reads *int
}

func (f endingFS) Lstat(name string) (fs.FileInfo, error) { return fs.Lstat(f.FS, name) }
func (f endingFS) ReadLink(name string) (string, error)   { return fs.ReadLink(f.FS, name) }

func (f endingFS) Open(name string) (fs.File, error) {
	file, err := f.FS.Open(name)
	return endingFile{file, f}, err
}

type endingFile struct {
	fs.File
	fs endingFS
}

func (f endingFile) Read(p []byte) (int, error) {
	if *f.fs.reads++; *f.fs.reads == 3 {
		f.fs.end()
	}
	return f.File.Read(p)
}

func TestInterruptEndsTheHashingOfALargeFile(t *testing.T) {
	files := contextOf("FROM scratch\nCOPY big /x\n")
	files["big"] = &fstest.MapFile{Data: make([]byte, 100*readSize)}
	in, err := Read(t.Context(), files, Options{Dockerfile: "Dockerfile"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	reads := 0
	in.fsys = endingFS{files, cancel, &reads}
	if _, err := in.Sum(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("error = %v", err)
	}
	if reads > 4 {
		t.Errorf("%d reads after the interrupt", reads-3)
	}
	if _, err := Read(ctx, files, Options{Dockerfile: "Dockerfile"}); !errors.Is(err, context.Canceled) {
		t.Errorf("looking for inputs: error = %v", err)
	}
}

func TestBuildArgumentsThatNobodyDeclaresAreTold(t *testing.T) {
	const text = "ARG VERSION=1\nFROM scratch\nARG http_proxy\nCOPY a /x\n"
	s, err := sumFor(t, text, Options{Args: map[string]string{"VERSOIN": "2", "ELSE": "1", "HTTPS_PROXY": "x", "no_proxy": "y", "http_proxy": "z"}})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`Dockerfile: no ARG declares build argument "ELSE", so it has no effect`,
		`Dockerfile: no ARG declares build argument "VERSOIN", so it has no effect; did you mean VERSION?`,
	}
	if got := s.Warnings(); len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("warnings = %q", got)
	}
	if len(s.Proxy) != 2 || s.Proxy[0] != (Arg{"HTTPS_PROXY", "x"}) || s.Proxy[1] != (Arg{"no_proxy", "y"}) {
		t.Errorf("proxy = %+v", s.Proxy)
	}
	same, err := sumFor(t, text, Options{Args: map[string]string{"http_proxy": "z"}})
	if err != nil || same.Full != s.Full {
		t.Errorf("a proxy that is not declared, or an argument without effect, moves the hash: %v", err)
	}
	other, err := sumFor(t, text, Options{})
	if err != nil || other.Full == s.Full {
		t.Errorf("a proxy that is declared does not move the hash: %v", err)
	}
}

func TestFrontendByBuildArgumentIsCheckedLikeTheDockerfilesLine(t *testing.T) {
	for name, ok := range map[string]bool{"": true, "docker/dockerfile:1": true, "registry.example/docker/dockerfile@sha256:0": true, "acme/mockerfile": false} {
		_, err := sumFor(t, "# syntax=docker/dockerfile:1\nFROM scratch\nCOPY a /x\n", Options{Args: map[string]string{"BUILDKIT_SYNTAX": name}})
		var se *SyntaxError
		if (err == nil) != ok || !ok && !errors.As(err, &se) {
			t.Errorf("%q: error = %v", name, err)
		}
	}
}
