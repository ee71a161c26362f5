package simulator

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/docker/docker/api/types/build"
)

func TestHintOfAFailedBuildFitsItsCause(t *testing.T) {
	for _, tt := range []struct {
		err   string
		lines []string
		want  string
	}{
		{"write /x: no space left on device", nil, "make room"},
		{"Get \"https://registry.invalid/v2/\": dial tcp: lookup registry.invalid: no such host", nil, "over the network"},
		{"docker buildx build: exit status 1", []string{"ERROR: failed to resolve: dial tcp 192.0.2.1:443: i/o timeout"}, "over the network"},
		{"pull access denied for mine, repository does not exist or may require 'docker login'", nil, "name of the image"},
		{"COPY failed", []string{"no such file"}, "correct the source"},
	} {
		e := &ImageError{Op: "build", Ref: "r", Lines: tt.lines, Err: errors.New(tt.err)}
		if !strings.Contains(e.Hint(), tt.want) {
			t.Errorf("%s: %s", tt.err, e.Hint())
		}
	}
}

// interrupted is an engine whose build is broken off by Ctrl-C.
type interrupted struct {
	*fakeImages
	cancel func()
}

func (f interrupted) ImageBuild(context.Context, io.Reader, build.ImageBuildOptions) (build.ImageBuildResponse, error) {
	f.cancel()
	return build.ImageBuildResponse{}, errors.New(`Post "http://%2Fvar%2Frun%2Fdocker.sock/v1.41/build?x": context canceled`)
}

func TestInterruptedBuildIsNoFailureOfTheSource(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	f := interrupted{&fakeImages{images: map[string]map[string]string{}}, cancel}
	var ie *ImageError
	if _, err := EnsureImage(ctx, f, custom(t, plainDockerfile)); !errors.Is(err, context.Canceled) || errors.As(err, &ie) || strings.Contains(err.Error(), "http:") {
		t.Errorf("error = %v", err)
	}
}

// fullDisk is a source whose copy finds no room, once it is full.
type fullDisk struct {
	fs.FS
	full bool
}

func (f *fullDisk) Lstat(name string) (fs.FileInfo, error) { return fs.Lstat(f.FS, name) }
func (f *fullDisk) ReadLink(name string) (string, error)   { return fs.ReadLink(f.FS, name) }
func (f *fullDisk) Open(name string) (fs.File, error) {
	if f.full {
		return nil, &fs.PathError{Op: "write", Path: name, Err: syscall.ENOSPC}
	}
	return f.FS.Open(name)
}

func TestBuildThatFindsNoRoomHereSaysWhereToMakeIt(t *testing.T) {
	files := &fullDisk{FS: ownContext()}
	o := fromSource(source(t, files, "templates/image/Dockerfile", nil))
	files.full, o.Go, o.Environ = true, goCommand(t), os.Environ()
	_, err := EnsureImage(context.Background(), &fakeImages{images: map[string]map[string]string{}}, o)
	var said *ImageError
	if !errors.As(err, &said) || !errors.Is(err, syscall.ENOSPC) || !strings.Contains(said.Hint(), "make room") {
		t.Errorf("error = %v", err)
	}
}
