package server

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/linuxarena/ctis/server/admin"
	"github.com/linuxarena/ctis/server/api"
	"github.com/linuxarena/ctis/server/registry"
)

// control is the server as package admin sees it.
type control struct{ *Server }

var _ admin.Simulator = control{}

// Status: see [admin.Simulator]. It waits for nothing that changes.
func (c control) Status() *api.Status {
	s := &api.Status{
		Protocol:     api.Protocol,
		Started:      c.started,
		Retired:      c.registry.Retired(),
		Identity:     c.gateway.identity.Fingerprint,
		Trajectories: []api.TrajectoryStatus{},
		Problems:     slices.Concat(c.found, c.registry.Problems(), c.journal.Problems(), c.distrusted(), *c.notServed.Load()),
	}
	for _, t := range c.registry.Snapshot() {
		s.Trajectories = append(s.Trajectories, c.describe(t))
	}
	if j, ok := c.journal.Lookup(api.Unattributed); ok {
		s.Unattributed = j.Status().Records
	}
	if text := c.storage.Load(); text != nil {
		s.Problems = append(s.Problems, *text)
	}
	if s.Problems == nil {
		s.Problems = []string{} // an empty list, never null
	}
	return s
}

func (c control) describe(t *registry.Trajectory) api.TrajectoryStatus {
	d := api.TrajectoryStatus{
		Trajectory: t.Trajectory, Environment: t.Environment, Settings: t.Settings,
		Networks: t.Networks, Personas: []string{}, Upstreams: append([]api.Upstream{}, t.Upstreams...), Since: t.Since, Exposed: t.Exposed, ReplacedRules: replacedRules(t),
	}
	for _, p := range t.Personas {
		d.Personas = append(d.Personas, p.Host)
		if b := p.Backend; b != nil {
			if d.Pins == nil {
				d.Pins = api.Pins{}
			}
			d.Pins[b.Service] = b.Pin
		}
	}
	if j, ok := c.journal.Lookup(t.Trajectory); ok {
		d.Journal = j.Status()
	}
	return d
}

// CA: see [admin.Simulator].
func (c control) CA() []byte { return c.ca.PEM() }

// Hold: see [admin.Simulator].
func (c control) Hold(id string, exclusive []api.Exclusive) (func(), error) {
	return c.registry.Hold(id, exclusive)
}

// Register: see [admin.Simulator]. What an earlier trajectory of the same id
// stored is removed first, and its journal set aside: a new one begins empty.
func (c control) Register(r *api.Registration) (*api.Registered, error) {
	c.lockFor(r.Trajectory)
	defer c.changing.Unlock()
	c.interfaces.look() // the simulator was put on the networks just now
	unchanged, err := c.registry.Register(r, func() error {
		if err := errors.Join(c.files.Remove(r.Trajectory), c.memories.forget(r.Trajectory)); err != nil {
			return err
		}
		_, err := c.journal.Begin(r.Trajectory)
		return err
	})
	if err != nil {
		return nil, err
	}
	if !unchanged {
		c.reroute()
		c.log.Info("trajectory registered", "trajectory", r.Trajectory)
	}
	return &api.Registered{Unchanged: unchanged}, nil
}

// Trajectory: see [admin.Simulator].
func (c control) Trajectory(id string) (*api.TrajectoryStatus, error) {
	t, ok := c.registry.Lookup(id)
	if !ok {
		return nil, api.Errorf(http.StatusNotFound, api.CodeNotFound, "trajectory %q is not registered", clip(id))
	}
	d := c.describe(t)
	return &d, nil
}

// SetPeers: see [admin.Simulator].
func (c control) SetPeers(id string, p api.Peers) error {
	return c.rerouted(func() error { return c.registry.SetPeers(id, p) })
}

// SetNetworks: see [admin.Simulator].
func (c control) SetNetworks(id string, n api.Networks) error {
	c.interfaces.look() // the simulator was put on them just now
	return c.rerouted(func() error { return c.registry.SetNetworks(id, n) })
}

// SetPins: see [admin.Simulator].
func (c control) SetPins(id string, p api.Pins) error {
	return c.rerouted(func() error { return c.registry.SetPins(id, p) })
}

// rerouted makes a change and lays the routes out anew.
func (c control) rerouted(change func() error) error {
	c.changing.Lock()
	defer c.changing.Unlock()
	if err := change(); err != nil {
		return err
	}
	c.reroute()
	return nil
}

// Unregister: see [admin.Simulator]. When it returns, no request of the
// trajectory is in work any more and nothing of what it stored is left but the
// journal. Only the trajectory itself waits for that.
func (c control) Unregister(ctx context.Context, id string) (*api.Unregistered, error) {
	c.lockFor(id)
	known, err := c.registry.Unregister(id)
	if err != nil {
		c.changing.Unlock()
		return nil, err
	}
	answer := &api.Unregistered{Known: known}
	if registry.ValidID(id) { // also where an earlier removal went wrong half way
		n := c.routes.Load().tenants[id]
		c.reroute()
		c.ca.Forget(id)
		c.sidecars.forget(id)
		left := make(chan struct{})
		c.leaving[id] = left
		c.changing.Unlock()
		err = c.clearAway(ctx, id, n)
		c.changing.Lock()
		delete(c.leaving, id)
		close(left)
	}
	c.changing.Unlock()
	if err != nil {
		return nil, err
	}
	if j, ok := c.journal.Lookup(id); ok && registry.ValidID(id) {
		answer.Requests = j.Status().Records
	}
	if known {
		c.log.Info("trajectory unregistered", "trajectory", id, "requests", answer.Requests)
	}
	return answer, nil
}

// lockFor takes changing once nothing of an earlier trajectory of the id is left.
func (c control) lockFor(id string) {
	for {
		c.changing.Lock()
		left, leaving := c.leaving[id]
		if !leaving {
			return
		}
		c.changing.Unlock()
		<-left
	}
}

// clearAway ends what is in work of a trajectory that is not routed to any more
// (nil when it was never served), and removes what it stored.
func (c control) clearAway(ctx context.Context, id string, n *tenant) error {
	if n != nil {
		n.dismiss()
		wait, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.limits.UnregisterWait)
		defer cancel()
		select {
		case <-n.idle:
		case <-wait.Done():
			c.log.Warn("requests are still in work after their trajectory was removed", "trajectory", id)
		}
	}
	if j, ok := c.journal.Lookup(id); ok {
		j.Rest()
	}
	return errors.Join(c.files.Remove(id), c.memories.forget(id))
}

// Journal: see [admin.Simulator].
func (c control) Journal(id string) (admin.Journal, bool) {
	if base, _ := api.SplitArchived(id); id != api.Unattributed && !registry.ValidID(base) {
		return nil, false
	}
	j, ok := c.journal.Lookup(id)
	if !ok {
		return nil, false
	}
	return j, true
}

// Retire: see [admin.Simulator].
func (c control) Retire() error {
	if err := c.registry.Retire(); err != nil {
		return err
	}
	c.log.Info("retired: no trajectory is accepted any more")
	return nil
}

// Healthy: see [admin.Simulator].
func (c control) Healthy() error {
	if !c.serving.Load() {
		return errors.New("the listeners are not open; the simulator is starting or stopping")
	}
	return nil
}

// reroute lays the routes out anew after a change; changing is held.
func (s *Server) reroute() {
	var notServed []string
	s.routes.Store(newRoutes(s.registry.Snapshot(), s.routes.Load(), s.openTenant, func(id string, err error) {
		notServed = append(notServed, "trajectory "+id+" is not served: "+err.Error())
		s.log.Error("a trajectory is not served", "trajectory", id, "error", err)
	}))
	s.notServed.Store(&notServed)
}

func (s *Server) openTenant(t *registry.Trajectory) (*tenant, error) {
	j, err := s.journal.Journal(t.Trajectory)
	if err != nil {
		return nil, err
	}
	j.Live()
	n := newTenant(t, j)
	n.seats.bell = s.bell
	if err := n.setRules(&t.Registration, s.memories.recall(t.Trajectory)); err != nil {
		return nil, err
	}
	s.memories.served(t.Trajectory)
	n.tls = s.tlsConfig(n)
	return n, nil
}
