package simulator

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	dockerbuild "github.com/docker/docker/api/types/build"
	"github.com/docker/docker/api/types/image"
)

// ProgramOptions says which Go program becomes an image of its own.
type ProgramOptions struct {
	Ref     string // tag of the image
	Dir     string // holds the program's main package, which imports only the standard library
	Go      string // path of the go command
	Environ []string
	// Labels go onto the image, so that whoever made it finds it again.
	Labels   map[string]string
	Progress func(line string)
}

// programPath is the program in its image.
const programPath = "/program"

// BuildProgram compiles a Go program here and puts it onto an empty image, as
// /program, which is also its entry point. No registry is asked.
func BuildProgram(ctx context.Context, eng ImageEngine, o ProgramOptions) (err error) {
	if o.Go == "" {
		return &ImageError{Op: "build", Ref: o.Ref, Err: errors.New("no Go toolchain on this machine")}
	}
	arch, err := engineArch(ctx, eng)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "ctis-program-")
	if err != nil {
		return fmt.Errorf("make a directory to build in: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	binary := filepath.Join(dir, "program")
	files, err := filepath.Glob(filepath.Join(o.Dir, "*.go"))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("there is no Go program in %q", o.Dir)
	}
	cmd := exec.CommandContext(ctx, o.Go, append([]string{"build", "-trimpath", "-ldflags", goLDFlags, "-o", binary}, files...)...)
	cmd.Dir = o.Dir
	cmd.Env = goEnv(o.Environ, "GO111MODULE=off", "GOOS=linux", "GOARCH="+arch)
	out := &tail{each: o.Progress}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return &ImageError{Op: "build", Ref: o.Ref, Lines: out.all(), Err: fmt.Errorf("go build: %w", err)}
	}
	content, err := os.ReadFile(binary)
	if err != nil {
		return fmt.Errorf("read the compiled program: %w", err)
	}
	var buildContext bytes.Buffer
	tw := tar.NewWriter(&buildContext)
	recipe := []byte("FROM scratch\nCOPY program " + programPath + "\nENTRYPOINT [\"" + programPath + "\"]\n")
	for _, f := range []struct {
		name string
		mode int64
		data []byte
	}{{"Dockerfile", 0o644, recipe}, {"program", 0o755, content}} {
		if err := tw.WriteHeader(&tar.Header{Name: f.name, Typeflag: tar.TypeReg, Mode: f.mode, Size: int64(len(f.data)), ModTime: time.Unix(0, 0)}); err != nil {
			return err
		}
		if _, err := tw.Write(f.data); err != nil {
			return err
		}
	}
	if err := tw.Close(); err != nil {
		return err
	}
	resp, err := eng.ImageBuild(ctx, &buildContext, dockerbuild.ImageBuildOptions{
		Version: dockerbuild.BuilderV1, Tags: []string{o.Ref}, Labels: o.Labels, Remove: true, ForceRemove: true,
		NoCache: true, // see buildHere
	})
	if err != nil {
		return &ImageError{Op: "build", Ref: o.Ref, Err: err}
	}
	defer resp.Body.Close()
	if lines, err := follow(resp.Body, o.Progress); err != nil {
		return &ImageError{Op: "build", Ref: o.Ref, Lines: lines, Err: err}
	}
	return nil
}

// ImageRemover is an engine where images are removed.
type ImageRemover interface {
	ImageRemove(ctx context.Context, ref string, options image.RemoveOptions) ([]image.DeleteResponse, error)
}

// RemoveProgram removes the image that [BuildProgram] made. One that is gone is
// no error.
func RemoveProgram(ctx context.Context, eng ImageRemover, ref string) error {
	if _, err := eng.ImageRemove(ctx, ref, image.RemoveOptions{PruneChildren: true}); err != nil && !cerrdefs.IsNotFound(err) {
		return fmt.Errorf("remove image %q: %w", ref, err)
	}
	return nil
}
