package simulator

import (
	"context"
	"path/filepath"
	"strings"
	"time"

	cerrdefs "github.com/containerd/errdefs"
)

// turnPoll is how often a process looks whether its turn has come.
const turnPoll = 200 * time.Millisecond

// takeTurn makes processes on one machine that want the same image build it one
// after the other: the first makes it, the others find it, where dozens of builds at
// once would keep a small machine busy for minutes. It saves work and decides nothing:
// builds of one tag may run at once, from two machines or where dir cannot be
// written to, and then everybody builds (see buildTag). The turn ends with its
// process at the latest. An error is the context's.
func takeTurn(ctx context.Context, dir, ref string, waits func()) (leave func(), err error) {
	if dir == "" {
		return func() {}, nil
	}
	file := openTurn(filepath.Join(dir, strings.NewReplacer("/", "-", ":", "-").Replace(ref)+".turn"))
	if file == nil {
		return func() {}, nil
	}
	for first := true; !file.take(); first = false {
		if first {
			waits()
		}
		select {
		case <-ctx.Done():
			file.leave()
			return nil, ctx.Err()
		case <-time.After(turnPoll):
		}
	}
	return file.leave, nil
}

// buildInTurn builds the chosen image unless it is there when this process's turn comes.
func buildInTurn(ctx context.Context, eng ImageEngine, o ImageOptions) (built bool, err error) {
	leave, err := takeTurn(ctx, o.Turns, o.Choice.Ref, func() { o.Progress("another ctis on this machine builds it") })
	if err != nil {
		return false, err
	}
	defer leave()
	if !o.NoCache {
		if _, err := eng.ImageInspect(ctx, o.Choice.Ref); !cerrdefs.IsNotFound(err) {
			return false, err
		}
	}
	return buildTag(ctx, eng, o)
}
