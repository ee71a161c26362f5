package commands

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"time"

	"github.com/linuxarena/ctis/compose"
	"github.com/linuxarena/ctis/server/api"
	"github.com/linuxarena/ctis/simulator"
)

// connect reaches the administrative interface of a simulator that is there. It
// starts none: a verb that only reads must not change what runs.
func (a *app) connect(ctx context.Context) (*api.Client, error) {
	if a.setting.Simulator != nil {
		return a.setting.Simulator(ctx)
	}
	eng, err := a.openEngine(ctx)
	if err != nil {
		return nil, err
	}
	return simulator.Connect(ctx, eng, a.instance)
}

// holdPatience is how long to wait for another process that works on the same
// trajectory. It covers one that was just killed, whose hold ends with its
// connection, not one that goes on.
const holdPatience = 3 * time.Second

// hold reserves a trajectory for this process, so that no other sets it up or takes
// it down meanwhile and the simulator does not retire, and with it what only one
// trajectory can have. It ends with the process.
func (a *app) hold(ctx context.Context, admin *api.Client, id string, exclusive []api.Exclusive) (release func(), err error) {
	deadline := time.Now().Add(holdPatience)
	for {
		release, err = admin.Hold(ctx, id, exclusive...)
		var refused *api.Error
		if !errors.As(err, &refused) || refused.Code != api.CodeHeld {
			return release, err
		}
		if time.Now().After(deadline) {
			if refused.Exclusive != nil {
				return nil, refused // of another trajectory, which is in work
			}
			return nil, &conflictError{
				msg:     fmt.Sprintf("another ctis is setting up or taking down trajectory %q at this moment", id),
				hint:    "wait until it has ended, or choose another --id",
				details: map[string]any{"holders": refused.Holders},
			}
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// composeRunner is docker compose, bound to the engine this run talks to and
// known to be new enough.
func (a *app) composeRunner(ctx context.Context) (*compose.Runner, error) {
	if a.runner != nil {
		return a.runner, nil
	}
	docker, err := a.lookPath("docker")
	if err != nil {
		return nil, &engineError{err: fmt.Errorf("the docker command is not installed: %w", err), hint: "install Docker's command line and its Compose plugin"}
	}
	r := &compose.Runner{Docker: docker, Environ: a.where.environ(a.setting.Environ)}
	version, err := r.Version(ctx)
	if err != nil {
		return nil, err
	}
	a.log.Info("docker compose", "version", version)
	a.runner = r
	return r, nil
}

func (a *app) lookPath(name string) (string, error) { return exec.LookPath(name) }
