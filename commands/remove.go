package commands

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/linuxarena/ctis/compose"
	"github.com/linuxarena/ctis/netpin"
	"github.com/linuxarena/ctis/server/api"
	"github.com/linuxarena/ctis/simulator"
)

// takeDown removes a trajectory while no other process works on it. A simulator
// that is gone or does not answer keeps nobody from it.
func (a *app) takeDown(ctx context.Context, id string, o downOptions, line *uiStep) (downResult, error) {
	for try := 1; ; try++ {
		seen, free, err := a.holdIfServed(ctx, id, line)
		if err == nil {
			defer free()
			return a.remove(ctx, id, o, seen, line)
		}
		var refused *api.Error
		var conflict *conflictError
		if !seen.Answering || errors.As(err, &refused) || errors.As(err, &conflict) || try == simulatorTries {
			return downResult{}, err
		}
		select { // it may be on its way to be replaced: its successor is asked, or nobody
		case <-ctx.Done():
			return downResult{}, err
		case <-time.After(simulatorPause):
		}
	}
}

// simulatorTries is how often a simulator is looked for that goes away while it is
// spoken to, with simulatorPause between.
const (
	simulatorTries = 5
	simulatorPause = 500 * time.Millisecond
)

// holdIfServed holds a trajectory where a simulator answers.
func (a *app) holdIfServed(ctx context.Context, id string, line *uiStep) (seen simulator.Observed, free func(), err error) {
	free = func() {}
	if seen, err = simulator.Observe(ctx, a.engine, a.instance); err != nil || !seen.Answering {
		return seen, free, err
	}
	admin, err := simulator.Connect(ctx, a.engine, a.instance)
	if err != nil {
		return seen, free, err
	}
	line.detail("waiting for the trajectory")
	release, err := a.hold(ctx, admin, id, nil)
	var refused *api.Error
	switch {
	case err == nil:
		return seen, func() { release(); admin.Close() }, nil
	case errors.As(err, &refused) && refused.Code == api.CodeRetired: // has nothing to unregister
		err = nil
	}
	admin.Close()
	return seen, free, err
}

// undoUp takes back what an up made that found nothing of the project but, maybe,
// volumes of an earlier run. Its caller holds the trajectory.
func (a *app) undoUp(ctx context.Context, id string, keep []string, line *uiStep) error {
	seen, err := simulator.Observe(ctx, a.engine, a.instance)
	if err != nil {
		return err
	}
	_, err = a.remove(ctx, id, downOptions{volumes: true, keep: keep, timeout: undoStop, settle: true}, seen, line)
	return err
}

// undoStop is how long a container may take to stop when its up is taken back.
const undoStop = 10 * time.Second

// remove removes a trajectory: unregister, detach, docker compose down, then a
// look by label and id at what is left, which is removed too. Each part bears
// that it was done before or never, so it also serves as the undo of a failed
// up. It fails if a container or a network of the project remains.
func (a *app) remove(ctx context.Context, id string, o downOptions, seen simulator.Observed, line *uiStep) (downResult, error) {
	result := downResult{Trajectory: id, Removed: removed{Containers: []string{}, Networks: []string{}, Volumes: []string{}}}
	project, err := netpin.FindProject(ctx, a.engine, id)
	if err != nil {
		return result, err
	}
	if err := a.ours(ctx, project); err != nil {
		return result, err
	}
	if err := a.lastOfSidecar(ctx, id, project, seen, line); err != nil {
		return result, err
	}
	line.detail("unregistering")
	networks, err := a.unregister(ctx, id, seen, &result)
	if err != nil {
		return result, err
	}
	if err := a.release(ctx, id); ctx.Err() != nil {
		return result, ctx.Err()
	} else if err != nil {
		// A claim without a trajectory is in nobody's way: the next that meets it releases it.
		a.ui.warn(err.Error() + "; ctis gc does it once the gateway answers")
	}
	for _, n := range project.Networks {
		networks = append(networks, n.ID)
	}
	line.detail("detaching the simulator")
	if seen.ID != "" && !seen.Foreign {
		slices.Sort(networks)
		for _, n := range slices.Compact(networks) {
			if err := netpin.Detach(ctx, a.engine, seen.ID, n); err != nil {
				return result, err
			}
		}
	}
	volumes := a.volumesOf(project, o, result)
	// Of a trajectory that was registered all had been made; of another, more may still come.
	settle := o.settle || !result.known
	if project.Empty() && len(volumes) == 0 && !o.settle {
		if o.volumes && len(project.Volumes) > 0 {
			a.ui.warn(fmt.Sprintf("of Compose project %q there is %s, and nothing says that ctis made it, so it stays; docker volume rm %s removes it",
				id, plural(len(project.Volumes), "volume"), strings.Join(project.Volumes, " ")))
		}
		return result, nil
	}
	result.known = true
	if !project.Empty() {
		line.detail("stopping containers")
		runner, err := a.composeRunner(ctx)
		if err == nil {
			err = runner.Down(ctx, id, compose.DownOptions{Timeout: o.timeout}, line.detail)
		}
		if ctx.Err() != nil {
			return result, ctx.Err()
		}
		if err != nil {
			// Its exit status is no verdict: what counts is what is left, and that goes without it too.
			a.log.Info("docker compose down", "trajectory", id, "error", err)
		}
	}
	line.detail("making sure nothing is left")
	err = netpin.Sweep(ctx, a.engine, id, netpin.SweepOptions{
		Volumes: slices.Concat(volumes, project.Anonymous), Named: o.volumes && o.settle, Keep: o.keep,
		Timeout: o.timeout, Settle: settle,
	})
	if err != nil {
		return result, err
	}
	left, err := netpin.FindProject(ctx, a.engine, id)
	if err != nil {
		return result, err
	}
	if !left.Empty() {
		return result, fmt.Errorf("of trajectory %q are left: %s; something makes them anew, stop it and run ctis down %s again", id, left.Names(), id)
	}
	for _, c := range project.Containers {
		result.Removed.Containers = append(result.Removed.Containers, c.Name)
	}
	for _, n := range project.Networks {
		result.Removed.Networks = append(result.Removed.Networks, n.Name)
	}
	result.Removed.Volumes = append(result.Removed.Volumes, volumes...)
	return result, nil
}

// unregister takes the trajectory off the simulator and returns the networks on
// which it served it, which need not be the project's own.
func (a *app) unregister(ctx context.Context, id string, seen simulator.Observed, result *downResult) (networks []string, err error) {
	if seen.ID == "" || seen.Foreign {
		return nil, nil
	}
	if !seen.Answering {
		a.ui.warn(fmt.Sprintf("the simulator %q is %s and does not answer, so the registration of %q stays until ctis down %s is repeated",
			simulator.ContainerName(a.instance), seen.State, id, id))
		return nil, nil
	}
	admin, err := simulator.Connect(ctx, a.engine, a.instance)
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	status, err := admin.Status(ctx)
	if err != nil {
		return nil, err
	}
	for _, t := range status.Trajectories {
		if t.Trajectory == id {
			for _, n := range t.Networks {
				networks = append(networks, n.ID)
			}
		}
	}
	gone, err := admin.Unregister(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("the simulator does not unregister %q: %w", id, err)
	}
	result.known, result.Requests = gone.Known, &gone.Requests
	return networks, nil
}

// volumesOf lists the named volumes to remove. A project of which nothing but
// volumes is left has no label that tells whose they are; there the journal does.
func (a *app) volumesOf(p netpin.Project, o downOptions, r downResult) []string {
	ours := !p.Empty() || r.known || r.Requests != nil && *r.Requests > 0
	if !o.volumes || !ours {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(p.Volumes), func(v string) bool { return slices.Contains(o.keep, v) })
}

// ours refuses a Compose project that ctis did not make, or that another
// instance of it made. What somebody made anew in a trajectory with Compose alone
// has no label of ctis: it belongs to the trajectory if it is of the same Compose
// files, or if nothing says which these are but the trajectory's network or its
// registration is there.
func (a *app) ours(ctx context.Context, p netpin.Project) error {
	mine, files := false, map[string]bool{}
	foreign := func(what string, labels map[string]string) error {
		switch instance := labels[simulator.LabelInstance]; instance {
		case a.instance:
			mine = true
		case "":
		default:
			return &conflictError{
				msg:  fmt.Sprintf("the trajectory %q belongs to the instance %q: %s", p.Name, instance, what),
				hint: "choose another --id, or say --instance " + instance,
			}
		}
		return nil
	}
	for _, c := range p.Containers {
		if err := foreign("container "+quoted(c.Name), c.Labels); err != nil {
			return err
		}
		if c.Labels[simulator.LabelInstance] == a.instance {
			for f := range strings.SplitSeq(c.Labels[labelConfigFiles], ",") {
				files[f] = true
			}
		}
	}
	for _, n := range p.Networks {
		if err := foreign("network "+quoted(n.Name), n.Labels); err != nil {
			return err
		}
	}
	what := unlabelled(p, files, mine)
	if what == "" {
		return nil
	}
	if !mine {
		served, err := a.served(ctx, p.Name)
		if err != nil || served {
			return err
		}
	}
	return &conflictError{
		msg:  fmt.Sprintf("the Compose project %q exists and was not made by ctis: %s", p.Name, what),
		hint: "choose another --id, or remove it with: docker compose -p " + p.Name + " down",
	}
}

// unlabelled names something of a project that neither a label nor the Compose
// files it is of make the instance's; "" where there is nothing such.
func unlabelled(p netpin.Project, files map[string]bool, mine bool) string {
	for _, c := range p.Containers {
		if c.Labels[simulator.LabelInstance] != "" || mine && len(files) == 0 {
			continue
		}
		for f := range strings.SplitSeq(c.Labels[labelConfigFiles], ",") {
			if !files[f] || f == "" {
				return "container " + quoted(c.Name)
			}
		}
	}
	for _, n := range p.Networks {
		if n.Labels[simulator.LabelInstance] == "" && !mine {
			return "network " + quoted(n.Name) // networks do not say which files they are of
		}
	}
	return ""
}

// served tells whether the instance's simulator has a trajectory registered. One
// that does not answer has none that anybody could know of.
func (a *app) served(ctx context.Context, id string) (bool, error) {
	seen, err := simulator.Observe(ctx, a.engine, a.instance)
	if err != nil || !seen.Answering {
		return false, err
	}
	admin, err := simulator.Connect(ctx, a.engine, a.instance)
	if err != nil {
		return false, err
	}
	defer admin.Close()
	status, err := admin.Status(ctx)
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(status.Trajectories, func(t api.TrajectoryStatus) bool { return t.Trajectory == id }), nil
}
