package simulator

import (
	"context"
	"strconv"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/pkg/stdcopy"
)

// lastLogs fetches the container's last log lines for an error. It has a deadline
// of its own, since the caller's has usually passed, and returns what there is.
func lastLogs(ctx context.Context, eng Engine, id string) []string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	r, err := eng.ContainerLogs(ctx, id, container.LogsOptions{
		ShowStdout: true, ShowStderr: true, Tail: strconv.Itoa(tailLines),
	})
	if err != nil {
		return nil
	}
	defer r.Close()
	var t tail
	_, _ = stdcopy.StdCopy(&t, &t, r) // a cut stream still has lines worth showing
	return t.all()
}
