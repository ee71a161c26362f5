package commands

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/linuxarena/ctis/compose"
	"github.com/linuxarena/ctis/netpin"
	"github.com/linuxarena/ctis/server/api"
	"github.com/linuxarena/ctis/simulator"
)

func (a *app) repairCommand() *cli.Command {
	return verb(&cli.Command{
		Name:      "repair",
		Usage:     "put the simulator back on trajectories that are not as they were set up",
		ArgsUsage: "ID…",
		Description: "Somebody may have restarted, replaced or detached things behind ctis' back; ctis status shows it as\n" +
			"drift. Works from labels and the simulator's own registration alone, without the environment's files:\n" +
			"puts the simulator back on the trajectory's network under every hostname and at its address, tells it\n" +
			"which container has which address now, and gives containers that were made anew and not yet started the\n" +
			"certificate authority. No container is restarted. What takes the environment's files, ctis up with the\n" +
			"same --id repairs. With --json, one line for each ID.\n\n" +
			"Exit status: 0 all is as it was set up, 1 something is left (it is named), 2 usage,\n" +
			"3 another ctis works on it, 4 no engine.",
		Flags: []cli.Flag{a.jsonFlag()},
		Action: func(c *cli.Context) error {
			if err := exactArgs(c, 1, -1, "ID…"); err != nil {
				return err
			}
			return a.runRepair(c.Context, c.Args().Slice())
		},
	})
}

func (a *app) runRepair(ctx context.Context, ids []string) error {
	for _, id := range ids {
		if err := compose.ValidateID(id); err != nil {
			return err
		}
	}
	eng, err := a.openEngine(ctx)
	if err != nil {
		return err
	}
	sim, err := simulator.Running(ctx, eng, a.instance)
	if err != nil {
		return err
	}
	defer sim.Client.Close()
	var errs []error
	for _, id := range ids {
		s := steps{ui: a.ui}
		var result repairResult
		err := s.do(ctx, "Repairing "+id, func(ctx context.Context, _ *uiStep) (string, error) {
			var err error
			result, err = a.repairOne(ctx, sim, id)
			if err == nil && len(result.Repaired) == 0 {
				return "nothing to do", nil
			}
			return plural(len(result.Repaired), "repair"), err
		})
		if err != nil {
			errs = append(errs, err)
			if ctx.Err() != nil {
				break
			}
			continue
		}
		if err := a.printRepair(result); err != nil {
			return err
		}
	}
	return errors.Join(errs...)
}

// repairOne repairs a trajectory that the simulator has, while no other process
// works on it.
func (a *app) repairOne(ctx context.Context, sim *simulator.Result, id string) (repairResult, error) {
	free, err := a.hold(ctx, sim.Client, id, nil)
	if err != nil {
		return repairResult{}, err
	}
	defer free()
	status, err := sim.Client.Status(ctx)
	if err != nil {
		return repairResult{}, err
	}
	i := slices.IndexFunc(status.Trajectories, func(t api.TrajectoryStatus) bool { return t.Trajectory == id })
	if i < 0 {
		return repairResult{}, &hintedError{err: fmt.Errorf("the simulator %q serves no trajectory %q", sim.Container, id),
			hint: "ctis status lists those it serves; ctis up ENV_DIR --id " + id + " sets it up"}
	}
	result, err := a.repair(ctx, sim, status.Trajectories[i])
	if err != nil {
		return result, err
	}
	upstreams, err := a.restoreUpstreams(ctx, sim, status.Trajectories[i])
	for _, what := range upstreams {
		result.Repaired = append(result.Repaired, netpin.Drift{Kind: netpin.DriftUpstream, Have: what})
	}
	if err != nil || len(result.Left) == 0 {
		return result, err
	}
	project, err := netpin.FindProject(ctx, a.engine, id)
	if err != nil {
		return result, err
	}
	return result, leftError(result, environmentDir(project))
}

func (a *app) printRepair(r repairResult) error {
	if a.json {
		return a.printJSON(r)
	}
	if len(r.Repaired) == 0 {
		_, err := fmt.Fprintf(a.streams.Out, "%s: nothing to do\n", r.Trajectory)
		return err
	}
	if _, err := fmt.Fprintf(a.streams.Out, "%s is as it was set up\n", r.Trajectory); err != nil {
		return err
	}
	for _, d := range r.Repaired {
		if _, err := fmt.Fprintf(a.streams.Out, "  repaired: %s\n", printable(d.String())); err != nil {
			return err
		}
	}
	return nil
}
