package compose

import (
	"cmp"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/compose-spec/compose-go/v2/types"
)

// addresses checks what the environment says about subnets and fixed addresses.
// Compose accepts nearly all of it, and the engine refuses it in the middle of
// setting up, or gives one address to two containers in turn.
func (c *checker) addresses() {
	var all []declaredPool
	for _, key := range sortedKeys(c.project.Networks) {
		net := c.project.Networks[key]
		pools := c.pools(key, net)
		c.fixedAddresses(key, net, pools)
		c.room(key, net, pools)
		if c.networkUsed(key) && !bool(net.External) {
			all = append(all, pools...)
		}
	}
	c.overlaps(all)
}

// declaredPool is an ipam pool of the environment, with its place.
type declaredPool struct {
	network string
	subnet  netip.Prefix
	dynamic netip.Prefix // ip_range; zero: the whole subnet
	gateway netip.Addr
	aux     map[netip.Addr]string // aux_addresses, with their names
	at      place                 // of the subnet
}

// pools reads a network's ipam and reports what is wrong within it. What cannot
// be read is left out of the result.
func (c *checker) pools(key string, net types.NetworkConfig) []declaredPool {
	var pools []declaredPool
	for i, pool := range net.Ipam.Config {
		if pool == nil {
			continue
		}
		at := func(field ...string) place {
			return c.sources.at(append([]string{"networks", key, "ipam", "config", strconv.Itoa(i)}, field...)...)
		}
		p := declaredPool{network: key, at: at("subnet"), aux: map[netip.Addr]string{}}
		prefixOf := func(field, value string) netip.Prefix {
			q, err := netip.ParsePrefix(value)
			if value != "" && err != nil {
				c.problems.errorf(at(field), "network %q has %q as its %s, which is not an address range", key, value, field).
					hint("an address range is written 10.1.2.0/24")
			}
			return q.Masked()
		}
		addrOf := func(what, value string, path ...string) netip.Addr {
			a, err := netip.ParseAddr(value)
			switch {
			case value == "":
			case err != nil:
				c.problems.errorf(at(path...), "network %q has %q as its %s, which is not an address", key, value, what)
			case p.subnet.IsValid() && !p.subnet.Contains(a):
				c.problems.errorf(at(path...), "network %q has %s as its %s, which is not in its subnet %s", key, a, what, p.subnet)
			}
			return a
		}
		p.subnet = prefixOf("subnet", pool.Subnet)
		p.dynamic = prefixOf("ip_range", pool.IPRange)
		if p.subnet.IsValid() && p.dynamic.IsValid() && (!p.subnet.Contains(p.dynamic.Addr()) || p.dynamic.Bits() < p.subnet.Bits()) {
			c.problems.errorf(at("ip_range"), "network %q has the ip_range %s, which is not in its subnet %s", key, p.dynamic, p.subnet)
		}
		p.gateway = addrOf("gateway", pool.Gateway, "gateway")
		for _, name := range sortedKeys(pool.AuxiliaryAddresses) {
			if a := addrOf("aux_addresses "+name, pool.AuxiliaryAddresses[name], "aux_addresses", name); a.IsValid() {
				p.aux[a] = name
			}
		}
		if pool.Subnet == "" && (pool.IPRange != "" || pool.Gateway != "") {
			c.problems.errorf(at(), "network %q has ipam without a subnet", key).
				hint("add a subnet, or remove the ipam: then each trajectory gets a subnet of its own")
		}
		if p.subnet.IsValid() {
			pools = append(pools, p)
		}
	}
	return pools
}

// overlaps reports subnets of the environment that no engine gives to two
// networks.
func (c *checker) overlaps(pools []declaredPool) {
	for i, p := range pools {
		for _, q := range pools[:i] {
			if p.subnet.Overlaps(q.subnet) {
				c.problems.errorf(p.at, "network %q has the subnet %s, which overlaps the subnet %s of network %q", p.network, p.subnet, q.subnet, q.network)
			}
		}
	}
}

// fixedAddresses checks the addresses that services fix on one network.
func (c *checker) fixedAddresses(key string, net types.NetworkConfig, pools []declaredPool) {
	type fixed struct {
		service string
		at      place
	}
	taken := map[netip.Addr]fixed{}
	for _, name := range c.project.ServiceNames() {
		s := c.project.Services[name]
		n := s.Networks[key]
		if n == nil {
			continue
		}
		for _, f := range []struct {
			field, value, kind string
			is                 func(netip.Addr) bool
		}{
			{"ipv4_address", n.Ipv4Address, "IPv4", netip.Addr.Is4},
			{"ipv6_address", n.Ipv6Address, "IPv6", func(a netip.Addr) bool { return a.Is6() && !a.Is4In6() }},
		} {
			if f.value == "" {
				continue
			}
			at := c.sources.at("services", name, "networks", key, f.field)
			a, err := netip.ParseAddr(f.value)
			if err != nil || !f.is(a) {
				c.problems.errorf(at, "service %q has %q as its address on network %q, which is not an %s address", name, f.value, key, f.kind)
				continue
			}
			if first, twice := taken[a]; twice {
				c.problems.errorf(at, "service %q has the address %s on network %q, which service %q has already", name, a, key, first.service).
					hint("that one is fixed at %s:%d", first.at.File, first.at.Line)
			}
			taken[a] = fixed{name, at}
			if s.GetScale() > 1 {
				c.problems.errorf(at, "service %q runs %d replicas, which cannot share the address %s on network %q", name, s.GetScale(), a, key).
					hint("remove %s, or run one replica", f.field)
			}
			if !bool(net.External) {
				c.fixedAddress(at, name, key, a, net, pools)
			}
		}
	}
}

// fixedAddress holds one address against the network's pools.
func (c *checker) fixedAddress(at place, service, key string, a netip.Addr, net types.NetworkConfig, pools []declaredPool) {
	i := slices.IndexFunc(pools, func(p declaredPool) bool { return p.subnet.Contains(a) })
	family := slices.ContainsFunc(pools, func(p declaredPool) bool { return p.subnet.Addr().Is4() == a.Is4() })
	switch {
	case i < 0 && len(net.Ipam.Config) > len(pools):
		return // the pool that should contain it is reported already
	case i < 0 && !family:
		c.problems.errorf(at, "service %q has a fixed address on network %q, which has no subnet%s", service, key, familyText(a, len(pools) > 0)).
			hint("give the network an ipam subnet that contains %s, or remove %s", a, addressField(a))
		return
	case i < 0:
		var subnets []string
		for _, p := range pools {
			if p.subnet.Addr().Is4() == a.Is4() {
				subnets = append(subnets, p.subnet.String())
			}
		}
		c.problems.errorf(at, "service %q has the address %s on network %q, which is outside %s", service, a, key, strings.Join(subnets, ", "))
		return
	}
	p := pools[i]
	// Without a gateway in the file the engine takes the first address.
	gateway, how := cmp.Or(p.gateway, p.subnet.Addr().Next()), "is its gateway"
	if !p.gateway.IsValid() {
		how = "the engine makes its gateway"
	}
	switch {
	case a == p.subnet.Addr():
		c.problems.errorf(at, "service %q has the address %s on network %q, which names the subnet %s itself", service, a, key, p.subnet)
	case a.Is4() && p.subnet.Bits() < 31 && a == lastOf(p.subnet):
		c.problems.errorf(at, "service %q has the address %s on network %q, which is the broadcast address of its subnet %s", service, a, key, p.subnet)
	case a == gateway && (p.gateway.IsValid() || !net.Internal):
		c.problems.errorf(at, "service %q has the address %s on network %q, which %s", service, a, key, how)
	case p.aux[a] != "":
		c.problems.errorf(at, "service %q has the address %s on network %q, which is reserved there for %q (aux_addresses)", service, a, key, p.aux[a])
	case c.dynamicTakes(key, p, a):
		c.problems.warnf(at, "service %q has the address %s on network %q, which the engine may give to another container first", service, a, key).
			hint("give the network an ip_range that does not contain it")
	}
}

// dynamicTakes says whether the engine may hand an address out by itself: where
// it is in the range, and some container on the network has no fixed address.
func (c *checker) dynamicTakes(key string, p declaredPool, a netip.Addr) bool {
	if p.dynamic.IsValid() && !p.dynamic.Contains(a) {
		return false
	}
	for _, s := range c.project.Services {
		n, on := s.Networks[key]
		if !on || s.Provider != nil {
			continue
		}
		if key == c.config.Network && s.GetScale() == 1 {
			continue // ctis gives it one
		}
		if n == nil || a.Is4() && n.Ipv4Address == "" || a.Is6() && n.Ipv6Address == "" {
			return true
		}
	}
	return false
}

func addressField(a netip.Addr) string {
	if a.Is4() {
		return "ipv4_address"
	}
	return "ipv6_address"
}

// familyText says which kind of subnet is missing, where there is the other.
func familyText(a netip.Addr, other bool) string {
	switch {
	case !other:
		return ""
	case a.Is4():
		return " for IPv4"
	}
	return " for IPv6"
}

// lastOf is the last address of a prefix.
func lastOf(p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	for i := range b {
		host := max(0, min(8, (i+1)*8-p.Bits()))
		b[i] |= byte(1<<host - 1)
	}
	a, _ := netip.AddrFromSlice(b) // of the length it came with
	return a
}
