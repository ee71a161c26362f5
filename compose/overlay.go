package compose

import (
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/compose-spec/compose-go/v2/types"
)

// The labels on every service of a trajectory, and the first two on every
// network that belongs to it. With them a trajectory is found and taken down
// without its environment's files.
const (
	LabelInstance    = "io.ctis.instance"    // which simulator serves it
	LabelTrajectory  = "io.ctis.trajectory"  // its id
	LabelEnvironment = "io.ctis.environment" // name of its environment, for people
	LabelSettings    = "io.ctis.settings"    // [Environment.Settings]
	LabelDir         = "io.ctis.dir"         // the environment's directory
	LabelTrustDirs   = "io.ctis.trust-dirs"  // [OverrideInput].CADirs of its service, with ":" between
)

// OverrideInput is what the generated override depends on besides the
// environment itself.
type OverrideInput struct {
	ID       string                 // trajectory id
	Instance string                 // name prefix of the simulator
	Networks map[string]NetworkPlan // by Compose key
	CAEnv    map[string]string      // variables that make clients trust the simulator's CA
	CADir    string                 // where their bundle lies; a read-only root gets a volume there
	// CADirs are, by service, directories of a read-only root that hold trust stores:
	// each gets a volume, which begins as a copy of what the image has there.
	CADirs map[string][]string
	// NginxImage is the sidecar's; needed where services are exposed.
	NginxImage string
}

// NetworkPlan is what was planned for one network of the project.
type NetworkPlan struct {
	// Subnet, Range (of dynamic addresses) and Gateway are zero where the
	// environment has ipam of its own.
	Subnet, Range netip.Prefix
	Gateway       netip.Addr
	// Simulator is the simulator's address; zero where it does not join or the
	// engine chooses.
	Simulator netip.Addr
	Services  map[string]netip.Addr // service name → its fixed address
	// The same for IPv6, on networks that have it.
	Subnet6, Range6 netip.Prefix
	Gateway6        netip.Addr
	Simulator6      netip.Addr
	Services6       map[string]netip.Addr
	MTU             int // in bytes; 0 leaves it to the engine
}

// optionMTU is the driver option with which a bridge network gets its MTU.
const optionMTU = "com.docker.network.driver.mtu"

// overlay is the override before it is written: only what ctis adds, in the
// terms of the merged model. It is both rendered and verified.
type overlay struct {
	Services map[string]*serviceOverlay
	Sidecar  *sidecarOverlay // nil: nothing is exposed
	Networks map[string]*networkOverlay
	Notes    []string // for people: what was left alone
}

type serviceOverlay struct {
	Labels      map[string]string
	Environment map[string]string
	ExtraHosts  map[string]string
	Networks    map[string]endpointOverlay // nil: untouched
	Ports       []types.ServicePortConfig  // replace the service's own, if any
	Volumes     []string                   // where anonymous volumes go
	DropName    bool                       // container_name
}

type endpointOverlay struct {
	IPv4, IPv6 string
	Aliases    []string
}

type networkOverlay struct {
	Labels map[string]string
	Pools  []poolOverlay // none where the environment has ipam of its own
	MTU    string        // "" where nothing is to be said
}

type poolOverlay struct{ Subnet, Range, Gateway string }

// overlay decides what the override says. Pure.
func (e *Environment) overlay(in OverrideInput) (*overlay, error) {
	o := &overlay{Services: map[string]*serviceOverlay{}, Networks: map[string]*networkOverlay{}}
	for _, f := range e.NetworkFacts() {
		plan := in.Networks[f.Key]
		if plan.Subnet.IsValid() && !f.Own() {
			return nil, fmt.Errorf("network %q has ipam of its own or is external; a subnet cannot be planned for it", f.Key)
		}
		if f.External {
			continue // an override cannot change what exists already
		}
		n := &networkOverlay{Labels: map[string]string{LabelInstance: in.Instance, LabelTrajectory: in.ID}}
		if plan.Subnet.IsValid() {
			n.Pools = append(n.Pools, poolOverlay{plan.Subnet.String(), prefixText(plan.Range), addrText(plan.Gateway)})
			if plan.Subnet6.IsValid() {
				n.Pools = append(n.Pools, poolOverlay{plan.Subnet6.String(), prefixText(plan.Range6), addrText(plan.Gateway6)})
			}
		}
		if plan.MTU > 0 && f.MTU == "" && (f.Driver == "" || f.Driver == "bridge") {
			n.MTU = strconv.Itoa(plan.MTU)
		}
		o.Networks[f.Key] = n
	}
	for key := range in.Networks {
		if _, ok := e.Project.Networks[key]; !ok {
			return nil, fmt.Errorf("network %q is planned, but no service uses it", key)
		}
	}
	for _, name := range e.Project.ServiceNames() {
		if e.Project.Services[name].Provider != nil {
			continue // has no container
		}
		s, err := e.serviceOverlay(name, in, &o.Notes)
		if err != nil {
			return nil, err
		}
		o.Services[name] = s
	}
	var err error
	o.Sidecar, err = e.sidecar(in)
	return o, err
}

// labels are those of every service of the trajectory.
func (e *Environment) labels(in OverrideInput) map[string]string {
	return map[string]string{
		LabelInstance: in.Instance, LabelTrajectory: in.ID, LabelEnvironment: e.Name,
		LabelSettings: e.Settings, LabelDir: e.Dir,
	}
}

func (e *Environment) serviceOverlay(name string, in OverrideInput, notes *[]string) (*serviceOverlay, error) {
	s := e.Project.Services[name]
	o := &serviceOverlay{
		Labels:      e.labels(in),
		Environment: map[string]string{},
		ExtraHosts:  map[string]string{},
	}
	if e.reaches(name, len(e.Project.Services)) {
		for _, key := range sortedKeys(in.CAEnv) {
			if v, set := s.Environment[key]; set && v != nil {
				*notes = append(*notes, fmt.Sprintf("service %q keeps its own %s", name, key))
				continue
			}
			o.Environment[key] = in.CAEnv[key]
		}
	}
	if s.ReadOnly && e.reaches(name, len(e.Project.Services)) {
		for _, dir := range append([]string{in.CADir}, in.CADirs[name]...) {
			if dir != "" && !covered(s.Volumes, dir) {
				o.Volumes = append(o.Volumes, dir)
			}
		}
		if dirs := in.CADirs[name]; len(dirs) > 0 {
			o.Labels[LabelTrustDirs] = strings.Join(dirs, ":")
		}
	}
	if s.ContainerName != "" {
		o.DropName = true
	}
	o.Ports = ephemeral(s)
	if err := e.endpoints(name, s, in, o); err != nil {
		return nil, err
	}
	return o, e.ownDNS(name, s, in, o, notes)
}

// ownDNS makes the served hostnames known to a service that asks a resolver of its own.
func (e *Environment) ownDNS(name string, s types.ServiceConfig, in OverrideInput, o *serviceOverlay, notes *[]string) error {
	if _, on := s.Networks[e.Network]; !on || len(s.DNS) == 0 {
		return nil
	}
	plan := in.Networks[e.Network]
	if len(e.Hostnames()) > 0 && !plan.Simulator.IsValid() {
		return fmt.Errorf("service %q has dns of its own, and the simulator's address on network %q is not planned", name, e.Network)
	}
	for _, host := range e.Hostnames() {
		o.ExtraHosts[host] = plan.Simulator.String()
	}
	sidecar := e.Sidecar(in.ID)
	if sidecar == nil {
		return nil
	}
	at := plan.Services[sidecar.Service]
	if !at.IsValid() {
		// The environment's own subnet has no room for fixed addresses.
		*notes = append(*notes, fmt.Sprintf("service %q has dns of its own, which has to know the exposed hostnames: network %q has no fixed address for their sidecar", name, e.Network))
		return nil
	}
	for _, host := range sidecar.Hostnames() {
		o.ExtraHosts[host] = at.String()
	}
	return nil
}

// covered says whether a service mounts something at dir itself.
func covered(volumes []types.ServiceVolumeConfig, dir string) bool {
	return slices.ContainsFunc(volumes, func(v types.ServiceVolumeConfig) bool { return path.Clean(v.Target) == dir })
}

// endpoints decides what changes about the service's networks. All of them are
// listed as soon as one is: a service that is on the default network only
// because it names none would otherwise be taken off it.
func (e *Environment) endpoints(name string, s types.ServiceConfig, in OverrideInput, o *serviceOverlay) error {
	endpoints, changed := map[string]endpointOverlay{}, false
	sidecar := e.Sidecar(in.ID)
	for key, own := range s.Networks {
		var n endpointOverlay
		if a := in.Networks[key].Services[name]; a.IsValid() {
			switch {
			case bool(e.Project.Networks[key].External):
				return fmt.Errorf("service %q: no address can be planned on external network %q", name, key)
			case s.GetScale() > 1:
				return fmt.Errorf("service %q runs %d replicas, which cannot share an address on network %q", name, s.GetScale(), key)
			case own != nil && own.Ipv4Address != "" && own.Ipv4Address != a.String():
				return fmt.Errorf("service %q has the address %s of its own on network %q", name, own.Ipv4Address, key)
			}
			n.IPv4 = a.String()
		}
		if a := in.Networks[key].Services6[name]; a.IsValid() && s.GetScale() <= 1 {
			if own != nil && own.Ipv6Address != "" && !sameAddress(own.Ipv6Address, a) {
				return fmt.Errorf("service %q has the address %s of its own on network %q", name, own.Ipv6Address, key)
			}
			n.IPv6 = a.String()
		}
		if s.ContainerName != "" && s.ContainerName != name {
			n.Aliases = []string{s.ContainerName}
		}
		if sidecar != nil {
			if alias := sidecar.alias(name, key); alias != "" {
				n.Aliases = append(n.Aliases, alias)
				o.Labels[LabelExposed] = key + "=" + alias
			}
		}
		changed = changed || n.IPv4 != "" || n.IPv6 != "" || len(n.Aliases) > 0
		endpoints[key] = n
	}
	if changed {
		o.Networks = endpoints
	}
	return nil
}

// loopback is where ports are published that name no address of the host. On all
// addresses the engine would pass them on to whoever reaches one of the host's,
// and the gateway of another trajectory's network is one.
const loopback = "127.0.0.1"

// ephemeral returns the service's ports without their fixed host ports, and on the
// loopback address unless they name one, or nothing if they are so already.
func ephemeral(s types.ServiceConfig) []types.ServicePortConfig {
	if s.NetworkMode == "host" || shares(s.NetworkMode) {
		return nil
	}
	changed := false
	var ports []types.ServicePortConfig
	for _, p := range s.Ports {
		if fixedPort(p) || p.HostIP == "" {
			changed = true
		}
		p.Published = ""
		if p.HostIP == "" {
			p.HostIP = loopback
		}
		ports = append(ports, p)
	}
	if !changed {
		return nil
	}
	return ports
}

// fixedPort says whether a port of the host is asked for by number.
func fixedPort(p types.ServicePortConfig) bool { return p.Published != "" && p.Published != "0" }

func prefixText(p netip.Prefix) string {
	if !p.IsValid() {
		return ""
	}
	return p.String()
}

func sameAddress(s string, a netip.Addr) bool {
	own, err := netip.ParseAddr(s)
	return err == nil && own == a
}

func addrText(a netip.Addr) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}

// escape protects a value from Compose's interpolation.
func escape(s string) string { return strings.ReplaceAll(s, "$", "$$") }
