package compose

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/compose-spec/compose-go/v2/types"

	"github.com/linuxarena/ctis/server/api"
)

// LabelSidecar is on the sidecar of a trajectory, which is so found without its
// environment's files.
const LabelSidecar = "io.ctis.sidecar"

// LabelExposed is on the services that are exposed: the key of the network on which the
// sidecar reaches them, = and the name by which.
const LabelExposed = "io.ctis.exposed"

// DefaultNginxImage is the sidecar's image where nobody names another.
const DefaultNginxImage = "nginx:stable-alpine"

// Where and as whom the sidecar's nginx runs. The user is nobody's on any
// distribution, and needs no name: nginx starts as it and stays it.
const (
	SidecarDir  = "/etc/edge" // a volume with nothing but what ctis puts there
	SidecarUser = 65532       // user and group
)

// Sidecar is the nginx of a trajectory that stands before its exposed services.
type Sidecar struct {
	Service  string   // its name in the project, which nothing of the environment has
	Networks []string // the simulator's, then those of its targets, by key
	Routes   []Route  // in the order of ctis.toml
	IPv6     bool     // the simulator's network has IPv6, so clients may come by it
	Resolve6 bool     // some target has IPv6 addresses alone
}

// Route is one exposed service with the way to it.
type Route struct {
	Host    Hostname
	Target  Target
	Network string // key of the network on which it is reached
	// Alias is a name that the target's containers, and nothing else, have on that
	// network. No file of an environment can have it: it is made from the
	// trajectory's id. It has no dot, so the engine's resolver asks no other about it.
	Alias string
}

// Sidecar describes the sidecar of trajectory id; nil where nothing is exposed. Pure.
func (e *Environment) Sidecar(id string) *Sidecar {
	if len(e.Config.ExposedServices) == 0 {
		return nil
	}
	s := &Sidecar{Service: e.sidecarName(), Networks: sidecarNetworks(e.Config, e.Project)}
	is := func(p *bool, or bool) bool { return p == nil && or || p != nil && *p }
	s.IPv6 = is(e.Project.Networks[e.Network].EnableIPv6, false)
	for _, x := range e.Config.ExposedServices {
		s.Routes = append(s.Routes, Route{
			Host: x.Host, Target: x.Target,
			Network: targetNetwork(e.Config.Network, e.Project.Services[x.Target.Service]),
			Alias:   targetAlias(id, x.Target.Service),
		})
	}
	s.Resolve6 = slices.ContainsFunc(s.Routes, func(r Route) bool { return !is(e.Project.Networks[r.Network].EnableIPv4, true) })
	return s
}

// Hostnames are the sidecar's aliases on the simulator's network.
func (s *Sidecar) Hostnames() []string {
	names := make([]string, len(s.Routes))
	for i, u := range s.Routes {
		names[i] = string(u.Host)
	}
	return names
}

// alias is the name a service gets on a network because it is reached there; "" for none.
func (s *Sidecar) alias(service, network string) string {
	for _, u := range s.Routes {
		if u.Target.Service == service && u.Network == network {
			return u.Alias
		}
	}
	return ""
}

func targetAlias(id, service string) string {
	sum := sha256.Sum256([]byte("ctis exposed service\x00" + id + "\x00" + service))
	return "x" + hex.EncodeToString(sum[:12])
}

// targetNetwork is the network on which a target is reached: the simulator's, where
// the sidecar is anyway, or else the first of its own.
func targetNetwork(simulator string, s types.ServiceConfig) string {
	if _, on := s.Networks[simulator]; on {
		return simulator
	}
	if keys := sortedKeys(s.Networks); len(keys) > 0 {
		return keys[0]
	}
	return ""
}

// sidecarNetworks lists the networks the sidecar joins; none where nothing is exposed.
func sidecarNetworks(c *Config, p *types.Project) []string {
	if len(c.ExposedServices) == 0 {
		return nil
	}
	var others []string
	for _, x := range c.ExposedServices {
		if n := targetNetwork(c.Network, p.Services[x.Target.Service]); n != "" && n != c.Network {
			others = append(others, n)
		}
	}
	slices.Sort(others)
	return append([]string{c.Network}, slices.Compact(others)...)
}

// sidecarName is a name that the environment gives to nothing: the engine's resolver
// would mix what shares one.
func (e *Environment) sidecarName() string {
	taken := map[string]bool{}
	for _, services := range []types.Services{e.Project.Services, e.Project.DisabledServices} {
		for name, s := range services {
			taken[name], taken[s.Hostname], taken[s.ContainerName] = true, true, true
			for _, n := range s.Networks {
				if n != nil {
					for _, alias := range n.Aliases {
						taken[alias] = true
					}
				}
			}
		}
	}
	for _, h := range e.Config.served() {
		taken[string(h.host)] = true
	}
	name := "edge"
	for i := 2; taken[name]; i++ {
		name = fmt.Sprintf("edge-%d", i)
	}
	return name
}

// Exposed lists what is exposed as the simulator is told of it.
func (e *Environment) Exposed() []api.Exposed {
	var all []api.Exposed
	for _, x := range e.Config.ExposedServices {
		all = append(all, api.Exposed{Host: string(x.Host), Service: x.Target.Service, Port: x.Target.Port})
	}
	return all
}

// exposes says whether a service is the target of an exposed one.
func (e *Environment) exposes(service, network string) bool {
	return slices.ContainsFunc(e.Config.ExposedServices, func(x ExposedService) bool {
		return x.Target.Service == service && targetNetwork(e.Config.Network, e.Project.Services[service]) == network
	})
}
