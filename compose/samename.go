package compose

import (
	"cmp"

	"github.com/compose-spec/compose-go/v2/types"
)

// named is a network or volume of the environment under its name on the engine.
type named struct {
	key, name string
	external  bool
	at        place // of the name; where it has none of its own, of the key
	own       bool  // the file names it
}

// sameNames reports networks, and volumes, of which two have one name on the engine:
// Compose makes the one and then finds that it is not the other. Two that are
// external are one thing under two keys, which works.
func (c *checker) sameNames() {
	var networks, volumes []named
	for _, key := range sortedKeys(c.project.Networks) {
		if n := c.project.Networks[key]; c.networkUsed(key) {
			networks = append(networks, c.namedAt("networks", key, n.Name, bool(n.External)))
		}
	}
	for _, key := range sortedKeys(c.project.Volumes) {
		if v := c.project.Volumes[key]; c.volumeUsed(key) {
			volumes = append(volumes, c.namedAt("volumes", key, v.Name, bool(v.External)))
		}
	}
	c.sameName("network", networks)
	c.sameName("volume", volumes)
}

func (c *checker) namedAt(section, key, name string, external bool) named {
	n := named{key: key, name: name, external: external, own: c.sources.has(section, key, "name")}
	if n.own {
		n.at = c.sources.at(section, key, "name")
	} else {
		n.at = c.sources.at(section, key)
	}
	return n
}

func (c *checker) sameName(kind string, list []named) {
	for i, n := range list {
		for _, first := range list[:i] {
			if n.name != first.name || n.name == "" || n.external && first.external {
				continue
			}
			second := n
			if later(first, n) {
				first, second = n, first
			}
			c.problems.errorf(second.at, "%s %q has the same name on the engine as %s %q", kind, second.key, kind, first.key).
				hint("that one is at %s:%d; give each a name of its own, or leave name out", first.at.File, first.at.Line)
			break // one problem for each
		}
	}
}

// later says whether a is the one to correct: the one the file names, or else the
// one that comes later.
func later(a, b named) bool {
	if a.own != b.own {
		return a.own
	}
	return cmp.Or(cmp.Compare(a.at.File, b.at.File), cmp.Compare(a.at.Line, b.at.Line)) > 0
}

// volumeUsed says whether an active service mounts the volume.
func (c *checker) volumeUsed(key string) bool {
	for _, s := range c.project.Services {
		for _, m := range s.Volumes {
			if m.Type == types.VolumeTypeVolume && m.Source == key {
				return true
			}
		}
	}
	return false
}
