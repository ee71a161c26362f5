// Package assets brings files to where the simulator serves them as a trajectory's
// assets: a seed directory out of the default service's containers, which is deleted
// there afterwards, and files of this machine.
//
// Nothing in a container is trusted, and nothing is needed there: no shell, no tool.
// A directory is read as the archive that the engine makes of it, parsed here within
// limits and never unpacked on this machine. While that happens the container is
// frozen, so that what runs in it changes nothing between the look and the deletion
// and cannot race the engine; where an engine cannot freeze, a second look finds
// changes out.
package assets

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/docker/docker/api/types/container"

	"github.com/linuxarena/ctis/server/api"
)

// Engine is what this package asks of the engine's client.
type Engine interface {
	ContainerInspect(ctx context.Context, id string) (container.InspectResponse, error)
	ContainerStatPath(ctx context.Context, id, path string) (container.PathStat, error)
	ContainerPause(ctx context.Context, id string) error
	ContainerUnpause(ctx context.Context, id string) error
	CopyFromContainer(ctx context.Context, id, path string) (io.ReadCloser, container.PathStat, error)
	CopyToContainer(ctx context.Context, id, path string, tar io.Reader, o container.CopyToContainerOptions) error
}

// Simulator is what it asks of the simulator. *[api.Client] has it.
type Simulator interface {
	Assets(ctx context.Context, id string) (*api.AssetList, error)
	StageAssets(ctx context.Context, id string, write func(*api.AssetWriter) error) (*api.AssetsStaged, api.AssetSum, error)
	CommitAssets(ctx context.Context, id, stage string, commit api.AssetCommit) (*api.AssetsCommitted, error)
	DropAssets(ctx context.Context, id, stage string) error
	SeedDeleted(ctx context.Context, id, container string) error
}

var _ Simulator = (*api.Client)(nil)

// Error is files that cannot be served or deleted, and what to do about it.
type Error struct {
	Msg string
	Do  string // may be empty
}

func (e *Error) Error() string { return e.Msg }

// Hint says what to do next.
func (e *Error) Hint() string { return e.Do }

// Progress is told now and then how much was read.
type Progress func(files int, bytes int64)

// shownNames is how many of a list of names an error shows.
const shownNames = 10

// refusal is the error for files that cannot be served; nil for none.
func refusal(where string, refused []string, do string) error {
	if len(refused) == 0 {
		return nil
	}
	text := strings.Join(refused[:min(len(refused), shownNames)], "\n  ")
	if more := len(refused) - shownNames; more > 0 {
		text += fmt.Sprintf("\n  and %d more", more)
	}
	return &Error{Msg: fmt.Sprintf("%s has what cannot be served:\n  %s", where, text), Do: do}
}
