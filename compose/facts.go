package compose

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/compose-spec/compose-go/v2/types"
)

// NetworkFact is what a planner of addresses has to know about one network of
// the project that active services use.
type NetworkFact struct {
	Key      string // Compose key
	Name     string // on the engine, with the project's name where Compose adds it
	Driver   string // "" is the engine's default, bridge
	External bool   // somebody else's: nothing about it can be planned
	Internal bool
	IPv6     bool
	IPAM     string // its ipam driver; "" is the engine's own
	MTU      string // what the environment itself sets, as it stands in driver_opts
	Pools    []Pool // the environment's own ipam; ctis never changes it
	Services []NetworkService
}

// Pool is one ipam pool that the environment declares. Fields it leaves out
// are zero.
type Pool struct {
	Subnet, Range netip.Prefix
	Gateway       netip.Addr
	Reserved      []netip.Addr // aux_addresses
}

// NetworkService is a service on a network.
type NetworkService struct {
	Name     string
	Replicas int
	Static   netip.Addr // ipv4_address; zero: none
	Static6  netip.Addr // ipv6_address; zero: none
	// Fixed says that it wants an address that is nobody else's, on whatever network: it
	// is exposed here, or the sidecar.
	Fixed bool
}

// Own says whether ctis gives the network its subnet. One whose ipam is somebody
// else's program gets it from there.
func (n NetworkFact) Own() bool {
	return !n.External && len(n.Pools) == 0 && (n.IPAM == "" || n.IPAM == "default")
}

// NetworkFacts describes each network that at least one active service is on,
// sorted by key. The sidecar is among the services. Pure.
func (e *Environment) NetworkFacts() []NetworkFact {
	var facts []NetworkFact
	sidecar := sidecarNetworks(e.Config, e.Project)
	for _, key := range sortedKeys(e.Project.Networks) {
		n := e.Project.Networks[key]
		f := NetworkFact{
			Key: key, Name: n.Name, Driver: n.Driver,
			External: bool(n.External), Internal: n.Internal,
			IPv6: n.EnableIPv6 != nil && *n.EnableIPv6,
			IPAM: n.Ipam.Driver, MTU: n.DriverOpts[optionMTU],
		}
		for _, p := range n.Ipam.Config {
			if p != nil {
				f.Pools = append(f.Pools, pool(p))
			}
		}
		for _, name := range e.Project.ServiceNames() {
			s := e.Project.Services[name]
			on, ok := s.Networks[key]
			if !ok || s.Provider != nil {
				continue
			}
			ns := NetworkService{Name: name, Replicas: s.GetScale(), Fixed: e.exposes(name, key)}
			if on != nil {
				ns.Static, _ = netip.ParseAddr(on.Ipv4Address) // checked by Load
				ns.Static6, _ = netip.ParseAddr(on.Ipv6Address)
			}
			f.Services = append(f.Services, ns)
		}
		if slices.Contains(sidecar, key) {
			f.Services = append(f.Services, NetworkService{Name: e.sidecarName(), Replicas: 1, Fixed: true})
		}
		if len(f.Services) > 0 {
			facts = append(facts, f)
		}
	}
	return facts
}

// pool reads what Load has checked; what does not parse is absent.
func pool(p *types.IPAMPool) Pool {
	var q Pool
	q.Subnet, _ = netip.ParsePrefix(p.Subnet)
	q.Range, _ = netip.ParsePrefix(p.IPRange)
	q.Subnet, q.Range = q.Subnet.Masked(), q.Range.Masked() // the engine accepts host bits too
	q.Gateway, _ = netip.ParseAddr(p.Gateway)
	for _, key := range sortedKeys(p.AuxiliaryAddresses) {
		if a, err := netip.ParseAddr(p.AuxiliaryAddresses[key]); err == nil {
			q.Reserved = append(q.Reserved, a)
		}
	}
	return q
}

// ServiceFacts is what judging a service's containers needs to know about it.
type ServiceFacts struct {
	Name     string
	Replicas int  // containers that should exist
	Provider bool // run by a provider: no container at all
}

// ServiceFacts describes every active service, sorted by name, and the sidecar after
// them. Pure.
func (e *Environment) ServiceFacts() []ServiceFacts {
	var facts []ServiceFacts
	for _, name := range e.Project.ServiceNames() {
		s := e.Project.Services[name]
		facts = append(facts, ServiceFacts{Name: name, Replicas: s.GetScale(), Provider: s.Provider != nil})
	}
	if len(e.Config.ExposedServices) > 0 {
		facts = append(facts, ServiceFacts{Name: e.sidecarName(), Replicas: 1})
	}
	return facts
}

// Hostnames are the names that the simulator answers to in this environment,
// in the order of ctis.toml: its aliases on the network.
func (e *Environment) Hostnames() []string {
	var names []string
	for _, p := range e.Config.Personas {
		names = append(names, string(p.Host))
	}
	for _, u := range e.Config.Upstreams {
		names = append(names, string(u.Host))
	}
	return names
}

func shares(networkMode string) bool {
	return strings.HasPrefix(networkMode, types.ServicePrefix) || strings.HasPrefix(networkMode, types.ContainerPrefix)
}
