package netpin

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
)

// planOwn fills a subnet that ctis gave, now or when the trajectory came up
// first. The simulator comes first in the upper half, then the services in
// sorted order, so that the same environment looks the same every time.
func planOwn(n NetworkWant, subnet netip.Prefix) (NetworkPlan, error) {
	if subnet.Bits() > 29 {
		return NetworkPlan{}, &SubnetFullError{Network: n.Key, Subnet: subnet} // not one of ours: too small to halve
	}
	lower, upper := halves(subnet)
	np := NetworkPlan{
		Own: true, Subnet: subnet, Range: lower, Gateway: lower.Addr().Next(),
		Services: map[string]netip.Addr{},
	}
	free := newFree(upper, last(subnet), np.Gateway)
	keep := func(key string) netip.Addr { return free.claim(firstOf(n.ExistingAddresses[key], netip.Addr.Is4)) }

	singles := singleServices(n)
	if n.Simulator {
		np.Simulator = keep(SimulatorKey)
	}
	for _, name := range singles {
		if a := keep(name); a.IsValid() {
			np.Services[name] = a
		}
	}
	if n.Simulator && !np.Simulator.IsValid() {
		if np.Simulator = free.up(); !np.Simulator.IsValid() {
			return np, &SubnetFullError{Network: n.Key, Subnet: subnet}
		}
	}
	for _, name := range singles {
		if np.Services[name].IsValid() {
			continue
		}
		a := free.up()
		if !a.IsValid() {
			return np, &SubnetFullError{Network: n.Key, Subnet: subnet}
		}
		np.Services[name] = a
	}
	for range n.Reserve {
		a := free.up()
		if !a.IsValid() {
			return np, &SubnetFullError{Network: n.Key, Subnet: subnet}
		}
		np.Reserved = append(np.Reserved, a)
	}
	return np, nil
}

// planUser finds addresses in a subnet the environment declared itself, from
// the top down, because the engine hands out the lowest free address. Addresses
// outside the declared ip_range are safe for good and come first. Where the
// engine hands out the whole subnet, services get fixed addresses only if all
// that can be without one together never reach that high (see [spacious]):
// elsewhere a fixed address loses the race against whichever container starts
// earlier.
func planUser(n NetworkWant) (NetworkPlan, error) {
	np := NetworkPlan{Subnet: firstIPv4(n.UserSubnets), Range: n.UserRange, Gateway: n.UserGateway, Services: map[string]netip.Addr{}}
	spoken := slices.Clone(n.Static)
	for _, s := range n.Services {
		if !s.Static.IsValid() {
			continue
		}
		if !slices.ContainsFunc(n.UserSubnets, func(p netip.Prefix) bool { return p.Contains(s.Static) }) {
			return np, fmt.Errorf("service %q asks for %s on network %q, which is outside the network's subnet %s", s.Name, s.Static, n.Key, n.UserSubnets[0])
		}
		spoken = append(spoken, s.Static)
		np.Services[s.Name] = s.Static
	}
	if !np.Subnet.IsValid() {
		return np, nil // IPv6 only: the engine picks
	}
	first := np.Subnet.Masked().Addr().Next()
	spoken = append(spoken, first, np.Gateway) // the first address is the gateway the engine picks without being told
	if np.Range.IsValid() {
		spoken = append(spoken, np.Range.Masked().Addr().Next())
	}
	free := newFree(np.Subnet, append(spoken, last(np.Subnet))...)
	delete(free.used, netip.Addr{})
	spokenFor := len(free.used)
	if n.Simulator {
		np.Simulator = free.claim(firstOf(n.ExistingAddresses[SimulatorKey], netip.Addr.Is4))
		if !np.Simulator.IsValid() {
			np.Simulator = free.down(np.Range)
		}
		if !np.Simulator.IsValid() {
			np.Simulator = free.down(netip.Prefix{})
		}
		if !np.Simulator.IsValid() {
			return np, &SubnetFullError{Network: n.Key, Subnet: np.Subnet}
		}
	}
	for range n.Reserve {
		a := free.down(np.Range)
		if !a.IsValid() {
			a = free.down(netip.Prefix{})
		}
		if !a.IsValid() {
			return np, &SubnetFullError{Network: n.Key, Subnet: np.Subnet}
		}
		np.Reserved = append(np.Reserved, a)
	}
	ranged := np.Range.IsValid() && np.Range.Bits() > np.Subnet.Bits()
	if !ranged && !spacious(n, np.Subnet, spokenFor) {
		return np, nil
	}
	for _, name := range singleServices(n) {
		if np.Services[name].IsValid() {
			continue
		}
		var a netip.Addr
		if have := firstOf(n.ExistingAddresses[name], netip.Addr.Is4); ranged && have.IsValid() && !np.Range.Contains(have) {
			a = free.claim(have)
		}
		switch {
		case a.IsValid():
		case ranged:
			a = free.down(np.Range)
		default:
			a = free.down(netip.Prefix{})
		}
		if !a.IsValid() {
			break // the declared subnet has no more room outside its range
		}
		np.Services[name] = a
	}
	return np, nil
}

// spacious tells whether fixed addresses at the top of a subnet that the engine
// hands out as a whole are out of reach of what it hands out, from the bottom
// up: to services without one, each container of which holds two addresses while
// it is replaced, and to a few containers nobody planned.
func spacious(n NetworkWant, subnet netip.Prefix, spoken int) bool {
	dynamic, fixed := 4, n.Reserve+len(singleServices(n))
	if n.Simulator {
		fixed++
	}
	for _, s := range n.Services {
		if !single(n, s) && !s.Static.IsValid() {
			dynamic += 2 * max(s.Replicas, 1)
		}
	}
	size := 1 << (32 - subnet.Bits())
	return size-1-size/128-spoken >= dynamic+fixed // the subnet's own address is nobody's, nor are those [free] leaves out
}

// firstOf is the first address of a family, or the zero Addr.
func firstOf(addrs []netip.Addr, family func(netip.Addr) bool) netip.Addr {
	for _, a := range addrs {
		if a = a.Unmap(); family(a) {
			return a
		}
	}
	return netip.Addr{}
}

// singleServices names, sorted, the services that can have one fixed address.
func singleServices(n NetworkWant) []string {
	names := map[string]bool{}
	for _, s := range n.Services {
		if single(n, s) {
			names[s.Name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// single tells whether a service is to have one fixed address. On a network the
// simulator joins all need it that can: there an address identifies a service in the
// journal and carries a persona's backend. Elsewhere those do that are exposed.
func single(n NetworkWant, s ServiceWant) bool {
	return s.Replicas <= 1 && (n.Simulator || s.Fixed)
}
