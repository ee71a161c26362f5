package commands

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/linuxarena/ctis/imagehash"
	"github.com/linuxarena/ctis/netpin"
	"github.com/linuxarena/ctis/server/api"
	"github.com/linuxarena/ctis/simulator"
)

// trajectoryBits is the size of the smallest network a trajectory gets.
const trajectoryBits = 27

// leastDisk is how much room there should be for the simulator's volume, in bytes:
// what the journal of one trajectory may take before its bodies are cut.
const leastDisk = 2 << 30

// machine checks what `ctis up` needs, in the order in which it needs it.
func (a *app) machine(ctx context.Context) []check {
	var checks []check
	add := func(c ...check) { checks = append(checks, c...) }
	_, err := a.openEngine(ctx)
	if err != nil {
		return append(checks, a.refused(ctx, "engine", err))
	}
	add(passed("engine", fmt.Sprintf("%s, API %s", a.where, a.engine.ClientVersion())))
	add(a.checkCompose(ctx))
	add(a.checkNetworks(ctx)...)
	image, c := a.checkImage(ctx)
	add(c)
	add(a.checkSimulator(ctx, image)...)
	add(a.checkNginx(ctx))
	add(a.checkAddresses(ctx))
	add(a.checkDisk(ctx))
	return checks
}

// checkNginx says where sidecars get their image from. Only environments that expose
// services need one, so that it is no fault to have none, unless one was named.
func (a *app) checkNginx(ctx context.Context) check {
	const name = "sidecar image"
	detail, err := a.nginxReady(ctx)
	if err == nil {
		return passed(name, detail)
	}
	c := a.refused(ctx, name, err)
	if a.env["CTIS_NGINX_IMAGE"] == "" {
		c.OK, c.Detail = true, c.Detail+" (environments without exposed services do without)"
	}
	return c
}

func (a *app) checkCompose(ctx context.Context) check {
	r, err := a.composeRunner(ctx)
	if err != nil {
		return a.refused(ctx, "compose", err)
	}
	version, err := r.Version(ctx)
	if err != nil {
		return a.refused(ctx, "compose", err)
	}
	return passed("compose", "Docker Compose "+version)
}

// checkNetworks says whether the engine can make the networks trajectories are on.
func (a *app) checkNetworks(ctx context.Context) []check {
	info, err := a.engine.Info(ctx)
	if err != nil {
		return []check{a.refused(ctx, "networks", fmt.Errorf("ask the engine about itself: %w", err))}
	}
	if info.OSType != "" && info.OSType != "linux" {
		return []check{failed("networks", fmt.Sprintf("the engine runs %s containers", info.OSType), "use an engine that runs Linux containers")}
	}
	if !slices.Contains(info.Plugins.Network, "bridge") {
		return []check{failed("networks", "the engine has no bridge driver, so that it can make no network for a trajectory",
			"let it manage the firewall (\"iptables\" in its daemon.json is not false) and restart it")}
	}
	var troubles []string
	for _, w := range info.Warnings {
		if l := strings.ToLower(w); strings.Contains(l, "iptables") || strings.Contains(l, "forwarding") || strings.Contains(l, "nftables") {
			troubles = append(troubles, strings.TrimPrefix(w, "WARNING: "))
		}
	}
	detail := "bridge driver"
	if info.FirewallBackend != nil && info.FirewallBackend.Driver != "" {
		detail += ", firewall by " + info.FirewallBackend.Driver
	}
	if a.where.local() {
		if _, err := os.Stat("/proc/net/if_inet6"); err != nil {
			detail += ", no IPv6 in the kernel: networks with enable_ipv6 cannot be made"
		}
	}
	if len(troubles) > 0 {
		detail += "; the engine warns: " + strings.Join(troubles, "; ") // of what need not matter here
	}
	return []check{passed("networks", detail)}
}

// checkImage says whether the simulator's image is there or could be made. The
// image is nil where even its name is not known.
func (a *app) checkImage(ctx context.Context) (*simulator.Want, check) {
	env, skip := a.env["INTERNET_SIMULATOR_IMAGE"], a.env["SKIP_DOCKER_BUILD"] == "1"
	var source *imagehash.Sum
	hash := ""
	if !imagehash.Overridden("", env, skip) {
		var err error
		if source, err = a.source(ctx, sourceOptions{}); err != nil {
			return nil, a.refused(ctx, "image", err)
		}
		hash = source.Hash
	}
	o := a.imageOptions(source, func(string) {})
	o.Choice = imagehash.Resolve("", env, skip, hash)
	found, err := simulator.FindImage(ctx, a.engine, o.Choice.Ref)
	if err != nil {
		return nil, a.refused(ctx, "image", err)
	}
	want := &simulator.Want{Image: o.Choice.Ref, Hash: hash, Protocol: api.Protocol}
	if found != nil {
		want.ImageID = found.ID
		if found.Protocol == 0 {
			return nil, failed("image", fmt.Sprintf("%s is no simulator: it has no label %s", o.Choice.Ref, simulator.LabelProtocol), "name an image that was built by ctis")
		}
		return want, passed("image", o.Choice.Ref)
	}
	way, err := simulator.Way(ctx, o)
	switch {
	case errors.Is(err, simulator.ErrNoBuilder):
		// It may well succeed; whether the engine reaches a registry shows only then.
		return want, passed("image", fmt.Sprintf("%s is not here; %s (%v), which the engine must have or be able to pull", o.Choice.Ref, way, err))
	case err != nil:
		return want, a.refused(ctx, "image", err)
	}
	return want, passed("image", fmt.Sprintf("%s is not here; %s", o.Choice.Ref, way))
}

// checkSimulator says what `ctis up` would do about the shared simulator.
func (a *app) checkSimulator(ctx context.Context, want *simulator.Want) []check {
	seen, err := simulator.Observe(ctx, a.engine, a.instance)
	if err != nil {
		return []check{a.refused(ctx, "simulator", err)}
	}
	name := simulator.ContainerName(a.instance)
	if seen.ID == "" {
		return []check{passed("simulator", name+" is not there yet; ctis up makes it")}
	}
	var checks []check
	if want != nil {
		d := simulator.Decide(*want, seen)
		switch detail := fmt.Sprintf("%s is %s; ctis up would %s", name, seen.State, d); d.Action {
		case simulator.Refuse:
			fix := "take those trajectories down (ctis down ID), or use the ctis and the image they were set up with"
			if seen.Foreign {
				fix = "choose another --instance, or remove that container"
			}
			checks = append(checks, failed("simulator", detail, fix))
		case simulator.Wait:
			checks = append(checks, failed("simulator", detail, "docker restart "+name+" brings it back with everything it knows, if waiting does not help"))
		default:
			checks = append(checks, passed("simulator", detail))
		}
	}
	if seen.Foreign {
		return checks
	}
	if seen.Protocol != api.Protocol {
		checks = append(checks, failed("protocol", fmt.Sprintf("%s speaks version %d of the administrative interface and this ctis version %d", name, seen.Protocol, api.Protocol),
			"use the ctis it was set up with, or take its trajectories down: then ctis up replaces it"))
	} else {
		checks = append(checks, passed("protocol", fmt.Sprintf("version %d on both sides", seen.Protocol)))
	}
	checks = append(checks, a.checkOpenFiles(ctx))
	if !seen.Answering {
		return checks
	}
	return append(checks, a.checkState(ctx))
}

// leastOpenFiles is what the simulator should be able to have open: each connection
// takes one file, and one to a backend another.
const leastOpenFiles = 4096

func (a *app) checkOpenFiles(ctx context.Context) check {
	var host fs.FS
	if a.where.local() {
		host = os.DirFS("/")
	}
	limit, err := simulator.OpenFiles(ctx, a.engine, a.instance, host)
	switch {
	case err != nil:
		return a.refused(ctx, "nofile", err)
	case limit == 0:
		return passed("nofile", "the simulator has the engine's own limit of open files, which cannot be seen from here")
	case limit < leastOpenFiles:
		return failed("nofile", fmt.Sprintf("the simulator may have %d files open, and each connection takes one", limit),
			fmt.Sprintf("raise the engine's own limit (LimitNOFILE of docker.service) to %d or more, then docker rm -f %s: ctis up makes it anew, its state stays",
				leastOpenFiles, simulator.ContainerName(a.instance)))
	}
	return passed("nofile", fmt.Sprintf("the simulator may have %d files open", limit))
}

// checkState passes on what the simulator itself has to complain about.
func (a *app) checkState(ctx context.Context) check {
	admin, err := simulator.Connect(ctx, a.engine, a.instance)
	if err != nil {
		return a.refused(ctx, "state", err)
	}
	defer admin.Close()
	st, err := admin.Status(ctx)
	if err != nil {
		return a.refused(ctx, "state", err)
	}
	if len(st.Problems) > 0 {
		return failed("state", strings.Join(st.Problems, "; "), "docs/troubleshooting.md says what each means; docker logs "+simulator.ContainerName(a.instance)+" has more")
	}
	return passed("state", plural(len(st.Trajectories), "trajectory")+" registered, nothing amiss")
}

// checkAddresses says whether the pool has room for another network.
func (a *app) checkAddresses(ctx context.Context) check {
	pool, err := a.addressPool()
	if err != nil {
		return a.refused(ctx, "addresses", err)
	}
	taken, err := a.taken(ctx)
	if err != nil {
		return a.refused(ctx, "addresses", err)
	}
	if _, err := netpin.Free(pool, trajectoryBits, taken, "a trajectory"); err != nil {
		return a.refused(ctx, "addresses", a.explainExhausted(ctx, err))
	}
	return passed("addresses", fmt.Sprintf("%s has room for another network; %s in use", pool, plural(netpin.InUse(pool, taken), "range")))
}

// checkDisk says whether there is room for what trajectories send.
func (a *app) checkDisk(ctx context.Context) check {
	info, err := a.engine.Info(ctx)
	if err != nil {
		return a.refused(ctx, "disk", fmt.Errorf("ask the engine about itself: %w", err))
	}
	if !a.where.local() {
		return passed("disk", "the engine is on another machine, whose disk cannot be seen from here")
	}
	free, err := freeSpace(info.DockerRootDir)
	if err != nil {
		return passed("disk", fmt.Sprintf("the engine's directory %s cannot be looked at from here: %v", info.DockerRootDir, err))
	}
	detail := fmt.Sprintf("%s free at %s", size(free), info.DockerRootDir)
	if free < leastDisk {
		return failed("disk", detail+": less than what one trajectory's journal may take; with none left nothing is acknowledged", "ctis gc removes superseded images; docker system df shows what else takes it")
	}
	return passed("disk", detail)
}
