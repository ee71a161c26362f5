package compose

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/compose-spec/compose-go/v2/types"
)

// room reports subnets that cannot hold what is to be in them. The engine accepts
// them, and refuses the last container. Only a network with one IPv4 pool is
// counted: which of several the engine takes from is its own affair, and an IPv6
// pool that is too small is none in practice.
func (c *checker) room(key string, net types.NetworkConfig, pools []declaredPool) {
	var pool declaredPool
	for _, p := range pools {
		if !p.subnet.Addr().Is4() {
			continue
		}
		if pool.subnet.IsValid() {
			return
		}
		pool = p
	}
	if !pool.subnet.IsValid() || bool(net.External) || !c.networkUsed(key) {
		return
	}
	need := need{reserved: map[netip.Addr]bool{}, simulator: key == c.config.Network}
	for a := range pool.aux {
		need.reserved[a] = true
	}
	// An internal network need not have a gateway; newer engines give it none.
	if need.gateway = !net.Internal || pool.gateway.IsValid(); need.gateway {
		delete(need.reserved, pool.gateway)
	}
	for _, s := range c.project.Services {
		if _, on := s.Networks[key]; on && s.Provider == nil {
			need.containers += s.GetScale()
		}
	}
	if slices.Contains(sidecarNetworks(c.config, c.project), key) {
		need.containers++
	}
	have, want := usable(pool.subnet.Bits()), need.total()
	if have >= want {
		return
	}
	// The subnet's own two ends are none of the usable ones.
	bits := min(pool.subnet.Bits(), 30)
	for ; bits > 0 && usable(bits) < want; bits-- {
	}
	c.problems.errorf(pool.at, "network %q has the subnet %s with %s and needs %d: %s", key, pool.subnet, count(have, "usable address", "usable addresses"), want, need).
		hint("it needs at least a /%d", bits)
}

// usable is how many addresses of an IPv4 subnet something can have: all but the
// first and the last, where there are more than two.
func usable(bits int) int {
	if size := 1 << (32 - bits); size > 2 {
		return size - 2
	}
	return 1 << (32 - bits)
}

// need is what has to have an address on a network.
type need struct {
	gateway, simulator bool
	containers         int
	reserved           map[netip.Addr]bool // aux_addresses
}

func (n need) total() int {
	total := n.containers + len(n.reserved)
	if n.gateway {
		total++
	}
	if n.simulator {
		total++
	}
	return total
}

func (n need) String() string {
	var parts []string
	if n.gateway {
		parts = append(parts, "the gateway")
	}
	if n.simulator {
		parts = append(parts, "the simulator")
	}
	parts = append(parts, count(n.containers, "container", "containers"))
	if len(n.reserved) > 0 {
		parts = append(parts, fmt.Sprintf("%d reserved in aux_addresses", len(n.reserved)))
	}
	return strings.Join(parts, ", ")
}

func count(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, more)
}
