package netpin

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// DefaultPool is where subnets come from unless CTIS_ADDRESS_POOL says
// otherwise: the range RFC 2544 sets aside for benchmarks, which no public host
// and hardly any private network uses.
var DefaultPool = netip.PrefixFrom(netip.AddrFrom4([4]byte{198, 18, 0, 0}), 15)

// minBits is the smallest subnet given out: 32 addresses, of which 14 are
// dynamic and 15 fixed.
const minBits = 27

// ParsePool reads an address pool as CTIS_ADDRESS_POOL holds it: an IPv4 prefix
// without host bits, between /8 and /27.
func ParsePool(s string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(strings.TrimSpace(s))
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("address pool %q is no address range: %w", s, err)
	}
	return p, checkPool(p)
}

func checkPool(p netip.Prefix) error {
	switch {
	case !p.IsValid():
		return errors.New("no address pool given")
	case !p.Addr().Is4():
		return fmt.Errorf("address pool %s is not IPv4", p)
	case p != p.Masked():
		return fmt.Errorf("address pool %s has host bits set; did you mean %s?", p, p.Masked())
	case p.Bits() < 8 || p.Bits() > minBits:
		return fmt.Errorf("address pool %s must be between /8 and /%d", p, minBits)
	}
	return nil
}

// ExhaustedError says that the pool has no room for some networks.
type ExhaustedError struct {
	Pool     netip.Prefix
	Networks []string // keys of those that did not fit
	Taken    int      // ranges of engine networks and routes that overlap the pool
}

func (e *ExhaustedError) Error() string {
	use := fmt.Sprintf("%d ranges of networks and routes are in its way", e.Taken)
	switch e.Taken {
	case 0:
		use = "it is too small"
	case 1:
		use = "a network or route is in its way"
	}
	return fmt.Sprintf("address pool %s has no room left for network %s: %s", e.Pool, quoteAll(e.Networks), use)
}

// SubnetFullError says that a network's own subnet has no free address.
type SubnetFullError struct {
	Network string
	Subnet  netip.Prefix
}

func (e *SubnetFullError) Error() string {
	return fmt.Sprintf("network %q has no free address left in its subnet %s; declare a larger subnet", e.Network, e.Subnet)
}

var errNoSubnet = errors.New("no subnet left")

// allocator hands out aligned subnets of a pool. It starts at a place that
// depends on the seed and goes round once, so that callers that work at the same
// time with different seeds rarely meet, while one caller always gets the same.
type allocator struct {
	base, size uint64 // of the pool, in addresses
	cursor     uint64 // offset from base
	taken      []span
}

// span is a range of addresses, both ends included.
type span struct{ from, to uint64 }

func newAllocator(pool netip.Prefix, taken []netip.Prefix, seed string) *allocator {
	a := &allocator{base: number(pool.Addr()), size: 1 << (32 - pool.Bits())}
	h := sha256.Sum256([]byte(seed))
	a.cursor = binary.BigEndian.Uint64(h[:8]) % a.size
	a.block(taken)
	return a
}

// block marks prefixes as taken. Those of IPv6 cannot overlap an IPv4 pool.
func (a *allocator) block(prefixes []netip.Prefix) {
	for _, p := range prefixes {
		if p.IsValid() && p.Addr().Is4() {
			a.taken = append(a.taken, spanOf(p))
		}
	}
}

// take returns the next free subnet of that size at or after the cursor.
func (a *allocator) take(bits int) (netip.Prefix, error) {
	step := uint64(1) << (32 - bits)
	if step > a.size {
		return netip.Prefix{}, errNoSubnet
	}
	start := a.cursor / step * step
	for offset, gone := start, uint64(0); gone < a.size; {
		c := span{a.base + offset, a.base + offset + step - 1}
		hit, free := a.overlap(c)
		if !free {
			// On to the first aligned place behind what is in the way.
			next := min((hit.to-a.base+step)/step*step, a.size)
			gone += next - offset
			offset = next % a.size
			continue
		}
		a.taken = append(a.taken, c)
		a.cursor = (offset + step) % a.size
		return netip.PrefixFrom(address(c.from), bits), nil
	}
	return netip.Prefix{}, errNoSubnet
}

// overlap finds the taken span that reaches furthest among those that overlap c.
func (a *allocator) overlap(c span) (hit span, free bool) {
	free = true
	for _, t := range a.taken {
		if t.from <= c.to && c.from <= t.to && (free || t.to > hit.to) {
			hit, free = t, false
		}
	}
	return hit, free
}

// subnetBits is the length of the smallest subnet with enough room in both
// halves: twice the containers and four more dynamic addresses, because a
// container that is replaced holds two for a moment; and every fixed address.
func subnetBits(n NetworkWant) (int, error) {
	containers, fixed := 0, n.Reserve
	for _, s := range n.Services {
		containers += max(s.Replicas, 1)
	}
	fixed += len(singleServices(n))
	if n.Simulator {
		fixed++
	}
	for bits := minBits; bits >= 8; bits-- {
		half := 1 << (32 - bits - 1)
		dynamic := half - 2             // without the network's address and the gateway
		usable := half - 1 - half/128*2 // without broadcast and what [free] leaves out
		if dynamic >= 2*containers+4 && usable >= fixed {
			return bits, nil
		}
	}
	return 0, fmt.Errorf("network %q is too large: no IPv4 subnet has room for %d containers", n.Key, containers)
}

// overlapping counts the ranges in taken that overlap the pool. A network and the
// host's route to it, or to a part of it, are one.
func overlapping(pool netip.Prefix, taken []netip.Prefix) int {
	var in []netip.Prefix
	for _, p := range taken {
		if p.Overlaps(pool) {
			in = append(in, p.Masked())
		}
	}
	// Wider ones first, so that what is inside another comes after it.
	slices.SortFunc(in, func(a, b netip.Prefix) int { return a.Bits() - b.Bits() })
	var ranges []netip.Prefix
	for _, p := range in {
		if !slices.ContainsFunc(ranges, p.Overlaps) {
			ranges = append(ranges, p)
		}
	}
	return len(ranges)
}
