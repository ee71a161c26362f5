package server

import (
	"net"
	"net/netip"

	"github.com/linuxarena/ctis/server/api"
	"github.com/linuxarena/ctis/server/registry"
)

// The rule here is: a connection belongs to a trajectory only if both its ends
// lie in one and the same network of it. The local address alone does not
// tell, because a container with NET_ADMIN can route to the simulator's address
// in another network; the peer's alone does not, because it can be forged.
// What is refused is recorded with the trajectory whose network the peer is in,
// since its agent did it, and never with the one whose address was called.

// routes is an immutable snapshot of who is served where.
type routes struct {
	local   map[netip.Addr]*place
	places  []*place
	tenants map[string]*tenant
}

// place is one network of a tenant.
type place struct {
	tenant  *tenant
	subnets []netip.Prefix
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
			p := &place{tenant: n, subnets: network.Subnets}
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
func (r *routes) find(local, peer netip.Addr) (*tenant, string) {
	p := r.local[local]
	switch {
	case p == nil:
		return nil, refusedAddress
	case !p.contains(peer):
		return nil, refusedPeer
	}
	return p.tenant, ""
}

// blame names the journal a refused connection is recorded in, and the service
// that made it.
func (r *routes) blame(peer netip.Addr) (trajectory, service string) {
	for _, p := range r.places {
		if p.contains(peer) {
			return p.tenant.id, p.tenant.service(peer)
		}
	}
	return api.Unattributed, ""
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
