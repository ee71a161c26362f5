package netpin

import (
	"net/netip"
	"slices"

	"github.com/docker/docker/api/types/network"
)

// gateways lists the addresses the engine's host has on a network: those the
// network was given, those its endpoint reports, and, since on an internal
// network neither says so, the one the engine takes where nobody chooses. It is
// sorted, so that the same network always reads the same.
func gateways(n network.Inspect, e *network.EndpointSettings) []netip.Addr {
	all := []netip.Addr{} // a list also in JSON
	add := func(s string) bool {
		a, err := netip.ParseAddr(s)
		if p, perr := netip.ParsePrefix(s); perr == nil { // some engines add the length
			a, err = p.Addr(), nil
		}
		if err == nil && !slices.Contains(all, a.Unmap()) && within(a.Unmap(), subnets(n)) {
			all = append(all, a.Unmap())
		}
		return err == nil
	}
	for _, c := range n.IPAM.Config {
		if !add(c.Gateway) && n.Internal && n.Driver == "bridge" && !isolated(n) {
			add(firstAddress(c))
		}
	}
	add(e.Gateway)
	add(e.IPv6Gateway)
	slices.SortFunc(all, netip.Addr.Compare)
	return all
}

// isolated networks of engines from 27 on give the host no address.
func isolated(n network.Inspect) bool {
	for _, family := range []string{"ipv4", "ipv6"} {
		if n.Options["com.docker.network.bridge.gateway_mode_"+family] == "isolated" {
			return true
		}
	}
	return false
}

func firstAddress(c network.IPAMConfig) string {
	pool := c.IPRange
	if pool == "" {
		pool = c.Subnet
	}
	p, err := netip.ParsePrefix(pool)
	if err != nil {
		return ""
	}
	if first := p.Masked().Addr(); c.IPRange != "" && p.Addr().Is4() && c.IPRange != c.Subnet {
		if s, err := netip.ParsePrefix(c.Subnet); err == nil && s.Masked().Addr() != first {
			return first.String() // only the subnet's own first address is no host's
		}
	}
	return p.Masked().Addr().Next().String()
}

func within(a netip.Addr, subnets []netip.Prefix) bool {
	return slices.ContainsFunc(subnets, func(s netip.Prefix) bool { return s.Contains(a) })
}
