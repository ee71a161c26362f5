package commands

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/linuxarena/ctis/compose"
	"github.com/linuxarena/ctis/compose/trust"
	"github.com/linuxarena/ctis/netpin"
	"github.com/linuxarena/ctis/server/api"
	"github.com/linuxarena/ctis/simulator"
)

// subnetRaces is how often a lost race (for a subnet, for a simulator) is retried.
const subnetRaces = 8

// setup is one run of `ctis up`: the steps of SPEC §7 in order, and what each
// leaves for the next.
type setup struct {
	app   *app
	o     upOptions
	pool  netip.Prefix
	steps steps

	id     string
	env    *compose.Environment
	image  *simulator.ImageResult
	sim    *simulator.Result
	free   func()         // gives the trajectory's id back
	before netpin.Project // what of the project was there already
	plan   *netpin.Plan
	call   compose.Invocation // what every docker compose call of this run gets
	nets   []api.Network
	result upResult
}

// run does the steps. What it leaves open, end closes, after a roll-back too.
func (s *setup) run(ctx context.Context) error {
	if err := s.load(ctx); err != nil {
		return err
	}
	if _, err := s.app.openEngine(ctx); err != nil {
		return err
	}
	if _, err := s.app.composeRunner(ctx); err != nil {
		return err
	}
	if err := s.look(ctx); err != nil {
		return err
	}
	if err := s.steps.do(ctx, "Simulator image", s.ensureImage); err != nil {
		return err
	}
	if err := s.steps.do(ctx, "Simulator", s.ensureSimulator); err != nil {
		return err
	}
	// From here on no other ctis works on this trajectory; before, one may have.
	if err := s.look(ctx); err != nil {
		return err
	}
	done, err := s.alreadyUp(ctx)
	if done || err != nil {
		return err
	}
	for _, step := range []struct {
		title string
		run   func(context.Context, *uiStep) (string, error)
	}{
		{"Creating containers", s.create},
		{"Attaching the simulator", s.attach},
		{"Registering personas", s.register},
		{"Installing trust", s.trust},
		{"Starting services", s.start},
	} {
		if err := s.steps.do(ctx, step.title, step.run); err != nil {
			return err
		}
	}
	return nil
}

// end lets go of what the run held.
func (s *setup) end() {
	if s.free != nil {
		s.free()
	}
	if s.sim != nil {
		s.sim.Client.Close()
	}
}

// load checks the environment. Nothing is touched before it is valid.
func (s *setup) load(ctx context.Context) error {
	if s.id == "" {
		dir, err := s.app.environmentName(s.o.dir)
		if err != nil {
			return err
		}
		s.id = compose.NewID(dir)
	}
	env, problems, err := s.app.loadEnvironment(ctx, s.o.environmentOptions, s.id)
	if err != nil {
		return err
	}
	if problems.HasErrors() {
		return &invalidError{problems}
	}
	for _, p := range problems {
		s.app.ui.lines(printable(problemText(p)))
	}
	s.env = env
	return nil
}

// look finds out whether the project exists already, and whose it is.
func (s *setup) look(ctx context.Context) error {
	var err error
	if s.before, err = netpin.FindProject(ctx, s.app.engine, s.id); err != nil {
		return err
	}
	if err := s.app.ours(s.before); err != nil {
		return err
	}
	for _, c := range s.before.Containers {
		if have := c.Labels[compose.LabelSettings]; have != s.env.Settings {
			return &conflictError{
				msg:     fmt.Sprintf("trajectory %q exists with other settings (container %q)", s.id, c.Name),
				hint:    "ctis down " + s.id + " removes it; or choose another --id",
				details: map[string]any{"have": have, "want": s.env.Settings},
			}
		}
	}
	return nil
}

func (s *setup) ensureImage(ctx context.Context, line *uiStep) (string, error) {
	image, err := s.app.ensureImage(ctx, s.o.image, line.detail)
	if err != nil {
		return "", err
	}
	s.image, s.result.Image = image, image.Ref
	if image.Built {
		return image.Ref + " (built)", nil
	}
	return image.Ref, nil
}

func (s *setup) ensureSimulator(ctx context.Context, line *uiStep) (string, error) {
	reused := true
	for try := 0; ; try++ {
		sim, err := s.app.ensureSimulator(ctx, s.image, s.pool, line.detail)
		if err != nil {
			return "", err
		}
		s.sim, reused = sim, reused && sim.Reused
		s.free, err = s.app.hold(ctx, sim.Client, s.id)
		if err == nil {
			break
		}
		var refused *api.Error
		if !errors.As(err, &refused) || refused.Code != api.CodeRetired || try == subnetRaces {
			return "", err
		}
		// Another process has just replaced it: its successor is the one to use.
		sim.Client.Close()
	}
	sim := s.sim
	s.result.Simulator.Container, s.result.Simulator.Reused = sim.Container, reused
	if reused {
		return sim.Container + " (reused)", nil
	}
	return sim.Container, nil
}

// alreadyUp recognises a trajectory that runs with the same settings: then
// nothing is changed. A registration with other settings is a conflict.
func (s *setup) alreadyUp(ctx context.Context) (bool, error) {
	status, err := s.sim.Client.Status(ctx)
	if err != nil {
		return false, err
	}
	i := slices.IndexFunc(status.Trajectories, func(t api.TrajectoryStatus) bool { return t.Trajectory == s.id })
	if i < 0 {
		return false, nil
	}
	t := status.Trajectories[i]
	if t.Settings != s.env.Settings {
		return false, &conflictError{
			msg:  fmt.Sprintf("trajectory %q is registered with other settings", s.id),
			hint: "ctis down " + s.id + " removes it; or choose another --id",
		}
	}
	if len(s.before.Containers) == 0 {
		// Its containers are gone: what the simulator remembers has no subject any more.
		_, err := s.sim.Client.Unregister(ctx, s.id)
		return false, err
	}
	verdicts, err := s.app.judge(ctx, s.env, s.id)
	if err != nil || !verdicts.up() {
		return false, err
	}
	s.nets = t.Networks
	return true, s.report(ctx)
}

// create plans addresses, writes the override, has Compose confirm that every
// value in it is effective, and creates the containers. A lost race for a
// subnet is retried with another one.
func (s *setup) create(ctx context.Context, line *uiStep) (string, error) {
	fresh := s.before.Empty()
	if fresh {
		s.steps.onUndo("removing the project", func(ctx context.Context) error {
			_, err := s.app.remove(ctx, s.id, downOptions{volumes: true, timeout: 10 * time.Second}, line)
			return err
		})
	}
	runner := s.app.runner
	var lost []netip.Prefix
	for try := 0; ; try++ {
		taken, err := s.app.taken(ctx)
		if err != nil {
			return "", err
		}
		if s.plan, err = netpin.Compute(s.want(append(taken, lost...))); err != nil {
			return "", s.app.explainExhausted(ctx, err)
		}
		line.detail("checking the override")
		notes, err := s.override(ctx)
		if err != nil {
			return "", err
		}
		if try == 0 {
			for _, n := range notes {
				s.app.ui.note(n)
			}
		}
		line.detail("docker compose create")
		err = runner.Create(ctx, s.call, line.detail)
		if err == nil {
			return "", nil
		}
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		if !fresh || !netpin.IsOverlap(err) || try == subnetRaces {
			return "", s.app.explainExhausted(ctx, err)
		}
		for _, n := range s.plan.Networks {
			if n.Own {
				lost = append(lost, n.Subnet)
			}
		}
		if _, err := s.app.remove(ctx, s.id, downOptions{volumes: true}, line); err != nil {
			return "", err
		}
	}
}

// want lowers the environment's networks to what the planner asks.
func (s *setup) want(taken []netip.Prefix) netpin.Want {
	w := netpin.Want{Pool: s.pool, Taken: taken, Seed: s.app.instance + "/" + s.id}
	for _, f := range s.env.NetworkFacts() {
		if f.External {
			continue // somebody else's: nothing to plan
		}
		n := netpin.NetworkWant{
			Key: f.Key, Simulator: f.Key == s.env.Network,
		}
		for _, pool := range f.Pools {
			n.UserSubnets = append(n.UserSubnets, pool.Subnet)
			n.Static = append(n.Static, pool.Reserved...)
			if pool.Subnet.Addr().Is4() {
				n.UserRange, n.UserGateway = pool.Range, pool.Gateway
			}
		}
		for _, svc := range f.Services {
			n.Services = append(n.Services, netpin.ServiceWant{Name: svc.Name, Replicas: svc.Replicas, Static: svc.Static})
		}
		for _, have := range s.before.Networks {
			if have.Key == f.Key {
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
func (s *setup) existing(networkID string) map[string]netip.Addr {
	have := map[string]netip.Addr{}
	for service, addrs := range s.before.ByService(networkID) {
		if len(addrs) == 1 {
			have[service] = addrs[0]
		}
	}
	return have
}

// override generates the override and has Compose confirm that every value in it
// is in effect. It returns what people should know about it.
func (s *setup) override(ctx context.Context) ([]string, error) {
	in := compose.OverrideInput{
		ID: s.id, Instance: s.app.instance, CAEnv: trust.Env(), CADir: trust.BundleDir,
		Networks: make(map[string]compose.NetworkPlan, len(s.plan.Networks)),
	}
	for key, n := range s.plan.Networks {
		p := compose.NetworkPlan{Simulator: n.Simulator, Services: n.Services}
		if n.Own {
			p.Subnet, p.Range, p.Gateway = n.Subnet, n.Range, n.Gateway
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
	at, err := netpin.Attach(ctx, s.app.engine, netpin.AttachOptions{
		Container: s.sim.ID, NetworkID: id, Address: s.plan.Networks[s.env.Network].Simulator, Aliases: s.env.Hostnames(),
	})
	if err != nil {
		return "", err
	}
	s.nets = []api.Network{{Name: s.env.Network, ID: id, Subnets: at.Subnets, Addresses: at.Addresses, Peers: s.peers()}}
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
	planned := s.plan.Networks[s.env.Network].Services
	peers := []api.Peer{}
	for _, name := range slices.Sorted(maps.Keys(planned)) {
		peers = append(peers, api.Peer{Service: name, Address: planned[name]})
	}
	return peers
}

func (s *setup) register(ctx context.Context, _ *uiStep) (string, error) {
	_, err := s.sim.Client.Register(ctx, s.env.Registration(s.id, s.nets))
	return plural(len(s.env.Config.Personas), "persona"), err
}

// trust puts the simulator's CA into the containers on its network.
func (s *setup) trust(ctx context.Context, line *uiStep) (string, error) {
	ca, err := s.sim.Client.CA(ctx)
	if err != nil {
		return "", err
	}
	project, err := netpin.FindProject(ctx, s.app.engine, s.id)
	if err != nil {
		return "", err
	}
	reaching := s.env.Reaching()
	var targets []trust.Container
	for _, c := range project.Containers {
		if slices.Contains(reaching, c.Service) && c.State == "created" {
			targets = append(targets, trust.Container{ID: c.ID, Service: c.Service})
		}
	}
	reports, err := trust.Install(ctx, s.app.engine, trust.Options{CA: ca, Containers: targets})
	if err != nil {
		return "", err
	}
	for _, r := range reports {
		if r.Bundle == "" {
			s.app.ui.warn(fmt.Sprintf("service %q: no bundle of trusted authorities could be put into it, so its programs will not trust the personas' certificates", r.Service))
		}
		for _, skip := range r.Skipped {
			s.app.ui.warn(fmt.Sprintf("service %q: %s: %s", r.Service, skip.What, skip.Reason))
		}
	}
	return plural(len(targets), "container"), nil
}

// start starts the services and waits until each has a verdict.
func (s *setup) start(ctx context.Context, line *uiStep) (string, error) {
	created, err := netpin.FindProject(ctx, s.app.engine, s.id)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, s.o.waitTimeout, errWaitTimeout)
	defer cancel()
	upErr := s.app.runner.Up(ctx, s.call, line.detail)
	if err := s.app.wait(ctx, s.env, s.id, upErr, line); err != nil {
		return "", err
	}
	if err := s.noDrift(ctx, created); err != nil {
		return "", err
	}
	if err := s.report(ctx); err != nil {
		return "", err
	}
	return plural(len(s.result.Services), "service"), nil
}

// noDrift makes sure that Compose started the containers that were prepared and
// made no others: a new one would lack the trust that was put into the old.
func (s *setup) noDrift(ctx context.Context, created netpin.Project) error {
	now, err := netpin.FindProject(ctx, s.app.engine, s.id)
	if err != nil {
		return err
	}
	known := map[string]bool{}
	for _, c := range created.Containers {
		known[c.ID] = true
	}
	for _, c := range now.Containers {
		if !known[c.ID] {
			return fmt.Errorf("docker compose made container %q (%.12s) anew between create and up, so what was put into the first one is lost; "+
				"do the environment's files or variables change while ctis up runs?", c.Name, c.ID)
		}
	}
	return nil
}

// report completes the result from what runs, and tells the simulator which
// service has which address.
func (s *setup) report(ctx context.Context) error {
	project, err := netpin.FindProject(ctx, s.app.engine, s.id)
	if err != nil {
		return err
	}
	peers := api.Peers{}
	for _, n := range s.nets {
		peers[n.Name] = project.Peers(n.ID)
	}
	if err := s.sim.Client.SetPeers(ctx, s.id, peers); err != nil {
		return err
	}
	r := &s.result
	r.Trajectory, r.Network = s.id, s.env.Network
	if len(s.nets) > 0 && len(s.nets[0].Addresses) > 0 {
		r.Simulator.Address = s.nets[0].Addresses[0].String()
	}
	r.Personas, r.ExposedServices, r.UpstreamProxies = s.env.Hostnames(), map[string]string{}, []string{}
	r.Services = []upService{}
	for _, c := range project.Containers {
		svc := upService{Service: c.Service, Container: c.Name, Addresses: map[string]string{}, Ports: c.Ports}
		for _, n := range project.Networks {
			if addrs := c.Addresses[n.ID]; len(addrs) > 0 {
				svc.Addresses[n.Key] = addrs[0].String()
			}
		}
		r.Services = append(r.Services, svc)
	}
	slices.SortFunc(r.Services, func(a, b upService) int {
		return cmp.Or(cmp.Compare(a.Service, b.Service), cmp.Compare(a.Container, b.Container))
	})
	return nil
}
