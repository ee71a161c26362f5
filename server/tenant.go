package server

import (
	"crypto/tls"
	"maps"
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/linuxarena/ctis/server/api"
	"github.com/linuxarena/ctis/server/journal"
	"github.com/linuxarena/ctis/server/registry"
	"github.com/linuxarena/ctis/server/rule"
	"github.com/linuxarena/ctis/server/wire"
)

// tenant is a registered trajectory as it is served. Nothing in it reaches
// another one; a request only ever sees the tenant of its connection.
type tenant struct {
	id      string
	journal *journal.Journal
	first   *api.Persona            // answers clients that name none; nil without personas
	hosts   map[string]*api.Persona // by normalised host
	// upstreams are those of hosts that the gateway is asked for.
	upstreams map[string]bool
	tls       *tls.Config
	peers     atomic.Pointer[map[netip.Addr]string] // service by address
	pinned    atomic.Pointer[map[string]pinned]     // backends by persona
	rules     atomic.Pointer[map[string]*rule.Host] // by persona
	waiting   atomic.Int64                          // requests that a rule holds back
	heavy     sync.Mutex                            // see heavily
	heads     atomic.Int64                          // bytes of the heads of open HTTP/2 streams
	seats     seats

	mu       sync.Mutex
	gone     bool
	links    map[*link]struct{}
	requests int
	proxied  int           // of the requests, those a backend has
	idle     chan struct{} // closed when gone and the last request has ended
}

func newTenant(t *registry.Trajectory, j *journal.Journal) *tenant {
	n := &tenant{
		id:      t.Trajectory,
		journal: j,
		hosts:   make(map[string]*api.Persona, len(t.Personas)),
		links:   map[*link]struct{}{},
		idle:    make(chan struct{}),
		seats:   seats{free: seatsOf()},

		upstreams: make(map[string]bool, len(t.Upstreams)),
	}
	for i := range t.Personas {
		p := t.Personas[i]
		if p.ServerHeader == "" {
			p.ServerHeader = api.DefaultServerHeader
		}
		n.hosts[p.Host] = &p
		if i == 0 {
			n.first = &p
		}
	}
	for _, u := range t.Upstreams {
		p := &api.Persona{Host: u.Host, ServerHeader: api.DefaultServerHeader} // what errors of ours say
		n.hosts[u.Host], n.upstreams[u.Host] = p, true
		if n.first == nil {
			n.first = p
		}
	}
	n.setPeers(t)
	return n
}

// setPeers takes over what can change of a registration.
func (n *tenant) setPeers(t *registry.Trajectory) {
	peers := map[netip.Addr]string{}
	for _, network := range t.Networks {
		maps.Copy(peers, named(network.Peers))
	}
	n.peers.Store(&peers)
	n.pinned.Store(pinsOf(&t.Registration))
}

// named says which service has which address of a network, as far as that stays true.
// A service of one container has an address of its own. Those of several get theirs from
// the engine, which gives them out anew whenever containers stop and start: where there is
// one such service, they are its own all the same; where there are more, an address says
// nothing of the service, and a record that names none is better than one that names
// another.
func named(peers []api.Peer) map[netip.Addr]string {
	type family struct {
		service string
		six     bool
	}
	count, several := map[family]int{}, map[string]bool{}
	for _, p := range peers {
		f := family{p.Service, p.Address.Unmap().Is6()}
		if count[f]++; count[f] > 1 {
			several[p.Service] = true
		}
	}
	services := map[netip.Addr]string{}
	for _, p := range peers {
		if !several[p.Service] || len(several) == 1 {
			services[p.Address.Unmap()] = p.Service
		}
	}
	return services
}

// persona finds the persona a Host, :authority or SNI names, nil for none.
func (n *tenant) persona(host string) *api.Persona { return n.hosts[wire.NormalHost(host)] }

func (n *tenant) service(a netip.Addr) string { return (*n.peers.Load())[a] }

// serverHeader is what an answer says that no persona was found for.
func (n *tenant) serverHeader() string {
	if n.first == nil {
		return api.DefaultServerHeader
	}
	return n.first.ServerHeader
}

// join adds a connection; why not, when it may not be.
func (n *tenant) join(l *link, limit int) (refused string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.gone:
		return refusedGone
	case len(n.links) >= limit:
		return refusedCrowded
	}
	n.links[l] = struct{}{}
	return ""
}

func (n *tenant) leave(l *link) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.links, l)
}

// begin counts a request in; served is false once the trajectory is gone, and
// crowded is true when too many are in work already.
func (n *tenant) begin(limit int) (served, crowded bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.gone {
		return false, false
	}
	n.requests++
	return true, n.requests > limit
}

func (n *tenant) isGone() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.gone
}

func (n *tenant) end() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.requests--
	n.signalIdle()
}

func (n *tenant) signalIdle() {
	if n.gone && n.requests == 0 {
		select {
		case <-n.idle:
		default:
			close(n.idle)
		}
	}
}

// dismiss ends the serving of the trajectory: no request begins any more, and
// its connections are closed. idle is closed when the last request has ended.
func (n *tenant) dismiss() {
	n.mu.Lock()
	n.gone = true
	links := make([]*link, 0, len(n.links))
	for l := range n.links {
		links = append(links, l)
	}
	n.signalIdle()
	n.mu.Unlock()
	for _, l := range links {
		l.cut()
	}
}
