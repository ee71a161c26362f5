package gateway

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"

	"github.com/linuxarena/ctis/server/api"
)

// fence says where upstreams may be. The rule here is: what counts is the address that
// is dialled, looked at in the moment it is dialled, so that a name which leads
// elsewhere the second time it is asked for gains nothing.
//
// Refused are the gateway itself, the link and whatever trajectories' networks may be
// on, what only one machine or cable knows, and where clouds answer questions about
// the machine. Private ranges are not refused: a company's own API is there.
type fence struct {
	allow   []netip.Prefix
	own     func() []netip.Addr
	peering func() *api.Peering
}

// machine are addresses that tell about the machine one asks on, beside those in the
// link-local ranges.
var machine = []netip.Addr{
	netip.MustParseAddr("168.63.129.16"),   // Azure
	netip.MustParseAddr("100.100.100.200"), // Alibaba Cloud
	netip.MustParseAddr("192.0.0.192"),     // Oracle Cloud
	netip.MustParseAddr("fd00:ec2::254"),   // AWS
	netip.MustParseAddr("fd20:ce::254"),    // Google Cloud
}

// translated are ranges whose addresses stand for one of IPv4, and the byte it begins at.
var translated = []struct {
	prefix netip.Prefix
	at     int
}{
	{netip.MustParsePrefix("64:ff9b::/96"), 12},   // RFC 6052
	{netip.MustParsePrefix("64:ff9b:1::/48"), 12}, // RFC 8215, as most use it
	{netip.MustParsePrefix("2002::/16"), 2},       // 6to4, RFC 3056
	{netip.MustParsePrefix("::/96"), 12},          // IPv4-compatible, RFC 4291
}

var (
	thisNetwork = netip.MustParsePrefix("0.0.0.0/8")
	broadcast   = netip.MustParseAddr("255.255.255.255")
	siteLocal   = netip.MustParsePrefix("fec0::/10") // deprecated, and still of one site
)

// refuse says why no upstream may be at an address; "" if one may. claimed are the
// trajectories' networks.
func (f *fence) refuse(a netip.Addr, claimed func(yield func(string, *api.Claims) bool)) string {
	a = a.Unmap().WithZone("")
	if within(f.allow, a) {
		return ""
	}
	switch {
	case !a.IsValid(), a.IsUnspecified(), thisNetwork.Contains(a):
		return "is no address of a machine"
	case a.IsLoopback():
		return "is the gateway itself (loopback)"
	case a.IsLinkLocalUnicast(), a.IsInterfaceLocalMulticast(), siteLocal.Contains(a):
		return "is link-local"
	case a.IsMulticast(), a == broadcast:
		return "is no single machine's"
	case slices.Contains(machine, a):
		return "is where a cloud tells about its machines"
	case slices.Contains(f.own(), a):
		return "is the gateway itself"
	}
	for _, t := range translated {
		if t.prefix.Contains(a) {
			b := a.As16()
			if why := f.refuse(netip.AddrFrom4([4]byte(b[t.at:t.at+4])), claimed); why != "" {
				return why
			}
		}
	}
	p := f.peering()
	if within(p.Open, a) {
		return ""
	}
	if within(p.Closed, a) {
		return "is in the range of trajectories' networks, or the simulator's"
	}
	why := ""
	claimed(func(id string, c *api.Claims) bool {
		if within(c.Networks, a) {
			why = fmt.Sprintf("is in a network of trajectory %q", id)
		}
		return why == ""
	})
	return why
}

func within(list []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(list, func(p netip.Prefix) bool { return p.Contains(a) })
}

// control is the last look, at the address that a socket is about to connect to.
func (g *Gateway) control(_ context.Context, _, address string, _ syscall.RawConn) error {
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%q is no address", address)
	}
	if why := g.fence.refuse(ap.Addr(), g.claims.networks); why != "" {
		return fmt.Errorf("%s %s", ap.Addr(), why)
	}
	return nil
}

// ownAddresses are those of every interface.
func ownAddresses() []netip.Addr {
	list, err := net.InterfaceAddrs()
	if err != nil {
		return nil // loopback and the link are refused all the same
	}
	var own []netip.Addr
	for _, a := range list {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			own = append(own, p.Addr().Unmap())
		}
	}
	return own
}

// systemResolver asks the engine's resolver, which knows no trajectory's names here:
// the gateway is on none of their networks. The dot keeps search domains out.
func systemResolver(ctx context.Context, host string) ([]netip.Addr, error) {
	r := net.Resolver{PreferGo: true}
	return r.LookupNetIP(ctx, "ip", strings.TrimSuffix(host, ".")+".")
}
