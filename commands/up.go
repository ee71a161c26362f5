package commands

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/linuxarena/ctis/compose"
)

type upOptions struct {
	environmentOptions
	id            string
	image         string
	source        sourceOptions
	waitTimeout   time.Duration
	keepOnFailure bool
}

// upResult is what `ctis up` reports.
type upResult struct {
	Trajectory string `json:"trajectory"`
	Network    string `json:"network"`
	Image      string `json:"image"`
	Simulator  struct {
		Container string `json:"container"`
		Address   string `json:"address"`
		Reused    bool   `json:"reused"`
	} `json:"simulator"`
	Personas        []string          `json:"personas"`
	ExposedServices map[string]string `json:"exposed_services"`
	UpstreamProxies []string          `json:"upstream_proxies"`
	Assets          struct {
		Files int   `json:"files"`
		Bytes int64 `json:"bytes"`
	} `json:"assets"`
	Services   []upService `json:"services"`
	DurationMS int64       `json:"duration_ms"`
}

type upService struct {
	Service   string            `json:"service"`
	Container string            `json:"container"`
	Addresses map[string]string `json:"addresses"`       // network key → address
	Ports     []string          `json:"ports,omitempty"` // published, as host:port->port/protocol
}

func (a *app) upCommand() *cli.Command {
	var o upOptions
	return verb(&cli.Command{
		Name:      "up",
		Usage:     "bring a trajectory of an environment up",
		ArgsUsage: "[ENV_DIR]",
		Description: "Checks ENV_DIR (default: the current directory), makes sure of the simulator and its image, creates\n" +
			"the containers, puts the simulator on their network under every persona's name, gives them its\n" +
			"certificate authority, starts them and waits for each. If anything fails, or on Ctrl-C, all that this\n" +
			"call made is taken back. ctis down ID ends the trajectory.\n\n" +
			"Exit status: 0 up, 1 failed, 2 the environment or the command line is wrong (nothing was touched),\n" +
			"3 conflict, 4 no engine or no Compose, 5 no address space left, 130 interrupted.",
		Flags: append(o.flags(),
			&cli.StringFlag{Name: "id", Usage: "the trajectory's `ID`, which becomes the Compose project name (default: a new one)", Destination: &o.id},
			&cli.StringFlag{Name: "image", Usage: "run the simulator from image `REF` instead of the one built from source", Destination: &o.image},
			&cli.StringFlag{Name: "context", Usage: "build the simulator's image from `DIR` instead of what ctis carries (CTIS_BUILD_CONTEXT)", Destination: &o.source.context},
			&cli.StringFlag{Name: "file", Usage: "`DOCKERFILE` inside that context", Destination: &o.source.file},
			&cli.DurationFlag{Name: "wait-timeout", Usage: "how long the services may take to be up", Value: 5 * time.Minute, Destination: &o.waitTimeout},
			&cli.BoolFlag{Name: "keep-on-failure", Usage: "leave everything as it is when something fails", Destination: &o.keepOnFailure},
			a.jsonFlag(),
		),
		Action: func(c *cli.Context) error {
			if err := exactArgs(c, 0, 1, "[ENV_DIR]"); err != nil {
				return err
			}
			o.dir = c.Args().First()
			_, err := a.runUp(c.Context, o, func(result *upResult) error {
				if a.json {
					return a.printJSON(result)
				}
				return a.printUp(result)
			})
			return err
		},
	})
}

// runUp brings a trajectory up: check, set up, report, and undo on failure. A
// result that cannot be reported is a failure too: whoever waits for it would not
// know what is up.
func (a *app) runUp(ctx context.Context, o upOptions, report func(*upResult) error) (*upResult, error) {
	begun := time.Now()
	if o.waitTimeout <= 0 {
		return nil, &usageError{msg: "--wait-timeout is not positive", hint: "give a duration such as 2m"}
	}
	if o.id != "" {
		if err := compose.ValidateID(o.id); err != nil {
			return nil, err
		}
	}
	pool, err := a.addressPool()
	if err != nil {
		return nil, err
	}
	s := &setup{app: a, o: o, pool: pool, steps: steps{ui: a.ui}, id: o.id}
	defer s.end()
	err = s.run(ctx)
	if err == nil {
		s.result.DurationMS = time.Since(begun).Milliseconds()
		err = report(&s.result)
	}
	if err != nil {
		if o.keepOnFailure && len(s.steps.undo) > 0 {
			a.ui.note("left as it is (--keep-on-failure); ctis down " + s.id + " removes it")
			return nil, err
		}
		if len(s.before.Containers) > 0 && len(s.steps.undo) > 0 {
			a.ui.note("what there was of it before stays; ctis down " + s.id + " removes it")
		}
		return nil, s.tellLeft(ctx, s.steps.rollback(ctx, err))
	}
	return &s.result, nil
}

func (a *app) printUp(r *upResult) error {
	w := a.streams.Out
	if _, err := fmt.Fprintf(w, "%s is up on network %s\n", r.Trajectory, r.Network); err != nil {
		return err
	}
	for _, host := range r.Personas {
		if _, err := fmt.Fprintf(w, "  https://%s\n", host); err != nil {
			return err
		}
	}
	for _, host := range slices.Sorted(maps.Keys(r.ExposedServices)) {
		if _, err := fmt.Fprintf(w, "  https://%s → %s\n", host, r.ExposedServices[host]); err != nil {
			return err
		}
	}
	for _, host := range r.UpstreamProxies {
		if _, err := fmt.Fprintf(w, "  https://%s (the real one)\n", host); err != nil {
			return err
		}
	}
	for _, svc := range r.Services {
		for _, p := range svc.Ports {
			if _, err := fmt.Fprintf(w, "  %s: %s\n", svc.Service, p); err != nil {
				return err
			}
		}
	}
	_, err := fmt.Fprintf(w, "\ndocker compose -p %[1]s exec SERVICE COMMAND   act in it\n%[2]s logs %[1]s --follow   watch what it sends\n%[2]s down %[1]s   end it\n", r.Trajectory, a.program())
	return err
}
