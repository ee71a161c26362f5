package commands

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/linuxarena/ctis/compose"
)

// environmentOptions say which environment is meant and how Compose reads it.
type environmentOptions struct {
	dir      string
	profiles cli.StringSlice
	envFiles cli.StringSlice
}

func (o *environmentOptions) flags() []cli.Flag {
	return []cli.Flag{
		&cli.StringSliceFlag{Name: "profile", Usage: "activate Compose profile `P` (repeatable)", Destination: &o.profiles},
		&cli.StringSliceFlag{Name: "env-file", Usage: "read variables from `FILE` instead of .env (repeatable)", Destination: &o.envFiles},
	}
}

func (a *app) validateCommand() *cli.Command {
	var o environmentOptions
	return verb(&cli.Command{
		Name:      "validate",
		Usage:     "check an environment without starting anything",
		ArgsUsage: "[ENV_DIR]",
		Description: "Reads ctis.toml and the Compose files of ENV_DIR (default: the current directory) and reports every\n" +
			"problem at once, each with file, line and column. Needs no Docker engine. The same checks are the\n" +
			"first step of ctis up.\n\n" +
			"Exit status: 0 valid (warnings are printed), 2 not valid.",
		Flags: append(o.flags(), a.jsonFlag()),
		Action: func(c *cli.Context) error {
			if err := exactArgs(c, 0, 1, "[ENV_DIR]"); err != nil {
				return err
			}
			o.dir = c.Args().First()
			return a.runValidate(c.Context, o)
		},
	})
}

func (a *app) runValidate(ctx context.Context, o environmentOptions) error {
	_, problems, err := a.loadEnvironment(ctx, o, "")
	if err != nil {
		return err
	}
	if a.json {
		if problems == nil {
			problems = compose.Problems{}
		}
		if err := a.printJSON(map[string]compose.Problems{"problems": problems}); err != nil {
			return err
		}
		if problems.HasErrors() {
			return &exitError{code: exitUsage}
		}
		return nil
	}
	for _, p := range a.fromHere(problems) {
		if _, err := fmt.Fprintln(a.streams.Out, printable(problemText(p))); err != nil {
			return err
		}
	}
	if problems.HasErrors() {
		return &exitError{code: exitUsage}
	}
	if !a.quiet {
		a.ui.lines("valid")
	}
	return nil
}

// loadEnvironment reads an environment for the trajectory id, which is "" while
// nothing is to be started. The environment is nil if a problem is an error.
func (a *app) loadEnvironment(ctx context.Context, o environmentOptions, id string) (*compose.Environment, compose.Problems, error) {
	load, err := a.loadOptions(o, id)
	if err != nil {
		return nil, nil, err
	}
	env, problems := compose.Load(ctx, load)
	return env, problems, ctx.Err()
}

// fromHere are problems with paths as somebody who stands here would write them, for
// people; in JSON they are absolute.
func (a *app) fromHere(problems compose.Problems) compose.Problems {
	wd, err := workingDir()
	if err != nil {
		return problems
	}
	near := slices.Clone(problems)
	for i, p := range near {
		if rel, err := filepath.Rel(wd, p.File); err == nil && filepath.IsAbs(p.File) && filepath.IsLocal(rel) {
			near[i].File = rel
		}
		// Messages quote files of the environment too.
		near[i].Message = strings.ReplaceAll(near[i].Message, `"`+wd+string(filepath.Separator), `"`)
	}
	return near
}

// loadOptions are the options with an absolute directory.
func (a *app) loadOptions(o environmentOptions, id string) (compose.Options, error) {
	dir := o.dir
	if !filepath.IsAbs(dir) {
		wd, err := workingDir()
		if err != nil {
			return compose.Options{}, err
		}
		dir = filepath.Join(wd, dir)
	}
	return compose.Options{
		Dir: dir, ID: id, Profiles: o.profiles.Value(), EnvFiles: o.envFiles.Value(), Environ: a.setting.Environ,
	}, nil
}
