package simulator

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
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
	Cache   string // where compiled programs are kept for the next time; "" for nowhere
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
	content, err := o.binary(ctx, arch)
	if err != nil {
		return err
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
	if said, err := follow(resp.Body, o.Progress); err != nil {
		return &ImageError{Op: "build", Ref: o.Ref, Lines: said.lines, Err: err}
	}
	return nil
}

// binary compiles the program, or takes it from the cache: linking takes longer
// than all the rest.
func (o ProgramOptions) binary(ctx context.Context, arch string) (content []byte, err error) {
	files, err := filepath.Glob(filepath.Join(o.Dir, "*.go"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("there is no Go program in %q", o.Dir)
	}
	key := sha256.New()
	for _, f := range files {
		source, err := os.ReadFile(f)
		if err != nil {
			return nil, fmt.Errorf("read the program: %w", err)
		}
		fmt.Fprintf(key, "%s\x00%d\x00%s", filepath.Base(f), len(source), source)
	}
	kept := filepath.Join(o.Cache, fmt.Sprintf("%x-%s-%s", key.Sum(nil)[:8], runtime.Version(), arch))
	if o.Cache != "" {
		if content, err := os.ReadFile(kept); err == nil {
			return content, nil
		}
	}
	dir, done, err := makeWorkDir("ctis-program-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, done()) }()
	made := filepath.Join(dir, "program")
	cmd := exec.CommandContext(ctx, o.Go, append([]string{"build", "-trimpath", "-ldflags", goLDFlags, "-o", made}, files...)...)
	cmd.Dir = o.Dir
	cmd.Env = goEnv(o.Environ, "GO111MODULE=off", "GOOS=linux", "GOARCH="+arch)
	out := &tail{each: o.Progress}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, &ImageError{Op: "build", Ref: o.Ref, Lines: out.all(), Err: fmt.Errorf("go build: %w", err)}
	}
	if content, err = os.ReadFile(made); err != nil {
		return nil, fmt.Errorf("read the compiled program: %w", err)
	}
	if o.Cache != "" {
		keep(kept, content)
	}
	return content, nil
}

// keep writes a file for the next time, whole or not at all. Where that does not
// work the next time takes longer, and that is all.
func keep(path string, content []byte) {
	if os.MkdirAll(filepath.Dir(path), 0o700) != nil {
		return
	}
	f, err := os.CreateTemp(filepath.Dir(path), "new-")
	if err != nil {
		return
	}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // a half one must not stay
	}
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
