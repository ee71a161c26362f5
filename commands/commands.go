// Package commands is the command line of ctis: one file per verb, each with
// its options, their checks and the run, in that order. It is the only package
// that prints, colours and decides exit codes; everything below it returns
// values and errors.
package commands

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"regexp"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/linuxarena/ctis/compose"
	"github.com/linuxarena/ctis/server/api"
)

// Streams are the standard streams of a run. Results go to Out, progress and
// messages to Err.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// Setting is what a run gets from the process around it.
type Setting struct {
	Program      string   // as it was called; "" for ctis
	Environ      []string // as os.Environ gives it
	BuildContext fs.FS    // what the simulator's image is built from
	Demo         fs.FS    // holds examples/demo
	// Simulator reaches the simulator's administrative interface; nil for the one that
	// the engine runs.
	Simulator func(ctx context.Context) (*api.Client, error)
	// Collect brings what is recorded elsewhere into the journal of a trajectory; nil for
	// the sidecars of the engine, which a simulator without an engine has none of.
	Collect func(ctx context.Context, trajectory string) error
}

// Main runs the command line args (args[0] is the program's name) and returns
// the exit code (SPEC §4). ctx ends on an interrupt.
func Main(ctx context.Context, args []string, streams Streams, setting Setting) int {
	a := newApp(streams, setting)
	defer a.close()
	root := a.root()
	ordered, err := orderArgs(root, args)
	if err == nil {
		err = root.RunContext(ctx, ordered)
	}
	// An error of the command line itself is told as JSON too, wherever --json stands.
	a.json = a.json || slices.Contains(args, "--json")
	return a.finish(ctx, err)
}

// root is the table of contents of the command line.
func (a *app) root() *cli.App {
	return &cli.App{
		Name:  "ctis",
		Usage: "an internet that is not the internet, for trajectories of AI agents",
		Description: "ctis puts a trajectory (one isolated run of a Docker Compose environment) up beside hundreds of\n" +
			"others on one engine, all served by one shared simulator that plays public hostnames over HTTP and\n" +
			"HTTPS and keeps a durable journal of what each trajectory sent.",
		Flags:           a.globalFlags(),
		HideVersion:     true,
		HideHelpCommand: true,
		Writer:          a.streams.Out,
		ErrWriter:       a.streams.Err,
		// Exit codes are decided in exit.go alone.
		ExitErrHandler: func(*cli.Context, error) {},
		OnUsageError:   onUsageError,
		Before:         a.before,
		Action: func(c *cli.Context) error {
			if name := c.Args().First(); name != "" {
				return unknownCommand(c.App, name)
			}
			return cli.ShowAppHelp(c)
		},
		Commands: []*cli.Command{
			a.initCommand(),
			a.validateCommand(),
			a.configCommand(),
			a.upCommand(),
			a.repairCommand(),
			a.downCommand(),
			a.statusCommand(),
			a.logsCommand(),
			a.showCommand(),
			a.assertCommand(),
			a.findCommand(),
			a.exportCommand(),
			a.verifyCommand(),
			a.assetsCommand(),
			a.rulesCommand(),
			a.buildCommand(),
			a.gcCommand(),
			a.caCommand(),
			a.doctorCommand(),
			a.demoCommand(),
			a.completionCommand(),
			a.completeCommand(),
		},
	}
}

// verb completes a command with what all of them share.
func verb(c *cli.Command) *cli.Command {
	c.OnUsageError = onUsageError
	c.HideHelpCommand = true
	return c
}

func onUsageError(c *cli.Context, err error, _ bool) error {
	e := &usageError{msg: err.Error()}
	if c != nil && c.Command != nil {
		e.hint = flagHint(err.Error(), append(slices.Clone(c.Command.Flags), c.App.Flags...))
	}
	return e
}

// invalidValue is the flag in what the parser says of a value it does not take.
var invalidValue = regexp.MustCompile(`^invalid (?:boolean )?value .* for (?:flag )?-([a-z-]+): `)

// flagHint says what a flag takes, which the parser does not.
func flagHint(msg string, flags []cli.Flag) string {
	found := invalidValue.FindStringSubmatch(msg)
	if found == nil {
		return ""
	}
	for _, f := range flags {
		if !slices.Contains(f.Names(), found[1]) {
			continue
		}
		switch f.(type) {
		case *cli.DurationFlag:
			return "give a duration such as 90s, 10m or 1h30m"
		case *cli.IntFlag, *cli.Int64Flag, *cli.UintFlag:
			return "give a whole number"
		case *cli.BoolFlag:
			return "leave the value out, or give true or false"
		}
	}
	return ""
}

func unknownCommand(app *cli.App, name string) error {
	e := &usageError{msg: "there is no command " + quoted(name), hint: "ctis --help lists the commands"}
	var names []string
	for _, c := range app.Commands {
		names = append(names, c.Name)
	}
	if near, ok := compose.Nearest(name, names); ok {
		e.hint = "did you mean " + quoted(near) + "? ctis --help lists the commands"
	}
	return e
}

// exactArgs checks the number of positional arguments; names is for the message.
func exactArgs(c *cli.Context, least, most int, names string) error {
	n := c.Args().Len()
	if n >= least && (most < 0 || n <= most) {
		return nil
	}
	msg := "too few arguments"
	if n > least {
		msg = "unexpected argument " + quoted(c.Args().Get(most))
	}
	return &usageError{msg: "ctis " + c.Command.Name + ": " + msg, hint: strings.TrimSpace("usage: ctis " + c.Command.Name + " " + names)}
}

// exitError ends a run with an exit code where everything was already said.
type exitError struct{ code int }

func (e *exitError) Error() string { return fmt.Sprintf("exit code %d", e.code) }

func quoted(s string) string { return `"` + s + `"` }
