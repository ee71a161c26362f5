package commands

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/linuxarena/ctis/compose"
)

type downOptions struct {
	volumes bool
	keep    []string // named volumes that stay all the same
	timeout time.Duration
	settle  bool // what was being made when it was interrupted may still come
}

// removed names what a trajectory's end took away.
type removed struct {
	Containers []string `json:"containers"`
	Networks   []string `json:"networks"`
	Volumes    []string `json:"volumes"`
}

// downResult is what `ctis down` reports for one trajectory.
type downResult struct {
	Trajectory string  `json:"trajectory"`
	Removed    removed `json:"removed"`
	// Requests counts the records in its journal; null when the simulator, which
	// keeps it, could not be asked.
	Requests *uint64 `json:"requests"`

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
		} else if result.Requests == nil {
			_, err = fmt.Fprintf(a.streams.Out, "%s is down; its journal cannot be read now\n", id)
		} else {
			_, err = fmt.Fprintf(a.streams.Out, "%s is down; %s in its journal\n", id, plural(int(*result.Requests), "record"))
		}
		if err != nil {
			return err
		}
	}
	return errors.Join(errs...)
}
