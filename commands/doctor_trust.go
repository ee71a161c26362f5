package commands

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/linuxarena/ctis/compose"
	"github.com/linuxarena/ctis/compose/trust"
	"github.com/linuxarena/ctis/netpin"
	"github.com/linuxarena/ctis/server/api"
	"github.com/linuxarena/ctis/simulator"
)

// runDoctorTrust checks one trajectory: that it is as it was set up, and what each
// of its containers on the simulator's network trusts.
func (a *app) runDoctorTrust(ctx context.Context, id string) error {
	admin, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer admin.Close()
	status, err := admin.Status(ctx)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(status.Trajectories, func(t api.TrajectoryStatus) bool { return t.Trajectory == id })
	if i < 0 {
		return &hintedError{err: fmt.Errorf("the simulator serves no trajectory %q", id), hint: "ctis status lists those there are"}
	}
	t := status.Trajectories[i]
	drift, err := a.checkDrift(ctx, t)
	if err != nil {
		return err
	}
	ca, err := admin.CA(ctx)
	if err != nil {
		return err
	}
	project, err := netpin.FindProject(ctx, a.engine, id)
	if err != nil {
		return err
	}
	seen, err := trust.Inspect(ctx, a.engine, trust.Options{CA: ca, Containers: served(project, t)})
	if err != nil {
		return err
	}
	// What ctis itself put beside the services, such as a proxy, was given no trust:
	// it makes no requests to personas.
	seen = slices.DeleteFunc(seen, func(in trust.Inspection) bool {
		return len(in.Unset) == len(trust.Env()) && slices.ContainsFunc(project.Containers, func(c netpin.Container) bool {
			return c.ID == in.Container && c.Labels[compose.LabelTrajectory] == id
		})
	})
	checks := []check{drift}
	for _, in := range seen {
		checks = append(checks, a.checkTrust(in, project, id))
	}
	if a.json {
		err = a.printJSON(map[string]any{"checks": checks, "services": seen})
	} else {
		err = a.printTrust(checks, seen)
	}
	if err != nil {
		return err
	}
	return verdict(checks)
}

// served lists the containers on the trajectory's networks, and those that share
// the network of one of them.
func served(p netpin.Project, t api.TrajectoryStatus) []trust.Container {
	on := map[string]bool{}
	for _, c := range p.Containers {
		on[c.ID] = slices.ContainsFunc(t.Networks, func(n api.Network) bool { _, has := c.Addresses[n.ID]; return has })
	}
	var list []trust.Container
	for _, c := range p.Containers {
		if on[c.ID] || on[c.Shares] {
			list = append(list, trust.Container{ID: c.ID, Service: c.Service})
		}
	}
	slices.SortFunc(list, func(x, y trust.Container) int {
		return strings.Compare(x.Service+"\x00"+x.ID, y.Service+"\x00"+y.ID)
	})
	return list
}

// checkDrift says whether containers, networks and names are as they were set up.
func (a *app) checkDrift(ctx context.Context, t api.TrajectoryStatus) (check, error) {
	seen, err := simulator.Observe(ctx, a.engine, a.instance)
	if err != nil {
		return check{}, err
	}
	s, err := a.trajectoryStatus(ctx, seen.ID, t)
	if err != nil {
		return check{}, err
	}
	if s.Stale {
		return failed("set-up", "it is registered, and has no container any more", "ctis down "+t.Trajectory+" clears it"), nil
	}
	if len(s.Drift) == 0 {
		return passed("set-up", "containers, network and names are as they were set up"), nil
	}
	texts := make([]string, len(s.Drift))
	for i, d := range s.Drift {
		texts[i] = d.String()
	}
	return failed("set-up", strings.Join(texts, "; "),
		a.program()+" repair "+t.Trajectory+" puts right what can be without the environment's files; ctis up with the same --id, all"), nil
}

// checkTrust judges one container.
func (a *app) checkTrust(in trust.Inspection, p netpin.Project, id string) check {
	name := "service " + in.Service
	if n := len(slices.DeleteFunc(slices.Clone(p.Containers), func(c netpin.Container) bool { return c.Service != in.Service })); n > 1 {
		name += fmt.Sprintf(" (%.12s)", in.Container)
	}
	if in.OK() {
		return passed(name, fmt.Sprintf("all %s of trust it has hold the simulator's authority", plural(len(in.Stores), "store")))
	}
	var what, fixes []string
	add := func(format string, args ...any) { what = append(what, fmt.Sprintf(format, args...)) }
	if in.Problem != "" {
		add("it cannot be looked at to the end: %s", in.Problem)
	}
	own := 0
	for _, s := range in.Stores {
		switch {
		case s.Problem != "":
			add("%s", s.Problem)
		case !s.Holds:
			add("%s lacks the simulator's authority", s.Path)
		case s.Missing > 0:
			add("%s lacks %d of the authorities the system trusts", s.Path, s.Missing)
		default:
			continue
		}
		if len(s.Variables) > 0 && s.Path != trust.Bundle {
			own++
			what[len(what)-1] += " (" + strings.Join(s.Variables, ", ") + " names it)"
		}
	}
	if len(in.Stores) == 0 && in.Problem == "" {
		add("it has no store of trust at all")
	}
	if len(in.Unset) > 0 {
		add("it lacks the variables %s", strings.Join(in.Unset, ", "))
	}
	if own < len(what) {
		fixes = append(fixes, fmt.Sprintf("nothing is put into a container that has run: %s down %s, then ctis up, makes it anew", a.program(), id))
	}
	if own > 0 {
		fixes = append(fixes, "leave out a variable that the environment sets itself, so that ctis sets it; or have its file in the image or in a volume of the project, where it gets the authority")
	}
	return failed(name, strings.Join(what, "; "), strings.Join(fixes, "; "))
}

// shownVariables names a few: that all lead to one file is the rule.
func shownVariables(names []string) string {
	if len(names) <= 2 {
		return strings.Join(names, " ")
	}
	return fmt.Sprintf("%s and %d more", names[0], len(names)-1)
}

// printTrust shows the checks, and a row for each store.
func (a *app) printTrust(checks []check, seen []trust.Inspection) error {
	if err := a.printChecks(checks); err != nil {
		return err
	}
	var rows [][]string
	for _, in := range seen {
		for _, s := range in.Stores {
			holds := "yes"
			if !s.Holds {
				holds = "NO"
			}
			roots := strconv.Itoa(s.Roots)
			switch {
			case s.Problem != "":
				holds, roots = "?", "?"
			case s.Missing > 0:
				roots += fmt.Sprintf(" (%d missing)", s.Missing)
			}
			rows = append(rows, []string{in.Service, string(s.Kind), s.Path, holds, roots, shownVariables(s.Variables)})
		}
	}
	if len(rows) > 0 {
		if _, err := fmt.Fprintln(a.streams.Out); err != nil {
			return err
		}
		if err := a.table([]string{"SERVICE", "STORE", "PATH", "SIMULATOR", "OTHERS", "VARIABLES"}, rows, 5); err != nil {
			return err
		}
	}
	for _, in := range seen {
		for _, text := range in.Ignores {
			a.ui.warn(fmt.Sprintf("service %q: %s", in.Service, printable(text)))
		}
	}
	return nil
}
