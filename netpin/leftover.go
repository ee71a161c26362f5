package netpin

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/network"
)

// TrajectoryNetworks lists the networks that carry the label of an instance and are
// a trajectory's, by project and name.
func TrajectoryNetworks(ctx context.Context, eng Engine, instance string) ([]Network, error) {
	list, err := eng.NetworkList(ctx, network.ListOptions{Filters: filters.NewArgs(
		filters.Arg("label", labelInstance+"="+instance), filters.Arg("label", LabelTrajectory), filters.Arg("label", labelProject))})
	if err != nil {
		return nil, fmt.Errorf("list networks of instance %q: %w", instance, err)
	}
	var out []Network
	for _, n := range list {
		out = append(out, fromEngine(n))
	}
	slices.SortFunc(out, func(a, b Network) int {
		return cmp.Or(cmp.Compare(a.Project(), b.Project()), cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID))
	})
	return out, nil
}

// Attachments lists the networks that a container is on, in whatever state, as
// names by id; nothing if it is gone. A network that was removed while the
// container was stopped is among them.
func Attachments(ctx context.Context, eng Engine, containerID string) (map[string]string, error) {
	c, err := eng.ContainerInspect(ctx, containerID)
	if errdefs.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look at the networks of %q: %w", containerID, err)
	}
	on := map[string]string{}
	if c.NetworkSettings == nil {
		return on, nil
	}
	for name, e := range c.NetworkSettings.Networks {
		if e != nil {
			on[or(e.NetworkID, name)] = name
		}
	}
	return on, nil
}
