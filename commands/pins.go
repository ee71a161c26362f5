package commands

import (
	"context"
	"slices"

	"github.com/linuxarena/ctis/compose"
	"github.com/linuxarena/ctis/netpin"
	"github.com/linuxarena/ctis/server/api"
)

// pins says where the backends of a trajectory are: in which of its own containers,
// on the network the simulator plays on. Others of the engine are never looked at.
func (a *app) pins(ctx context.Context, env *compose.Environment, id string, nets []api.Network) (api.Pins, error) {
	backends := env.Backends()
	i := slices.IndexFunc(nets, func(n api.Network) bool { return n.Name == env.Network })
	if len(backends) == 0 || i < 0 {
		return nil, nil
	}
	project, err := netpin.FindMembers(ctx, a.engine, id)
	if err != nil {
		return nil, err
	}
	return project.Pins(nets[i].ID, backends)
}

// repin tells the simulator where the backends of a trajectory are now. Addresses
// that nobody fixed are known only once a container runs, and a container that was
// made anew is another one.
func (a *app) repin(ctx context.Context, sim *api.Client, env *compose.Environment, id string, nets []api.Network) error {
	pins, err := a.pins(ctx, env, id, nets)
	if err != nil || len(pins) == 0 {
		return err
	}
	return sim.SetPins(ctx, id, pins)
}

// repinKnown does so for the backends that the simulator knows of, where nothing is
// known of the environment: as far as each still is one container of the trajectory's
// own. t has its networks as they are now, before as they were registered.
func (a *app) repinKnown(ctx context.Context, sim *api.Client, t api.TrajectoryStatus, before []api.Network, project netpin.Project) error {
	moved := api.Pins{}
	for service, pin := range t.Pins {
		i := slices.IndexFunc(before, func(n api.Network) bool { return n.ID == pin.Network })
		if i < 0 {
			continue
		}
		k := slices.IndexFunc(t.Networks, func(n api.Network) bool { return n.Name == before[i].Name })
		if k < 0 {
			continue
		}
		now, err := project.Pins(t.Networks[k].ID, []string{service})
		if err == nil && now[service] != pin { // one that is gone stays pinned, and is answered for with 502
			moved[service] = now[service]
		}
	}
	if len(moved) == 0 {
		return nil
	}
	return sim.SetPins(ctx, t.Trajectory, moved)
}
