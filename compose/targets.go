package compose

import (
	"strings"

	"github.com/compose-spec/compose-go/v2/types"
)

// targets checks every service:port of the config against the project.
func (c *checker) targets() {
	for _, p := range c.config.Personas {
		if p.Backend != (Target{}) {
			c.backend(p.Backend, c.config.index.value("personas", p.Name, "backend"))
		}
	}
	for _, e := range c.config.ExposedServices {
		if e.Target != (Target{}) {
			c.exposed(e.Target, c.config.index.value("exposed_services", e.Name))
		}
	}
}

// target finds the service of a target, or says why it has no container.
func (c *checker) target(what string, t Target, at place) (types.ServiceConfig, bool) {
	s, active, ok := c.service(t.Service)
	switch {
	case !ok:
		p := c.problems.errorf(at, "%s %q names no service of the project", what, t)
		if near, found := Nearest(t.Service, c.serviceNames()); found {
			p.hint("did you mean %q?", Target{near, t.Port})
		} else {
			p.hint("the project has %s", quoted(c.serviceNames(), ", "))
		}
	case !active:
		c.problems.errorf(at, "%s %q needs the profile %s", what, t, quoted(s.Profiles, " or ")).
			hint("add --profile %s", s.Profiles[0])
	case s.Provider != nil:
		c.problems.errorf(at, "%s %q is run by provider %q and has no container", what, t, s.Provider.Type)
	default:
		return s, true
	}
	return s, false
}

// backend checks that the simulator can reach a backend at one address that
// stays its own.
func (c *checker) backend(t Target, at place) {
	s, ok := c.target("backend", t, at)
	if !ok {
		return
	}
	if n := s.GetScale(); n != 1 {
		p := c.problems.errorf(c.scaleAt(t.Service), "service %q is a backend, so it has to run one replica, not %d", t.Service, n)
		if n > 1 {
			p.hint("a persona has one address behind it; put a load balancer of the environment there if it needs several")
		}
	}
	network := c.config.Network
	if _, on := s.Networks[network]; on || network == "" || !c.declared(network) {
		return
	}
	p := c.problems.errorf(at, "backend %q is not on network %q, where the simulator is", t, network)
	if s.NetworkMode != "" {
		c.networkModeHint(p, s, t)
		return
	}
	p.hint("add %q to the networks of service %q; it is on %s", network, t.Service, quoted(sortedKeys(s.Networks), ", "))
}

// declared says whether a network is one that services can be on.
func (c *checker) declared(network string) bool {
	_, ok := c.project.Networks[network]
	return ok || network == "default"
}

// exposed checks that a sidecar can be on a network with a target.
func (c *checker) exposed(t Target, at place) {
	s, ok := c.target("exposed service", t, at)
	if !ok {
		return
	}
	if s.GetScale() < 1 {
		c.problems.warnf(c.scaleAt(t.Service), "service %q is exposed and runs no container: it has 0 replicas", t.Service)
	}
	if len(s.Networks) > 0 {
		return
	}
	p := c.problems.errorf(at, "exposed service %q is on no network", t)
	c.networkModeHint(p, s, t)
}

// networkModeHint says why a service has no network of its own.
func (c *checker) networkModeHint(p *Problem, s types.ServiceConfig, t Target) {
	shared, ok := strings.CutPrefix(s.NetworkMode, types.ServicePrefix)
	switch {
	case ok:
		p.hint("service %q shares the network of %q; write %q", t.Service, shared, Target{shared, t.Port})
	case s.NetworkMode == "none":
		p.hint("service %q has network_mode: none, so nothing can reach it; give it networks instead", t.Service)
	default:
		p.hint("service %q has network_mode: %s, so it has no address on a network of the project; give it networks instead", t.Service, s.NetworkMode)
	}
}
