package images

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/docker/docker/api/types/build"
)

// Program is the path of the Go program inside an image of [Scratch].
const Program = "/app"

// ScratchSpec describes an image that holds a Go program and nothing else.
type ScratchSpec struct {
	Name    string            // after [Repository]: "agent"
	Package string            // import path of the program: "github.com/linuxarena/ctis/e2e/agent"
	Files   map[string]string // further files by absolute path, mode 0644
	Links   map[string]string // symbolic links by absolute path: where they lead
	From    string            // an image that is here already; default scratch
	// Config are further lines of the Dockerfile: USER 1000, HEALTHCHECK ….
	Config []string
}

// Agent is the image of the program in e2e/agent; its verbs are the command.
func Agent() ScratchSpec {
	return ScratchSpec{Name: "agent", Package: "github.com/linuxarena/ctis/e2e/agent"}
}

// Scratch builds the program on this machine and puts it into an image FROM
// scratch whose entry point it is. It returns the image's tag.
func Scratch(ctx context.Context, eng Engine, spec ScratchSpec) (string, error) {
	binary, err := program(ctx, spec.Package)
	if err != nil {
		return "", err
	}
	archive, err := spec.context(binary)
	if err != nil {
		return "", err
	}
	ref := reference(spec.Name, archive)
	if ok, err := exists(ctx, eng, ref); err != nil || ok {
		return ref, err
	}
	// The classic builder, which every engine has, and without its cache: with the
	// containerd image store a look into it fails while another test removes an image.
	resp, err := eng.ImageBuild(ctx, bytes.NewReader(archive), build.ImageBuildOptions{Tags: []string{ref}, NoCache: true, Remove: true, ForceRemove: true, Version: build.BuilderV1})
	if err != nil {
		return "", fmt.Errorf("build %q: %w", ref, err)
	}
	defer resp.Body.Close()
	if err := progress(resp.Body); err != nil {
		return "", fmt.Errorf("build %q: %w", ref, err)
	}
	return ref, nil
}

// compiled holds what this process has compiled, by package: several images have
// one program.
var compiled = struct {
	sync.Mutex
	programs map[string][]byte
}{programs: map[string][]byte{}}

// program compiles a package once.
func program(ctx context.Context, pkg string) ([]byte, error) {
	compiled.Lock()
	defer compiled.Unlock()
	if binary, done := compiled.programs[pkg]; done {
		return binary, nil
	}
	binary, err := compile(ctx, pkg)
	if err == nil {
		compiled.programs[pkg] = binary
	}
	return binary, err
}

// compile builds a static binary. The same source gives the same bytes, which
// is what makes the tag stable.
func compile(ctx context.Context, pkg string) ([]byte, error) {
	dir, err := os.MkdirTemp("", "ctis-image-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	out := filepath.Join(dir, "app")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w -buildid=", "-o", out, pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOFLAGS=")
	if text, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build %q: %w: %s", pkg, err, bytes.TrimSpace(text))
	}
	return os.ReadFile(out)
}

// context is the build context, byte for byte the same for the same inputs.
func (s ScratchSpec) context(binary []byte) ([]byte, error) {
	lines := []string{"FROM " + cmp.Or(s.From, "scratch"), "COPY rootfs/ /"}
	lines = append(append(lines, s.Config...), fmt.Sprintf("ENTRYPOINT [%q]", Program))
	var buf bytes.Buffer
	tw := tar.NewWriter(&buf)
	add := func(name string, mode int64, data []byte) error {
		if err := tw.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: int64(len(data))}); err != nil {
			return err
		}
		_, err := tw.Write(data)
		return err
	}
	if err := add("Dockerfile", 0o644, []byte(strings.Join(lines, "\n")+"\n")); err != nil {
		return nil, err
	}
	if err := add(path.Join("rootfs", Program), 0o755, binary); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(s.Files)) {
		if err := add(path.Join("rootfs", path.Clean("/"+name)), 0o644, []byte(s.Files[name])); err != nil {
			return nil, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Links)) {
		h := &tar.Header{Typeflag: tar.TypeSymlink, Name: path.Join("rootfs", path.Clean("/"+name)), Linkname: s.Links[name], Mode: 0o777}
		if err := tw.WriteHeader(h); err != nil {
			return nil, err
		}
	}
	if err := tw.Close(); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}
