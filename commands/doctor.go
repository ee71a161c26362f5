package commands

import (
	"context"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/linuxarena/ctis/compose"
)

// check is one thing doctor looked at.
type check struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
	Fix    string `json:"fix"` // what to do; "" where all is well or nothing is known to help

	exit int // the exit code it stands for when not ok
}

// passed and failed make checks; a failed one makes the exit code 1 unless it is
// set to another.
func passed(name, detail string) check { return check{Name: name, OK: true, Detail: detail} }

func failed(name, detail, fix string) check {
	return check{Name: name, Detail: detail, Fix: fix, exit: exitFailed}
}

// refused makes a check of an error, in the words every verb tells it with.
func (a *app) refused(ctx context.Context, name string, err error) check {
	f := explain(ctx, a.instance, err)
	return check{Name: name, Detail: strings.ReplaceAll(f.Message, "\n", "; "), Fix: f.Hint, exit: f.exit}
}

func (a *app) doctorCommand() *cli.Command {
	return verb(&cli.Command{
		Name:      "doctor",
		Usage:     "look for what would stop up on this machine, or what a trajectory does not trust",
		ArgsUsage: "[ID]",
		Description: "Without ID: the engine, Compose, the image, the simulator, address space, disk and limits, each with\n" +
			"its fix. With ID: whether that trajectory is as it was set up, and which of the places where programs\n" +
			"look for certificate authorities hold the simulator's, in each of its containers. Files are read\n" +
			"through the engine; nothing runs in a container and nothing is changed.\n\n" +
			"Exit status: 0 all is well, 1 something is not (or there is no trajectory ID), 4 no engine or no Compose.",
		Flags: []cli.Flag{a.jsonFlag()},
		Action: func(c *cli.Context) error {
			if err := exactArgs(c, 0, 1, "[ID]"); err != nil {
				return err
			}
			if id := c.Args().First(); id != "" {
				if err := compose.ValidateID(id); err != nil {
					return err
				}
				return a.runDoctorTrust(c.Context, id)
			}
			return a.runDoctor(c.Context)
		},
	})
}

// runDoctor checks the machine. What needs an engine is left out without one.
func (a *app) runDoctor(ctx context.Context) error {
	checks := a.machine(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if a.json {
		if err := a.printJSON(map[string]any{"checks": checks}); err != nil {
			return err
		}
	} else if err := a.printChecks(checks); err != nil {
		return err
	}
	return verdict(checks)
}

// verdict is the exit code of checks: that of a missing engine or Compose before
// any other.
func verdict(checks []check) error {
	code := exitDone
	for _, c := range checks {
		switch {
		case c.OK:
		case c.exit == exitEngine:
			code = exitEngine
		case code == exitDone:
			code = exitFailed
		}
	}
	if code == exitDone {
		return nil
	}
	return &exitError{code}
}

func (a *app) printChecks(checks []check) error {
	width := 0
	for _, c := range checks {
		width = max(width, len(c.Name))
	}
	for _, c := range checks {
		mark := "ok"
		if !c.OK {
			mark = "NO"
		}
		if err := a.hang(fmt.Sprintf("%s  %-*s  ", mark, width, c.Name), c.Detail); err != nil {
			return err
		}
		if c.Fix != "" {
			if err := a.hang(fmt.Sprintf("    %*s  fix: ", width, ""), c.Fix); err != nil {
				return err
			}
		}
	}
	return nil
}
