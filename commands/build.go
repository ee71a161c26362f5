package commands

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/linuxarena/ctis/imagehash"
	"github.com/linuxarena/ctis/simulator"
)

type buildOptions struct {
	sourceOptions
	printTag    bool
	printInputs bool
	noCache     bool
	push        bool
	registry    string
}

// buildResult is what `ctis build` reports.
type buildResult struct {
	Image  string       `json:"image"`
	Hash   string       `json:"hash"`
	Built  bool         `json:"built"` // by this call
	Inputs []buildInput `json:"inputs"`
	// What else enters the hash; of build arguments the names, since values may be
	// secret, and the SHA-256 of each value.
	Args     map[string]string `json:"args,omitempty"`
	Target   string            `json:"target,omitempty"`
	Platform string            `json:"platform,omitempty"`
	// Pushed is the reference under which it can be pulled, and Digest that of its
	// manifest.
	Pushed string `json:"pushed,omitempty"`
	Digest string `json:"digest,omitempty"`
}

type buildInput struct {
	Path   string `json:"path"`
	Digest string `json:"digest"` // SHA-256 of the content; of the target for a link

	Kind       imagehash.Kind `json:"kind"`       // file or link
	Executable bool           `json:"executable"` // by its owner; of files
}

func (a *app) buildCommand() *cli.Command {
	var o buildOptions
	return verb(&cli.Command{
		Name:  "build",
		Usage: "build the simulator's image, or tell its tag and what that depends on",
		Description: "The tag is a hash of all that the image is built from: the same source has\n" +
			"the same tag on every machine. Builds what ctis carries, or with --context\n" +
			"any directory and Dockerfile, if the tag does not exist yet. The source that\n" +
			"ctis carries is compiled here where there is a Go toolchain, without asking\n" +
			"any registry; everything else, and without one, is built by the Dockerfile,\n" +
			"with BuildKit where the docker command has its buildx plugin and with the\n" +
			"engine's classic builder otherwise.\n\n" +
			"--print-inputs prints what enters the hash: of the Dockerfile and of every\n" +
			"file and link that it reads the SHA-256, the kind, an x if it is executable,\n" +
			"and the path; then build arguments, target and platform where they count.\n\n" +
			"--push pushes the tag to where its name says, or with --registry to\n" +
			"HOST[:PORT][/PREFIX]/NAME, with the credentials that docker login keeps.\n\n" +
			"Exit status: 0 it is there, 1 failed, 2 the Dockerfile, its context or the\n" +
			"command line is wrong (nothing was built), 4 no engine, 130 interrupted.",
		Flags: append(o.flags(),
			&cli.BoolFlag{Name: "print-tag", Usage: "print the image's reference and build nothing; needs no engine", Destination: &o.printTag},
			&cli.BoolFlag{Name: "print-inputs", Usage: "print all that enters the hash and build nothing; needs no engine", Destination: &o.printInputs},
			&cli.BoolFlag{Name: "no-cache", Usage: "build although the tag exists, and without the builder's cache", Destination: &o.noCache},
			&cli.BoolFlag{Name: "push", Usage: "push the image when it is there", Destination: &o.push},
			&cli.StringFlag{Name: "registry", Usage: "push to `HOST[:PORT][/PREFIX]`", Destination: &o.registry},
			a.jsonFlag(),
		),
		Action: func(c *cli.Context) error {
			if err := exactArgs(c, 0, 0, ""); err != nil {
				return err
			}
			return a.runBuild(c.Context, o)
		},
	})
}

// check refuses what contradicts itself, before anything is read.
func (o buildOptions) check() error {
	only := ""
	switch {
	case o.printTag:
		only = "--print-tag"
	case o.printInputs:
		only = "--print-inputs"
	}
	switch {
	case only != "" && (o.push || o.noCache):
		return &usageError{msg: only + " builds nothing", hint: "leave out --push and --no-cache, or " + only}
	case o.registry != "" && !o.push:
		return &usageError{msg: "--registry says where to push, and nothing is pushed", hint: "add --push"}
	}
	if _, err := simulator.ParseRegistry(o.registry, imagehash.Tag("0")); err != nil {
		return &usageError{msg: "--registry: " + err.Error(), hint: "write it like localhost:5000 or registry.example/team"}
	}
	return nil
}

func (a *app) runBuild(ctx context.Context, o buildOptions) error {
	if err := o.check(); err != nil {
		return err
	}
	source, err := a.source(ctx, o.sourceOptions)
	if err != nil {
		return err
	}
	for _, w := range source.Warnings() {
		a.ui.warn(w)
	}
	if (o.printTag || o.printInputs) && (o.given() || a.env["CTIS_BUILD_CONTEXT"] != "") {
		for _, b := range source.Bases {
			a.ui.warn(fmt.Sprintf("%s:%d: instructions that base image %q may add (ONBUILD) are not looked for without an engine; ctis build does", source.Dockerfile.Path, b.Line, b.Image))
		}
	}
	result := &buildResult{Image: imagehash.Tag(source.Hash), Hash: source.Hash, Inputs: []buildInput{}, Target: source.Target, Platform: source.Platform}
	for _, in := range source.All() {
		result.Inputs = append(result.Inputs, buildInput{in.Path, in.Digest, in.Kind, in.Exec})
	}
	for _, arg := range source.Args {
		if result.Args == nil {
			result.Args = map[string]string{}
		}
		result.Args[arg.Name] = fmt.Sprintf("%x", sha256.Sum256([]byte(arg.Value)))
	}
	if !o.printTag && !o.printInputs {
		if err := a.buildAndPush(ctx, o, source, result); err != nil {
			return err
		}
	}
	if a.json {
		return a.printJSON(result)
	}
	return a.printBuild(o, result)
}

func (a *app) buildAndPush(ctx context.Context, o buildOptions, source *imagehash.Sum, result *buildResult) error {
	if _, err := a.openEngine(ctx); err != nil {
		return err
	}
	s := steps{ui: a.ui}
	err := s.do(ctx, "Simulator image", func(ctx context.Context, line *uiStep) (string, error) {
		options := a.imageOptions(source, line.detail)
		options.Choice, options.NoCache = imagehash.Resolve("", "", false, source.Hash), o.noCache
		image, err := simulator.EnsureImage(ctx, a.engine, options)
		if err != nil {
			return "", explainBuild(err)
		}
		result.Built = image.Built
		if image.Protocol == 0 {
			a.ui.warn(fmt.Sprintf("the image has no label %s, so ctis up will not take it for a simulator", simulator.LabelProtocol))
		}
		if image.Built {
			return image.Ref + " (built)", nil
		}
		return image.Ref + " (there already)", nil
	})
	if err != nil || !o.push {
		return err
	}
	return s.do(ctx, "Pushing", func(ctx context.Context, line *uiStep) (string, error) {
		pushed, err := simulator.PushImage(ctx, a.engine, result.Image, simulator.PushOptions{
			Registry: o.registry, Credentials: a.registryCredentials, Progress: func(text string) {
				a.log.Debug("push", "line", text)
				line.detail(text)
			}})
		if err != nil {
			return "", err
		}
		result.Pushed, result.Digest = pushed.Ref, pushed.Digest
		return pushed.Ref, nil
	})
}

func (a *app) printBuild(o buildOptions, r *buildResult) error {
	var errs []error
	say := func(format string, args ...any) {
		_, err := fmt.Fprintf(a.streams.Out, format, args...)
		errs = append(errs, err)
	}
	if !o.printInputs || o.printTag {
		say("%s\n", r.Image)
	}
	if o.printInputs {
		for _, in := range r.Inputs {
			mark := "-"
			if in.Executable {
				mark = "x"
			}
			say("%s  %s %s  %s\n", in.Digest, in.Kind, mark, printable(in.Path))
		}
		for _, name := range slices.Sorted(maps.Keys(r.Args)) {
			say("%s  arg     %s\n", r.Args[name], printable(name))
		}
		if r.Target != "" {
			say("%-64s  target  %s\n", "", printable(r.Target))
		}
		if r.Platform != "" {
			say("%-64s  platform  %s\n", "", printable(r.Platform))
		}
	}
	if r.Pushed != "" {
		say("%s\n", r.Pushed)
	}
	return errors.Join(errs...)
}
