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
	project, err := netpin.FindProject(ctx, a.engine, id)
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
