package server

import (
	"net"
	"net/netip"
	"slices"

	"github.com/linuxarena/ctis/server/api"
	"github.com/linuxarena/ctis/server/registry"
)

// The rule here is: a connection belongs to a trajectory only if both its ends
// lie in one and the same network of it, and it came in on the interface there
// (ingress.go). The local address alone does not tell, because a container with
// NET_ADMIN can route to the simulator's address in another network; the peer's
// alone does not, because it can be forged; and both do not, because the way
// back can be bent. Nor is a network's gateway anybody in it: behind that address
// is the engine's host, with everything that runs in its network or is routed
// through it.
//
// What is refused is recorded with the trajectory whose network it came out of,
// since its agent did it, and never with the one whose address was called; what
// came by a gateway is no trajectory's doing.

// routes is an immutable snapshot of who is served where.
type routes struct {
	local   map[netip.Addr]*place
	places  []*place
	tenants map[string]*tenant
}

// place is one network of a tenant.
type place struct {
	tenant   *tenant
	subnets  []netip.Prefix
	gateways []netip.Addr
}

// ends are what is known of a connection before a byte of it is read.
type ends struct {
	local, peer netip.Addr
	// here are the addresses of the interface it came in on, and foreign is true
	// when the local one is not among them.
	here    []netip.Addr
	foreign bool
}

// newRoutes lays out what is registered. A trajectory that was there before
// keeps its tenant, and with it its connections.
func newRoutes(list []*registry.Trajectory, old *routes, open func(*registry.Trajectory) (*tenant, error), failed func(id string, err error)) *routes {
	r := &routes{local: map[netip.Addr]*place{}, tenants: map[string]*tenant{}}
	for _, t := range list {
		n := old.tenants[t.Trajectory]
		if n != nil {
			n.setPeers(t)
		} else {
			var err error
			if n, err = open(t); err != nil {
				failed(t.Trajectory, err)
				continue
			}
		}
		r.tenants[t.Trajectory] = n
		for _, network := range t.Networks {
			p := &place{tenant: n, subnets: network.Subnets, gateways: network.Gateways}
			r.places = append(r.places, p)
			for _, a := range network.Addresses {
				r.local[a.Unmap()] = p
			}
		}
	}
	return r
}

func (p *place) contains(a netip.Addr) bool {
	for _, s := range p.subnets {
		if s.Contains(a) {
			return true
		}
	}
	return false
}

// find gives the tenant of a connection, or why there is none.
func (r *routes) find(e ends) (*tenant, string) {
	p := r.local[e.local]
	switch {
	case p == nil:
		return nil, refusedAddress
	case e.foreign:
		return nil, refusedInterface
	case slices.Contains(p.gateways, e.peer):
		return nil, refusedGateway
	case !p.contains(e.peer):
		return nil, refusedPeer
	}
	return p.tenant, ""
}

// blame names the journal a refused connection is recorded in, and the service
// that made it. The interface tells best: the peer's address can be forged.
func (r *routes) blame(e ends) (trajectory, service string) {
	from := r.origin(e)
	if from == nil || slices.Contains(from.gateways, e.peer) {
		return api.Unattributed, ""
	}
	if !from.contains(e.peer) {
		return from.tenant.id, "" // whoever it was used an address of somebody else's
	}
	return from.tenant.id, from.tenant.service(e.peer)
}

// origin is the network a connection came out of, nil for none that is served.
func (r *routes) origin(e ends) *place {
	for _, a := range e.here {
		if p := r.local[a]; p != nil {
			return p
		}
	}
	if len(e.here) > 0 || e.foreign {
		return nil // it came out of a network that is nobody's, or of who knows which
	}
	for _, p := range r.places {
		if p.contains(e.peer) {
			return p
		}
	}
	return nil
}

// addrPort reads an address of a TCP connection, IPv4 as IPv4 also where the
// socket is IPv6.
func addrPort(a net.Addr) netip.AddrPort {
	t, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	ap := t.AddrPort()
	return netip.AddrPortFrom(ap.Addr().Unmap().WithZone(""), ap.Port())
}
