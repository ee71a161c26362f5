package main

import (
	"context"
	"fmt"

	"github.com/docker/docker/client"

	"github.com/linuxarena/ctis/imagehash"
)

// benchHash measures how long an up takes to know its image: hash the build
// context, ask the engine for the tag.
func benchHash(ctx context.Context, runs int) error {
	eng, err := client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation())
	if err != nil {
		return err
	}
	defer eng.Close()
	var f figures
	for range runs + 1 {
		err := timed(&f, func() error {
			inputs, err := imagehash.Read(ctx, imagehash.Dir("."), imagehash.Options{Dockerfile: "templates/image/Dockerfile"})
			if err != nil {
				return fmt.Errorf("run it from the repository's root: %w", err)
			}
			sum, err := inputs.Sum(ctx)
			if err != nil {
				return err
			}
			_, _ = eng.ImageInspect(ctx, imagehash.Tag(sum.Hash)) // there or not, the question takes as long
			return nil
		})
		if err != nil {
			return err
		}
	}
	f = f[1:] // the first connects to the engine
	fmt.Printf("hash   hash and tag check  %v (goal: under 50ms)\n", f)
	return nil
}
