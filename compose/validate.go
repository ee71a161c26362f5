package compose

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
)

// checker holds a config against its Compose project (SPEC §3). It reports
// everything it finds and never stops at a first problem.
type checker struct {
	config   *Config
	dir      string
	id       string
	project  *types.Project // as loaded, declared but unused networks included
	other    *types.Project // the same under another name; nil if it does not load
	sources  sources
	model    *model
	vars     types.Mapping
	problems *Problems

	defaultService string // "" until found
	exclusive      []Exclusive
}

func (c *checker) written() writtenLists { return writtenLists{c.sources, c.model, c.vars} }

func (c *checker) check() {
	c.findDefaultService()
	c.network()
	c.targets()
	c.seedMounts()
	c.takenNames()
	c.heldKeys()
	c.addresses()
	c.sameNames()
	c.drives()
	c.sharedContainers()
	c.refusals()
	c.warnings()
}

// service looks a service up, active or not.
func (c *checker) service(name string) (s types.ServiceConfig, active, ok bool) {
	if s, ok = c.project.Services[name]; ok {
		return s, true, true
	}
	s, ok = c.project.DisabledServices[name]
	return s, false, ok
}

func (c *checker) serviceNames() []string {
	names := append(c.project.ServiceNames(), c.project.DisabledServiceNames()...)
	slices.Sort(names)
	return names
}

// findDefaultService decides which service is the agent's: the declared one,
// the one marked x-default: true, or the one called default.
func (c *checker) findDefaultService() {
	at := c.config.index.value("default_service")
	name := c.config.DefaultService
	if name == "" {
		marked := c.markedDefault()
		if len(marked) > 1 {
			p := c.problems.errorf(c.sources.at("services", marked[1], "x-default"), "services %q and %q are both marked x-default: true", marked[0], marked[1])
			p.hint("mark one, or set default_service")
			return
		}
		name, at = "default", c.config.index.place(0)
		if len(marked) == 1 {
			name, at = marked[0], c.sources.at("services", marked[0], "x-default")
		}
	}
	s, active, ok := c.service(name)
	switch {
	case !ok && c.config.DefaultService == "":
		c.problems.errorf(at, "no service is marked x-default: true and none is called \"default\"").
			hint("say which one the agent works in: default_service = %q", firstOf(c.serviceNames(), "NAME"))
	case !ok:
		c.problems.errorf(at, "default service %q is not a service of the project", name).didYouMean(name, c.serviceNames())
	case !active:
		profiles := neededProfiles(c.project, name)
		c.problems.errorf(at, "default service %q needs the profile %s%s", name, quoted(s.Profiles, " or "), further(profiles)).
			hint("%s", addProfiles(profiles))
	case s.Provider != nil:
		c.problems.errorf(at, "default service %q is run by provider %q and has no container", name, s.Provider.Type)
	case s.GetScale() < 1:
		c.problems.errorf(c.scaleAt(name), "default service %q runs no container: it has 0 replicas", name)
	default:
		c.defaultService = name
	}
}

func (c *checker) markedDefault() []string {
	var marked []string
	for _, s := range []types.Services{c.project.Services, c.project.DisabledServices} {
		for _, name := range sortedKeys(s) {
			if v, ok := s[name].Extensions["x-default"].(bool); ok && v {
				marked = append(marked, name)
			}
		}
		if len(marked) > 0 {
			break // one that is off does not compete with one that is on
		}
	}
	return marked
}

func (c *checker) scaleAt(service string) place {
	if c.sources.has("services", service, "scale") {
		return c.sources.at("services", service, "scale")
	}
	return c.sources.at("services", service, "deploy", "replicas")
}

// network checks the network that the simulator is to join.
func (c *checker) network() {
	key := c.config.Network
	if key == "" {
		return // reported with the config
	}
	at := c.config.index.value("network")
	net, declared := c.project.Networks[key]
	if !declared && !(key == "default" && c.implicitDefault()) {
		p := c.problems.errorf(at, "network %q is not declared", key)
		if meant, ok := c.unprefixed(key); ok {
			p.hint("write the key without the project's name: did you mean %q?", meant)
			return
		}
		if s, ok := c.project.Services[c.defaultService]; ok && s.NetworkMode != "" {
			p.hint("the default service %q has network_mode: %s, where no simulator can reach it; give it networks: [%s] instead", c.defaultService, s.NetworkMode, key)
			return
		}
		p.didYouMean(key, append(c.project.NetworkNames(), "default"))
		if names := c.project.NetworkNames(); p.Hint == "" && len(names) > 0 {
			p.hint("the project has %s", quoted(names, ", "))
		}
		return
	}
	if net.Driver != "" && net.Driver != "bridge" {
		c.problems.errorf(at, "network %q has the driver %q", key, net.Driver).
			hint("the simulator joins bridge networks only")
	}
	if net.EnableIPv4 != nil && !*net.EnableIPv4 {
		c.problems.errorf(c.sources.at("networks", key, "enable_ipv4"), "network %q has no IPv4, which the simulator needs", key)
	}
	if c.defaultService == "" {
		return
	}
	s := c.project.Services[c.defaultService]
	if _, on := s.Networks[key]; on {
		return
	}
	p := c.problems.errorf(at, "network %q is not used by the default service %q", key, c.defaultService)
	switch {
	case s.NetworkMode != "":
		p.hint("the service has network_mode: %s; give it networks: [%s] instead", s.NetworkMode, key)
	default:
		p.hint("the service is on %s", quoted(sortedKeys(s.Networks), ", "))
	}
}

// implicitDefault says whether some service, active or not, is on the network
// that Compose makes for services that name none.
func (c *checker) implicitDefault() bool {
	for _, name := range c.serviceNames() {
		s, _, _ := c.service(name)
		if _, on := s.Networks["default"]; on || s.NetworkMode == "" && len(s.Networks) == 0 {
			return true
		}
	}
	return false
}

// unprefixed recognises a network's name on the engine where its key is asked for.
func (c *checker) unprefixed(name string) (key string, ok bool) {
	dirs := []string{filepath.Base(c.dir), filepath.Base(c.model.dir), c.project.Name}
	for _, key := range append(c.project.NetworkNames(), "default") {
		for _, d := range dirs {
			if name == loader.NormalizeProjectName(d)+"_"+key {
				return key, true
			}
		}
		if n := c.project.Networks[key].Name; n != "" && n == name || strings.HasSuffix(name, "_"+key) {
			return key, true
		}
	}
	return "", false
}

// mapping is a name that the environment resolves by itself.
type mapping struct {
	name, service, what string
	at                  place
}

func (c *checker) mappings() []mapping {
	var all []mapping
	for _, name := range c.project.ServiceNames() {
		s := c.project.Services[name]
		add := func(host, what string, path ...string) {
			if host != "" {
				all = append(all, mapping{host, name, what, c.sources.at(append([]string{"services", name}, path...)...)})
			}
		}
		add(name, "its own name")
		for _, host := range sortedKeys(s.ExtraHosts) {
			add(host, "extra_hosts", "extra_hosts", host)
		}
		add(s.Hostname, "hostname", "hostname")
		if s.DomainName != "" {
			add(s.Hostname+"."+s.DomainName, "hostname and domainname", "domainname")
		}
		add(s.ContainerName, "container_name", "container_name")
		for _, key := range sortedKeys(s.Networks) {
			if n := s.Networks[key]; n != nil {
				for _, alias := range n.Aliases {
					add(alias, "a network alias", "networks", key, "aliases", alias)
				}
			}
		}
		for _, link := range s.Links { // one without another name is the service's own
			if _, alias, ok := strings.Cut(link, ":"); ok {
				all = append(all, mapping{alias, name, "a link", c.written().same(name, "links", link)})
			}
		}
		for _, link := range s.ExternalLinks {
			_, alias, ok := strings.Cut(link, ":")
			if !ok {
				alias = link
			}
			all = append(all, mapping{alias, name, "an external link", c.written().same(name, "external_links", link)})
		}
	}
	return all
}

// sharedContainers finds references to a container_name of the project itself.
// ctis gives the name up, so that two trajectories do not collide, and the
// reference would find nothing, or another trajectory's container.
func (c *checker) sharedContainers() {
	owner := map[string]string{}
	for _, name := range c.project.ServiceNames() {
		container := c.project.Services[name].ContainerName
		if first, taken := owner[container]; taken && container != "" {
			c.problems.errorf(c.sources.at("services", name, "container_name"), "services %q and %q both have the container_name %q", first, name, container)
		}
		owner[container] = name
	}
	for _, name := range c.project.ServiceNames() {
		s := c.project.Services[name]
		for attr, ref := range map[string]string{"network_mode": s.NetworkMode, "ipc": s.Ipc, "pid": s.Pid} {
			container, ok := strings.CutPrefix(ref, types.ContainerPrefix)
			if o := owner[container]; ok && container != "" && o != "" {
				c.problems.errorf(c.sources.at("services", name, attr), "service %q names the container %q, whose name two trajectories cannot share", name, container).
					hint("write %s: service:%s", attr, o)
			}
		}
		for _, ref := range s.VolumesFrom {
			container, ok := strings.CutPrefix(ref, types.ContainerPrefix)
			container, mode, _ := strings.Cut(container, ":")
			if o := owner[container]; ok && container != "" && o != "" {
				if mode != "" {
					o += ":" + mode
				}
				c.problems.errorf(c.sources.at("services", name, "volumes_from"), "service %q names the container %q, whose name two trajectories cannot share", name, container).
					hint("write volumes_from: [%s]", o)
			}
		}
		for _, link := range s.ExternalLinks {
			container, alias, _ := strings.Cut(link, ":")
			if o := owner[container]; container != "" && o != "" {
				c.problems.errorf(c.sources.at("services", name, "external_links"), "service %q names the container %q, whose name two trajectories cannot share", name, container).
					hint("write links: [%s]", strings.TrimSuffix(o+":"+alias, ":"))
			}
		}
	}
}

func firstOf(names []string, otherwise string) string {
	if len(names) == 0 {
		return otherwise
	}
	return names[0]
}
