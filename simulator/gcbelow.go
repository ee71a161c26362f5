package simulator

import (
	"context"
	"fmt"
	"slices"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/image"
)

// The classic builder makes an image of every step. An engine removes them with the
// last one that was built on them; with the containerd image store it does so only
// while all of them are there, so of two images that share their first step it leaves,
// with the second, all the others and the bytes of their layers.

// below lists the images without a tag that an image was made from, the nearest first.
func below(all []image.Summary, id string) (chain []string) {
	known := map[string]image.Summary{}
	for _, i := range all {
		known[i.ID] = i
	}
	for i, ok := known[known[id].ParentID]; ok && len(tagsOf(i)) == 0 && !slices.Contains(chain, i.ID); i, ok = known[i.ParentID] {
		chain = append(chain, i.ID)
	}
	return chain
}

// clearBelow removes what the engine left of what a removed image was made from: those
// that still have no tag and that nobody else is built on. What is in use stays.
func clearBelow(ctx context.Context, eng imageRemover, chain []string) error {
	if len(chain) == 0 {
		return nil
	}
	if _, err := eng.ImageInspect(ctx, chain[0]); cerrdefs.IsNotFound(err) {
		return nil // the engine did it
	}
	all, err := eng.ImageList(ctx, image.ListOptions{All: true})
	if err != nil {
		return fmt.Errorf("list images: %w", err)
	}
	for _, id := range chain {
		at := slices.IndexFunc(all, func(i image.Summary) bool { return i.ID == id })
		if at < 0 {
			continue
		}
		if len(tagsOf(all[at])) > 0 || slices.ContainsFunc(all, func(i image.Summary) bool { return i.ParentID == id }) {
			return nil
		}
		switch _, err := eng.ImageRemove(ctx, id, image.RemoveOptions{}); {
		case cerrdefs.IsConflict(err):
			return nil
		case err != nil && !cerrdefs.IsNotFound(err):
			return fmt.Errorf("remove image %q, a step of one that was removed: %w", id, err)
		}
		all = slices.Delete(all, at, at+1)
	}
	return nil
}
