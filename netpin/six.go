package netpin

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
)

// The parts of an IPv6 subnet that ctis gives, as IPv4 has its halves: the engine
// hands out what lies in the first 2^16 addresses, and fixed addresses follow.
const (
	dynamicBits6 = 112     // length of the dynamic range
	firstFixed6  = 1 << 16 // offset behind it
)

// planSix fills a network's IPv6 half. Without a subnet of the environment's own
// the network gets one: engines before 27 have none to give.
func planSix(n NetworkWant, np *NetworkPlan, seed string, taken *[]netip.Prefix) error {
	np.Services6 = map[string]netip.Addr{}
	if np.Own {
		if err := checkStatic6(n, nil); err != nil {
			return err
		}
		np.Subnet6 = firstIPv6(n.Existing)
		if !np.Subnet6.IsValid() {
			np.Subnet6 = uniqueLocal(seed, n.Key, *taken)
		}
		*taken = append(*taken, np.Subnet6)
		np.Range6 = netip.PrefixFrom(np.Subnet6.Addr(), dynamicBits6)
		np.Gateway6 = np.Subnet6.Addr().Next()
		next := firstFixed6
		fixed := func() netip.Addr { next++; return offset6(np.Subnet6, uint64(next)) }
		if n.Simulator {
			np.Simulator6 = fixed()
		}
		for _, name := range singleServices(n) {
			np.Services6[name] = fixed()
		}
		return nil
	}
	np.Subnet6 = firstIPv6(n.UserSubnets)
	if !np.Subnet6.IsValid() {
		return checkStatic6(n, nil)
	}
	if err := checkStatic6(n, n.UserSubnets); err != nil {
		return err
	}
	np.Range6, np.Gateway6 = n.UserRange6, n.UserGateway6
	used := append(slices.Clone(n.Static), np.Gateway6, np.Subnet6.Addr(), np.Subnet6.Addr().Next())
	for _, s := range n.Services {
		if s.Static6.IsValid() {
			used = append(used, s.Static6)
			np.Services6[s.Name] = s.Static6
		}
	}
	// The engine counts the first 2^64 addresses of a longer subnet only.
	within := np.Subnet6
	if within.Bits() < 64 {
		within = netip.PrefixFrom(within.Addr(), 64)
	}
	ranged := np.Range6.IsValid() && np.Range6.Bits() > within.Bits()
	if !ranged && within.Bits() > dynamicBits6 {
		return nil // so narrow that what the engine hands out may come to any address of it
	}
	at := offset6(within, 1<<(128-within.Bits())-1) // 1<<64 is 0, and 0-1 the last address
	down := func() netip.Addr {
		for at = at.Prev(); within.Contains(at); at = at.Prev() {
			if ranged && np.Range6.Contains(at) {
				at = np.Range6.Masked().Addr() // jump below it
				continue
			}
			if !slices.Contains(used, at) {
				return at
			}
		}
		return netip.Addr{}
	}
	if n.Simulator {
		np.Simulator6 = down()
	}
	for _, name := range singleServices(n) {
		if np.Services6[name].IsValid() {
			continue
		}
		if a := down(); a.IsValid() {
			np.Services6[name] = a
		}
	}
	return nil
}

// checkStatic6 makes sure that addresses the environment fixes are in its subnets.
func checkStatic6(n NetworkWant, subnets []netip.Prefix) error {
	for _, s := range n.Services {
		if s.Static6.IsValid() && !within(s.Static6, subnets) {
			return fmt.Errorf("service %q asks for %s on network %q, which declares no subnet that has it: add it to the network's ipam.config", s.Name, s.Static6, n.Key)
		}
	}
	return nil
}

// uniqueLocal derives a /64 of fd00::/8 (RFC 4193) from what names a network, so
// that no two trajectories choose the same and none has to ask. What is taken all
// the same is passed over, but for routes so wide (fc00::/7 of a VPN) that they
// leave nothing to choose.
func uniqueLocal(seed, key string, taken []netip.Prefix) netip.Prefix {
	taken = slices.DeleteFunc(slices.Clone(taken), func(p netip.Prefix) bool { return p.Bits() <= 16 })
	for try := 0; ; try++ {
		h := sha256.Sum256([]byte(seed + "\x00" + key + "\x00" + strconv.Itoa(try)))
		var b [16]byte
		b[0] = 0xfd
		copy(b[1:8], h[:7])
		p := netip.PrefixFrom(netip.AddrFrom16(b), 64)
		if !slices.ContainsFunc(taken, p.Overlaps) {
			return p
		}
	}
}

// offset6 is the n-th address of p.
func offset6(p netip.Prefix, n uint64) netip.Addr {
	b := p.Masked().Addr().As16()
	low := binary.BigEndian.Uint64(b[8:])
	binary.BigEndian.PutUint64(b[8:], low+n)
	return netip.AddrFrom16(b)
}

func firstIPv6(prefixes []netip.Prefix) netip.Prefix {
	for _, p := range prefixes {
		if p.IsValid() && p.Addr().Is6() && !p.Addr().Is4In6() {
			return p.Masked()
		}
	}
	return netip.Prefix{}
}
