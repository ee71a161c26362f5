package simulator

import (
	"context"
	"errors"
	"fmt"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"
)

// tagAttempts is how often an image may vanish between its building and its tagging.
const tagAttempts = 3

// buildTag builds the image and gives it its tag; built is false if another process
// had done that in the meantime.
//
// An image gets its tag only when it is there whole, and the one that is first stays:
// processes that build one source at once find each other's image and drop their
// own, so that none is left without a tag. With NoCache the newest takes the tag.
func buildTag(ctx context.Context, eng ImageEngine, o ImageOptions) (built bool, err error) {
	for range tagAttempts {
		id, err := buildImage(ctx, eng, o)
		if err != nil {
			return false, err
		}
		switch built, err := tag(ctx, eng, o, id); {
		case err == nil:
			return built, clearUntagged(ctx, eng, o)
		case !errors.Is(err, errLost):
			return false, err
		}
	}
	return false, &ImageError{Op: "build", Ref: o.Choice.Ref, Err: errors.New("it is removed as soon as it is built; find out who does that")}
}

// tag gives the image with an id the chosen tag. errLost means that the image was
// removed before it had it.
func tag(ctx context.Context, eng ImageEngine, o ImageOptions, id string) (mine bool, err error) {
	ref := o.Choice.Ref
	there, err := eng.ImageInspect(ctx, ref)
	switch {
	case err == nil && there.ID == id:
		return true, nil
	case err == nil && !o.NoCache:
		return false, nil // somebody's of the same source: this call's own goes with what is untagged
	case err != nil && !cerrdefs.IsNotFound(err):
		return false, fmt.Errorf("look for image %q: %w", ref, err)
	}
	err = eng.ImageTag(ctx, id, ref)
	if cerrdefs.IsNotFound(err) {
		// Another process that was done with the same source took it for left over.
		if _, err := eng.ImageInspect(ctx, ref); err == nil && !o.NoCache {
			return false, nil
		}
		return false, errLost
	}
	if err != nil {
		return false, fmt.Errorf("tag image %q: %w", ref, err)
	}
	return true, nil
}

// clearUntagged removes images of the source that have no tag, since one has it now.
// One that a container uses stays, and so does one that the engine fails to remove:
// the image that was asked for is there. `ctis gc` removes what is left.
func clearUntagged(ctx context.Context, eng ImageEngine, o ImageOptions) error {
	left, err := eng.ImageList(ctx, image.ListOptions{Filters: filters.NewArgs(
		filters.Arg("dangling", "true"), filters.Arg("label", LabelHash+"="+o.Choice.Hash))})
	if err != nil {
		return fmt.Errorf("list untagged images: %w", err)
	}
	for _, i := range left {
		if len(tagsOf(i)) > 0 {
			continue
		}
		// Two that remove one image at once get all kinds of errors from the engine.
		if _, err := eng.ImageRemove(ctx, i.ID, image.RemoveOptions{PruneChildren: true}); err != nil && !cerrdefs.IsNotFound(err) {
			o.Progress(fmt.Sprintf("an untagged image stays for ctis gc: %v", err))
		}
	}
	return ctx.Err()
}
