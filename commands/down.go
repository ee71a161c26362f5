package commands

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/linuxarena/ctis/compose"
	"github.com/linuxarena/ctis/netpin"
	"github.com/linuxarena/ctis/server/api"
	"github.com/linuxarena/ctis/simulator"
)

type downOptions struct {
	volumes bool
	timeout time.Duration
}

// removed names what a trajectory's end took away.
type removed struct {
	Containers []string `json:"containers"`
	Networks   []string `json:"networks"`
	Volumes    []string `json:"volumes"`
}

func (r removed) empty() bool { return len(r.Containers)+len(r.Networks)+len(r.Volumes) == 0 }

// downResult is what `ctis down` reports for one trajectory.
type downResult struct {
	Trajectory string  `json:"trajectory"`
	Removed    removed `json:"removed"`
	Requests   uint64  `json:"requests"`

	known bool // there was something to take down
}

func (a *app) downCommand() *cli.Command {
	var o downOptions
	return verb(&cli.Command{
		Name:      "down",
		Usage:     "take trajectories down and leave nothing of them but their journal",
		ArgsUsage: "ID…",
		Description: "Works from labels alone: without the environment's files, for half-made trajectories, with the\n" +
			"simulator gone, and again. Named volumes are kept unless --volumes says otherwise. The journal stays\n" +
			"readable with ctis logs. With --json, one line for each ID.\n\n" +
			"Exit status: 0 nothing is left, 1 something could not be removed (it is named), 2 usage,\n" +
			"3 the project is not this instance's, 4 no engine.",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "volumes", Usage: "remove the project's named volumes too", Destination: &o.volumes},
			&cli.DurationFlag{Name: "timeout", Usage: "how long a container may take to stop before it is killed", Value: 10 * time.Second, Destination: &o.timeout},
			a.jsonFlag(),
		},
		Action: func(c *cli.Context) error {
			if err := exactArgs(c, 1, -1, "ID…"); err != nil {
				return err
			}
			return a.runDown(c.Context, c.Args().Slice(), o)
		},
	})
}

func (a *app) runDown(ctx context.Context, ids []string, o downOptions) error {
	for _, id := range ids {
		if err := compose.ValidateID(id); err != nil {
			return err
		}
	}
	if o.timeout < 0 {
		return &usageError{msg: "--timeout is negative", hint: "give a duration such as 10s, or 0s to kill at once"}
	}
	if _, err := a.openEngine(ctx); err != nil {
		return err
	}
	var errs []error
	for _, id := range ids {
		s := steps{ui: a.ui}
		var result downResult
		err := s.do(ctx, "Taking down "+id, func(ctx context.Context, line *uiStep) (string, error) {
			var err error
			result, err = a.takeDown(ctx, id, o, line)
			if err == nil && !result.known {
				return "nothing to do", nil
			}
			return fmt.Sprintf("%s, %s", plural(len(result.Removed.Containers), "container"), plural(len(result.Removed.Networks), "network")), err
		})
		if err != nil {
			errs = append(errs, err)
			if ctx.Err() != nil {
				break
			}
			continue
		}
		if a.json {
			err = a.printJSON(result)
		} else if !result.known {
			_, err = fmt.Fprintf(a.streams.Out, "%s: nothing to do\n", id)
		} else {
			_, err = fmt.Fprintf(a.streams.Out, "%s is down; %s in its journal\n", id, plural(int(result.Requests), "record"))
		}
		if err != nil {
			return err
		}
	}
	return errors.Join(errs...)
}

// takeDown removes a trajectory while no other process works on it.
func (a *app) takeDown(ctx context.Context, id string, o downOptions, line *uiStep) (downResult, error) {
	admin, err := simulator.Connect(ctx, a.engine, a.instance)
	if err == nil {
		defer admin.Close()
		line.detail("waiting for the trajectory")
		free, err := a.hold(ctx, admin, id)
		var refused *api.Error
		switch {
		case err == nil:
			defer free()
		case errors.As(err, &refused) && refused.Code == api.CodeRetired: // has nothing to unregister
		default:
			return downResult{}, err
		}
	} // what else keeps it from answering, remove will tell
	return a.remove(ctx, id, o, line)
}

// remove removes a trajectory: unregister, detach, docker compose down, then a
// look by label and id at what is left, which is removed too. Each part bears
// that it was done before or never, so it also serves as the undo of a failed
// up. It fails if a container or a network of the project remains.
func (a *app) remove(ctx context.Context, id string, o downOptions, line *uiStep) (downResult, error) {
	result := downResult{Trajectory: id, Removed: removed{Containers: []string{}, Networks: []string{}, Volumes: []string{}}}
	project, err := netpin.FindProject(ctx, a.engine, id)
	if err != nil {
		return result, err
	}
	if err := a.ours(project); err != nil {
		return result, err
	}

	line.detail("unregistering")
	seen, err := simulator.Observe(ctx, a.engine, a.instance)
	if err != nil {
		return result, err
	}
	if seen.ID != "" && !seen.Foreign {
		admin, err := simulator.Connect(ctx, a.engine, a.instance)
		var absent *simulator.AbsentError
		switch {
		case errors.As(err, &absent):
			a.ui.warn(fmt.Sprintf("%s, so the registration of %q stays until it runs again and ctis down %s is repeated", err, id, id))
		case err != nil:
			return result, err
		default:
			defer admin.Close()
			gone, err := admin.Unregister(ctx, id)
			if err != nil {
				return result, fmt.Errorf("the simulator does not unregister %q: %w", id, err)
			}
			result.known, result.Requests = gone.Known, gone.Requests
		}
	}
	if project.Empty() {
		return result, nil
	}
	result.known = true

	line.detail("detaching the simulator")
	if seen.ID != "" {
		for _, n := range project.Networks {
			if err := netpin.Detach(ctx, a.engine, seen.ID, n.ID); err != nil {
				return result, err
			}
		}
	}

	line.detail("stopping containers")
	runner, err := a.composeRunner(ctx)
	if err == nil {
		err = runner.Down(ctx, id, compose.DownOptions{Volumes: o.volumes, Timeout: o.timeout}, line.detail)
	}
	if err != nil {
		if ctx.Err() != nil {
			return result, ctx.Err()
		}
		// Its exit status is no verdict: what counts is what is left, and that goes without it too.
		a.log.Warn("docker compose down", "trajectory", id, "error", err)
	}

	line.detail("making sure nothing is left")
	if err := netpin.Sweep(ctx, a.engine, id, netpin.SweepOptions{Volumes: o.volumes, Anonymous: project.Anonymous, Timeout: o.timeout}); err != nil {
		return result, err
	}
	left, err := netpin.FindProject(ctx, a.engine, id)
	if err != nil {
		return result, err
	}
	if len(left.Containers)+len(left.Networks) > 0 {
		return result, fmt.Errorf("of trajectory %q are left: %s; something makes them anew, stop it and run ctis down %s again", id, left.Names(), id)
	}
	for _, c := range project.Containers {
		result.Removed.Containers = append(result.Removed.Containers, c.Name)
	}
	for _, n := range project.Networks {
		result.Removed.Networks = append(result.Removed.Networks, n.Name)
	}
	if o.volumes {
		for _, v := range project.Volumes {
			result.Removed.Volumes = append(result.Removed.Volumes, v)
		}
	}
	return result, nil
}

// ours refuses a Compose project that ctis did not make, or that another
// instance of it made.
func (a *app) ours(p netpin.Project) error {
	for _, c := range p.Containers {
		switch owner := c.Labels[simulator.LabelInstance]; owner {
		case a.instance:
		case "":
			return &conflictError{
				msg:  fmt.Sprintf("the Compose project %q exists and was not made by ctis: container %q", p.Name, c.Name),
				hint: "choose another --id, or remove it with: docker compose -p " + p.Name + " down",
			}
		default:
			return &conflictError{
				msg:  fmt.Sprintf("the trajectory %q belongs to the instance %q", p.Name, owner),
				hint: "choose another --id, or say --instance " + owner,
			}
		}
	}
	return nil
}
