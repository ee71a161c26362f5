package compose

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/compose-spec/compose-go/v2/types"
)

// Guess is what a ctis.toml would most likely say about a Compose project, each
// with its reason in words that can follow "because".
type Guess struct {
	DefaultService, ServiceReason string
	Network, NetworkReason        string

	explicit bool // ctis.toml has to name the service: it would not be found without
}

// agentNames are names that people give to the service an agent works in, the
// surest first; agentWords say so as a part of a longer name, too.
var (
	agentNames = []string{"agent", "sandbox", "attacker", "workspace", "kali", "client", "dev", "app"}
	agentWords = []string{"agent", "sandbox", "attacker", "workspace", "kali"}
)

// outsideNames are names that people give to the network that leads outside.
var outsideNames = []string{"external", "internet", "public", "egress", "outside", "wan", "frontend", "default"}

// guess finds the agent's service and the network the simulator is to join. Where
// it finds none, the problems say what stands in the way. Pure.
func guess(p *types.Project, src sources, ps *Problems) Guess {
	var g Guess
	if !g.guessService(p, src, ps) {
		return g
	}
	s := p.Services[g.DefaultService]
	var usable []string
	for _, key := range sortedKeys(s.Networks) {
		if bridged(p.Networks[key]) {
			usable = append(usable, key)
		}
	}
	if len(usable) == 0 {
		g.noNetwork(p, src, ps)
		return g
	}
	g.guessNetwork(p, usable)
	return g
}

// bridged says whether the simulator can join a network.
func bridged(n types.NetworkConfig) bool {
	return (n.Driver == "" || n.Driver == "bridge") && (n.EnableIPv4 == nil || *n.EnableIPv4)
}

func (g *Guess) noNetwork(p *types.Project, src sources, ps *Problems) {
	name := g.DefaultService
	s := p.Services[name]
	at := src.at("services", name, "networks")
	what := "is on no bridge network"
	if s.NetworkMode != "" {
		at, what = src.at("services", name, "network_mode"), "has network_mode: "+s.NetworkMode
	}
	ps.errorf(at, "service %q, where the agent would work, %s, so it could not reach the simulator", name, what).
		hint("give it a bridge network, or mark the agent's service with x-default: true")
}

// guessService follows the order in which validation looks for the service, and
// then the reasons people have, the surest first.
func (g *Guess) guessService(p *types.Project, src sources, ps *Problems) bool {
	var candidates []string
	for _, name := range p.ServiceNames() {
		if s := p.Services[name]; s.Provider == nil && s.GetScale() > 0 {
			candidates = append(candidates, name)
		}
	}
	if len(candidates) == 0 {
		q := ps.errorf(src.at("services"), "no service of the project runs a container, and the agent needs one")
		if off := p.DisabledServiceNames(); len(off) > 0 {
			if s := p.DisabledServices[off[0]]; len(s.Profiles) > 0 {
				q.hint("service %q is in the profile %q: add --profile %s", off[0], s.Profiles[0], s.Profiles[0])
			}
		}
		return false
	}
	take := func(explicit bool, name, format string, args ...any) bool {
		g.DefaultService, g.ServiceReason, g.explicit = name, fmt.Sprintf(format, args...), explicit
		return true
	}
	var marked []string
	for _, name := range candidates {
		if v, ok := p.Services[name].Extensions["x-default"].(bool); ok && v {
			marked = append(marked, name)
		}
	}
	switch {
	case len(marked) == 1:
		return take(false, marked[0], "it is marked x-default: true")
	case len(marked) > 1:
		return take(true, marked[0], "it is the first of %d marked x-default: true", len(marked))
	case slices.Contains(candidates, "default"):
		return take(false, "default", "it is called default")
	case len(candidates) == 1:
		return take(true, candidates[0], "it is the only service")
	}
	// A name or a position is no reason to put the agent where it reaches nothing.
	reachable := slices.DeleteFunc(slices.Clone(candidates), func(name string) bool {
		for key := range p.Services[name].Networks {
			if bridged(p.Networks[key]) {
				return false
			}
		}
		return true
	})
	switch len(reachable) {
	case 0:
		reachable = candidates // noNetwork says what is missing
	case 1:
		return take(true, reachable[0], "it is the only service on a bridge network")
	}
	for _, word := range agentNames {
		if slices.Contains(reachable, word) {
			return take(true, word, "of %d services its name is most like an agent's", len(reachable))
		}
	}
	for _, word := range agentWords {
		for _, name := range reachable {
			if slices.Contains(words(name), word) {
				return take(true, name, "of %d services its name is most like an agent's", len(reachable))
			}
		}
	}
	needed := depended(p)
	free := slices.DeleteFunc(slices.Clone(reachable), func(name string) bool { return needed[name] })
	if len(free) == 1 {
		return take(true, free[0], "no other service depends on it")
	}
	reason := "no other service depends on it, and of such it comes first"
	if len(free) == 0 {
		free, reason = reachable, "it comes first"
	}
	first := slices.MinFunc(free, func(a, b string) int {
		return cmp.Or(cmp.Compare(src.at("services", a).Line, src.at("services", b).Line), cmp.Compare(a, b))
	})
	return take(true, first, "%s; nothing else tells it from the others", reason)
}

// words are the parts of a name like my-agent_1.
func words(name string) []string {
	return strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return strings.ContainsRune("-_.0123456789", r) })
}

// depended are the services that others need.
func depended(p *types.Project) map[string]bool {
	needed := map[string]bool{}
	for name, s := range p.Services {
		for other := range s.DependsOn { // compose-go adds links and shared namespaces
			needed[other] = needed[other] || other != name
		}
	}
	return needed
}

// guessNetwork chooses among the service's networks that the simulator can join.
func (g *Guess) guessNetwork(p *types.Project, usable []string) {
	if len(usable) == 1 {
		g.Network, g.NetworkReason = usable[0], fmt.Sprintf("it is the only network of %q that the simulator can join", g.DefaultService)
		if len(p.Services[g.DefaultService].Networks) == 1 {
			g.NetworkReason = fmt.Sprintf("it is the only network of %q", g.DefaultService)
		}
		return
	}
	for _, word := range outsideNames {
		for _, key := range usable {
			if key == word || slices.Contains(words(key), word) {
				g.Network, g.NetworkReason = key, fmt.Sprintf("of the %d networks of %q its name leads outside", len(usable), g.DefaultService)
				return
			}
		}
	}
	open := slices.DeleteFunc(slices.Clone(usable), func(key string) bool { return p.Networks[key].Internal || bool(p.Networks[key].External) })
	if len(open) == 1 {
		g.Network, g.NetworkReason = open[0], fmt.Sprintf("of the %d networks of %q only it is neither internal nor external", len(usable), g.DefaultService)
		return
	}
	if len(open) == 0 {
		open = usable
	}
	g.Network, g.NetworkReason = open[0], fmt.Sprintf("of the %d networks of %q it comes first; nothing else tells it from the others", len(usable), g.DefaultService)
}
