package simulator

import (
	"context"
	"errors"
	"fmt"
	"io"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/distribution/reference"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/registry"
	"github.com/docker/docker/api/types/system"
	"github.com/docker/docker/client"
)

// PushEngine is what pushing an image needs of an engine.
type PushEngine interface {
	Info(ctx context.Context) (system.Info, error)
	ImageInspect(ctx context.Context, ref string, opts ...client.ImageInspectOption) (image.InspectResponse, error)
	ImageTag(ctx context.Context, source, target string) error
	ImageRemove(ctx context.Context, ref string, options image.RemoveOptions) ([]image.DeleteResponse, error)
	ImagePush(ctx context.Context, ref string, options image.PushOptions) (io.ReadCloser, error)
}

// PushOptions say where an image goes.
type PushOptions struct {
	// Registry is put before the reference: HOST[:PORT][/PREFIX]. "" pushes to where
	// the name says by itself.
	Registry    string
	Credentials FindCredentials // may be nil
	Progress    func(line string)
}

// Pushed is what came of a push.
type Pushed struct {
	Ref    string // under which it can be pulled
	Digest string // of its manifest; "" if the engine did not say
}

// ParseRegistry checks where an image is to go, together with its reference.
func ParseRegistry(registry, ref string) (reference.Named, error) {
	if registry != "" {
		ref = registry + "/" + ref
	}
	named, err := reference.ParseNormalizedNamed(ref)
	if err != nil {
		return nil, fmt.Errorf("registry %q is no HOST[:PORT][/PREFIX]: %w", registry, err)
	}
	usual, err := reference.ParseNormalizedNamed("usual")
	if err == nil && registry != "" && reference.Domain(named) == reference.Domain(usual) {
		return nil, fmt.Errorf("registry %q names no host: one has a dot or a port, or is localhost", registry)
	}
	return named, nil
}

// PushImage pushes an image. A name that it needs only for that is taken off again.
func PushImage(ctx context.Context, eng PushEngine, ref string, o PushOptions) (pushed *Pushed, err error) {
	named, err := ParseRegistry(o.Registry, ref)
	if err != nil {
		return nil, err
	}
	as := reference.FamiliarString(named)
	fail := func(err error, lines []string) error { return &ImageError{Op: "push", Ref: as, Lines: lines, Err: err} }
	_, found, err := credentialsOf(ctx, eng, named, o.Credentials)
	if err != nil {
		return nil, fail(err, nil)
	}
	auth, err := registry.EncodeAuthConfig(found)
	if err != nil {
		return nil, fail(err, nil)
	}
	if as != ref {
		if _, err := eng.ImageInspect(ctx, as); cerrdefs.IsNotFound(err) {
			if err := eng.ImageTag(ctx, ref, as); err != nil {
				return nil, fail(err, nil)
			}
			defer func() {
				ctx, cancel := cleanup(ctx)
				defer cancel()
				if _, e := eng.ImageRemove(ctx, as, image.RemoveOptions{}); e != nil && !cerrdefs.IsNotFound(e) {
					err = errors.Join(err, fmt.Errorf("take the name %q off again: %w", as, e))
				}
			}()
		} else if err != nil {
			return nil, fail(err, nil)
		} else if err := eng.ImageTag(ctx, ref, as); err != nil { // it may be an earlier image's
			return nil, fail(err, nil)
		}
	}
	body, err := eng.ImagePush(ctx, as, image.PushOptions{RegistryAuth: auth})
	if err != nil {
		return nil, fail(err, nil)
	}
	defer body.Close()
	said, err := follow(body, o.Progress)
	if err != nil {
		return nil, fail(err, said.lines)
	}
	return &Pushed{Ref: as, Digest: said.digest}, nil
}
