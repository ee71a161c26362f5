package commands

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"

	"github.com/linuxarena/ctis/compose"
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
	free   func()                // gives the trajectory's id back
	before netpin.Project        // what of the project was there already
	known  *api.TrajectoryStatus // its registration, where it has one already
	plan   *netpin.Plan
	mtu    int                 // of the networks that are made; 0 leaves it to the engine
	caDirs map[string][]string // by service: volumes for trust stores on read-only roots
	call   compose.Invocation  // what every docker compose call of this run gets
	nets   []api.Network
	result upResult

	claimed bool // upstream proxies were claimed in this run
	held    bool // and had been before
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
	if s.o.id == "" {
		s.app.ui.note("the trajectory's id is " + s.id)
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
	if len(s.env.Config.Upstreams) > 0 {
		if err := s.steps.do(ctx, "Gateway", s.gateway); err != nil {
			return err
		}
	}
	done, err := s.alreadyUp(ctx)
	if done || err != nil {
		return err
	}
	if err := s.renewSidecar(ctx); err != nil {
		return err
	}
	exposes := len(s.env.Config.ExposedServices) > 0
	for _, step := range []struct {
		title string
		run   func(context.Context, *uiStep) (string, error)
		skip  bool
	}{
		{"Sidecar image", s.sidecarImage, !exposes},
		{"Creating containers", s.create, false},
		{"Attaching the simulator", s.attach, false},
		{"Registering personas", s.register, false},
		{"Exposing services", s.expose, !exposes},
		{"Installing trust", s.trust, false},
		{"Starting services", s.start, false},
	} {
		if step.skip {
			continue
		}
		if err := s.steps.do(ctx, step.title, step.run); err != nil {
			return err
		}
	}
	return s.seed(ctx)
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
		return &invalidError{problems: problems}
	}
	for _, p := range s.app.fromHere(problems) {
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
	if err := s.app.ours(ctx, s.before); err != nil {
		return err
	}
	for _, c := range s.before.Containers {
		have := c.Labels[compose.LabelSettings]
		if have == "" && c.Labels[compose.LabelTrajectory] == "" {
			continue // made behind ctis' back: it is made anew below
		}
		if have != s.env.Settings {
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
	image, err := s.app.ensureImage(ctx, s.o.image, s.o.source, line.detail)
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
		if errors.Is(err, simulator.ErrImageGone) && try < subnetRaces {
			// It was superseded for somebody, and not yet in use here.
			if _, err := s.ensureImage(ctx, line); err != nil {
				return "", err
			}
			continue
		}
		if err != nil {
			return "", err
		}
		s.sim, reused = sim, reused && sim.Reused
		s.free, err = s.app.hold(ctx, sim.Client, s.id, s.env.Exclusives())
		if err == nil {
			break
		}
		var refused *api.Error
		if !errors.As(err, &refused) || refused.Code != api.CodeRetired || try == subnetRaces {
			return "", s.explainHold(err)
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
// nothing is changed, but for seed assets that a killed run did not get to. A registration with other settings is a conflict.
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
	s.known = &t
	if err := s.thaw(ctx); err != nil {
		return false, err
	}
	for _, host := range t.ReplacedRules {
		s.app.ui.warn(fmt.Sprintf("rules of %q were replaced by ctis rules set and stay; ctis rules set %s %s %s puts those of the environment in force",
			host, s.id, host, filepath.Join(s.o.dir, compose.ConfigFile)))
	}
	found, err := netpin.FindDrift(ctx, s.app.engine, s.sim.ID, t, s.before)
	if err != nil {
		return false, err
	}
	if slices.ContainsFunc(found, netpin.Drift.Deep) {
		return false, s.replace(ctx, found)
	}
	if len(found) > 0 {
		repaired, err := s.app.repair(ctx, s.sim, t)
		if err != nil {
			return false, err
		}
		for _, d := range repaired.Repaired {
			s.app.ui.note("repaired: " + printable(d.String()))
		}
		if err := s.relook(ctx); err != nil {
			return false, err
		}
	}
	if err := s.renewSidecar(ctx); err != nil {
		return false, err
	}
	verdicts, err := s.app.judge(ctx, s.env, s.id, nil)
	if err != nil || !verdicts.up() {
		return false, err
	}
	s.nets = s.known.Networks
	if err := s.seed(ctx); err != nil {
		return false, err
	}
	return true, s.report(ctx)
}
