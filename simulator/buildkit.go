package simulator

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"

	"github.com/linuxarena/ctis/imagehash"
)

// BuildKit is the docker command with its buildx plugin: the engine has BuildKit,
// and the plugin is what speaks to it (SPEC §15).
type BuildKit struct {
	Docker  string   // path of the docker command
	Environ []string // names the engine that is meant
	Builder string   // the one that builds inside that engine; buildx calls it after the Docker context
}

// FindBuildKit asks the docker command for its buildx plugin; nil if it has none.
func FindBuildKit(ctx context.Context, b BuildKit) *BuildKit {
	cmd := exec.CommandContext(ctx, b.Docker, "buildx", "version")
	cmd.Env = b.environ()
	if cmd.Run() != nil {
		return nil
	}
	return &b
}

// environ is the environment of the plugin: without another builder than the one
// that is meant, and without attestations, which would make an image's content
// depend on when and how it was built.
func (b *BuildKit) environ() []string {
	var env []string
	for _, kv := range b.Environ {
		switch name, _, _ := strings.Cut(kv, "="); name {
		case "BUILDX_BUILDER", "BUILDX_NO_DEFAULT_ATTESTATIONS", "DOCKER_BUILDKIT":
		default:
			env = append(env, kv)
		}
	}
	return append(env, "BUILDX_NO_DEFAULT_ATTESTATIONS=1", "DOCKER_BUILDKIT=1")
}

// build makes the image without a tag and returns its id. The context is a
// directory that holds exactly what was hashed.
func (b *BuildKit) build(ctx context.Context, eng ImageEngine, o ImageOptions) (id string, err error) {
	dir, done, err := makeWorkDir("ctis-build-")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, done()) }()
	files := filepath.Join(dir, "context")
	if err := unpackContext(ctx, o.Source, files); err != nil {
		return "", err
	}
	idFile := filepath.Join(dir, "id")
	cmd := exec.CommandContext(ctx, b.Docker, b.args(o, files, idFile)...)
	cmd.Env = b.environ()
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) } // it tells the engine
	cmd.WaitDelay = 5 * time.Second
	out := &tail{each: o.Progress}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		return "", &ImageError{Op: "build", Ref: o.Choice.Ref, Lines: out.all(), Err: fmt.Errorf("docker buildx build: %w", err)}
	}
	raw, err := os.ReadFile(idFile)
	if err != nil {
		return "", &ImageError{Op: "build", Ref: o.Choice.Ref, Lines: out.all(), Err: fmt.Errorf("docker buildx build does not say which image it built: %w", err)}
	}
	return b.found(ctx, eng, o, strings.TrimSpace(string(raw)))
}

func (b *BuildKit) args(o ImageOptions, files, idFile string) []string {
	args := []string{"buildx", "build", "--builder", b.Builder, "--load", "--progress", "plain",
		"--file", filepath.Join(files, filepath.FromSlash(o.Source.Dockerfile.Path)),
		"--iidfile", idFile, "--label", LabelHash + "=" + o.Source.Hash}
	for _, a := range slices.Concat(o.Source.Args, o.Source.Proxy) {
		args = append(args, "--build-arg", a.Name+"="+a.Value)
	}
	if o.Source.Target != "" {
		args = append(args, "--target", o.Source.Target)
	}
	if o.Source.Platform != "" {
		args = append(args, "--platform", o.Source.Platform)
	}
	if o.NoCache {
		args = append(args, "--no-cache")
	}
	return append(args, files)
}

// found makes sure that the id is the engine's. With the containerd image store the
// plugin may tell that of the image's configuration: there the label tells.
func (b *BuildKit) found(ctx context.Context, eng ImageEngine, o ImageOptions, id string) (string, error) {
	in, err := eng.ImageInspect(ctx, id)
	if err == nil {
		return in.ID, nil
	}
	if !cerrdefs.IsNotFound(err) {
		return "", fmt.Errorf("look at image %q that was just made: %w", id, err)
	}
	made, err := eng.ImageList(ctx, image.ListOptions{Filters: filters.NewArgs(filters.Arg("label", LabelHash+"="+o.Source.Hash))})
	if err != nil {
		return "", fmt.Errorf("look for image %q that was just made: %w", id, err)
	}
	newest := -1
	for i := range made {
		if newest < 0 || made[i].Created > made[newest].Created {
			newest = i
		}
	}
	if newest < 0 {
		return "", &ImageError{Op: "build", Ref: o.Choice.Ref, Err: fmt.Errorf("the image %q that was built is not in the engine", id)}
	}
	return made[newest].ID, nil
}

// unpackContext writes the build context below dir, verified, with the modes and
// times of the tar whatever this machine's umask is.
func unpackContext(ctx context.Context, s *imagehash.Sum, dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return fmt.Errorf("write the build context: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("write the build context: %w", err)
	}
	defer root.Close()
	r, w := io.Pipe()
	written := make(chan error, 1)
	go func() {
		err := s.WriteTar(w)
		w.CloseWithError(err)
		written <- err
	}()
	err = unpack(root, untilDone{ctx, r})
	r.CloseWithError(io.ErrClosedPipe)
	var changed *imagehash.ChangedInputError
	if sent := <-written; errors.As(sent, &changed) {
		return changed
	}
	if err != nil {
		return fmt.Errorf("write the build context: %w", err)
	}
	return nil
}

// untilDone reads until its context ends.
type untilDone struct {
	ctx context.Context
	io.Reader
}

func (r untilDone) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.Reader.Read(p)
}

func unpack(root *os.Root, r io.Reader) error {
	type stamp struct {
		name string
		time time.Time
	}
	var dirs []stamp // last, since what is put into them changes their time
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		name := strings.TrimSuffix(h.Name, "/")
		switch h.Typeflag {
		case tar.TypeDir:
			err = errors.Join(root.MkdirAll(name, 0o755), root.Chmod(name, h.FileInfo().Mode().Perm()))
			dirs = append(dirs, stamp{name, h.ModTime})
		case tar.TypeSymlink:
			err = root.Symlink(h.Linkname, name)
		default:
			err = unpackFile(root, name, h, tr)
		}
		if err != nil {
			return err
		}
	}
	for _, d := range dirs {
		if err := root.Chtimes(d.name, d.time, d.time); err != nil {
			return err
		}
	}
	return nil
}

func unpackFile(root *os.Root, name string, h *tar.Header, content io.Reader) error {
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	return errors.Join(err, f.Chmod(h.FileInfo().Mode().Perm()), f.Close(), root.Chtimes(name, h.ModTime, h.ModTime))
}
