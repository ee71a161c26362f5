package netpin

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// SimulatorKey is the key of the simulator's own address in
// [NetworkWant.ExistingAddresses]. No service can have it.
const SimulatorKey = ""

// Want is everything [Compute] looks at.
type Want struct {
	Pool     netip.Prefix   // where subnets are taken from; see [DefaultPool]
	Taken    []netip.Prefix // what no new subnet may overlap; see [Taken]
	Seed     string         // spreads concurrent callers over the pool: the trajectory id
	Networks []NetworkWant
}

// NetworkWant describes one network of the trajectory's project.
type NetworkWant struct {
	Key       string        // Compose key, without the project's prefix
	Simulator bool          // the simulator joins this network
	Services  []ServiceWant // the services on it

	// The environment's own ipam. With UserSubnets set the network is left
	// exactly as declared, and only free addresses in it are used.
	UserSubnets               []netip.Prefix
	UserRange, UserRange6     netip.Prefix // ip_range: what the engine hands out by itself; zero: the whole subnet
	UserGateway, UserGateway6 netip.Addr   // zero: the engine picks
	Static                    []netip.Addr // addresses spoken for: aux_addresses, fixed addresses of services

	IPv6 bool // the network has IPv6 as well

	// Existing holds the subnets of a network that is there already, when a
	// trajectory is brought up again: they are kept. ExistingAddresses are the
	// fixed addresses given out then, by service name and [SimulatorKey].
	Existing          []netip.Prefix
	ExistingAddresses map[string][]netip.Addr

	Reserve int // how many further fixed addresses are wanted
}

// ServiceWant is a service on a network.
type ServiceWant struct {
	Name     string
	Replicas int        // containers it runs; below 1 counts as 1
	Static   netip.Addr // the environment's own fixed IPv4 address; zero: none
	Static6  netip.Addr // the same for IPv6
	Fixed    bool       // wants a fixed address on networks the simulator does not join, too
}

// Plan says what every network gets, by Compose key.
type Plan struct {
	Networks map[string]NetworkPlan
}

// NetworkPlan is what one network gets.
//
// On a network of its own (Own), the lower half of Subnet is Range, which the
// engine hands out by itself and which holds Gateway; the upper half holds the
// fixed addresses, so that no dynamic address ever takes one of them and they
// survive restarts in any order.
type NetworkPlan struct {
	Own       bool         // ctis gives the network its subnet, range and gateway
	Subnet    netip.Prefix // of a network with an ipam of its own: its first IPv4 subnet, if any
	Range     netip.Prefix
	Gateway   netip.Addr
	Simulator netip.Addr // zero: the simulator does not join, or the engine picks (IPv6-only network)
	// Services holds the fixed address of each service that has one: those with
	// a single replica that are on networks the simulator joins or want one, and
	// those the environment fixed itself.
	Services map[string]netip.Addr
	Reserved []netip.Addr // as many as were asked for

	// The same for IPv6, on networks that have it; zero and nil on others.
	Subnet6    netip.Prefix
	Range6     netip.Prefix
	Gateway6   netip.Addr
	Simulator6 netip.Addr
	Services6  map[string]netip.Addr
}

// Compute gives every network its subnet and fixed addresses. Equal input gives
// an equal plan, in whatever order networks, services and taken prefixes are
// listed. The errors are [*ExhaustedError], [*SubnetFullError], and plain ones
// for a want that cannot be met by any pool.
func Compute(w Want) (*Plan, error) {
	if err := checkPool(w.Pool); err != nil {
		return nil, err
	}
	nets := slices.SortedFunc(slices.Values(w.Networks), func(a, b NetworkWant) int { return strings.Compare(a.Key, b.Key) })
	alloc := newAllocator(w.Pool, w.Taken, w.Seed)
	for _, n := range nets {
		alloc.block(n.UserSubnets)
		alloc.block(n.Existing)
	}
	taken6 := slices.Clone(w.Taken)
	for _, n := range nets {
		taken6 = slices.Concat(taken6, n.UserSubnets, n.Existing)
	}
	plan := &Plan{Networks: make(map[string]NetworkPlan, len(nets))}
	var unplaced []string
	for _, n := range nets {
		if _, twice := plan.Networks[n.Key]; twice {
			return nil, fmt.Errorf("network %q is wanted twice", n.Key)
		}
		np, err := planNetwork(n, alloc)
		if err == nil && n.IPv6 {
			err = planSix(n, &np, w.Seed, &taken6)
		}
		if errors.Is(err, errNoSubnet) {
			unplaced = append(unplaced, n.Key)
			continue
		}
		if err != nil {
			return nil, err
		}
		plan.Networks[n.Key] = np
	}
	if unplaced != nil {
		return nil, &ExhaustedError{Pool: w.Pool, Networks: unplaced, Taken: overlapping(w.Pool, w.Taken)}
	}
	return plan, nil
}

func planNetwork(n NetworkWant, alloc *allocator) (NetworkPlan, error) {
	if len(n.UserSubnets) > 0 {
		return planUser(n)
	}
	for _, s := range n.Services {
		if s.Static.IsValid() {
			return NetworkPlan{}, fmt.Errorf("service %q asks for %s on network %q, which declares no subnet: add ipam.config.subnet to the network", s.Name, s.Static, n.Key)
		}
	}
	subnet := firstIPv4(n.Existing)
	if !subnet.IsValid() {
		bits, err := subnetBits(n)
		if err != nil {
			return NetworkPlan{}, err
		}
		if subnet, err = alloc.take(bits); err != nil {
			return NetworkPlan{}, err
		}
	}
	return planOwn(n, subnet)
}
