package simulator

import (
	"context"
	"io"
	"strings"

	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/build"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/api/types/system"
	"github.com/docker/docker/api/types/volume"
	"github.com/docker/docker/client"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// ImageEngine is what images need of an engine.
type ImageEngine interface {
	Info(ctx context.Context) (system.Info, error)
	ImageInspect(ctx context.Context, ref string, opts ...client.ImageInspectOption) (image.InspectResponse, error)
	ImageBuild(ctx context.Context, buildContext io.Reader, options build.ImageBuildOptions) (build.ImageBuildResponse, error)
	ImagePull(ctx context.Context, ref string, options image.PullOptions) (io.ReadCloser, error)
	ImageTag(ctx context.Context, source, target string) error
	ImageList(ctx context.Context, options image.ListOptions) ([]image.Summary, error)
	ImageRemove(ctx context.Context, ref string, options image.RemoveOptions) ([]image.DeleteResponse, error)
	ServerVersion(ctx context.Context) (types.Version, error)
}

// ExecEngine is what the bridge needs of an engine.
type ExecEngine interface {
	ContainerInspect(ctx context.Context, id string) (container.InspectResponse, error)
	ContainerExecCreate(ctx context.Context, id string, options container.ExecOptions) (container.ExecCreateResponse, error)
	ContainerExecAttach(ctx context.Context, execID string, options container.ExecAttachOptions) (types.HijackedResponse, error)
	ContainerExecInspect(ctx context.Context, execID string) (container.ExecInspect, error)
}

// Engine is what keeping the simulator needs of an engine. *[client.Client] has it.
type Engine interface {
	ExecEngine
	Info(ctx context.Context) (system.Info, error)
	ContainerCreate(ctx context.Context, config *container.Config, host *container.HostConfig, networking *network.NetworkingConfig, platform *ocispec.Platform, name string) (container.CreateResponse, error)
	ContainerStart(ctx context.Context, id string, options container.StartOptions) error
	ContainerUnpause(ctx context.Context, id string) error
	ContainerStop(ctx context.Context, id string, options container.StopOptions) error
	ContainerRemove(ctx context.Context, id string, options container.RemoveOptions) error
	ContainerLogs(ctx context.Context, id string, options container.LogsOptions) (io.ReadCloser, error)
	NetworkCreate(ctx context.Context, name string, options network.CreateOptions) (network.CreateResponse, error)
	NetworkList(ctx context.Context, options network.ListOptions) ([]network.Summary, error)
	NetworkInspect(ctx context.Context, id string, options network.InspectOptions) (network.Inspect, error)
	NetworkConnect(ctx context.Context, id, container string, endpoint *network.EndpointSettings) error
	NetworkRemove(ctx context.Context, id string) error
	VolumeCreate(ctx context.Context, options volume.CreateOptions) (volume.Volume, error)
	VolumeInspect(ctx context.Context, name string) (volume.Volume, error)
	VolumeRemove(ctx context.Context, name string, force bool) error
}

var (
	_ ImageEngine = (*client.Client)(nil)
	_ Engine      = (*client.Client)(nil)
)

// tail keeps the last lines of what is written to it, for errors.
type tail struct {
	lines []string
	part  strings.Builder
	each  func(line string) // called with every complete line; may be nil
}

// Bounds of a tail: what an error may show, and the longest line kept.
const (
	tailLines   = 20
	tailLineLen = 2000
)

// Write implements [io.Writer]; it never fails.
func (t *tail) Write(p []byte) (int, error) {
	for _, b := range p {
		switch {
		case b == '\n':
			t.add(t.part.String())
			t.part.Reset()
		case t.part.Len() < tailLineLen:
			t.part.WriteByte(b)
		}
	}
	return len(p), nil
}

func (t *tail) add(line string) {
	line = strings.TrimRight(line, " \t\r")
	if line == "" {
		return
	}
	if t.each != nil {
		t.each(line)
	}
	t.lines = append(t.lines, line)
	if len(t.lines) > tailLines {
		t.lines = t.lines[1:]
	}
}

// all ends the last line and returns what is kept.
func (t *tail) all() []string {
	if t.part.Len() > 0 {
		t.add(t.part.String())
		t.part.Reset()
	}
	return t.lines
}
