package commands

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/linuxarena/ctis/compose"
	"github.com/linuxarena/ctis/compose/trust"
	"github.com/linuxarena/ctis/netpin"
	"github.com/linuxarena/ctis/server/api"
)

// create plans addresses, writes the override, has Compose confirm that every
// value in it is effective, and creates the containers. A lost race for a
// subnet is retried with another one.
func (s *setup) create(ctx context.Context, line *uiStep) (string, error) {
	if err := s.clear(ctx, line); err != nil {
		return "", err
	}
	if err := s.unshared(ctx, true); err != nil {
		return "", err
	}
	fresh := s.before.Empty() && s.known == nil
	s.caDirs = knownCADirs(s.before)
	s.steps.onUndo("removing the project", func(ctx context.Context) error {
		if !fresh {
			return s.undoMore(ctx, line)
		}
		return s.app.undoUp(ctx, s.id, s.before.Volumes, line)
	})
	mtu, err := netpin.BridgeMTU(ctx, s.app.engine)
	if err != nil {
		return "", err
	}
	s.mtu = mtu
	var lost []netip.Prefix
	for try := 0; ; try++ {
		taken, err := s.app.taken(ctx)
		if err != nil {
			return "", err
		}
		if s.plan, err = netpin.Compute(s.want(append(taken, lost...))); err != nil {
			return "", s.app.explainExhausted(ctx, err)
		}
		notes, err := s.apply(ctx, line)
		if try == 0 {
			for _, n := range notes {
				s.app.ui.note(n)
			}
		}
		if err == nil {
			err = s.unseal(ctx, line)
		}
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		// Whether or not it could be made: somebody may have made the same meanwhile.
		if taken := s.unshared(ctx, false); taken != nil && (err == nil || isConflict(taken)) {
			err = taken
		}
		if err == nil {
			err = s.members(ctx)
		}
		if err == nil {
			return "", nil
		}
		raced := lostRace(err)
		if !fresh || !raced && !s.late(ctx, err) || try == subnetRaces {
			return "", s.app.explainExhausted(ctx, err)
		}
		for _, n := range s.plan.Networks {
			if n.Own && raced {
				lost = append(lost, n.Subnet, n.Subnet6)
			}
		}
		if err := s.app.undoUp(ctx, s.id, s.before.Volumes, line); err != nil {
			return "", err
		}
	}
}

// apply writes the override, makes sure of its effect, and creates what is not as
// it says.
func (s *setup) apply(ctx context.Context, line *uiStep) ([]string, error) {
	line.detail("checking the override")
	notes, err := s.override(ctx)
	if err != nil {
		return notes, err
	}
	line.detail("docker compose create")
	return notes, s.app.runner.Create(ctx, s.call, line.detail)
}

// late recognises networks that an earlier try had asked the engine for, and that a
// busy engine made only after that try was taken back: there are several of a name
// then, all of this project. Once they are seen, they can be taken back too.
func (s *setup) late(ctx context.Context, err error) bool {
	var twice *netpin.AmbiguousNetworkError
	if !errors.As(err, &twice) {
		return false
	}
	project, err := netpin.FindProject(ctx, s.app.engine, s.id)
	if err != nil {
		return false
	}
	return !slices.ContainsFunc(twice.IDs, func(id string) bool {
		return !slices.ContainsFunc(project.Networks, func(n netpin.Network) bool { return n.ID == id })
	})
}

// want lowers the environment's networks to what the planner asks.
func (s *setup) want(taken []netip.Prefix) netpin.Want {
	w := netpin.Want{Pool: s.pool, Taken: taken, Seed: s.app.instance + "/" + s.id}
	for _, f := range s.env.NetworkFacts() {
		if !f.Own() && len(f.Pools) == 0 {
			continue // external, or of another ipam driver: nothing to plan
		}
		n := netpin.NetworkWant{Key: f.Key, Simulator: f.Key == s.env.Network, IPv6: f.IPv6}
		for _, pool := range f.Pools {
			n.UserSubnets = append(n.UserSubnets, pool.Subnet)
			n.Static = append(n.Static, pool.Reserved...)
			if pool.Subnet.Addr().Is4() {
				n.UserRange, n.UserGateway = pool.Range, pool.Gateway
			} else {
				n.UserRange6, n.UserGateway6 = pool.Range, pool.Gateway
			}
		}
		for _, svc := range f.Services {
			n.Services = append(n.Services, netpin.ServiceWant{Name: svc.Name, Replicas: svc.Replicas, Static: svc.Static, Static6: svc.Static6, Fixed: svc.Fixed})
		}
		for _, have := range s.before.Networks {
			if have.Key == f.Key && have.Labels[compose.LabelTrajectory] != "" {
				n.Existing = have.Subnets
				n.ExistingAddresses = s.existing(have.ID)
			}
		}
		w.Networks = append(w.Networks, n)
	}
	return w
}

// existing lists the addresses that containers of the project, and the
// simulator, have on a network that is there already.
func (s *setup) existing(networkID string) map[string][]netip.Addr {
	have := map[string][]netip.Addr{}
	for service, addrs := range s.before.ByService(networkID) {
		have[service] = addrs
	}
	if s.known != nil {
		for _, n := range s.known.Networks {
			if n.ID == networkID {
				have[netpin.SimulatorKey] = n.Addresses
			}
		}
	}
	return have
}

// override generates the override and has Compose confirm that every value in it
// is in effect. It returns what people should know about it.
func (s *setup) override(ctx context.Context) ([]string, error) {
	in := compose.OverrideInput{
		ID: s.id, Instance: s.app.instance, CAEnv: trust.Env(), CADir: trust.BundleDir, CADirs: s.caDirs, NginxImage: s.app.nginxImage(),
		Networks: make(map[string]compose.NetworkPlan, len(s.plan.Networks)),
	}
	for key, n := range s.plan.Networks {
		p := compose.NetworkPlan{Simulator: n.Simulator, Services: n.Services, Simulator6: n.Simulator6, Services6: n.Services6, MTU: s.mtu}
		if n.Own {
			p.Subnet, p.Range, p.Gateway = n.Subnet, n.Range, n.Gateway
			p.Subnet6, p.Range6, p.Gateway6 = n.Subnet6, n.Range6, n.Gateway6
		}
		// A network that is there keeps its MTU: another would have Compose remake it.
		for _, have := range s.before.Networks {
			if have.Key == key && have.Labels[compose.LabelTrajectory] != "" {
				p.MTU = netpin.MTU(have.Options)
			}
		}
		in.Networks[key] = p
	}
	file, notes, err := s.env.Override(in)
	if err != nil {
		return nil, err
	}
	s.call = s.env.Invocation(s.id, file)
	merged, err := s.app.runner.Config(ctx, s.call)
	if err != nil {
		return nil, err
	}
	return notes, s.env.VerifyOverride(merged, in)
}

// attach puts the simulator on the trajectory's network under every persona's
// name, before anything in it runs.
func (s *setup) attach(ctx context.Context, _ *uiStep) (string, error) {
	id, err := s.network(ctx)
	if err != nil {
		return "", err
	}
	changed := true // until known better: it may be attached although the engine's answer never came
	s.steps.onUndo("detaching the simulator", func(ctx context.Context) error {
		if !changed {
			return nil
		}
		return netpin.Detach(ctx, s.app.engine, s.sim.ID, id)
	})
	at, err := netpin.Attach(ctx, s.app.engine, netpin.AttachOptions{
		Container: s.sim.ID, NetworkID: id, Aliases: s.env.Hostnames(),
		Address: s.plan.Networks[s.env.Network].Simulator, Address6: s.plan.Networks[s.env.Network].Simulator6,
	})
	if err != nil {
		return "", err
	}
	changed = at.Changed
	s.nets = []api.Network{{Name: s.env.Network, ID: id, Subnets: at.Subnets, Addresses: at.Addresses, Gateways: at.Gateways, Peers: s.peers()}}
	return at.Addresses[0].String(), nil
}

// network resolves the trajectory's network to an id, once: names need not be
// unique.
func (s *setup) network(ctx context.Context) (string, error) {
	find := func() (netpin.Network, bool, error) {
		for _, f := range s.env.NetworkFacts() {
			if f.Key == s.env.Network && f.External {
				return netpin.FindNetworkNamed(ctx, s.app.engine, f.Name)
			}
		}
		return netpin.FindNetwork(ctx, s.app.engine, s.id, s.env.Network)
	}
	n, found, err := find()
	if err == nil && !found {
		err = fmt.Errorf("docker compose made no network %q for %q", s.env.Network, s.id)
	}
	return n.ID, err
}

// peers says which service will have which of the planned addresses.
func (s *setup) peers() []api.Peer {
	plan := s.plan.Networks[s.env.Network]
	peers := []api.Peer{}
	for _, planned := range []map[string]netip.Addr{plan.Services, plan.Services6} {
		for _, name := range slices.Sorted(maps.Keys(planned)) {
			peers = append(peers, api.Peer{Service: name, Address: planned[name]})
		}
	}
	return peers
}

func (s *setup) register(ctx context.Context, line *uiStep) (string, error) {
	if err := s.closeNetworks(ctx, line); err != nil {
		return "", err
	}
	if s.known != nil {
		// What was repaired may have made a network anew; all else is as it was.
		if err := s.sim.Client.SetNetworks(ctx, s.id, s.nets); err != nil {
			return "", err
		}
		if err := s.app.repin(ctx, s.sim.Client, s.env, s.id, s.nets); err != nil {
			return "", err
		}
		return plural(len(s.env.Config.Personas), "persona"), nil
	}
	made := true // until known better
	s.steps.onUndo("unregistering", func(ctx context.Context) error {
		if !made {
			return nil
		}
		_, err := s.sim.Client.Unregister(ctx, s.id)
		return err
	})
	pins, err := s.app.pins(ctx, s.env, s.id, s.nets)
	if err != nil {
		return "", err
	}
	done, err := s.sim.Client.Register(ctx, s.env.Registration(s.id, s.nets, pins))
	if err != nil {
		return "", err
	}
	if made = !done.Unchanged; !made && len(pins) > 0 {
		if err := s.sim.Client.SetPins(ctx, s.id, pins); err != nil {
			return "", err
		}
	}
	return plural(len(s.env.Config.Personas), "persona"), nil
}
