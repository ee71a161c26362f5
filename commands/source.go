package commands

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/linuxarena/ctis/imagehash"
)

// dockerfile is the image's recipe inside a build context of ctis.
const dockerfile = "templates/image/Dockerfile"

// sourceOptions say what the simulator's image is built from. The zero value is
// what CTIS_BUILD_CONTEXT names, or else what this program carries.
type sourceOptions struct {
	context  string
	file     string
	args     words
	target   string
	platform string

	embedded bool // what this program carries, whatever the environment says
}

// flags are those of every verb that may build the image.
func (o *sourceOptions) flags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "context", Usage: "build from `DIR` instead of what ctis carries (CTIS_BUILD_CONTEXT)", Destination: &o.context},
		&cli.StringFlag{Name: "file", Usage: "`DOCKERFILE` inside the build context (default: " + dockerfile + " or Dockerfile)", Destination: &o.file},
		&cli.GenericFlag{Name: "build-arg", Usage: "build argument `K=V`, or K with its value from the environment (repeatable)", Value: &o.args},
		&cli.StringFlag{Name: "target", Usage: "build `STAGE` of the Dockerfile instead of its last one", Destination: &o.target},
		&cli.StringFlag{Name: "platform", Usage: "build for `OS/ARCH` instead of the engine's own (needs BuildKit)", Destination: &o.platform},
	}
}

// given tells whether the command line says what to build from.
func (o sourceOptions) given() bool { return o.context != "" || o.file != "" }

// words is a flag that may be repeated and whose values may hold commas.
type words []string

// Set implements flag.Value.
func (w *words) Set(s string) error { *w = append(*w, s); return nil }

func (w *words) String() string { return strings.Join(*w, " ") }

// source hashes what the image is built from. Nothing asks the engine.
func (a *app) source(ctx context.Context, o sourceOptions) (*imagehash.Sum, error) {
	args, err := a.buildArgs(o.args)
	if err != nil {
		return nil, err
	}
	files, name, err := a.buildContext(o)
	if err != nil {
		return nil, err
	}
	inputs, err := imagehash.Read(ctx, files, imagehash.Options{Dockerfile: name, Args: args, Target: o.target, Platform: o.platform})
	if err != nil {
		return nil, explainSource(err)
	}
	sum, err := inputs.Sum(ctx)
	if err != nil {
		return nil, explainSource(err)
	}
	return sum, nil
}

// buildContext opens the build context and finds the Dockerfile in it.
func (a *app) buildContext(o sourceOptions) (files fs.FS, name string, err error) {
	if o.file == "-" {
		return nil, "", &usageError{msg: "--file - is not supported: the Dockerfile is hashed and must be in the build context", hint: "write it to a file there and name that"}
	}
	dir, from := o.context, "--context"
	if dir == "" {
		dir, from = a.env["CTIS_BUILD_CONTEXT"], "CTIS_BUILD_CONTEXT"
	}
	if o.embedded || dir == "" {
		files, dir = a.setting.BuildContext, ""
	} else {
		if fi, err := os.Stat(dir); err != nil || !fi.IsDir() {
			if err == nil {
				err = errors.New("it is no directory")
			}
			return nil, "", &usageError{msg: fmt.Sprintf("%s %q cannot be used: %v", from, dir, err), hint: "name the directory that the image is built from"}
		}
		files = imagehash.Dir(dir)
	}
	if o.file != "" {
		name, err = insideContext(files, dir, o.file)
		return files, name, err
	}
	for _, name := range []string{dockerfile, "Dockerfile"} {
		if _, err := fs.Stat(files, name); err == nil {
			return files, name, nil
		}
	}
	return nil, "", &usageError{msg: fmt.Sprintf("build context %q has no Dockerfile", dir), hint: "name it with --file, from the directory of the context"}
}

// insideContext makes a path inside the context of what the user wrote: one from
// the context's own directory or, where nothing is there, from the current one, as
// the docker command has it.
func insideContext(files fs.FS, dir, file string) (string, error) {
	inside := path.Clean(filepath.ToSlash(file))
	if fs.ValidPath(inside) {
		if _, err := fs.Stat(files, inside); err == nil || dir == "" {
			return inside, nil // the hash tells of one that is not there
		}
	}
	if dir != "" {
		absoluteDir, err := filepath.Abs(dir)
		if err != nil {
			return "", err
		}
		absolute, err := filepath.Abs(file)
		if err != nil {
			return "", err
		}
		if rel, err := filepath.Rel(absoluteDir, absolute); err == nil && filepath.IsLocal(rel) {
			if _, err := os.Stat(absolute); err == nil {
				return filepath.ToSlash(rel), nil
			}
		}
		if fs.ValidPath(inside) {
			return inside, nil
		}
	}
	return "", &usageError{msg: fmt.Sprintf("--file %q is not inside the build context", file), hint: "only what is in the context is hashed; put the Dockerfile there and name it from the context's directory"}
}

// buildArgs reads K=V, or K alone for a value from the environment; one that is
// not set there is not passed, as the docker command has it.
func (a *app) buildArgs(list []string) (map[string]string, error) {
	args := map[string]string{}
	for _, kv := range list {
		name, value, given := strings.Cut(kv, "=")
		if name == "" {
			return nil, &usageError{msg: "--build-arg " + quoted(kv) + " has no name", hint: "write NAME=VALUE"}
		}
		if !given {
			if value, given = a.env[name]; !given {
				continue
			}
		}
		args[name] = value
	}
	return args, nil
}

// explainBuild does the same for what is only found with the engine's help.
func explainBuild(err error) error {
	var syntax *imagehash.SyntaxError
	if errors.As(err, &syntax) {
		return explainSource(err)
	}
	return err
}

// explainSource makes of a source that is wrong the user's to correct. One that is
// just being edited is not.
func explainSource(err error) error {
	var changed *imagehash.ChangedInputError
	if errors.As(err, &changed) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return &usageError{msg: err.Error(), hint: "correct the Dockerfile, the build context or the command line; nothing was built"}
}
