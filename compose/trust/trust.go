// Package trust makes containers trust the simulator's CA before they first
// start: it adds the CA to the certificate stores the image has, and lays down
// one bundle of the image's own roots and the CA for programs that are told
// their trust by a variable (see [Env]).
//
// It needs nothing in the container: no shell, no tool, no directory. Files are
// read and written through the engine's archive calls, as uncompressed tar that
// is parsed here within limits and never unpacked on this machine. Containers
// that have been started are not touched: what runs in them could lay traps.
package trust

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/volume"
	"github.com/docker/docker/client"
	"golang.org/x/sync/errgroup"
)

// Engine is what this package asks of the engine's client.
type Engine interface {
	ContainerInspect(ctx context.Context, id string) (container.InspectResponse, error)
	ContainerStatPath(ctx context.Context, id, path string) (container.PathStat, error)
	CopyFromContainer(ctx context.Context, id, path string) (io.ReadCloser, container.PathStat, error)
	CopyToContainer(ctx context.Context, id, path string, tar io.Reader, o container.CopyToContainerOptions) error
	ImageInspect(ctx context.Context, id string, o ...client.ImageInspectOption) (image.InspectResponse, error)
	VolumeInspect(ctx context.Context, name string) (volume.Volume, error)
}

// Options say what goes where.
type Options struct {
	CA         []byte // one certificate as PEM
	Containers []Container
}

// Container is a created, not started container.
type Container struct {
	ID      string
	Service string // for reports and errors
}

// Report says what was done to one container.
type Report struct {
	Service   string
	Container string
	// Bundles are the files, by real path, that hold the CA now: those the image
	// had, and system ones made for an image that had none.
	Bundles []string
	// Keystores are Java's stores that hold the CA now, by real path.
	Keystores []string
	// Bundle is where [Env] points, or "" when it could not be written: a
	// program that is told to use it fails then. Skipped says why.
	Bundle  string
	Roots   int // certificates of the image's own in Bundle; 0: the image has none
	Skipped []Skip
}

// Skip is something that was left out.
type Skip struct {
	What   string
	Reason string // Err as text
	Err    error  // [*ReadOnlyError], [*MountError], [*StartedError], [*FileError]
}

// parallel bounds the containers worked on at once: each costs the engine a
// mount or two at a time.
const parallel = 4

// Install puts the CA into every container and reports on each, in the order
// given. Doing it again changes nothing. A container that cannot take the CA
// somewhere is no error but a [Skip]; an engine that fails is an error.
func Install(ctx context.Context, eng Engine, o Options) ([]Report, error) {
	ca, err := parseAuthority(o.CA)
	if err != nil {
		return nil, err
	}
	reports := make([]Report, len(o.Containers))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	for i, c := range o.Containers {
		g.Go(func() error {
			r, err := install(ctx, eng, ca, c)
			if err != nil {
				return fmt.Errorf("trust for service %q (container %s): %w", c.Service, c.ID[:min(12, len(c.ID))], err)
			}
			reports[i] = r
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return reports, nil
}

func install(ctx context.Context, eng Engine, ca *authority, c Container) (Report, error) {
	r := Report{Service: c.Service, Container: c.ID}
	p, err := look(ctx, eng, ca, c.ID, &r)
	if err != nil || p == nil {
		return r, err
	}
	for _, w := range p.batches() {
		if err := w.send(ctx, eng, c.ID); err != nil {
			return r, err
		}
	}
	return r, nil
}

// look plans what a container needs, and changes nothing. Nil means that it has
// been started: then nothing is to be done.
func look(ctx context.Context, eng Engine, ca *authority, id string, r *Report) (*planner, error) {
	info, err := eng.ContainerInspect(ctx, id)
	if err != nil {
		return nil, err
	}
	if info.State == nil || info.State.Status != container.StateCreated {
		r.skip("everything", &StartedError{})
		return nil, nil
	}
	env, err := environment(ctx, eng, info)
	if err != nil {
		return nil, err
	}
	files := newFiles(eng, id)
	places, err := newPlaces(ctx, eng, files, info)
	if err != nil {
		return nil, err
	}
	p := &planner{ca: ca, files: files, places: places, report: r, seen: map[string]bool{}, env: env}
	return p, p.plan(ctx)
}

// skip records what is left out, under one entry for each reason.
func (r *Report) skip(what string, err error) {
	reason := err.Error()
	if i := slices.IndexFunc(r.Skipped, func(s Skip) bool { return s.Reason == reason }); i >= 0 {
		if !slices.Contains(strings.Split(r.Skipped[i].What, ", "), what) {
			r.Skipped[i].What += ", " + what
		}
		return
	}
	r.Skipped = append(r.Skipped, Skip{What: what, Reason: reason, Err: err})
}
