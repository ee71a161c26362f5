package commands

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/linuxarena/ctis/imagehash"
	"github.com/linuxarena/ctis/netpin"
	"github.com/linuxarena/ctis/simulator"
)

// linkBits is the size of the simulator's own network, which only the two
// shared containers ever join.
const linkBits = 28

// ensureImage makes sure of the simulator's image: the one the user names, or the
// one whose tag is the hash of the build context.
func (a *app) ensureImage(ctx context.Context, ref string, from sourceOptions, detail func(string)) (*simulator.ImageResult, error) {
	env, skip := a.env["INTERNET_SIMULATOR_IMAGE"], a.env["SKIP_DOCKER_BUILD"] == "1"
	var source *imagehash.Sum
	if !imagehash.Overridden(ref, env, skip) {
		var err error
		if source, err = a.source(ctx, from); err != nil {
			return nil, err
		}
		for _, w := range source.Warnings() {
			a.ui.warn(w)
		}
	} else if from.given() {
		return nil, &usageError{msg: "an image is named, so nothing is built from a context", hint: "leave out --image, INTERNET_SIMULATOR_IMAGE and SKIP_DOCKER_BUILD, or --context and --file"}
	}
	hash := ""
	if source != nil {
		hash = source.Hash
	}
	o := a.imageOptions(source, detail)
	o.Choice = imagehash.Resolve(ref, env, skip, hash)
	image, err := simulator.EnsureImage(ctx, a.engine, o)
	if err == nil && image.Protocol == 0 {
		// Found out before anything that runs is replaced by it.
		hint := "name an image that was built by ctis, or leave " + string(o.Choice.Origin) + " out"
		if source != nil {
			hint = "build it from a context whose Dockerfile makes a simulator, as templates/image/Dockerfile does"
		}
		return nil, &usageError{msg: fmt.Sprintf("image %q is no simulator: it has no label %s", image.Ref, simulator.LabelProtocol), hint: hint}
	}
	return image, explainBuild(err)
}

// imageOptions is how an image is built here. Every line of the builder is shown
// as it comes on a terminal, and logged in full with --log-level debug.
func (a *app) imageOptions(source *imagehash.Sum, detail func(string)) simulator.ImageOptions {
	return simulator.ImageOptions{
		Source: source, Go: simulator.FindGo(a.env["PATH"]), Environ: a.setting.Environ, Turns: a.cacheDir("turns"),
		BuildKit: func(ctx context.Context) *simulator.BuildKit {
			docker, err := a.lookPath("docker")
			if err != nil {
				return nil
			}
			return simulator.FindBuildKit(ctx, simulator.BuildKit{
				Docker: docker, Environ: a.where.environ(a.setting.Environ), Builder: cmp.Or(a.where.context, "default"),
			})
		},
		Credentials: a.registryCredentials,
		Progress: func(line string) {
			a.log.Debug("build", "line", line)
			detail(line)
		},
	}
}

// ensureSimulator makes sure that a simulator of that image runs.
func (a *app) ensureSimulator(ctx context.Context, image *simulator.ImageResult, pool netip.Prefix, detail func(string)) (*simulator.Result, error) {
	var lost []netip.Prefix // given out before, and not taken by the engine
	sim, err := simulator.Ensure(ctx, a.engine, simulator.EnsureOptions{
		Instance: a.instance,
		Image:    *image,
		Progress: func(d simulator.Decision) {
			a.log.Info("simulator", "decision", d.String())
			detail(d.String())
		},
		LinkSubnet: func(ctx context.Context) (netip.Prefix, error) {
			taken, err := a.taken(ctx)
			if err != nil {
				return netip.Prefix{}, err
			}
			link, err := netpin.Free(pool, linkBits, append(taken, lost...), simulator.LinkName(a.instance))
			lost = append(lost, link)
			return link, err
		},
	})
	if err != nil {
		return nil, a.explainExhausted(ctx, err)
	}
	if !sim.Reused {
		if err := a.reattachAll(ctx, sim); err != nil {
			sim.Client.Close()
			return nil, err
		}
	}
	return sim, nil
}

// taken lists the address ranges that no new network may overlap.
func (a *app) taken(ctx context.Context) ([]netip.Prefix, error) {
	if a.where.local() {
		return netpin.Taken(ctx, a.engine, os.DirFS("/"))
	}
	return netpin.Taken(ctx, a.engine, nil)
}

// environmentName is the name of the directory an environment is in.
func (a *app) environmentName(dir string) (string, error) {
	if dir == "" || !filepath.IsAbs(dir) {
		wd, err := workingDir()
		if err != nil {
			return "", err
		}
		dir = filepath.Join(wd, dir)
	}
	return filepath.Base(dir), nil
}
