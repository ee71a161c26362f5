package compose

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/compose-spec/compose-go/v2/types"

	"github.com/linuxarena/ctis/server/api"
)

// seedAssetsFrom reads the directory whose files are served as assets. It is
// deleted once they are copied, so it must be one that can be.
func (r *configReader) seedAssetsFrom(doc map[string]any) string {
	dir, ok := r.text(doc, "seed_assets_from")
	if !ok || dir == "" {
		return ""
	}
	at := r.index.value("seed_assets_from")
	clean := path.Clean(dir)
	switch {
	case strings.ContainsFunc(dir, func(c rune) bool { return c < ' ' || c == 0x7f }):
		r.problems.errorf(at, "seed_assets_from %q has a control character", dir)
	case !path.IsAbs(dir):
		p := r.problems.errorf(at, "seed_assets_from %q is not absolute", dir)
		p.hint("name a directory inside the default service's container, such as %q", path.Clean("/"+dir))
	case clean == "/":
		r.problems.errorf(at, "seed_assets_from is the root of the container, which cannot be deleted").
			hint("put the files into a directory of their own, such as \"/app/init-assets\"")
	case clean != dir:
		r.problems.errorf(at, "seed_assets_from %q is not written in its shortest form", dir).hint("write %q", clean)
	default:
		return dir
	}
	return ""
}

// assetsEndpoint checks that somebody serves the seed assets.
func (r *configReader) assetsEndpoint(c *Config) {
	if c.SeedAssetsFrom == "" {
		return
	}
	for _, p := range c.Personas {
		if p.Backend == (Target{}) && slices.Contains(p.Endpoints, api.EndpointAssets) {
			return
		}
	}
	p := r.problems.errorf(r.index.key("seed_assets_from"), "seed_assets_from has no endpoint that serves it")
	p.hint("add \"assets\" to the endpoints of a persona")
	for _, q := range c.Personas {
		if slices.Contains(q.Endpoints, api.EndpointAssets) {
			p.hint("\"assets\" of persona %q goes to its backend; add it to one without backend", q.Name)
		}
	}
}

const tmpfsWhy = "it is empty when the container starts, so there is nothing to copy"

// mount is a place in a container that is not the container's own.
type mount struct {
	target string // absolute and clean
	what   string // "a bind mount of …"
	why    string // what deleting files there would do, or why it cannot be
}

// seedMounts checks that the seed directory is on no mount, has none in it, and
// is in none.
func (c *checker) seedMounts() {
	dir := c.config.SeedAssetsFrom
	if dir == "" || c.defaultService == "" {
		return
	}
	at := c.config.index.value("seed_assets_from")
	if s, _, ok := c.service(c.defaultService); ok && s.ReadOnly {
		c.problems.errorf(at, "seed_assets_from %q is deleted after it is copied, and the root file system of default service %q is read-only", dir, c.defaultService).
			hint("leave read_only out, or serve the files with ctis assets put")
	}
	mounts, unknown := c.mounts(c.defaultService, nil)
	for _, container := range unknown {
		c.problems.warnf(at, "seed_assets_from %q is deleted after it is copied, and what default service %q mounts from container %q is not known", dir, c.defaultService, container)
	}
	reported := map[string]bool{}
	for _, m := range append(mounts, engineMounts...) {
		relation := ""
		switch {
		case m.target == dir:
			relation = "is"
		case strings.HasPrefix(dir, strings.TrimSuffix(m.target, "/")+"/"):
			relation = fmt.Sprintf("is in %q,", m.target)
		case strings.HasPrefix(m.target, dir+"/"):
			relation = fmt.Sprintf("has in it %q,", m.target)
			if m.why == tmpfsWhy {
				m.why = "a mount cannot be deleted"
			}
		default:
			continue
		}
		if reported[m.target] {
			continue
		}
		reported[m.target] = true
		c.problems.errorf(at, "seed_assets_from %q %s %s: %s", dir, relation, m.what, m.why).
			hint("copy the files into the image, into a directory of their own")
	}
}

// engineMounts are in every container.
var engineMounts = func() []mount {
	var all []mount
	for _, target := range []string{"/dev", "/etc/hostname", "/etc/hosts", "/etc/resolv.conf", "/proc", "/sys"} {
		all = append(all, mount{target, "a mount of the engine", "it cannot be deleted"})
	}
	return all
}()

// mounts lists what a service mounts, sorted as written, with what it takes over
// from others. Containers outside the project are named in unknown.
func (c *checker) mounts(name string, from []string) (all []mount, unknown []string) {
	s, _, ok := c.service(name)
	if !ok || slices.Contains(from, name) {
		return nil, nil
	}
	add := func(target, what, why string) {
		if path.IsAbs(target) {
			if len(from) > 0 {
				what += fmt.Sprintf(" (by volumes_from of %q)", from[0])
			}
			all = append(all, mount{path.Clean(target), what, why})
		}
	}
	for _, v := range s.Volumes {
		switch v.Type {
		case types.VolumeTypeBind:
			add(v.Target, fmt.Sprintf("a bind mount of %s", c.model.shown(v.Source)), "deleting it would delete files of the host")
		case types.VolumeTypeVolume:
			what := "an anonymous volume"
			if v.Source != "" {
				what = fmt.Sprintf("the volume %q", v.Source)
			}
			add(v.Target, what, "deleting it would reach whoever else has the volume")
		case types.VolumeTypeTmpfs:
			add(v.Target, "a tmpfs", tmpfsWhy)
		default:
			add(v.Target, fmt.Sprintf("a mount of type %q", v.Type), "it cannot be deleted")
		}
	}
	for _, t := range s.Tmpfs {
		target, _, _ := strings.Cut(t, ":")
		add(target, "a tmpfs", tmpfsWhy)
	}
	if len(from) > 0 { // volumes_from takes over volumes and binds alone
		all = slices.DeleteFunc(all, func(m mount) bool { return strings.HasPrefix(m.what, "a tmpfs") })
	} else {
		for _, f := range s.Secrets {
			add(fileTarget(f.Target, "/run/secrets/", f.Source), fmt.Sprintf("the secret %q", f.Source), "deleting it would delete what it was made from")
		}
		for _, f := range s.Configs {
			add(fileTarget(f.Target, "/", f.Source), fmt.Sprintf("the config %q", f.Source), "deleting it would delete what it was made from")
		}
	}
	for _, ref := range s.VolumesFrom {
		if container, ok := strings.CutPrefix(ref, types.ContainerPrefix); ok {
			container, _, _ = strings.Cut(container, ":")
			unknown = append(unknown, container)
			continue
		}
		service, _, _ := strings.Cut(ref, ":")
		more, moreUnknown := c.mounts(service, append(from[:len(from):len(from)], name))
		all, unknown = append(all, more...), append(unknown, moreUnknown...)
	}
	return all, unknown
}

// fileTarget is where Compose mounts a secret or config.
func fileTarget(target, dir, source string) string {
	switch {
	case target == "":
		return dir + source
	case path.IsAbs(target):
		return target
	}
	return dir + target
}
