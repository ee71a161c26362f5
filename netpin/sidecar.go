package netpin

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"

	"github.com/linuxarena/ctis/server/api"
)

// The labels of exposed services, as package compose puts them there.
const (
	labelSidecar = "io.ctis.sidecar" // on the sidecar
	labelExposed = "io.ctis.exposed" // on a target: the network's key = the alias by which the sidecar finds it
)

// Sidecar finds the sidecar of the project's exposed services; false where there is none.
func (p Project) Sidecar() (Container, bool) {
	i := slices.IndexFunc(p.Containers, func(c Container) bool { return c.Labels[labelSidecar] != "" && !c.OneOff() })
	if i < 0 {
		return Container{}, false
	}
	return p.Containers[i], true
}

// FindSidecar is [Project.Sidecar] where nothing else of the project is asked for.
func FindSidecar(ctx context.Context, eng Engine, project string) (Container, bool, error) {
	f := projectFilter(project)
	f.Add("label", labelSidecar)
	list, err := eng.ContainerList(ctx, container.ListOptions{All: true, Filters: f})
	if err != nil {
		return Container{}, false, fmt.Errorf("look for the sidecar of %q: %w", project, err)
	}
	for _, s := range list {
		c := Container{ID: s.ID, Name: containerName(s), Service: s.Labels[labelService], State: s.State, Labels: s.Labels}
		if !c.OneOff() {
			return c, true, nil
		}
	}
	return Container{}, false, nil
}

// Stop stops a container, giving it timeout to end by itself. One that is gone is no error.
func Stop(ctx context.Context, eng Sweeper, id string, timeout time.Duration) error {
	seconds := int(timeout.Round(time.Second).Seconds())
	if err := eng.ContainerStop(ctx, id, container.StopOptions{Timeout: &seconds}); err != nil && !errdefs.IsNotFound(err) {
		return fmt.Errorf("stop container %s: %w", short(id), err)
	}
	return nil
}

// sidecarDrift looks whether a trajectory that exposes services has what answers for
// them, under their names.
func sidecarDrift(ctx context.Context, eng Engine, t api.TrajectoryStatus, p Project) ([]Drift, error) {
	if len(t.Exposed) == 0 {
		return nil, nil
	}
	c, ok := p.Sidecar()
	d := Drift{Kind: DriftSidecar, Service: c.Service, Container: c.Name, ContainerID: c.ID}
	switch {
	case !ok:
		d.Have = "gone"
		return []Drift{d}, nil
	case c.State != "running":
		d.Have = c.State
		return []Drift{d}, nil
	}
	is, err := eng.ContainerInspect(ctx, c.ID)
	if errdefs.IsNotFound(err) {
		d.Have = "gone"
		return []Drift{d}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look at container %q: %w", c.Name, err)
	}
	for _, n := range t.Networks {
		now, err := CurrentNetwork(ctx, eng, p, n)
		if err != nil {
			return nil, err
		}
		e := endpoint(is, now.ID, now.Name)
		if now.ID == "" || e == nil {
			continue // told as such
		}
		for _, x := range t.Exposed {
			if !slices.Contains(e.Aliases, x.Host) {
				d.Network, d.Have = n.Name, fmt.Sprintf("not known as %q on network %q", x.Host, n.Name)
				return []Drift{d}, nil
			}
		}
	}
	return targetDrift(ctx, eng, p)
}

// targetDrift looks whether the sidecar finds each target that runs.
func targetDrift(ctx context.Context, eng Engine, p Project) ([]Drift, error) {
	var found []Drift
	for _, c := range p.Containers {
		key, alias, ok := strings.Cut(c.Labels[labelExposed], "=")
		if !ok || c.State != "running" || c.OneOff() {
			continue
		}
		is, err := eng.ContainerInspect(ctx, c.ID)
		if errdefs.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("look at container %q: %w", c.Name, err)
		}
		for _, n := range p.Networks {
			if n.Key != key {
				continue // an external one is not the project's, and has no key
			}
			if e := endpoint(is, n.ID, n.Name); e == nil || !slices.Contains(e.Aliases, alias) {
				found = append(found, Drift{Kind: DriftSidecar, Network: key, Service: c.Service, Container: c.Name, ContainerID: c.ID,
					Have: fmt.Sprintf("without a way to container %q, which was put on network %q anew", c.Name, key)})
			}
		}
	}
	return found, nil
}
