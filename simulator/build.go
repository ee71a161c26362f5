package simulator

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"syscall"
	"time"

	dockerbuild "github.com/docker/docker/api/types/build"

	"github.com/linuxarena/ctis/imagehash"
	recipe "github.com/linuxarena/ctis/templates/image"
)

// buildImage makes the image of o.Source, without a tag, and returns its id. With a
// Go toolchain here it compiles the server and puts it onto an empty image, for
// which no registry is needed; otherwise the Dockerfile does all of it.
func buildImage(ctx context.Context, eng ImageEngine, o ImageOptions) (id string, err error) {
	if o.Source == nil || o.Source.Hash != o.Choice.Hash {
		return "", fmt.Errorf("image %q cannot be built: its source is not at hand", o.Choice.Ref)
	}
	defer func() {
		var said *ImageError
		if errors.Is(err, syscall.ENOSPC) && !errors.As(err, &said) {
			err = &ImageError{Op: "build", Ref: o.Choice.Ref, Err: err} // which says where to make room
		}
	}()
	final, ok := o.Source.FinalStage()
	switch {
	case !ok || !hasServer(o.Source) || !o.Source.BuildsLike(recipe.Dockerfile):
		o.Progress("building by the Dockerfile alone: it is not the one ctis comes with")
	case len(o.Source.Args) > 0:
		o.Progress("building by the Dockerfile's own Go stage: it is given build arguments")
	default:
		why := unsuitable(ctx, o)
		if why == "" {
			return buildHere(ctx, eng, o, final)
		}
		o.Progress("building by the Dockerfile's own Go stage: " + why)
	}
	return buildDockerfile(ctx, eng, o)
}

// buildDockerfile hands the inputs, and nothing else, to BuildKit where it is there
// and to the engine's classic builder otherwise.
func buildDockerfile(ctx context.Context, eng ImageEngine, o ImageOptions) (id string, err error) {
	var bk *BuildKit
	if o.BuildKit != nil {
		bk = o.BuildKit(ctx)
	}
	if bk == nil {
		if err := classicCan(ctx, eng, o); err != nil {
			return "", err
		}
	}
	differ, err := checkBases(ctx, eng, o)
	switch {
	case err != nil:
		return "", err
	case bk != nil:
		return bk.build(ctx, eng, o)
	case len(differ) > 0:
		return "", &NeedsBuildKitError{Dockerfile: o.Source.Dockerfile.Path, Needs: differ}
	}
	return stream(ctx, eng, o, o.Source.Dockerfile.Path, o.Source.WriteTar)
}

// buildHere compiles the server on this machine and hands the engine the
// Dockerfile's last stage with the result.
func buildHere(ctx context.Context, eng ImageEngine, o ImageOptions, final []byte) (id string, err error) {
	arch, err := engineArch(ctx, eng)
	if err != nil {
		return "", err
	}
	dir, done, err := makeWorkDir("ctis-build-")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, done()) }()
	binary, err := compile(ctx, o, dir, arch)
	if err != nil {
		return "", err
	}
	// The cache has nothing to save here, and on engines with the containerd image
	// store it fails a build FROM scratch while any other such image is removed.
	o.NoCache = true
	return stream(ctx, eng, o, "Dockerfile", func(w io.Writer) error { return writeOut(w, final, binary) })
}

// engineArch asks the engine for its architecture in Go's words.
func engineArch(ctx context.Context, eng ImageEngine) (string, error) {
	v, err := eng.ServerVersion(ctx)
	if err != nil {
		return "", fmt.Errorf("ask the engine for its architecture: %w", err)
	}
	if v.Os != "linux" {
		return "", fmt.Errorf("the engine runs %s containers; ctis needs one that runs linux containers", v.Os)
	}
	return v.Arch, nil
}

// stream runs the engine's classic builder: it is on every engine, while BuildKit
// needs a client-side plugin (SPEC §15). The tar is made as it is sent, so a source
// that changes meanwhile breaks it off and no image comes of it. The image has no tag.
func stream(ctx context.Context, eng ImageEngine, o ImageOptions, dockerfile string, write func(io.Writer) error) (id string, err error) {
	args := map[string]*string{}
	for _, a := range slices.Concat(o.Source.Args, o.Source.Proxy) {
		args[a.Name] = &a.Value
	}
	r, w := io.Pipe()
	written := make(chan error, 1)
	go func() {
		err := write(w)
		w.CloseWithError(err)
		written <- err
	}()
	resp, err := eng.ImageBuild(ctx, r, dockerbuild.ImageBuildOptions{
		Version:     dockerbuild.BuilderV1,
		Dockerfile:  dockerfile,
		BuildArgs:   args,
		Target:      o.Source.Target,
		Platform:    o.Source.Platform,
		AuthConfigs: buildCredentials(ctx, eng, o),
		Labels:      map[string]string{LabelHash: o.Source.Hash},
		NoCache:     o.NoCache,
		Remove:      true,
		ForceRemove: true,
	})
	var said outcome
	if err == nil {
		said, err = follow(resp.Body, o.Progress)
		resp.Body.Close()
	}
	r.CloseWithError(io.ErrClosedPipe) // frees the writer if the engine did not read to the end
	sent := <-written
	var changed *imagehash.ChangedInputError
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err() // the client's own words are an address that nobody can use
	case errors.As(sent, &changed):
		return "", changed
	case err != nil:
		return "", &ImageError{Op: "build", Ref: o.Choice.Ref, Lines: said.lines, Err: err}
	case sent != nil && !errors.Is(sent, io.ErrClosedPipe):
		return "", fmt.Errorf("send the build context of image %q: %w", o.Choice.Ref, sent)
	case said.id == "":
		return "", &ImageError{Op: "build", Ref: o.Choice.Ref, Lines: said.lines, Err: errors.New("the engine does not say which image it built")}
	}
	return said.id, nil
}

// writeOut writes the build context of the last stage: the tree the Dockerfile's
// first stage leaves under /out, with the same owners and modes.
func writeOut(w io.Writer, dockerfile []byte, binary string) error {
	tw := tar.NewWriter(w)
	put := func(h tar.Header, content io.Reader) error {
		h.ModTime, h.Uid, h.Gid = time.Unix(0, 0), serverUser, serverUser
		if err := tw.WriteHeader(&h); err != nil || content == nil {
			return err
		}
		_, err := io.Copy(tw, content)
		return err
	}
	text := tar.Header{Name: "Dockerfile", Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(dockerfile))}
	if err := put(text, bytes.NewReader(dockerfile)); err != nil {
		return err
	}
	for _, dir := range []string{"out/", "out/run/", "out" + runtimeDir + "/", "out/var/", "out/var/lib/", "out" + stateDir + "/"} {
		if err := put(tar.Header{Name: dir, Typeflag: tar.TypeDir, Mode: 0o755}, nil); err != nil {
			return err
		}
	}
	f, err := os.Open(binary)
	if err != nil {
		return fmt.Errorf("read the compiled server: %w", err)
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return fmt.Errorf("read the compiled server: %w", err)
	}
	exe := tar.Header{Name: "out" + serverBinary, Typeflag: tar.TypeReg, Mode: 0o755, Size: fi.Size()}
	if err := put(exe, f); err != nil {
		return err
	}
	return tw.Close()
}
