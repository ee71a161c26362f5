package commands

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"

	"github.com/linuxarena/ctis/compose"
	"github.com/linuxarena/ctis/compose/trust"
	"github.com/linuxarena/ctis/netpin"
	"github.com/linuxarena/ctis/server/api"
	"github.com/linuxarena/ctis/simulator"
)

// reattachAll puts a simulator that was just created or started back on the
// networks of the trajectories it remembers: whoever removed its container
// removed it from them too.
func (a *app) reattachAll(ctx context.Context, sim *simulator.Result) error {
	status, err := sim.Client.Status(ctx)
	if err != nil {
		return err
	}
	for _, t := range status.Trajectories {
		if _, err := a.reattach(ctx, sim, t, netpin.Project{Name: t.Trajectory}); err != nil {
			return fmt.Errorf("trajectory %q: %w", t.Trajectory, err)
		}
	}
	return nil
}

// reattach makes sure that the simulator is on a trajectory's networks as it was
// when that was registered, and returns what they are now. A network that was made
// anew is followed; where an address cannot be had again, the simulator learns its
// new one. Networks that are gone are passed over.
func (a *app) reattach(ctx context.Context, sim *simulator.Result, t api.TrajectoryStatus, p netpin.Project) ([]api.Network, error) {
	networks, changed := slices.Clone(t.Networks), api.Networks{}
	for i, n := range networks {
		now, err := netpin.CurrentNetwork(ctx, a.engine, p, n)
		if err != nil {
			return nil, err
		}
		if now.ID == "" || len(n.Addresses) == 0 {
			continue
		}
		o := netpin.AttachOptions{Container: sim.ID, NetworkID: now.ID, Aliases: t.Hosts()}
		for _, addr := range n.Addresses {
			switch {
			case !slices.ContainsFunc(now.Subnets, func(s netip.Prefix) bool { return s.Contains(addr) }):
			case addr.Is4() && !o.Address.IsValid():
				o.Address = addr
			case addr.Is6() && !o.Address6.IsValid():
				o.Address6 = addr
			}
		}
		at, err := netpin.Attach(ctx, a.engine, o)
		if errors.Is(err, netpin.ErrNoNetwork) {
			continue
		}
		if err != nil {
			return nil, err
		}
		is := api.Network{Name: n.Name, ID: now.ID, Subnets: at.Subnets, Addresses: at.Addresses, Gateways: at.Gateways, Peers: n.Peers}
		if is.ID != n.ID {
			is.Peers = p.Peers(is.ID, nil)
		}
		if at.Changed || !reflect.DeepEqual(is, n) {
			changed = append(changed, is)
			networks[i] = is
		}
	}
	if len(changed) == 0 {
		return networks, nil
	}
	return networks, sim.Client.SetNetworks(ctx, t.Trajectory, changed)
}

// repairResult is what was wrong with a trajectory, and what of it still is.
type repairResult struct {
	Trajectory string         `json:"trajectory"`
	Repaired   []netpin.Drift `json:"repaired"`
	Left       []netpin.Drift `json:"left"`
}

// repair puts right what can be put right from labels and the simulator's own
// registration: the simulator's place on the trajectory's networks, what it knows of
// the containers there, and the certificate authority in containers that were made
// anew and have not been started. Its caller holds the trajectory.
func (a *app) repair(ctx context.Context, sim *simulator.Result, t api.TrajectoryStatus) (repairResult, error) {
	result := repairResult{Trajectory: t.Trajectory, Repaired: []netpin.Drift{}, Left: []netpin.Drift{}}
	project, err := netpin.FindProject(ctx, a.engine, t.Trajectory)
	if err != nil {
		return result, err
	}
	before, err := netpin.FindDrift(ctx, a.engine, sim.ID, t, project)
	if err != nil || len(before) == 0 {
		return result, err
	}
	networks := t.Networks
	if t.Networks, err = a.reattach(ctx, sim, t, project); err != nil {
		return result, err
	}
	unprepared, err := a.prepare(ctx, sim, project, before)
	if err != nil {
		return result, err
	}
	peers := api.Peers{}
	for i := range t.Networks {
		n := &t.Networks[i]
		n.Peers = project.Peers(n.ID, n.Peers, unprepared...)
		peers[n.Name] = n.Peers
	}
	if err := sim.Client.SetPeers(ctx, t.Trajectory, peers); err != nil {
		return result, err
	}
	if err := a.repinKnown(ctx, sim.Client, t, networks, project); err != nil {
		return result, err
	}
	if result.Left, err = netpin.FindDrift(ctx, a.engine, sim.ID, t, project); err != nil {
		return result, err
	}
	for _, d := range before {
		if !slices.ContainsFunc(result.Left, func(l netpin.Drift) bool {
			return l.Kind == d.Kind && l.Network == d.Network && l.Container == d.Container
		}) {
			result.Repaired = append(result.Repaired, d)
		}
	}
	return result, nil
}

// prepare puts the certificate authority into containers that were made behind
// ctis' back, as far as they have not been started: what runs in a container could
// lay traps for whoever writes into it. It returns the ids of the others.
func (a *app) prepare(ctx context.Context, sim *simulator.Result, project netpin.Project, found []netpin.Drift) (unprepared []string, err error) {
	var targets []trust.Container
	for _, d := range found {
		if d.Kind != netpin.DriftContainer {
			continue
		}
		i := slices.IndexFunc(project.Containers, func(c netpin.Container) bool { return c.ID == d.ContainerID })
		if i >= 0 && project.Containers[i].State == "created" {
			targets = append(targets, trust.Container{ID: d.ContainerID, Service: d.Service})
			continue
		}
		unprepared = append(unprepared, d.ContainerID)
	}
	if len(targets) == 0 {
		return unprepared, nil
	}
	ca, err := sim.Client.CA(ctx)
	if err != nil {
		return nil, err
	}
	reports, err := trust.Install(ctx, a.engine, trust.Options{CA: ca, Containers: targets})
	if err != nil {
		return nil, err
	}
	a.tellTrust(reports)
	return unprepared, nil
}

// leftError says what a repair could not put right, and what can.
func leftError(r repairResult, dir string) error {
	texts := make([]string, len(r.Left))
	for i, d := range r.Left {
		texts[i] = d.String()
	}
	if dir == "" {
		dir = "ENV_DIR"
	}
	return &hintedError{
		err: fmt.Errorf("trajectory %q is not as it was set up: %s", r.Trajectory, strings.Join(texts, "; ")),
		hint: fmt.Sprintf("ctis up %s --id %s makes anew what is not as it was, and leaves the rest; what those containers wrote into themselves is lost",
			dir, r.Trajectory),
		details: map[string]any{"repaired": r.Repaired, "left": r.Left},
	}
}

// environmentDir is where a project's environment was, as its containers are
// labelled; "" where none says so.
func environmentDir(p netpin.Project) string {
	for _, c := range p.Containers {
		if dir := c.Labels[compose.LabelDir]; dir != "" {
			return dir
		}
	}
	return ""
}
