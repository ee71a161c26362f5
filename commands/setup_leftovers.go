package commands

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/linuxarena/ctis/netpin"
)

// clear removes the networks of a project that has no container: a ctis up that was
// killed, or somebody who removed the containers, left them. Nothing runs in it, and
// what they were made from need not be what the environment says now: another name,
// another subnet, other options. Used as they stand they would part the services.
func (s *setup) clear(ctx context.Context, line *uiStep) error {
	if len(s.before.Containers) > 0 || len(s.before.Networks) == 0 || s.known != nil {
		return nil
	}
	line.detail("removing networks that were left behind")
	for _, n := range s.before.Networks {
		if err := netpin.Detach(ctx, s.app.engine, s.sim.ID, n.ID); err != nil {
			return err
		}
		err := netpin.RemoveNetwork(ctx, s.app.engine, n.ID)
		var held *netpin.NetworkHeldError
		if errors.As(err, &held) && ctx.Err() == nil {
			return &conflictError{
				msg:     fmt.Sprintf("trajectory %q has no container, and its network was left behind: %v", s.id, err),
				hint:    "then run ctis up again, or choose another --id",
				details: map[string]any{"network": n.Name, "network_id": n.ID, "holders": orNone(held.Holders)},
			}
		}
		if err != nil {
			return err
		}
		s.app.ui.note(fmt.Sprintf("network %q, which an earlier %q left behind, was removed first", n.Name, s.id))
	}
	return s.look(ctx)
}

// undoMore takes back what an up made of a project that was partly there: what it
// found stays, by id. Its caller holds the trajectory.
func (s *setup) undoMore(ctx context.Context, line *uiStep) error {
	line.detail("removing what was added")
	return netpin.Sweep(ctx, s.app.engine, s.id, netpin.SweepOptions{
		Before: s.before, Named: true, Timeout: undoStop, Settle: true,
	})
}

// lookTimeout bounds the look at what a roll-back left. The engine may be what hangs.
const lookTimeout = 10 * time.Second

// tellLeft adds to what a roll-back could not do what is left of the trajectory and
// how to remove it.
func (s *setup) tellLeft(ctx context.Context, err error) error {
	var undone *undoError
	if !errors.As(err, &undone) {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookTimeout)
	defer cancel()
	project, lookErr := netpin.FindProject(ctx, s.app.engine, s.id)
	undone.left = left(s.id, s.app.program(), project, lookErr)
	return err
}

// left says what a roll-back left of trajectory id. Pure.
func left(id, program string, p netpin.Project, lookErr error) string {
	down := program + " down " + id
	switch {
	case lookErr != nil:
		return fmt.Sprintf("something may be left of trajectory %q; %s removes it", id, down)
	case p.Empty():
		return fmt.Sprintf("no container and no network of trajectory %q is left; %s takes what the simulator may still know of it", id, down)
	}
	return fmt.Sprintf("of trajectory %q are left: %s; %s removes them", id, p.Names(), down)
}
