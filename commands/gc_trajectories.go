package commands

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/linuxarena/ctis/netpin"
	"github.com/linuxarena/ctis/server/api"
	"github.com/linuxarena/ctis/simulator"
)

// gcThing is one thing that a trajectory has or left.
type gcThing struct {
	Trajectory string             `json:"trajectory"` // "" when it is not known whose it is
	Kind       thingKind          `json:"kind"`
	Name       string             `json:"name"`
	Action     simulator.GCAction `json:"action"`
	Reason     string             `json:"reason"`
	Bytes      int64              `json:"bytes,omitempty"` // of a journal

	notable bool // to be shown to people although it was kept
}

type thingKind string

const (
	thingTrajectory   thingKind = "trajectory" // all of one that lives
	thingRegistration thingKind = "registration"
	thingAttachment   thingKind = "attachment" // the simulator on a network
	thingNetwork      thingKind = "network"
	thingJournal      thingKind = "journal"
	thingClaims       thingKind = "claims" // on upstream proxies, at the gateway
)

// reaper removes what dead trajectories left. Whether one is dead is decided while
// its id is held, so that no other ctis sets it up at that moment; where there is
// no simulator to hold it, only what is older than the grace time counts as left.
type reaper struct {
	app    *app
	o      gcOptions
	result *gcResult

	seen     simulator.Observed
	admin    *api.Client                     // nil where the simulator does not answer
	status   map[string]api.TrajectoryStatus // registered, by id
	attached map[string]string               // the simulator's networks, names by id
	networks map[string][]netpin.Network     // of trajectories, by project
	now      time.Time                       // by the engine's clock
	gone     map[string]bool                 // ids that were reaped, or would be
	gateway  *api.GatewayClient              // nil where there is none that answers
	claims   map[string]api.Claims           // at it, by trajectory
}

func (a *app) gcTrajectories(ctx context.Context, o gcOptions, result *gcResult, line *uiStep) (string, error) {
	r := &reaper{app: a, o: o, result: result, gone: map[string]bool{}}
	defer r.close()
	if err := r.look(ctx); err != nil {
		return "", err
	}
	ids := slices.Collect(maps.Keys(r.status))
	ids = slices.AppendSeq(ids, maps.Keys(r.networks))
	half, err := netpin.Trajectories(ctx, a.engine, a.instance)
	if err != nil {
		return "", err
	}
	ids = append(ids, half...)
	ids = slices.AppendSeq(ids, maps.Keys(r.claims))
	slices.Sort(ids)
	var errs []error
	for _, id := range slices.Compact(ids) {
		line.detail(id)
		if err := r.trajectory(ctx, id); err != nil {
			errs = append(errs, fmt.Errorf("trajectory %q: %w", id, err))
		}
		if ctx.Err() != nil {
			return "", errors.Join(errs...)
		}
	}
	r.strangers()
	line.detail("journals")
	if err := r.journals(ctx); err != nil {
		errs = append(errs, err)
	}
	return fmt.Sprintf("%s dead", plural(len(r.gone), "trajectory")), errors.Join(errs...)
}

// look finds out what there is.
func (r *reaper) look(ctx context.Context) (err error) {
	a := r.app
	if r.seen, err = simulator.Observe(ctx, a.engine, a.instance); err != nil {
		return err
	}
	if r.now, err = simulator.EngineTime(ctx, a.engine); err != nil {
		return err
	}
	name := simulator.ContainerName(a.instance)
	switch {
	case r.seen.ID == "":
		r.unseen("registrations and journals: there is no simulator " + quoted(name))
	case r.seen.Foreign:
		r.unseen("registrations, attachments and journals: container " + quoted(name) + " is not ctis's")
	case !r.seen.Answering:
		r.unseen(fmt.Sprintf("registrations and journals: the simulator %q is %s and does not answer", name, r.seen.State))
	case r.seen.Retired:
		r.unseen("registrations and journals: the simulator is just being replaced")
	default:
		if r.admin, err = simulator.Connect(ctx, a.engine, a.instance); err != nil {
			return err
		}
		st, err := r.admin.Status(ctx)
		if err != nil {
			return err
		}
		r.status = map[string]api.TrajectoryStatus{}
		for _, t := range st.Trajectories {
			r.status[t.Trajectory] = t
		}
	}
	if r.seen.ID != "" && !r.seen.Foreign {
		if r.attached, err = netpin.Attachments(ctx, a.engine, r.seen.ID); err != nil {
			return err
		}
	}
	if err := r.lookAtGateway(ctx); err != nil {
		return err
	}
	networks, err := netpin.TrajectoryNetworks(ctx, a.engine, a.instance)
	if err != nil {
		return err
	}
	r.networks = map[string][]netpin.Network{}
	for _, n := range networks {
		r.networks[n.Project()] = append(r.networks[n.Project()], n)
	}
	return nil
}

func (r *reaper) close() {
	if r.admin != nil {
		r.admin.Close()
	}
	if r.gateway != nil {
		r.gateway.Close()
	}
}

// lookAtGateway finds out who holds upstream proxies. Without a simulator that answers
// nobody can say whether a holder is just being set up, and nothing is asked.
func (r *reaper) lookAtGateway(ctx context.Context) error {
	if r.admin == nil {
		return nil
	}
	seen, err := simulator.ObserveGateway(ctx, r.app.engine, r.app.instance)
	switch {
	case err != nil:
		return err
	case seen.ID == "":
		return nil
	case seen.Foreign, !seen.Answering:
		r.unseen(fmt.Sprintf("claims on upstream proxies: the gateway %q does not answer", simulator.GatewayName(r.app.instance)))
		return nil
	}
	if r.gateway, err = simulator.ConnectGateway(ctx, r.app.engine, r.app.instance); err != nil {
		return err
	}
	st, err := r.gateway.Status(ctx)
	if err != nil {
		return err
	}
	r.claims = map[string]api.Claims{}
	for _, c := range st.Claims {
		r.claims[c.Trajectory] = c
	}
	return nil
}

func (r *reaper) unseen(what string) { r.result.Unseen = append(r.result.Unseen, what) }

func (r *reaper) tell(t gcThing) { r.result.Trajectories = append(r.result.Trajectories, t) }

func (r *reaper) kept(id, why string, notable bool) {
	r.tell(gcThing{Trajectory: id, Kind: thingTrajectory, Name: id, Action: simulator.GCKept, Reason: why, notable: notable})
}

// trajectory reaps one if it is dead.
func (r *reaper) trajectory(ctx context.Context, id string) error {
	if r.admin != nil {
		release, err := r.admin.Hold(ctx, id)
		var refused *api.Error
		switch {
		case err == nil:
			defer release()
		case errors.As(err, &refused) && refused.Code == api.CodeHeld:
			r.kept(id, "another ctis is working on it", true)
			return nil
		case errors.As(err, &refused) && refused.Code == api.CodeRetired:
			r.kept(id, "the simulator is just being replaced", true)
			return nil
		default:
			return err
		}
	}
	// From here on no other ctis works on it; before, one may have.
	project, err := netpin.FindProject(ctx, r.app.engine, id)
	if err != nil {
		return err
	}
	if n := len(project.Containers); n > 0 {
		why := "it has " + plural(n, "container")
		_, registered := r.status[id]
		broken := r.admin != nil && !registered
		if broken {
			why += " and is not served: its set-up was broken off; ctis down " + id + " removes it"
		}
		r.kept(id, why, broken)
		return nil
	}
	if err := r.app.ours(ctx, project); err != nil {
		r.kept(id, err.Error(), true)
		return nil
	}
	if r.admin == nil {
		for _, n := range project.Networks {
			if age := r.now.Sub(n.Created); age < r.o.grace {
				r.kept(id, "its network is younger than the grace time, and there is no simulator that knows whether it is in use", true)
				return nil
			}
		}
	}
	return r.reap(ctx, id, project)
}

// reap removes what a dead trajectory left, in the order of ctis down.
func (r *reaper) reap(ctx context.Context, id string, project netpin.Project) error {
	const why = "its project has no container"
	action := simulator.GCRemoved
	if r.o.dryRun {
		action = simulator.GCWouldRemove
	}
	thing := func(kind thingKind, name string) gcThing {
		return gcThing{Trajectory: id, Kind: kind, Name: name, Action: action, Reason: why}
	}
	r.gone[id] = true
	onIt := map[string]string{} // networks by id, the project's and others it was served on
	for _, n := range project.Networks {
		onIt[n.ID] = n.Name
	}
	if registered, ok := r.status[id]; ok {
		for _, n := range registered.Networks {
			if name, ok := r.attached[n.ID]; ok {
				onIt[n.ID] = name
			}
		}
		if !r.o.dryRun {
			if _, err := r.admin.Unregister(ctx, id); err != nil {
				return fmt.Errorf("the simulator does not unregister it: %w", err)
			}
		}
		r.tell(thing(thingRegistration, id))
	}
	if _, holds := r.claims[id]; holds {
		if !r.o.dryRun {
			if _, err := r.gateway.Release(ctx, id); err != nil {
				return fmt.Errorf("the gateway does not release its claims: %w", err)
			}
		}
		r.tell(thing(thingClaims, id))
	}
	for _, n := range slices.Sorted(maps.Keys(onIt)) {
		if _, on := r.attached[n]; !on {
			continue
		}
		if !r.o.dryRun {
			if err := netpin.Detach(ctx, r.app.engine, r.seen.ID, n); err != nil {
				return err
			}
		}
		r.tell(thing(thingAttachment, onIt[n]))
		delete(r.attached, n)
	}
	var errs []error
	for _, n := range project.Networks {
		t := thing(thingNetwork, n.Name)
		if !r.o.dryRun {
			if err := netpin.RemoveNetwork(ctx, r.app.engine, n.ID); err != nil {
				t.Action, t.Reason = simulator.GCSkipped, err.Error()
				if held := (*netpin.NetworkHeldError)(nil); !errors.As(err, &held) {
					errs = append(errs, err)
				}
			}
		}
		r.tell(t)
	}
	return errors.Join(errs...)
}

// strangers names attachments that belong to nobody that is known. They are left:
// an up may be between attaching the simulator to a network that is not the
// project's own and registering, and its id cannot be told from the network.
func (r *reaper) strangers() {
	if r.admin == nil {
		return
	}
	known := map[string]bool{}
	for _, t := range r.status {
		for _, n := range t.Networks {
			known[n.ID] = true
		}
	}
	for _, list := range r.networks {
		for _, n := range list {
			known[n.ID] = true
		}
	}
	for _, id := range slices.Sorted(maps.Keys(r.attached)) {
		if name := r.attached[id]; !known[id] && name != simulator.LinkName(r.app.instance) {
			r.tell(gcThing{Kind: thingAttachment, Name: name, Action: simulator.GCKept,
				Reason: fmt.Sprintf("no registered trajectory is on that network; docker network disconnect %s %s takes it off", name, simulator.ContainerName(r.app.instance))})
		}
	}
}

// journals removes those of trajectories that are over and old enough.
func (r *reaper) journals(ctx context.Context) error {
	if r.admin == nil {
		return nil
	}
	list, err := r.admin.Journals(ctx)
	var refused *api.Error
	if errors.As(err, &refused) && refused.Code == api.CodeNotFound {
		r.unseen("journals: the simulator is older than this ctis and cannot list them; it is replaced by the next ctis up while idle")
		return nil
	}
	if err != nil {
		return err
	}
	before := list.Now.Add(-r.o.journalAge)
	var errs []error
	for _, j := range list.Journals {
		t := gcThing{Trajectory: j.Trajectory, Kind: thingJournal, Name: j.Name, Action: simulator.GCKept, Bytes: j.Bytes}
		switch {
		case j.Live && !(r.o.dryRun && r.gone[j.Name]):
			t.Reason = "its trajectory is not over"
		case !r.o.removeJournals:
			t.Reason = "journals stay unless --older-than is given"
		case !j.Last.Before(before):
			t.Reason = "younger than " + r.o.olderThan
		case r.o.dryRun:
			t.Action, t.Reason = simulator.GCWouldRemove, "older than "+r.o.olderThan
		default:
			t.Action, t.Reason = simulator.GCRemoved, "older than "+r.o.olderThan
			err := r.admin.RemoveJournal(ctx, j.Name, before)
			switch {
			case err == nil:
			case errors.As(err, &refused):
				t.Action, t.Reason = simulator.GCSkipped, refused.Message
			default:
				t.Action, t.Reason = simulator.GCSkipped, err.Error()
				errs = append(errs, fmt.Errorf("journal %q: %w", j.Name, err))
			}
		}
		if t.Action == simulator.GCRemoved || t.Action == simulator.GCWouldRemove {
			r.result.journals += j.Bytes
		}
		r.tell(t)
	}
	return errors.Join(errs...)
}
