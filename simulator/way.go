package simulator

import (
	"context"
	"errors"
	"fmt"

	cerrdefs "github.com/containerd/errdefs"

	"github.com/linuxarena/ctis/imagehash"
	recipe "github.com/linuxarena/ctis/templates/image"
)

// ErrNoBuilder says that an image could be built by nothing that is here without
// a registry.
var ErrNoBuilder = errors.New("there is nothing to build it with")

// Way says in words how [EnsureImage] would get an image that is not there, and
// makes none. [ErrNoBuilder] means that a build would first have to pull the
// Dockerfile's base images, which needs a registry.
func Way(ctx context.Context, o ImageOptions) (string, error) {
	if o.Choice.Policy != imagehash.Build {
		return "it is pulled", nil
	}
	if o.Source == nil {
		return "", fmt.Errorf("image %q cannot be built: its source is not at hand", o.Choice.Ref)
	}
	why := "the Dockerfile is not the one ctis comes with"
	if _, ok := o.Source.FinalStage(); ok && hasServer(o.Source) && o.Source.BuildsLike(recipe.Dockerfile) {
		if why = unsuitable(ctx, o); why == "" {
			return "it is compiled by " + o.Go + ", without any registry", nil
		}
	}
	if o.BuildKit != nil && o.BuildKit(ctx) != nil {
		return "it is built by BuildKit from the Dockerfile's base images", fmt.Errorf("%w here: %s", ErrNoBuilder, why)
	}
	return "it is built by the engine's classic builder from the Dockerfile's base images", fmt.Errorf("%w here: %s", ErrNoBuilder, why)
}

// FindImage looks for an image by name; nil means that it is not here. Its
// protocol is 0 if it does not say one, and an error if this ctis does not speak it.
func FindImage(ctx context.Context, eng ImageEngine, ref string) (*ImageResult, error) {
	found, err := eng.ImageInspect(ctx, ref)
	if cerrdefs.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for image %q: %w", ref, err)
	}
	protocol, err := protocolOf(ref, found)
	if err != nil {
		return nil, err
	}
	return &ImageResult{Ref: ref, ID: found.ID, Protocol: protocol}, nil
}
