package simulator

import (
	"context"
	"errors"
	"fmt"

	cerrdefs "github.com/containerd/errdefs"
)

// tagAttempts is how often an image may vanish between its building and its tagging.
const tagAttempts = 3

// buildTag builds the image and gives it its tag; built is false if another process
// had done that in the meantime.
//
// An image gets its tag only when it is there whole, and the one that is first stays:
// processes that build one source at once find each other's image, and each removes
// what it made itself, so that none is left without a tag. With NoCache the newest
// takes the tag, and the image that had it goes. What a killed process left is for
// `ctis gc`: another may be just about to tag it.
func buildTag(ctx context.Context, eng ImageEngine, o ImageOptions) (built bool, err error) {
	for range tagAttempts {
		id, err := buildImage(ctx, eng, o)
		if err != nil {
			return false, err
		}
		switch useless, err := tag(ctx, eng, o, id); {
		case err == nil:
			clearUntagged(ctx, eng, o, useless)
			return useless != id, ctx.Err()
		case !errors.Is(err, errLost):
			return false, err
		}
	}
	return false, &ImageError{Op: "build", Ref: o.Choice.Ref, Err: errors.New("it is removed as soon as it is built; find out who does that")}
}

// tag gives the image with an id the chosen tag. It returns the image that is useless
// now, which is this one if another has the tag and stays; "" for none. errLost means
// that the image was removed before it had the tag.
func tag(ctx context.Context, eng ImageEngine, o ImageOptions, id string) (useless string, err error) {
	ref := o.Choice.Ref
	there, err := eng.ImageInspect(ctx, ref)
	switch {
	case err == nil && there.ID == id:
		return "", nil
	case err == nil && !o.NoCache:
		return id, nil
	case err != nil && !cerrdefs.IsNotFound(err):
		return "", fmt.Errorf("look for image %q: %w", ref, err)
	}
	earlier := there.ID // "" if there is none
	made, err := eng.ImageInspect(ctx, id)
	if err == nil {
		// A tag that ctis made is reused for ever, so nothing gets one that ctis then
		// does not take.
		if _, err := protocolOf(ref, made); err != nil {
			clearUntagged(ctx, eng, o, id)
			return "", err
		}
		err = eng.ImageTag(ctx, id, ref)
	}
	// Of two that tag at one moment, an engine with the containerd image store fails one.
	for again := 1; err != nil && !cerrdefs.IsNotFound(err) && again < tagAttempts; again++ {
		switch now, e := eng.ImageInspect(ctx, ref); {
		case e == nil && now.ID == id:
			return earlier, nil
		case e == nil && now.ID != earlier && !o.NoCache:
			return id, nil
		case e != nil && !cerrdefs.IsNotFound(e):
			return "", fmt.Errorf("look for image %q: %w", ref, e)
		}
		err = eng.ImageTag(ctx, id, ref)
	}
	if cerrdefs.IsNotFound(err) {
		// Somebody else took it for left over.
		if _, err := eng.ImageInspect(ctx, ref); err == nil && !o.NoCache {
			return id, nil
		}
		return "", errLost
	}
	if err != nil {
		return "", fmt.Errorf("tag image %q: %w", ref, err)
	}
	return earlier, nil
}

// clearUntagged removes an image that this process made, or took the tag from, if it
// has no other tag. One that somebody uses stays, and so does one that the engine
// fails to remove: the image that was asked for is there.
func clearUntagged(ctx context.Context, eng ImageEngine, o ImageOptions, id string) {
	if id == "" {
		return
	}
	action, why, err := removeImage(ctx, eng, ImageVerdict{ImageRow: ImageRow{ID: id}})
	if err != nil || action == GCSkipped && why != goneAlready && why != changedAnew {
		o.Progress(fmt.Sprintf("an untagged image stays for ctis gc: %s", why))
	}
}
