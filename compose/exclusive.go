package compose

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/compose-spec/compose-go/v2/types"

	"github.com/linuxarena/ctis/server/api"
)

// Exclusive is something of the environment on the engine, or on its host, that
// only one trajectory at a time can have, with its place in the Compose files.
type Exclusive struct {
	api.Exclusive
	Key      string // Compose key of the network, volume or service that has it
	External bool   // somebody else made it, and it must be there
	// Fixed says that every trajectory of the environment has the same. What is
	// not fixed has the trajectory's id in its name, and meets another only by
	// an accident of names: "a" with a network "b_c" and "a_b" with one "c".
	Fixed        bool
	File         string
	Line, Column int
}

// Place is where the Compose files say so, as editors recognise it.
func (x Exclusive) Place() string { return fmt.Sprintf("%s:%d:%d", x.File, x.Line, x.Column) }

// String says what it is, as the beginning of a sentence.
func (x Exclusive) String() string {
	switch x.Kind {
	case api.KindSubnet:
		return fmt.Sprintf("network %q has the fixed subnet %s", x.Key, x.Name)
	case api.KindBridge:
		return fmt.Sprintf("network %q is always the host's bridge %q", x.Key, x.Name)
	case api.KindParent:
		return fmt.Sprintf("network %q is on the host's interface %q", x.Key, x.Name)
	case api.KindContainer:
		return fmt.Sprintf("service %q uses the container %q of somebody else", x.Key, x.Name)
	case api.KindHost:
		if x.Name == HostIPC {
			return fmt.Sprintf("service %q shares memory with the host", x.Key)
		}
		return fmt.Sprintf("service %q is in the host's network", x.Key)
	}
	switch {
	case x.External:
		return fmt.Sprintf("%s %q is external, named %q", x.Kind, x.Key, x.Name)
	case x.Fixed:
		return fmt.Sprintf("%s %q is always named %q", x.Kind, x.Key, x.Name)
	}
	return fmt.Sprintf("%s %q is named %q", x.Kind, x.Key, x.Name)
}

// The host's namespaces that services can share, by their names in [Exclusive].
const (
	HostNetwork = "network"
	HostIPC     = "ipc"
)

// The options of a network that name interfaces of the host.
const (
	OptionBridge = "com.docker.network.bridge.name"
	OptionParent = "parent" // of macvlan and ipvlan
)

// Exclusives lists it as the simulator is told of it. Pure.
func (e *Environment) Exclusives() []api.Exclusive {
	var list []api.Exclusive
	for _, x := range e.Exclusive {
		if !slices.Contains(list, x.Exclusive) {
			list = append(list, x.Exclusive)
		}
	}
	return list
}

const oneAtATime = "so only one trajectory at a time can have it"

// exclusives finds all of it, and warns of what is fixed.
func (c *checker) exclusives() {
	for _, key := range sortedKeys(c.project.Networks) {
		c.networkExclusives(key, c.project.Networks[key])
	}
	for _, key := range sortedKeys(c.project.Volumes) {
		c.volumeExclusives(key, c.project.Volumes[key])
	}
	for _, name := range c.project.ServiceNames() {
		if s := c.project.Services[name]; s.Provider == nil {
			c.serviceExclusives(name, s)
		}
	}
}

// claim notes one thing, and warns of it where message says something.
func (c *checker) claim(x Exclusive, at place, message string) *Problem {
	x.File, x.Line, x.Column = at.File, at.Line, at.Column
	c.exclusive = append(c.exclusive, x)
	if message == "" {
		return new(Problem)
	}
	return c.problems.warnf(at, "%s, %s", message, oneAtATime)
}

func (c *checker) networkExclusives(key string, n types.NetworkConfig) {
	if !c.networkUsed(key) {
		return
	}
	at := func(path ...string) place { return c.sources.at(append([]string{"networks", key}, path...)...) }
	named := Exclusive{Exclusive: api.Exclusive{Kind: api.KindNetwork, Name: n.Name}, Key: key, Fixed: true}
	if n.External {
		named.External = true
		c.claim(named, at("external"), fmt.Sprintf("network %q is external", key))
		return
	}
	c.named(named, at("name"), c.other != nil && c.other.Networks[key].Name == n.Name)
	for i, pool := range n.Ipam.Config {
		if pool == nil {
			continue
		}
		if subnet, err := netip.ParsePrefix(pool.Subnet); err == nil {
			c.claim(Exclusive{Exclusive: api.Exclusive{Kind: api.KindSubnet, Name: subnet.Masked().String()}, Key: key, Fixed: true},
				at("ipam", "config", strconv.Itoa(i), "subnet"), fmt.Sprintf("network %q has the fixed subnet %s", key, subnet))
		}
	}
	for _, o := range [][2]string{{OptionBridge, api.KindBridge}, {OptionParent, api.KindParent}} {
		if name := n.DriverOpts[o[0]]; name != "" {
			x := Exclusive{Exclusive: api.Exclusive{Kind: o[1], Name: name}, Key: key, Fixed: true}
			c.claim(x, at("driver_opts", o[0]), x.String())
		}
	}
}

// named notes a network or volume that Compose makes. Its name is fixed if it is
// the same under another project name.
func (c *checker) named(x Exclusive, at place, fixed bool) {
	if x.Fixed = fixed; !fixed {
		c.claim(x, at, "")
		return
	}
	c.claim(x, at, x.String()).hint("put ${COMPOSE_PROJECT_NAME} into the name, or leave it out")
}

func (c *checker) networkUsed(key string) bool {
	for _, s := range c.project.Services {
		if _, on := s.Networks[key]; on {
			return true
		}
	}
	return false
}

func (c *checker) volumeExclusives(key string, v types.VolumeConfig) {
	x := Exclusive{Exclusive: api.Exclusive{Kind: api.KindVolume, Name: v.Name}, Key: key, Fixed: true}
	device := v.DriverOpts["device"]
	switch {
	case !c.volumeUsed(key):
		return
	case bool(v.External):
		x.External = true
		c.claim(x, c.sources.at("volumes", key, "external"), fmt.Sprintf("volume %q is external", key))
	default:
		c.named(x, c.sources.at("volumes", key, "name"), c.other != nil && c.other.Volumes[key].Name == v.Name)
	}
	if device != "" && v.DriverOpts["type"] != "tmpfs" {
		c.problems.warnf(c.sources.at("volumes", key, "driver_opts", "device"), "volume %q is %s itself, which all trajectories of the environment share", key, device).
			hint("leave driver_opts out, so that each trajectory has a volume of its own")
	}
}

// serviceExclusives are containers of somebody else that a service joins, and
// namespaces of the host in which it would meet the same service of another
// trajectory.
func (c *checker) serviceExclusives(name string, s types.ServiceConfig) {
	at := func(path ...string) place { return c.sources.at(append([]string{"services", name}, path...)...) }
	container := func(ref string, at place) {
		x := Exclusive{Exclusive: api.Exclusive{Kind: api.KindContainer, Name: ref}, Key: name, Fixed: true, External: true}
		own := slices.ContainsFunc(c.project.ServiceNames(), func(n string) bool { return c.project.Services[n].ContainerName == ref })
		if ref != "" && !own { // its own: [checker.sharedContainers] says what to write instead
			c.claim(x, at, x.String())
		}
	}
	for _, j := range [][2]string{{"network_mode", s.NetworkMode}, {"ipc", s.Ipc}, {"pid", s.Pid}} {
		if ref, ok := strings.CutPrefix(j[1], types.ContainerPrefix); ok {
			container(ref, at(j[0]))
		}
	}
	for _, from := range s.VolumesFrom {
		if ref, ok := strings.CutPrefix(from, types.ContainerPrefix); ok {
			ref, _, _ = strings.Cut(ref, ":")
			container(ref, c.written().same(name, "volumes_from", from))
		}
	}
	for _, link := range s.ExternalLinks {
		ref, _, _ := strings.Cut(link, ":")
		container(ref, c.written().same(name, "external_links", link))
	}
	host := func(namespace string, path ...string) {
		x := Exclusive{Exclusive: api.Exclusive{Kind: api.KindHost, Name: namespace}, Key: name, Fixed: true}
		c.claim(x, at(path...), x.String())
	}
	if s.NetworkMode == "host" {
		host(HostNetwork, "network_mode")
	}
	if s.Ipc == "host" {
		host(HostIPC, "ipc")
	}
}
