// Package images makes the images that tests on a real engine use, without any
// image registry: programs of this module FROM scratch, and a small Debian from
// Debian's own packages.
//
// Every image is tagged by what went into it, so that a second run finds it and
// builds nothing, and stays in the engine for the next one. The names start with
// [Repository], by which they can be removed.
package images

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/build"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/client"
)

// Repository is what the names of all images made here start with.
const Repository = "ctis-test/"

// Engine is what this package asks of the engine's client.
type Engine interface {
	ImageInspect(ctx context.Context, ref string, o ...client.ImageInspectOption) (image.InspectResponse, error)
	ImageBuild(ctx context.Context, context io.Reader, o build.ImageBuildOptions) (build.ImageBuildResponse, error)
	ImageImport(ctx context.Context, source image.ImportSource, ref string, o image.ImportOptions) (io.ReadCloser, error)
}

// exists tells whether an image of that tag is there.
func exists(ctx context.Context, eng Engine, ref string) (bool, error) {
	_, err := eng.ImageInspect(ctx, ref)
	if errdefs.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}

// reference names an image by its inputs.
func reference(name string, inputs ...[]byte) string {
	h := sha256.New()
	for _, in := range inputs {
		fmt.Fprintf(h, "%d\n", len(in))
		h.Write(in)
	}
	return Repository + name + ":" + hex.EncodeToString(h.Sum(nil)[:6])
}

// progress reads the engine's messages about a build or an import to their end.
// The call itself succeeds however the build ends: the failure is one of them.
func progress(r io.Reader) error {
	var log []byte
	messages := json.NewDecoder(r)
	for {
		var m struct {
			Stream string `json:"stream"`
			Error  string `json:"error"`
		}
		err := messages.Decode(&m)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("the engine's messages end early: %w", err)
		}
		log = append(log, m.Stream...)
		log = log[max(0, len(log)-4096):]
		if m.Error != "" {
			return fmt.Errorf("%s; last output:\n%s", m.Error, log)
		}
	}
}
