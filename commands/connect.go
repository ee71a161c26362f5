package commands

import (
	"context"
	"fmt"
	"os/exec"

	"github.com/linuxarena/ctis/compose"
	"github.com/linuxarena/ctis/server/api"
	"github.com/linuxarena/ctis/simulator"
)

// connect reaches the administrative interface of a simulator that is there. It
// starts none: a verb that only reads must not change what runs.
func (a *app) connect(ctx context.Context) (*api.Client, error) {
	eng, err := a.openEngine(ctx)
	if err != nil {
		return nil, err
	}
	return simulator.Connect(ctx, eng, a.instance)
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
