package commands

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/linuxarena/ctis/compose"
)

type initOptions struct {
	environmentOptions
	files  cli.StringSlice
	force  bool
	stdout bool
}

// initResult is what `ctis init` reports.
type initResult struct {
	File           string           `json:"file"` // "" where nothing was written (--stdout)
	Content        string           `json:"content"`
	ComposeFiles   []string         `json:"compose_files"` // relative to the environment's directory
	Network        guessed          `json:"network"`
	DefaultService guessed          `json:"default_service"`
	Problems       compose.Problems `json:"problems"` // warnings
}

type guessed struct {
	Value  string `json:"value"`
	Reason string `json:"reason"`
}

func (a *app) initCommand() *cli.Command {
	var o initOptions
	return verb(&cli.Command{
		Name:      "init",
		Usage:     "write a commented ctis.toml for existing Compose files",
		ArgsUsage: "[ENV_DIR]",
		Description: "Reads the Compose files in ENV_DIR (default: the current directory), or one level below it, guesses\n" +
			"which network the simulator is to join and which service the agent works in, and writes a ctis.toml\n" +
			"that says so, why, and what else could be said: every option is in it, commented out, with names\n" +
			"and ports of this environment. A ctis.toml that is there stays, unless --force is given. What is\n" +
			"written passes ctis validate. Needs no Docker engine.\n\n" +
			"Exit status: 0 written, 1 it cannot be written, 2 there is a ctis.toml already or the Compose files\n" +
			"have errors (nothing was written).",
		Flags: append(o.flags(),
			&cli.StringSliceFlag{Name: "file", Usage: "the Compose `FILE` to describe, relative to the current directory (repeatable, in order)", Destination: &o.files},
			&cli.BoolFlag{Name: "force", Usage: "replace a ctis.toml that is there", Destination: &o.force},
			&cli.BoolFlag{Name: "stdout", Usage: "print it and write nothing", Destination: &o.stdout},
			a.jsonFlag(),
		),
		Action: func(c *cli.Context) error {
			if err := exactArgs(c, 0, 1, "[ENV_DIR]"); err != nil {
				return err
			}
			o.dir = c.Args().First()
			return a.runInit(c.Context, o)
		},
	})
}

func (a *app) runInit(ctx context.Context, o initOptions) error {
	wd, err := workingDir()
	if err != nil {
		return err
	}
	load, err := a.loadOptions(o.environmentOptions, "")
	if err != nil {
		return err
	}
	if fi, err := os.Stat(load.Dir); err != nil || !fi.IsDir() {
		return &usageError{msg: quoted(load.Dir) + " is no directory", hint: "name the directory of the environment; it has or holds the Compose files"}
	}
	path := filepath.Join(load.Dir, compose.ConfigFile)
	if _, err := os.Lstat(path); err == nil && !o.force && !o.stdout {
		return alreadyThere(path)
	}
	var files []string
	for _, f := range o.files.Value() {
		if !filepath.IsAbs(f) {
			f = filepath.Join(wd, f)
		}
		files = append(files, filepath.Clean(f))
	}
	content, s, problems := compose.Starter(ctx, load, files)
	if err := ctx.Err(); err != nil {
		return err
	}
	if problems.HasErrors() {
		return &invalidError{problems: problems}
	}
	result := initResult{
		Content: string(content), ComposeFiles: s.Found, Problems: append(compose.Problems{}, problems...),
		Network: guessed{s.Network, s.NetworkReason}, DefaultService: guessed{s.DefaultService, s.ServiceReason},
	}
	if !o.stdout {
		if err := writeWhole(path, content, o.force); err != nil {
			return err
		}
		result.File = path
	}
	if a.json {
		return a.printJSON(result)
	}
	a.ui.problems(problems)
	if o.stdout {
		_, err := a.streams.Out.Write(content)
		return err
	}
	return a.printInit(result, o.dir)
}

func (a *app) printInit(r initResult, dir string) error {
	_, err := fmt.Fprintf(a.streams.Out, "%s\n  for %s\n  network          %s: %s\n  default service  %s: %s\n",
		printable(r.File), printable(strings.Join(r.ComposeFiles, ", ")), r.Network.Value, r.Network.Reason, r.DefaultService.Value, r.DefaultService.Reason)
	if err == nil && !a.quiet {
		at := ""
		if dir != "" {
			at = " " + dir
		}
		a.ui.note("turn a persona on in it, then: " + a.program() + " validate" + at + " and " + a.program() + " up" + at)
	}
	return err
}

func alreadyThere(path string) error {
	return &usageError{msg: "there is a " + quoted(path) + " already, which stays as it is", hint: "--force replaces it, --stdout prints what would be written"}
}

// writeWhole writes a file so that at its path there is never a part of it: it
// is filled under another name first. Only force takes the place of another one.
func writeWhole(path string, content []byte, force bool) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return notWritten(path, err)
	}
	defer func() {
		if removeErr := os.Remove(f.Name()); removeErr != nil && !os.IsNotExist(removeErr) {
			err = errors.Join(err, removeErr)
		}
	}()
	_, err = f.Write(content)
	if err == nil {
		err = f.Chmod(0o644) // what others of the environment's files usually have
	}
	if err == nil {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return notWritten(path, err)
	}
	if force {
		err = os.Rename(f.Name(), path)
	} else if err = os.Link(f.Name(), path); os.IsExist(err) { // unlike a rename, it replaces nothing
		return alreadyThere(path)
	} else if err != nil {
		err = writeNew(f.Name(), path) // a file system without hard links
	}
	if err != nil {
		return notWritten(path, err)
	}
	return nil
}

// writeNew renames where nothing is in the way; between the two steps somebody
// else could put a file there.
func writeNew(from, path string) error {
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		return alreadyThere(path)
	}
	return os.Rename(from, path)
}

func notWritten(path string, err error) error {
	var usage *usageError
	if errors.As(err, &usage) {
		return err
	}
	var wrong *os.PathError
	if errors.As(err, &wrong) {
		err = wrong.Err
	}
	var link *os.LinkError
	if errors.As(err, &link) {
		err = link.Err
	}
	return &hintedError{err: fmt.Errorf("%q cannot be written: %w", path, err), hint: "--stdout prints it instead"}
}
