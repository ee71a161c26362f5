package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/docker/docker/client"

	"github.com/linuxarena/ctis/e2e/images"
)

// benchInstance keeps the measurements' simulator apart from the one in use.
const benchInstance = "ctis-bench"

// build compiles a program of this module.
func build(ctx context.Context, dir, pkg string) (string, error) {
	bin := filepath.Join(dir, filepath.Base(pkg))
	cmd := exec.CommandContext(ctx, "go", "build", "-o", bin, pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	cmd.Stderr = os.Stderr
	return bin, cmd.Run()
}

// quiet runs a command and shows its output only if it fails.
func quiet(ctx context.Context, env []string, argv ...string) error {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%q: %w\n%s", argv, err, out)
	}
	return nil
}

// benchUp brings the quickstart up by ctis, with image and simulator there, and
// by docker compose alone.
func benchUp(ctx context.Context, runs int) (err error) {
	eng, err := client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation())
	if err != nil {
		return err
	}
	defer eng.Close()
	ref, err := images.Scratch(ctx, eng, images.Agent())
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "ctis-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	ctis, err := build(ctx, dir, "github.com/linuxarena/ctis")
	if err != nil {
		return err
	}
	environment := filepath.Join(dir, "environment")
	if err := os.CopyFS(environment, os.DirFS("examples/quickstart")); err != nil {
		return fmt.Errorf("run it from the repository's root: %w", err)
	}
	// The scratch image has no sleep; everything else is the quickstart's.
	extra := filepath.Join(environment, "compose.override.yml")
	if err := os.WriteFile(extra, []byte("services: {default: {command: [wait], init: false}}\n"), 0o644); err != nil {
		return err
	}
	env := []string{"CTIS_INSTANCE=" + benchInstance, "AGENT_IMAGE=" + ref}
	compose := []string{"docker", "compose", "-p", "bench-compose", "--project-directory", environment}
	down := func(ctx context.Context) error {
		return errors.Join(
			quiet(ctx, env, ctis, "down", "bench-ctis", "--timeout", "0s"),
			quiet(ctx, env, append(compose, "down", "--timeout", "0")...))
	}
	defer func() {
		ctx := context.WithoutCancel(ctx)
		err = errors.Join(err, down(ctx), quiet(ctx, nil, "docker", "rm", "-f", "-v", benchInstance+"-simulator"),
			quiet(ctx, nil, "docker", "network", "rm", benchInstance+"-link"), quiet(ctx, nil, "docker", "volume", "rm", benchInstance+"-state"))
	}()
	var a, b figures
	for i := range runs + 1 {
		if i == 1 {
			a, b = nil, nil // the first turn warms up: image, simulator, caches
		}
		if err := timed(&a, func() error { return quiet(ctx, env, ctis, "up", environment, "--id", "bench-ctis") }); err != nil {
			return err
		}
		if err := timed(&b, func() error { return quiet(ctx, env, append(compose, "up", "-d")...) }); err != nil {
			return err
		}
		if err := down(ctx); err != nil {
			return err
		}
	}
	fmt.Printf("up     ctis up             %v\n       docker compose up   %v\n       difference of medians %v (goal: at most 1.5s)\n",
		a, b, (a.median() - b.median()).Round(1e6))
	return nil
}
