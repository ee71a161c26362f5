// Package registry holds which trajectories the simulator serves, durably: a
// killed simulator comes back with every registration it had confirmed.
//
// It decides what may be registered beside what is there; how a connection
// finds its trajectory is the server's matter.
package registry

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/linuxarena/ctis/server/api"
)

// Trajectory is one registration. It is never changed after it is published.
type Trajectory struct {
	api.Registration
	Since time.Time // first registered
}

// Registry holds the registrations of one state directory.
type Registry struct {
	dir string
	now func() time.Time

	// mu is held by everything that changes what is registered, so that
	// retiring and registering exclude each other.
	mu       sync.Mutex
	retired  atomic.Bool                   // changed under mu, read without: a status waits for nobody
	held     map[string][]api.Exclusive    // ids that a process on the host is working on, with what it wants for them
	snapshot atomic.Pointer[[]*Trajectory] // sorted by id, replaced as a whole
	problems []string                      // found by Load, fixed afterwards
}

// Load reads the registrations kept in dir, which it creates if need be. A
// file that cannot be read back is set aside and reported by Problems; the
// others are served.
func Load(dir string, now func() time.Time) (*Registry, error) {
	r := &Registry{dir: dir, now: now, held: map[string][]api.Exclusive{}}
	list, problems, err := readAll(dir)
	if err != nil {
		return nil, err
	}
	var kept []*Trajectory
	for _, t := range list {
		if e := check(&t.Registration); e != nil {
			problems = append(problems, "registration of "+t.Trajectory+" is not served: "+e.Message)
			continue
		}
		if e := collide(&t.Registration, kept); e != nil {
			problems = append(problems, "registration of "+t.Trajectory+" is not served: "+e.Message)
			continue
		}
		kept = append(kept, t)
	}
	r.problems = problems
	r.publish(kept)
	return r, nil
}

// Problems says what Load could not read or may not serve.
func (r *Registry) Problems() []string { return r.problems }

// Snapshot lists the registered trajectories, sorted by id. The slice and what
// it points at are not to be changed.
func (r *Registry) Snapshot() []*Trajectory { return *r.snapshot.Load() }

// Lookup finds a registered trajectory.
func (r *Registry) Lookup(id string) (*Trajectory, bool) {
	return find(r.Snapshot(), id)
}

// Retired says whether Retire succeeded.
func (r *Registry) Retired() bool { return r.retired.Load() }

// Register adds a trajectory. Registering one again with the same settings,
// personas and networks changes nothing; with others it is refused. Before a
// new registration is stored, prepare makes ready what serving it needs; its
// error is returned and nothing is registered.
//
// Refusals are of type *[api.Error]: invalid, conflict or retired.
func (r *Registry) Register(reg *api.Registration, prepare func() error) (unchanged bool, err error) {
	if e := check(reg); e != nil {
		return false, e
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.retired.Load() {
		return false, api.Errorf(http.StatusGone, api.CodeRetired,
			"this simulator is retired and accepts no registration; register %q with its successor", reg.Trajectory)
	}
	list := r.Snapshot()
	if old, ok := find(list, reg.Trajectory); ok {
		if fields := differences(&old.Registration, reg); len(fields) > 0 {
			e := api.Errorf(http.StatusConflict, api.CodeConflict,
				"trajectory %q is registered with other settings; take it down before registering it anew", reg.Trajectory)
			e.Holders, e.Fields = []string{reg.Trajectory}, fields
			return false, e
		}
		return true, r.complete(old, reg.Exclusive)
	}
	if e := collide(reg, list); e != nil {
		return false, e
	}
	if e := r.exclude(reg.Trajectory, reg.Exclusive); e != nil {
		return false, e
	}
	if err := prepare(); err != nil {
		return false, err
	}
	t := &Trajectory{Registration: clone(reg), Since: r.now().UTC()}
	for i := range t.Personas {
		t.Personas[i].RulesRevision = 0
	}
	for i := range t.Upstreams {
		t.Upstreams[i].RulesRevision = 0
	}
	if err := write(r.dir, t); err != nil {
		_ = remove(r.dir, t.Trajectory) // what was refused must not be there after a restart
		return false, err
	}
	r.publish(append(slices.Clone(list), t))
	return false, nil
}

// SetPeers replaces what is known about the services on the named networks of
// a trajectory.
func (r *Registry) SetPeers(id string, peers api.Peers) error {
	return r.change(id, func(t *Trajectory) *api.Error {
		for name, p := range peers {
			n, e := t.network(name)
			if e != nil {
				return e
			}
			n.Peers = slices.Clone(p)
		}
		return nil
	})
}

// SetNetworks replaces networks of a trajectory, by name: the simulator's addresses
// there can be others when it is put back on one whose subnet nobody fixed, and one
// that was made anew has another id. Like a registration it is refused where
// another trajectory holds what they have.
func (r *Registry) SetNetworks(id string, networks api.Networks) error {
	return r.change(id, func(t *Trajectory) *api.Error {
		for _, now := range clone(&api.Registration{Networks: networks}).Networks {
			n, e := t.network(now.Name)
			if e != nil {
				return e
			}
			if now.ID != n.ID {
				t.unpin(n.ID, now.ID)
			}
			*n = now
		}
		return nil
	})
}

// SetPins replaces the pins of the named services, in every persona that one is the
// backend of.
func (r *Registry) SetPins(id string, pins api.Pins) error {
	return r.change(id, func(t *Trajectory) *api.Error {
		for service, pin := range pins {
			found := false
			for _, p := range t.Personas {
				if p.Backend != nil && p.Backend.Service == service {
					p.Backend.Pin, found = pin, true
				}
			}
			if !found {
				return invalid("service %q is the backend of no persona of trajectory %q", clip(service), id)
			}
		}
		return nil
	})
}

// unpin forgets where backends on a network are that was made anew: who has their
// addresses there is not known until they are pinned again.
func (t *Trajectory) unpin(from, to string) {
	for _, p := range t.Personas {
		if p.Backend != nil && p.Backend.Pin.Network == from {
			p.Backend.Pin.Network, p.Backend.Pin.Address = to, netip.Addr{}
		}
	}
}

func (t *Trajectory) network(name string) (*api.Network, *api.Error) {
	i := slices.IndexFunc(t.Networks, func(n api.Network) bool { return n.Name == name })
	if i < 0 {
		return nil, api.Errorf(http.StatusBadRequest, api.CodeInvalid, "trajectory %q has no network %q", t.Trajectory, clip(name))
	}
	return &t.Networks[i], nil
}

// change replaces a trajectory by a changed copy of it, if that may be registered
// beside the others.
func (r *Registry) change(id string, edit func(*Trajectory) *api.Error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	old, ok := find(r.Snapshot(), id)
	if !ok {
		return notRegistered(id)
	}
	t := &Trajectory{Registration: clone(&old.Registration), Since: old.Since}
	if e := edit(t); e != nil {
		return e
	}
	if e := check(&t.Registration); e != nil {
		return e
	}
	others := slices.DeleteFunc(slices.Clone(r.Snapshot()), func(x *Trajectory) bool { return x == old })
	if e := collide(&t.Registration, others); e != nil {
		return e
	}
	return r.replace(old, t)
}

// complete gives a registration of a time before such lists the one of what is
// exclusive of it; mu is held.
func (r *Registry) complete(old *Trajectory, exclusive []api.Exclusive) error {
	if len(exclusive) == 0 || slices.Equal(old.Exclusive, exclusive) {
		return nil
	}
	if e := r.exclude(old.Trajectory, exclusive); e != nil {
		return e
	}
	t := &Trajectory{Registration: clone(&old.Registration), Since: old.Since}
	t.Exclusive = slices.Clone(exclusive)
	return r.replace(old, t)
}

// replace stores t in place of old; mu is held.
func (r *Registry) replace(old, t *Trajectory) error {
	if err := write(r.dir, t); err != nil {
		return err
	}
	list := slices.DeleteFunc(slices.Clone(r.Snapshot()), func(x *Trajectory) bool { return x == old })
	r.publish(append(list, t))
	return nil
}

// Unregister removes a trajectory; known is false if there was none.
func (r *Registry) Unregister(id string) (known bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := r.Snapshot()
	old, ok := find(list, id)
	if !ok {
		return false, nil
	}
	if err := remove(r.dir, id); err != nil {
		return true, err
	}
	r.publish(slices.DeleteFunc(slices.Clone(list), func(x *Trajectory) bool { return x == old }))
	return true, nil
}

// Hold reserves an id for one caller who sets it up or takes it down, so that two
// never work on one trajectory, and what is exclusive of it, so that no two
// trajectories get the same. release may be called more than once. It outlives
// no process: what a killed one had in work is for the next to clear away.
//
// Refusals are of type *[api.Error]: invalid, held, conflict or retired.
func (r *Registry) Hold(id string, exclusive []api.Exclusive) (release func(), err error) {
	if !ValidID(id) {
		return nil, api.Errorf(http.StatusBadRequest, api.CodeInvalid, "%q is no trajectory id", id)
	}
	if e := checkExclusive(id, exclusive); e != nil {
		return nil, e
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.retired.Load() {
		return nil, api.Errorf(http.StatusGone, api.CodeRetired, "this simulator is retired; work on %q with its successor", id)
	}
	if _, held := r.held[id]; held {
		e := api.Errorf(http.StatusConflict, api.CodeHeld, "another process is working on trajectory %q", id)
		e.Holders = []string{id}
		return nil, e
	}
	if e := r.exclude(id, exclusive); e != nil {
		return nil, e
	}
	r.held[id] = slices.Clone(exclusive)
	return sync.OnceFunc(func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.held, id)
	}), nil
}

// Held tells whether a process is setting a trajectory up or taking it down.
func (r *Registry) Held(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, held := r.held[id]
	return held
}

// Retire makes Register and Hold refuse from now on, provided that nothing is
// registered or held: all in one step. A process started again is not retired.
func (r *Registry) Retire() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var holders []string
	for _, t := range r.Snapshot() {
		holders = append(holders, t.Trajectory)
	}
	for id := range r.held {
		holders = append(holders, id)
	}
	if len(holders) == 0 {
		r.retired.Store(true)
		return nil
	}
	slices.Sort(holders)
	holders = slices.Compact(holders)
	e := api.Errorf(http.StatusConflict, api.CodeBusy, "trajectories in use: %d; take them down first", len(holders))
	e.Holders = holders
	return e
}

func (r *Registry) publish(list []*Trajectory) {
	slices.SortFunc(list, func(a, b *Trajectory) int { return strings.Compare(a.Trajectory, b.Trajectory) })
	r.snapshot.Store(&list)
}

func find(list []*Trajectory, id string) (*Trajectory, bool) {
	for _, t := range list {
		if t.Trajectory == id {
			return t, true
		}
	}
	return nil, false
}

func notRegistered(id string) *api.Error {
	return api.Errorf(http.StatusNotFound, api.CodeNotFound, "trajectory %q is not registered", id)
}

// clone copies what a caller could still change.
func clone(reg *api.Registration) api.Registration {
	c := *reg
	c.Networks = slices.Clone(reg.Networks)
	for i := range c.Networks {
		n := &c.Networks[i]
		n.Subnets, n.Addresses = slices.Clone(n.Subnets), slices.Clone(n.Addresses)
		n.Gateways, n.Peers = slices.Clone(n.Gateways), slices.Clone(n.Peers)
	}
	c.Exclusive, c.Exposed = slices.Clone(reg.Exclusive), slices.Clone(reg.Exposed)
	c.Upstreams = slices.Clone(reg.Upstreams)
	c.Personas = slices.Clone(reg.Personas)
	for i := range c.Personas {
		p := &c.Personas[i]
		p.Endpoints = slices.Clone(p.Endpoints)
		if p.Backend != nil {
			b := *p.Backend
			p.Backend = &b
		}
	}
	return c
}
