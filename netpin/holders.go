package netpin

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/api/types/volume"
)

// Volume is a named volume of the engine.
type Volume struct {
	Name   string
	Labels map[string]string
}

// Project is the Compose project that made a network; "" where Compose did not.
func (n Network) Project() string { return n.Labels[labelProject] }

// Project is the Compose project that made a volume; "" where Compose did not.
func (v Volume) Project() string { return v.Labels[labelProject] }

// Project is the Compose project that made a container; "" where Compose did not.
func (c Container) Project() string { return c.Labels[labelProject] }

// Networks lists the engine's networks, sorted by name and id.
func Networks(ctx context.Context, eng Engine) ([]Network, error) {
	list, err := eng.NetworkList(ctx, network.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list networks: %w", err)
	}
	var all []Network
	for _, n := range list {
		all = append(all, fromEngine(n))
	}
	slices.SortFunc(all, func(a, b Network) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID)) })
	return all, nil
}

// Volumes finds those of the named volumes that are there.
func Volumes(ctx context.Context, eng Engine, names []string) (map[string]Volume, error) {
	found := map[string]Volume{}
	if len(names) == 0 {
		return found, nil
	}
	f := filters.NewArgs()
	for _, name := range names {
		f.Add("name", name) // the engine matches parts of names
	}
	list, err := eng.VolumeList(ctx, volume.ListOptions{Filters: f})
	if err != nil {
		return nil, fmt.Errorf("list volumes: %w", err)
	}
	for _, v := range list.Volumes {
		if slices.Contains(names, v.Name) {
			found[v.Name] = Volume{Name: v.Name, Labels: v.Labels}
		}
	}
	return found, nil
}

// OnNetwork lists the containers that are on a network or will be when they start.
func OnNetwork(ctx context.Context, eng Engine, n Network) ([]Container, error) {
	// One that never ran names its networks, but not by id, on engines before 25.
	return users(ctx, eng, filters.NewArgs(filters.Arg("network", n.ID), filters.Arg("network", n.Name)))
}

// OfVolume lists the containers that mount a volume, in any state.
func OfVolume(ctx context.Context, eng Engine, name string) ([]Container, error) {
	list, err := users(ctx, eng, filters.NewArgs(filters.Arg("volume", name)))
	return list, err
}

// Named finds the container of a name or id; false when there is none.
func Named(ctx context.Context, eng Engine, ref string) (Container, bool, error) {
	list, err := users(ctx, eng, filters.NewArgs())
	if err != nil {
		return Container{}, false, err
	}
	i := slices.IndexFunc(list, func(c Container) bool { return c.Name == ref || c.ID == ref })
	if i < 0 {
		return Container{}, false, nil
	}
	return list[i], true, nil
}

// users lists containers in any state by a filter, sorted by name, with what
// says whose they are.
func users(ctx context.Context, eng Engine, f filters.Args) ([]Container, error) {
	list, err := eng.ContainerList(ctx, container.ListOptions{All: true, Filters: f})
	if err != nil {
		return nil, fmt.Errorf("list containers: %w", err)
	}
	var all []Container
	for _, s := range list {
		all = append(all, Container{ID: s.ID, Name: containerName(s), Service: s.Labels[labelService], State: s.State, Labels: s.Labels})
	}
	slices.SortFunc(all, func(a, b Container) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID)) })
	return all, nil
}
