package simulator

import (
	"context"
	"fmt"
	"strings"

	cerrdefs "github.com/containerd/errdefs"

	"github.com/linuxarena/ctis/imagehash"
)

// checkBases asks the engine what the images a Dockerfile builds on bring with them.
// Triggers (ONBUILD) that read what is not hashed are refused. Build arguments that
// an image sets by ENV are a need: the two builders do not agree which of them wins.
// An image that is not here is pulled, as the build would do.
func checkBases(ctx context.Context, eng ImageEngine, o ImageOptions) ([]imagehash.Need, error) {
	if len(o.Source.Bases) == 0 {
		return nil, nil
	}
	arch, err := engineArch(ctx, eng)
	if err != nil {
		return nil, err
	}
	bases, err := o.Source.BasesOn("linux/" + arch)
	if err != nil {
		return nil, err
	}
	var needs []imagehash.Need
	for _, b := range bases {
		if !b.Known {
			return nil, o.Source.Refuse(b, nil)
		}
		found, err := eng.ImageInspect(ctx, b.Image)
		if cerrdefs.IsNotFound(err) {
			o.Progress(fmt.Sprintf("pulling base image %s", b.Image))
			if err := pull(ctx, eng, o, b.Image, o.Source.Platform); err != nil {
				return nil, err
			}
			found, err = eng.ImageInspect(ctx, b.Image)
		}
		if err != nil {
			return nil, fmt.Errorf("look at base image %q: %w", b.Image, err)
		}
		if found.Config == nil {
			continue
		}
		if err := o.Source.Refuse(b, found.Config.OnBuild); err != nil {
			return nil, err
		}
		for _, kv := range found.Config.Env {
			name, _, _ := strings.Cut(kv, "=")
			if line := b.Args[name]; line > 0 {
				needs = append(needs, imagehash.Need{Line: line, What: fmt.Sprintf("ARG %s, which base image %q sets by ENV", name, b.Image)})
			}
		}
	}
	return needs, nil
}

// classicCan refuses what the engine's classic builder would refuse, or make another
// image of than BuildKit, before anything is pulled or built.
func classicCan(ctx context.Context, eng ImageEngine, o ImageOptions) error {
	needs := o.Source.BuildKitNeeds()
	if o.Source.Platform != "" {
		arch, err := engineArch(ctx, eng)
		if err != nil {
			return err
		}
		own, err := imagehash.PlatformName("linux/" + arch)
		if err != nil {
			return err
		}
		if own != o.Source.Platform {
			needs = append(needs, imagehash.Need{What: fmt.Sprintf("--platform %s on an engine for %s", o.Source.Platform, own)})
		}
	}
	if len(needs) > 0 {
		return &NeedsBuildKitError{Dockerfile: o.Source.Dockerfile.Path, Needs: needs}
	}
	return nil
}
