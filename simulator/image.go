package simulator

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/image"

	"github.com/linuxarena/ctis/imagehash"
	"github.com/linuxarena/ctis/server/api"
)

// ImageOptions says which image is wanted and how it may be made.
type ImageOptions struct {
	Choice  imagehash.Choice
	Source  *imagehash.Sum // what to build from; nil unless the choice may be built
	NoCache bool           // build although the image exists, and from nothing

	// Go is the path of the go command; empty means that there is none. Environ
	// is the environment it gets, less what would make its result differ.
	Go      string
	Environ []string

	// BuildKit finds it; nil, and a nil result, mean that the engine's classic
	// builder has to do. It is asked only when a Dockerfile is to be built.
	BuildKit func(context.Context) *BuildKit

	// Turns is a directory through which processes on this machine take turns at
	// building one image; "" for none.
	Turns string

	// Credentials finds those of registries that images are pulled from; nil for none.
	Credentials FindCredentials

	// Progress is told, line by line, what the builder or the engine says. May be nil.
	Progress func(line string)
}

// ImageResult is the image that is there now.
type ImageResult struct {
	Ref      string
	ID       string
	Hash     string // of the source; "" for an image named by the user
	Protocol int    // of its administrative interface; 0 if it does not say
	Built    bool   // by this call
	Pulled   bool   // by this call
	Source   *imagehash.Sum
}

// EnsureImage makes sure that the chosen image exists. If it does, it is one
// question to the engine; otherwise the image is built or pulled, as the choice
// says. Processes that build one tag at once all succeed, and one image is left.
//
// Its errors are *[ImageError], *[NeedsBuildKitError], *[imagehash.SyntaxError],
// *[imagehash.ChangedInputError] and the engine's.
func EnsureImage(ctx context.Context, eng ImageEngine, o ImageOptions) (*ImageResult, error) {
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	ref := o.Choice.Ref
	found, err := eng.ImageInspect(ctx, ref)
	missing := cerrdefs.IsNotFound(err)
	if err != nil && !missing {
		return nil, fmt.Errorf("look for image %q: %w", ref, err)
	}
	res := &ImageResult{Ref: ref, Hash: o.Choice.Hash, Source: o.Source}
	switch o.Choice.Policy {
	case imagehash.Build:
		if !missing && !o.NoCache {
			break
		}
		if res.Built, err = buildInTurn(ctx, eng, o); err != nil {
			return nil, err
		}
	case imagehash.PullMissing:
		if !missing {
			break
		}
		if err := pull(ctx, eng, o, ref, ""); err != nil {
			return nil, err
		}
		res.Pulled = true
	case imagehash.PullAlways:
		err := pull(ctx, eng, o, ref, "")
		switch {
		case err == nil:
			res.Pulled = true
		case missing || ctx.Err() != nil:
			return nil, err
		default:
			// An engine without a way out still has what it pulled before.
			o.Progress(fmt.Sprintf("using %s as it is here: %v", ref, errors.Unwrap(err)))
		}
	default:
		return nil, fmt.Errorf("image %q: %q is no way to get it", ref, o.Choice.Policy)
	}
	if missing || res.Built || res.Pulled {
		if found, err = eng.ImageInspect(ctx, ref); err != nil {
			return nil, fmt.Errorf("look at image %q that was just made: %w", ref, err)
		}
	}
	res.ID = found.ID
	if res.Protocol, err = protocolOf(ref, found); err != nil {
		return nil, err
	}
	return res, nil
}

// protocolOf reads the version of the administrative interface that an image speaks;
// 0 if it does not say. One that this ctis does not speak is an error.
func protocolOf(ref string, found image.InspectResponse) (int, error) {
	if found.Config == nil {
		return 0, nil
	}
	n, err := parseProtocol(found.Config.Labels)
	if err != nil {
		return 0, fmt.Errorf("image %q: %w", ref, err)
	}
	if n != 0 && n != api.Protocol {
		return 0, fmt.Errorf("image %q speaks version %d of the administrative interface and this ctis version %d; use an image and a ctis of one release",
			ref, n, api.Protocol)
	}
	return n, nil
}

// parseProtocol reads the protocol's label; without one it is 0.
func parseProtocol(labels map[string]string) (int, error) {
	v := labels[LabelProtocol]
	if v == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("label %s=%q is no version", LabelProtocol, v)
	}
	return n, nil
}

// pull gets an image with the caller's credentials for its registry.
func pull(ctx context.Context, eng ImageEngine, o ImageOptions, ref, platform string) error {
	body, err := eng.ImagePull(ctx, ref, image.PullOptions{Platform: platform, RegistryAuth: pullCredentials(ctx, eng, ref, o)})
	if err != nil {
		return &ImageError{Op: "pull", Ref: ref, Err: err}
	}
	defer body.Close()
	said, err := follow(body, o.Progress)
	if err != nil {
		return &ImageError{Op: "pull", Ref: ref, Lines: said.lines, Err: err}
	}
	return nil
}
