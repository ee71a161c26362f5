package simulator

import (
	"context"
	"fmt"
	"slices"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/image"
)

// What an image takes on disk is told by its layers, of which each is kept once
// however many images have it. The engine lists an image's size with every layer in
// it, so adding sizes up would count shared layers again and again; how much the
// whole disk changed would count what others built or removed meanwhile. So the
// layers of what goes are compared with those of all that stays.

// layered is an image by its layers, the lowest first.
type layered struct {
	id     string
	layers []string // digests of their content
	steps  []int64  // sizes, in bytes, of the build's steps that left something
	total  int64    // bytes on disk if it were alone, as the engine tells
}

// lookAtLayers asks for an image's layers; nil if it is gone.
func lookAtLayers(ctx context.Context, eng GCEngine, id string, sizes bool) (*layered, error) {
	found, err := eng.ImageInspect(ctx, id)
	if cerrdefs.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look at image %q: %w", id, err)
	}
	l := &layered{id: id, layers: found.RootFS.Layers, total: found.Size}
	if !sizes {
		return l, nil
	}
	history, err := eng.ImageHistory(ctx, id)
	if cerrdefs.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("ask for the layers of image %q: %w", id, err)
	}
	for _, step := range slices.Backward(history) { // the newest is first
		if step.Size > 0 {
			l.steps = append(l.steps, step.Size)
		}
	}
	return l, nil
}

// stack holds sets of layers. Two images share a layer only if they share all
// below it, so what an image has in common with others is how far up it agrees.
type stack map[string]stack

func (s stack) add(layers []string) {
	for _, l := range layers {
		next, ok := s[l]
		if !ok {
			next = stack{}
			s[l] = next
		}
		s = next
	}
}

// common counts the layers that are there already.
func (s stack) common(layers []string) int {
	for i, l := range layers {
		next, ok := s[l]
		if !ok {
			return i
		}
		s = next
	}
	return len(layers)
}

// freed is how many bytes go with the images gone while those left stay. Where the
// engine does not tell which layer has which size, because one is empty, it is the
// least that it can be. With the containerd image store an image is kept twice,
// packed and unpacked; the packed form is counted for an image that shares nothing.
func freed(gone []*layered, left stack) int64 {
	var sum int64
	for _, g := range gone {
		common := left.common(g.layers)
		left.add(g.layers)
		for _, size := range g.steps[min(common, len(g.steps)):] {
			sum += size
		}
		if common == 0 {
			for _, size := range g.steps {
				g.total -= size
			}
			sum += max(0, g.total)
		}
	}
	return sum
}

// doomed lists, beside the given images, the untagged ones below them that the
// engine removes with them: those nobody else is built on.
func doomed(all []image.Summary, gone map[string]bool) map[string]bool {
	out := map[string]bool{}
	for id := range gone {
		out[id] = true
	}
	for {
		before := len(out)
		for _, i := range all {
			if out[i.ID] || len(tagsOf(i)) > 0 {
				continue
			}
			children, survivors := 0, 0
			for _, c := range all {
				if c.ParentID == i.ID {
					if children++; !out[c.ID] {
						survivors++
					}
				}
			}
			if children > 0 && survivors == 0 {
				out[i.ID] = true
			}
		}
		if len(out) == before {
			return out
		}
	}
}
