package commands

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"github.com/linuxarena/ctis/compose"
	"github.com/linuxarena/ctis/netpin"
	"github.com/linuxarena/ctis/server/api"
)

// members makes sure, by id, that after a call of Compose every container is on the
// networks its service is on and has the address that was planned for it there, and
// that the simulator is still where it was put.
func (s *setup) members(ctx context.Context) error {
	project, err := netpin.FindMembers(ctx, s.app.engine, s.id)
	if err != nil {
		return err
	}
	for _, f := range s.env.NetworkFacts() {
		if f.External {
			continue // its id is not among the project's; the simulator is found on it below
		}
		network, found, err := netpin.FindNetwork(ctx, s.app.engine, s.id, f.Key)
		if err != nil {
			return err
		}
		if !found {
			return fmt.Errorf("docker compose made no network %q for %q", f.Key, s.id)
		}
		if err := s.onNetwork(project, f, network); err != nil {
			return err
		}
	}
	for _, n := range s.nets {
		now, err := netpin.CurrentNetwork(ctx, s.app.engine, project, n)
		if err != nil {
			return err
		}
		if now.ID != n.ID {
			return fmt.Errorf("network %q was made anew while ctis up ran: its id was %.12s", n.Name, n.ID)
		}
	}
	if len(s.nets) == 0 {
		return nil // the simulator is not attached yet
	}
	t := api.TrajectoryStatus{Trajectory: s.id, Networks: slices.Clone(s.nets), Personas: s.env.Hostnames(), Exposed: s.env.Exposed()}
	for i := range t.Networks {
		t.Networks[i].Peers = nil // the containers were looked at above
	}
	found, err := netpin.FindDrift(ctx, s.app.engine, s.sim.ID, t, project)
	if err != nil {
		return err
	}
	if len(found) > 0 {
		return fmt.Errorf("after docker compose, %s", found[0])
	}
	return nil
}

// onNetwork checks the containers of one network.
func (s *setup) onNetwork(project netpin.Project, f compose.NetworkFact, network netpin.Network) error {
	plan := s.plan.Networks[f.Key]
	for _, c := range project.Containers {
		if c.OneOff() || !slices.ContainsFunc(f.Services, func(svc compose.NetworkService) bool { return svc.Name == c.Service }) {
			continue
		}
		have, on := c.Addresses[network.ID]
		if !on {
			return fmt.Errorf("container %q is not on network %q (%.12s) after docker compose", c.Name, f.Key, network.ID)
		}
		for _, want := range []netip.Addr{plan.Services[c.Service], plan.Services6[c.Service]} {
			if want.IsValid() && !slices.Contains(have, want) {
				return fmt.Errorf("container %q has not the address %s on network %q after docker compose, but %v", c.Name, want, f.Key, have)
			}
		}
	}
	return nil
}

// replace removes what Compose has to make anew for the trajectory to be as it was
// set up: containers made behind ctis' back or taken off their network. Compose
// would leave some of them as they are. What is fine stays.
func (s *setup) replace(ctx context.Context, found []netpin.Drift) error {
	for _, d := range found {
		s.app.ui.note("repairing: " + printable(d.String()))
	}
	var ids []string
	for _, d := range found {
		if c, ok := s.before.Sidecar(); ok && c.ID == d.ContainerID {
			if err := s.app.endSidecar(ctx, s.sim.Client, s.id, c); err != nil {
				return err
			}
		}
		switch d.Kind {
		case netpin.DriftContainer, netpin.DriftOff:
			ids = append(ids, d.ContainerID)
		case netpin.DriftSidecar:
			if d.ContainerID != "" {
				ids = append(ids, d.ContainerID)
			}
		case netpin.DriftGone:
			// Whatever was on it refers to what is no more.
			for _, n := range s.known.Networks {
				if n.Name != d.Network {
					continue
				}
				for _, p := range n.Peers {
					if slices.ContainsFunc(s.before.Containers, func(c netpin.Container) bool { return c.ID == p.Container }) {
						ids = append(ids, p.Container)
					}
				}
			}
		}
	}
	slices.Sort(ids)
	if err := netpin.RemoveContainers(ctx, s.app.engine, undoStop, slices.Compact(ids)...); err != nil {
		return err
	}
	// A network that Compose made without ctis' override is remade by it, which the
	// simulator must not be in the way of.
	for _, n := range s.before.Networks {
		if n.Labels[compose.LabelTrajectory] != "" {
			continue
		}
		if err := netpin.Detach(ctx, s.app.engine, s.sim.ID, n.ID); err != nil {
			return err
		}
	}
	return s.relook(ctx)
}

// relook reads the project and its registration anew.
func (s *setup) relook(ctx context.Context) error {
	if err := s.look(ctx); err != nil {
		return err
	}
	status, err := s.sim.Client.Status(ctx)
	if err != nil {
		return err
	}
	for _, t := range status.Trajectories {
		if t.Trajectory == s.id {
			s.known = &t
		}
	}
	return nil
}
