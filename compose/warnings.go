package compose

import (
	"fmt"
	"net/netip"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/compose-spec/compose-go/v2/types"
	"go.yaml.in/yaml/v4"
)

// warnings are about what works, but not as its author may expect: what only
// one trajectory at a time can have, what ctis changes, and what lets the agent
// past the simulator.
func (c *checker) warnings() {
	c.exclusives()
	c.strangeProfiles()
	for _, name := range c.project.ServiceNames() {
		c.serviceWarnings(name, c.project.Services[name])
	}
	if c.defaultService != "" {
		c.agentWarnings(c.defaultService, c.project.Services[c.defaultService])
	}
}

// strangeProfiles warns of profiles that are asked for and that no service has: Compose
// takes a misspelt one for one that has no services.
func (c *checker) strangeProfiles() {
	var known []string
	for _, services := range []types.Services{c.project.Services, c.project.DisabledServices} {
		for _, s := range services {
			known = append(known, s.Profiles...)
		}
	}
	slices.Sort(known)
	known = slices.Compact(known)
	for _, p := range c.model.profiles {
		if p != "*" && !slices.Contains(known, p) {
			c.problems.warnf(c.sources.at(), "no service has the profile %q, which is asked for", p).didYouMean(p, known)
		}
	}
}

// containerName is what engines take as a name, in their own words of the refusal.
var containerName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.-]+$`)

func (c *checker) serviceWarnings(name string, s types.ServiceConfig) {
	at := func(path ...string) place { return c.sources.at(append([]string{"services", name}, path...)...) }
	if s.ContainerName != "" && !containerName.MatchString(s.ContainerName) {
		c.problems.errorf(at("container_name"), "service %q has the container_name %q, which is none", name, s.ContainerName).
			hint("a letter or digit and then letters, digits, dots, underscores and hyphens make one")
	} else if s.ContainerName != "" {
		becomes := "becomes a network alias"
		if s.NetworkMode != "" {
			becomes = "is dropped: it is on no network that could know it by an alias"
		}
		c.problems.warnf(at("container_name"), "service %q sets container_name %q, which %s", name, s.ContainerName, becomes).
			hint("two trajectories cannot share a container name")
	}
	c.portWarnings(name, s)
	if s.NetworkMode == "host" {
		c.problems.warnf(at("network_mode"), "service %q is in the network of the engine's host, from where the simulator serves nobody and every trajectory can be reached", name).
			hint("put it on networks of the environment if it is to reach a persona")
	}
	c.hostWarnings(name, s)
	if _, on := s.Networks[c.config.Network]; on && len(s.DNS) > 0 {
		c.problems.warnf(at("dns"), "service %q has dns of its own; ctis adds the personas to its extra_hosts", name)
	}
}

// portWarnings are about ports of the host: two trajectories cannot share one, and
// one that is published on all of the host's addresses is in reach of containers of
// every trajectory, through the gateways of their networks.
func (c *checker) portWarnings(name string, s types.ServiceConfig) {
	if s.NetworkMode == "host" {
		return
	}
	for _, p := range s.Ports {
		at := c.written().port(name, p)
		where := ""
		if p.HostIP == "" {
			where = " of the loopback address"
		}
		switch {
		case fixedPort(p):
			c.problems.warnf(at, "service %q publishes %d on the fixed host port %s, which becomes an ephemeral one%s", name, p.Target, p.Published, where).
				hint("two trajectories cannot share a host port")
		case p.HostIP == "":
			c.problems.warnf(at, "service %q publishes %d on every address of the host, which becomes the loopback address", name, p.Target).
				hint("on the others, containers of other trajectories would reach it; with a host_ip, it is published there")
		}
		if ip, err := netip.ParseAddr(p.HostIP); p.HostIP != "" && (err != nil || !ip.IsLoopback()) {
			c.problems.warnf(at, "service %q publishes %d on %s of the host, where containers of other trajectories reach it", name, p.Target, p.HostIP).
				hint("publish on the loopback address: \"127.0.0.1::%d\"", p.Target)
		}
	}
}

// hostWarnings are about services that control the host, and with it every other
// trajectory. An agent that takes such a service over does so too.
func (c *checker) hostWarnings(name string, s types.ServiceConfig) {
	at := func(path ...string) place { return c.sources.at(append([]string{"services", name}, path...)...) }
	if s.Privileged && name != c.defaultService {
		c.problems.warnf(at("privileged"), "service %q is privileged: it controls the host", name)
	}
	if s.UseAPISocket {
		c.problems.warnf(at("use_api_socket"), "service %q is given the engine's socket: it controls the host", name)
	}
	if s.Pid == "host" {
		c.problems.warnf(at("pid"), "service %q sees the processes of the host, and with them those of every trajectory", name)
	}
	for _, v := range s.Volumes {
		switch {
		case v.Type != types.VolumeTypeBind:
		case reachesEngine(v.Source):
			c.problems.warnf(c.written().volume(name, v), "service %q has the engine's socket, by %s: it controls the host", name, v.Source)
		case !v.ReadOnly:
			c.problems.warnf(c.written().volume(name, v), "service %q can write to %s of the host, which all trajectories of the environment share", name, c.relative(v.Source)).
				hint("mount it read-only, or use a volume, which each trajectory has for itself")
		}
	}
}

// relative writes a path of the host as the Compose files may have it.
func (c *checker) relative(file string) string {
	if rel, err := filepath.Rel(c.model.dir, file); err == nil && filepath.IsLocal(rel) {
		return "./" + filepath.ToSlash(rel)
	}
	return file
}

// reachesEngine says whether a path on the host is an engine's socket, or a
// directory that usually has one in it.
func reachesEngine(source string) bool {
	source = path.Clean(source)
	switch path.Base(source) {
	case "docker.sock", "containerd.sock", "podman.sock":
		return true
	}
	return slices.Contains([]string{"/", "/run", "/var", "/var/run", "/run/containerd", "/var/run/containerd", "/run/podman", "/var/run/podman"}, source)
}

// agentWarnings are about what makes the agent's container more than a client
// of the simulator.
func (c *checker) agentWarnings(name string, s types.ServiceConfig) {
	at := func(path ...string) place { return c.sources.at(append([]string{"services", name}, path...)...) }
	if s.Privileged {
		c.problems.warnf(at("privileged"), "default service %q is privileged: the agent can reach past its networks", name)
	}
	for _, cap := range s.CapAdd {
		switch strings.TrimPrefix(strings.ToUpper(cap), "CAP_") {
		case "ALL", "NET_ADMIN", "NET_RAW":
			c.problems.warnf(at("cap_add", cap), "default service %q is given %s: the agent can forge and reroute packets", name, cap)
		}
	}
	for _, key := range sortedKeys(s.Environment) {
		switch strings.ToUpper(key) {
		case "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY":
			if v := s.Environment[key]; v != nil && *v != "" {
				c.problems.warnf(at("environment", key), "default service %q sets %s, so its clients bypass the simulator", name, key)
			}
		}
	}
}

// unsetVariables reports each variable that Compose replaces by an empty
// string, once, at its first use. Included files may have variables of their own.
func unsetVariables(m *model, files sources, vars types.Mapping, ps *Problems) {
	seen := map[string]bool{}
	own := slices.DeleteFunc(slices.Clone(files), func(x *yamlIndex) bool { return !slices.Contains(m.files, x.path) })
	for _, x := range slices.Concat(own, files) {
		x.scalars(func(path []string, n *yaml.Node) {
			if len(path) == 0 || !strings.Contains(n.Value, "$") {
				return
			}
			for _, scope := range x.seenWith(vars) {
				_, _ = substitute(func(variable string) { // errors are the loader's to report
					if !seen[variable] {
						seen[variable] = true
						ps.warnf(x.place(n), "variable %q is not set, so %s", variable, emptied(n.Value))
					}
				})(n.Value, func(k string) (string, bool) {
					v, ok := scope[k]
					return v[:min(1, len(v))], ok // empty or not is all that matters
				})
			}
		})
	}
}

func emptied(value string) string {
	if strings.Trim(value, "${}") != value && !strings.ContainsAny(strings.Trim(value, "${}"), "${} /:") {
		return "this value is empty"
	}
	return fmt.Sprintf("%q lacks it", firstLine(value))
}

func quoted(names []string, separator string) string {
	q := make([]string, len(names))
	for i, n := range names {
		q[i] = strconv.Quote(n)
	}
	return strings.Join(q, separator)
}
