package registry

import (
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"github.com/linuxarena/ctis/server/api"
	"github.com/linuxarena/ctis/server/rule"
)

// idRule is that of SPEC §14; it is also what keeps an id from being anything
// else than a file name.
var idRule = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,62}$`)

// Bounds of one registration. They are far above what an environment needs and
// keep one caller's mistake from filling memory.
const (
	maxPersonas  = 4096
	maxNetworks  = 256
	maxEndpoints = 256
	maxPeers     = 65536
	maxExclusive = 4096
)

// ValidID says whether id can name a trajectory.
func ValidID(id string) bool { return idRule.MatchString(id) }

func invalid(format string, args ...any) *api.Error {
	return api.Errorf(http.StatusBadRequest, api.CodeInvalid, format, args...)
}

// check judges a registration by itself.
func check(r *api.Registration) *api.Error {
	if !ValidID(r.Trajectory) {
		return invalid("trajectory id %q does not match %s", clip(r.Trajectory), idRule)
	}
	if r.Settings == "" {
		return invalid("trajectory %q has no settings digest", r.Trajectory)
	}
	if len(r.Networks) == 0 || len(r.Networks) > maxNetworks {
		return invalid("trajectory %q has %d networks; it needs 1 to %d", r.Trajectory, len(r.Networks), maxNetworks)
	}
	for i := range r.Networks {
		if e := checkNetwork(&r.Networks[i]); e != nil {
			return e
		}
		for k := range i {
			if a, b := &r.Networks[k], &r.Networks[i]; a.Name == b.Name || overlap(a, b) != "" {
				return invalid("networks %q and %q of trajectory %q share a name, id, subnet or address", a.Name, b.Name, r.Trajectory)
			}
		}
	}
	if e := checkExclusive(r.Trajectory, r.Exclusive); e != nil {
		return e
	}
	if len(r.Personas) > maxPersonas {
		return invalid("trajectory %q has %d personas; at most %d are served", r.Trajectory, len(r.Personas), maxPersonas)
	}
	hosts := map[string]bool{}
	for i := range r.Personas {
		p := &r.Personas[i]
		if !validHost(p.Host) {
			return invalid("persona %q is no lower-case ascii hostname", clip(p.Host))
		}
		if hosts[p.Host] {
			return invalid("persona %q stands twice", p.Host)
		}
		hosts[p.Host] = true
		if !validValue(p.ServerHeader) {
			return invalid("persona %q: server_header %q is no header value", p.Host, clip(p.ServerHeader))
		}
		if len(p.Endpoints) > maxEndpoints {
			return invalid("persona %q has %d endpoints; at most %d are served", p.Host, len(p.Endpoints), maxEndpoints)
		}
		for _, e := range p.Endpoints {
			if e == "" || e == "." || e == ".." || len(e) > 255 || strings.ContainsAny(e, "/?#%") || !validValue(e) {
				return invalid("persona %q: endpoint %q is no single path segment", p.Host, clip(e))
			}
		}
		if e := checkBackend(r, p); e != nil {
			return e
		}
		if _, err := rule.Compile(p.Rules); err != nil {
			return invalid("persona %q: %v", p.Host, err)
		}
	}
	if e := checkUpstreams(r.Upstreams, hosts); e != nil {
		return e
	}
	return checkExposed(r, hosts)
}

// checkExposed wants hostnames that nothing else of the registration has.
func checkExposed(r *api.Registration, hosts map[string]bool) *api.Error {
	if len(r.Exposed) > maxPersonas {
		return invalid("trajectory %q exposes %d hosts; at most %d can be", r.Trajectory, len(r.Exposed), maxPersonas)
	}
	for _, x := range r.Exposed {
		switch {
		case !validHost(x.Host):
			return invalid("exposed host %q is no lower-case ascii hostname", clip(x.Host))
		case hosts[x.Host]:
			return invalid("host %q stands twice", x.Host)
		case x.Service == "" || !validValue(x.Service) || x.Port == 0:
			return invalid("exposed host %q: %q with port %d is no service and port", x.Host, clip(x.Service), x.Port)
		}
		hosts[x.Host] = true
	}
	return nil
}

// checkBackend wants a pin that leads to something in the trajectory's own networks
// and to nothing else.
func checkBackend(r *api.Registration, p *api.Persona) *api.Error {
	b := p.Backend
	switch {
	case b == nil:
		return nil
	case b.Service == "" || !validValue(b.Service) || b.Port == 0:
		return invalid("persona %q: backend %q with port %d is no service and port", p.Host, clip(b.Service), b.Port)
	case b.Pin.Container == "" || !validValue(b.Pin.Container):
		return invalid("persona %q: the pin of service %q names no container", p.Host, b.Service)
	}
	i := slices.IndexFunc(r.Networks, func(n api.Network) bool { return n.ID == b.Pin.Network })
	switch a := b.Pin.Address; {
	case i < 0:
		return invalid("persona %q: the pin of service %q is on network %q, which the trajectory is not served on", p.Host, b.Service, clip(b.Pin.Network))
	case !a.IsValid():
	case !inside(&r.Networks[i], a) || slices.Contains(r.Networks[i].Addresses, a) || slices.Contains(r.Networks[i].Gateways, a):
		return invalid("persona %q: the pin of service %q has address %s, which cannot be a service's on network %q", p.Host, b.Service, a, r.Networks[i].Name)
	}
	return nil
}

func inside(n *api.Network, a netip.Addr) bool {
	return a.IsValid() && !a.Is4In6() && a.Zone() == "" &&
		slices.ContainsFunc(n.Subnets, func(s netip.Prefix) bool { return s.Contains(a) })
}

func checkNetwork(n *api.Network) *api.Error {
	if n.Name == "" || n.ID == "" {
		return invalid("network %q (id %q) needs both a name and an id", clip(n.Name), clip(n.ID))
	}
	if len(n.Subnets) == 0 || len(n.Addresses) == 0 {
		return invalid("network %q needs at least one subnet and one address of the simulator", n.Name)
	}
	if len(n.Peers) > maxPeers || len(n.Subnets) > maxNetworks || len(n.Addresses) > maxNetworks || len(n.Gateways) > maxNetworks {
		return invalid("network %q has too many entries", n.Name)
	}
	for _, s := range n.Subnets {
		if !s.IsValid() || s != s.Masked() || s.Addr().Is4In6() {
			return invalid("network %q: %s is no subnet", n.Name, s)
		}
	}
	for _, a := range n.Addresses {
		if !inside(n, a) {
			return invalid("network %q: address %s is not in its subnets", n.Name, a)
		}
	}
	for _, g := range n.Gateways {
		if !inside(n, g) || slices.Contains(n.Addresses, g) {
			return invalid("network %q: gateway %s is not in its subnets, or is the simulator itself", n.Name, g)
		}
	}
	for _, p := range n.Peers {
		if !inside(n, p.Address) {
			return invalid("network %q: address %s of service %q is not in its subnets", n.Name, p.Address, clip(p.Service))
		}
	}
	return nil
}

// collide judges a registration beside those that are there: an address or
// subnet that belonged to two trajectories would make one the other.
func collide(r *api.Registration, list []*Trajectory) *api.Error {
	for _, t := range list {
		if t.Trajectory == r.Trajectory {
			return invalid("trajectory %q is kept twice", r.Trajectory)
		}
		for i := range t.Networks {
			for k := range r.Networks {
				if what := overlap(&t.Networks[i], &r.Networks[k]); what != "" {
					e := api.Errorf(http.StatusConflict, api.CodeConflict,
						"%s of network %q is held by trajectory %q; take that one down first", what, r.Networks[k].Name, t.Trajectory)
					e.Holders = []string{t.Trajectory}
					return e
				}
			}
		}
	}
	return nil
}

// overlap names what two networks have in common, "" for nothing. Addresses lie
// inside subnets, so they need no look of their own.
func overlap(a, b *api.Network) string {
	if a.ID == b.ID {
		return "the id"
	}
	for _, x := range a.Subnets {
		for _, y := range b.Subnets {
			if x.Overlaps(y) {
				return "subnet " + y.String()
			}
		}
	}
	return ""
}

// differences names the settings in which two registrations differ. What is
// known about peers is no setting: it is learned after the containers run.
func differences(a, b *api.Registration) []string {
	var fields []string
	if a.Settings != b.Settings {
		fields = append(fields, "settings")
	}
	if !slices.EqualFunc(a.Networks, b.Networks, func(x, y api.Network) bool {
		return x.Name == y.Name && x.ID == y.ID && slices.Equal(x.Subnets, y.Subnets) && slices.Equal(x.Addresses, y.Addresses) && slices.Equal(x.Gateways, y.Gateways)
	}) {
		fields = append(fields, "networks")
	}
	if !slices.EqualFunc(a.Personas, b.Personas, func(x, y api.Persona) bool {
		return x.Host == y.Host && x.ServerHeader == y.ServerHeader && slices.Equal(x.Endpoints, y.Endpoints) && sameBackend(x.Backend, y.Backend)
	}) {
		fields = append(fields, "personas")
	}
	if !slices.Equal(a.Exposed, b.Exposed) {
		fields = append(fields, "exposed")
	}
	if !slices.EqualFunc(a.Upstreams, b.Upstreams, func(x, y api.Upstream) bool { return len(x.Differs(y)) == 0 }) {
		fields = append(fields, "upstreams")
	}
	return fields
}

// Of a persona's rules nothing is compared: those of the environment are part of the
// settings, and those in force can have been replaced since.

// sameBackend leaves out the pin: where a backend is can change, which it is cannot.
func sameBackend(a, b *api.Backend) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Service == b.Service && a.Port == b.Port
}

// validHost wants a name as personas are compared: lower-case ASCII, labels of
// 1 to 63 characters, no trailing dot, and no address.
func validHost(s string) bool {
	if s == "" || len(s) > 253 {
		return false
	}
	if _, err := netip.ParseAddr(s); err == nil {
		return false
	}
	for label := range strings.SplitSeq(s, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		for i := 0; i < len(label); i++ {
			if c := label[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' {
				return false
			}
		}
	}
	return true
}

// validValue wants what can stand on a header line and in a path.
func validValue(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] < ' ' || s[i] >= 0x7f {
			return false
		}
	}
	return len(s) <= 256 && s == strings.TrimSpace(s)
}

// clip keeps what a message repeats of its input short.
func clip(s string) string {
	if len(s) > 80 {
		return s[:80] + "…"
	}
	return s
}
