package commands

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"

	"github.com/linuxarena/ctis/imagehash"
	"github.com/linuxarena/ctis/netpin"
	"github.com/linuxarena/ctis/server/api"
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
		if source, err = a.source(from); err != nil {
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
	return image, err
}

// imageOptions is how an image is built here. Every line of the builder is shown
// as it comes on a terminal, and logged in full with --log-level debug.
func (a *app) imageOptions(source *imagehash.Sum, detail func(string)) simulator.ImageOptions {
	return simulator.ImageOptions{
		Source: source, Go: simulator.FindGo(a.env["PATH"]), Environ: a.setting.Environ,
		BuildKit: func(ctx context.Context) *simulator.BuildKit {
			docker, err := a.lookPath("docker")
			if err != nil {
				return nil
			}
			return simulator.FindBuildKit(ctx, simulator.BuildKit{
				Docker: docker, Environ: a.where.environ(a.setting.Environ), Builder: cmp.Or(a.where.context, "default"),
			})
		},
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

// reattachAll puts a simulator that was just created or started back on the
// networks of the trajectories it remembers: whoever removed its container
// removed it from them too.
func (a *app) reattachAll(ctx context.Context, sim *simulator.Result) error {
	status, err := sim.Client.Status(ctx)
	if err != nil {
		return err
	}
	for _, t := range status.Trajectories {
		if err := a.reattach(ctx, sim, t); err != nil {
			return fmt.Errorf("trajectory %q: %w", t.Trajectory, err)
		}
	}
	return nil
}

// reattach makes sure that the simulator is on a trajectory's networks as it was
// when that was registered; where an address cannot be had again, the simulator
// learns its new one. Networks that are gone are passed over.
func (a *app) reattach(ctx context.Context, sim *simulator.Result, t api.TrajectoryStatus) error {
	changed := api.Addresses{}
	for _, n := range t.Networks {
		if len(n.Addresses) == 0 {
			continue
		}
		o := netpin.AttachOptions{Container: sim.ID, NetworkID: n.ID, Aliases: t.Personas}
		if n.Addresses[0].Is4() {
			o.Address = n.Addresses[0]
		}
		at, err := netpin.Attach(ctx, a.engine, o)
		if errors.Is(err, netpin.ErrNoNetwork) {
			continue
		}
		if err != nil {
			return err
		}
		if !slices.Equal(at.Addresses, n.Addresses) {
			changed[n.Name] = at.Addresses
		}
	}
	if len(changed) == 0 {
		return nil
	}
	return sim.Client.SetAddresses(ctx, t.Trajectory, changed)
}

// taken lists the address ranges that no new network may overlap.
func (a *app) taken(ctx context.Context) ([]netip.Prefix, error) {
	if a.where.local() {
		return netpin.Taken(ctx, a.engine, os.DirFS("/"))
	}
	return netpin.Taken(ctx, a.engine, nil)
}

// explainExhausted adds to "no address space left" what fills it.
func (a *app) explainExhausted(ctx context.Context, err error) error {
	var full *netpin.ExhaustedError
	if !errors.As(err, &full) {
		return err
	}
	total, ours, countErr := netpin.CountNetworks(ctx, a.engine)
	if countErr != nil {
		return err // the counts would only have been a help
	}
	return &hintedError{err: err, hint: fmt.Sprintf("the engine has %s, %d of them of ctis trajectories (ctis status lists those that are up; docker network ls the rest); "+
		"take some down, or give a larger CTIS_ADDRESS_POOL", plural(total, "network"), ours),
		details: map[string]any{"networks": total, "ctis_networks": ours}}
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
