package simulator

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"

	"github.com/linuxarena/ctis/server/api"
)

// EnsureOptions says which simulator is wanted.
type EnsureOptions struct {
	Instance string
	Image    ImageResult

	// LinkSubnet finds addresses for the link network. It is asked only when that
	// has to be created, and again if the engine does not take them. Nil leaves
	// the choice to the engine.
	LinkSubnet func(context.Context) (netip.Prefix, error)

	// Timeout is how long the simulator may take to answer, counted from when it was
	// last seen to come along (created, started); 0 means two minutes. An engine
	// that dozens of processes ask for something at once takes its time for each.
	Timeout time.Duration

	// Progress is told every decision. May be nil.
	Progress func(Decision)
}

// Result is a simulator that answers.
type Result struct {
	Container string // name
	ID        string
	Link      string     // id of the link network it is on
	Address   netip.Addr // there
	Reused    bool       // it was there and running; this call neither created nor started it
	Client    *api.Client
	Identity  string // fingerprint of its key for the link with the gateway
}

const (
	defaultTimeout = 2 * time.Minute
	// maxActions bounds how often one call acts. Every lost race costs one.
	maxActions = 20
	// maxRestarts is how many crashes after a start are taken for good.
	maxRestarts = 3
)

// Ensure makes sure that the wanted simulator runs and answers (SPEC §6). Any
// number of processes may call it at once, on any number of machines with one
// engine: one creates it and the others reuse it.
//
// Its errors are *[BusyError] and *[ForeignError], which say that nothing was
// touched, *[NotReadyError], [ErrImageGone], and the engine's. The caller closes Result.Client.
func Ensure(ctx context.Context, eng Engine, o EnsureOptions) (*Result, error) {
	if err := ValidateInstance(o.Instance); err != nil {
		return nil, err
	}
	o.setDefaults()
	e := &ensurer{eng: eng, o: o, deadline: time.Now().Add(o.Timeout), want: wanted(o.Image)}
	e.part = simulatorOf(o.Instance)
	e.create = func(ctx context.Context) error {
		link, err := ensureLink(ctx, eng, o.Instance, o.LinkSubnet, linkPatience)
		if err != nil {
			return err
		}
		return create(ctx, eng, o.Instance, e.want, link)
	}
	s, err := e.rest(ctx)
	if err != nil {
		return nil, err
	}
	return &Result{
		Container: ContainerName(o.Instance), ID: s.ID, Link: s.linkID, Address: s.link,
		Reused: !e.acted, Client: s.client, Identity: s.identity,
	}, nil
}

// rest looks, decides and acts until there is nothing left to do.
func (e *ensurer) rest(ctx context.Context) (*snapshot, error) {
	eng, o := e.eng, e.o
	pause := 25 * time.Millisecond
	for actions := 0; ; {
		s, err := observePart(ctx, eng, o.Instance, e.part)
		if err != nil {
			return nil, err
		}
		d := Decide(e.want, s.Observed)
		if d.Action != e.last.Action || d.Cause != e.last.Cause {
			o.Progress(d)
		}
		e.last = d
		if d.Action == Reuse {
			return s, nil
		}
		err = e.act(ctx, d, s)
		s.close()
		if err != nil && !errors.Is(err, errLost) {
			return nil, err
		}
		if d.Action != Wait {
			pause = 25 * time.Millisecond
			if actions++; actions > maxActions {
				return nil, fmt.Errorf("%s %q does not come to rest (last: %s); other processes seem to want another image: run them with `--instance NAME`",
					e.role, e.container, d)
			}
			if err == nil {
				continue
			}
		}
		if err := e.wait(ctx, s, pause); err != nil {
			return nil, err
		}
		pause = min(2*pause, 400*time.Millisecond)
	}
}

func (o *EnsureOptions) setDefaults() {
	if o.Progress == nil {
		o.Progress = func(Decision) {}
	}
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
}

func wanted(i ImageResult) Want {
	return Want{Image: i.Ref, ImageID: i.ID, Hash: i.Hash, Protocol: api.Protocol}
}

// Running is the simulator as it runs, whatever image it is of. An *[AbsentError] says
// that there is none, a *[NotReadyError] that it does not answer.
func Running(ctx context.Context, eng Engine, instance string) (*Result, error) {
	s, err := observe(ctx, eng, instance)
	switch {
	case err != nil:
		return nil, err
	case s.Foreign:
		return nil, &ForeignError{Kind: "container", Name: s.container, Instance: instance}
	case s.ID == "" || s.State != "running":
		return nil, &AbsentError{Role: s.role, Container: s.container, State: s.State}
	case !s.Answering:
		defer s.close()
		return nil, &NotReadyError{Role: s.role, Container: s.container, State: s.State, Logs: lastLogs(ctx, eng, s.ID), Err: s.problem}
	}
	return &Result{Container: s.container, ID: s.ID, Link: s.linkID, Address: s.link, Reused: true, Client: s.client, Identity: s.identity}, nil
}

type ensurer struct {
	part
	create   func(context.Context) error
	eng      Engine
	o        EnsureOptions
	want     Want
	deadline time.Time
	last     Decision
	acted    bool   // this call created or started it
	seen     string // the container waited for
	stage    string // that container, and what it was doing
	base     int    // restarts the engine had counted when this call first waited for it
}

// act does what was decided. errLost means that another process was faster.
func (e *ensurer) act(ctx context.Context, d Decision, s *snapshot) error {
	switch d.Action {
	case Create:
		if err := e.create(ctx); err != nil {
			return err
		}
		e.acted = true
	case Start:
		if err := start(ctx, e.eng, s); err != nil {
			return err
		}
		e.acted = true
	case Replace:
		return e.replace(ctx, s)
	case Refuse:
		if s.Foreign {
			return &ForeignError{Kind: "container", Name: e.container, Instance: e.o.Instance}
		}
		attached := d.Attached
		if !s.Answering {
			attached = holders(ctx, e.eng, attached)
		}
		return &BusyError{Instance: e.o.Instance, Attached: attached, Have: s.Image, Want: e.want.Image, Cause: d.Cause}
	}
	return nil
}

// start starts a simulator that is there.
func start(ctx context.Context, eng Engine, s *snapshot) error {
	if s.State == "paused" {
		if err := eng.ContainerUnpause(ctx, s.ID); err != nil {
			return fmt.Errorf("unpause %s %q: %w", s.role, s.container, err)
		}
		return nil
	}
	err := eng.ContainerStart(ctx, s.ID, container.StartOptions{})
	switch {
	case err == nil:
		return nil
	case cerrdefs.IsConflict(err), cerrdefs.IsNotFound(err) && gone(ctx, eng, s.ID):
		return errLost
	}
	// The gateway has nothing but its volume, so what it cannot be started on is no loss.
	if s.role == RoleGateway && cerrdefs.IsNotFound(err) {
		if e := removeContainer(ctx, eng, s, false); e == nil {
			return errLost
		}
	}
	// A pruned link network cannot come back under the id the container knows, but
	// the container can: all that matters is on the volume.
	if link, e := findLink(ctx, eng, s.Instance); e == nil && (link == "" || link != s.linkID) && len(s.Networks) == 0 {
		if e := removeContainer(ctx, eng, s, false); e == nil {
			return errLost
		}
	}
	return fmt.Errorf("start %s %q: %w", s.role, s.container, err)
}

// replace removes a simulator nobody needs; creating the wanted one is the next
// decision. It removes by id, so that it never hits a successor.
func (e *ensurer) replace(ctx context.Context, s *snapshot) error {
	if s.Answering {
		err := s.client.Retire(ctx) // of both parts alike
		var refused *api.Error
		if errors.As(err, &refused) && refused.Code == api.CodeBusy {
			return &BusyError{Instance: e.o.Instance, Attached: refused.Holders, Have: s.Image, Want: e.want.Image, Cause: e.last.Cause}
		}
		if errors.As(err, &refused) && refused.Code != api.CodeRetired {
			return fmt.Errorf("retire %s %q: %w", e.role, e.container, err)
		}
		if err != nil && refused == nil {
			return errLost // it went away; looking again shows why
		}
	}
	err := removeContainer(ctx, e.eng, s, s.State == "running" || s.State == "restarting" || s.State == "dead")
	if err == nil && e.role == RoleSimulator {
		err = e.removeOldGateway(ctx)
	}
	return err
}

// removeContainer stops and removes it. Without force, one that was started in the
// meantime stays, and that is errLost.
func removeContainer(ctx context.Context, eng Engine, s *snapshot, force bool) error {
	if force && s.Answering {
		grace := 10 // seconds
		err := eng.ContainerStop(ctx, s.ID, container.StopOptions{Timeout: &grace})
		if err != nil && !cerrdefs.IsNotFound(err) && ctx.Err() != nil {
			return fmt.Errorf("stop %s %q: %w", s.role, s.container, err)
		}
	}
	err := eng.ContainerRemove(ctx, s.ID, container.RemoveOptions{Force: force})
	switch {
	case err == nil, cerrdefs.IsNotFound(err):
		return nil
	case cerrdefs.IsConflict(err): // being removed, or started
		return errLost
	}
	return fmt.Errorf("remove %s %q: %w", s.role, s.container, err)
}

// wait lets time pass before the next look, unless it has run out.
func (e *ensurer) wait(ctx context.Context, s *snapshot, d time.Duration) error {
	if e.seen != s.ID {
		e.seen, e.base = s.ID, s.Restarts
	}
	if stage := s.ID + " " + s.State; stage != e.stage {
		e.stage, e.deadline = stage, time.Now().Add(e.o.Timeout)
	}
	late := time.Now().After(e.deadline)
	if crashing := s.State == "restarting" && s.Restarts-e.base >= maxRestarts; late || crashing {
		err := s.problem
		if err == nil {
			err = errors.New(e.last.Cause)
		}
		if crashing {
			err = fmt.Errorf("it crashed %d times since it was started", s.Restarts-e.base)
		}
		return &NotReadyError{Role: e.role, Container: e.container, State: s.State, Logs: lastLogs(ctx, e.eng, s.ID), Err: err}
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
