package simulator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/api/types/volume"
)

// configVersion is the version of the settings below. A simulator created with
// another is replaced like one with another image; a test fails when the settings
// change and this does not.
const configVersion = "2"

// noFile is the limit of open files asked for. Every connection is one; hosts that
// forbid it get the engine's default (SPEC §15).
const noFile = 65536

// maxThreads bounds processes and threads. Every write that waits for the disk
// holds a thread, and Go ends the program when it gets none, so the bound is above
// Go's own of 10000: it is there for what is not the server.
const maxThreads = 12288

// maxMemory bounds the container, in bytes: what goes wrong in it must not take
// the memory of the trajectories beside it. The server collects garbage to stay
// below half of this, and holds a few hundred MiB with thousands of connections
// in work, so that only a fault in it comes near.
const maxMemory = 4 << 30

// containerConfig is how the simulator is created (SPEC §6): it faces agents that
// are root in their containers, so it has nothing it does not need.
func containerConfig(instance string, want Want, linkID string) (*container.Config, *container.HostConfig) {
	config := &container.Config{
		Image: want.Image,
		User:  fmt.Sprintf("%d:%d", serverUser, serverUser), // whatever the image says
		Labels: map[string]string{
			LabelInstance: instance,
			LabelRole:     RoleSimulator,
			LabelHash:     want.Hash, // an image of the user's may have inherited one
			LabelProtocol: strconv.Itoa(want.Protocol),
			LabelImage:    want.Image,
			LabelConfig:   configVersion,
		},
	}
	pids, noInit := int64(maxThreads), false
	host := &container.HostConfig{
		NetworkMode:    container.NetworkMode(linkID),
		ReadonlyRootfs: true,
		CapDrop:        []string{"ALL"},
		SecurityOpt:    []string{"no-new-privileges"},
		Init:           &noInit,
		RestartPolicy:  container.RestartPolicy{Name: container.RestartPolicyUnlessStopped},
		LogConfig:      container.LogConfig{Type: "json-file", Config: map[string]string{"max-size": "10m", "max-file": "3"}},
		Mounts:         []mount.Mount{{Type: mount.TypeVolume, Source: VolumeName(instance), Target: stateDir}},
		Tmpfs: map[string]string{
			runtimeDir: fmt.Sprintf("rw,noexec,nosuid,nodev,size=1m,mode=0700,uid=%d,gid=%d", serverUser, serverUser),
		},
		Sysctls: sysctls(),
		Resources: container.Resources{
			Memory:    maxMemory,
			PidsLimit: &pids,
			Ulimits:   []*container.Ulimit{{Name: "nofile", Soft: noFile, Hard: noFile}},
		},
	}
	return config, host
}

// errLost says that another process did what was attempted here; looking again
// shows what there is now.
var errLost = errors.New("another process was faster")

// ErrImageGone says that the image was removed after it was made sure of: another
// process took it for superseded. Making sure of it again helps.
var ErrImageGone = errors.New("its image is gone")

// create makes and starts the simulator. What it made and could not start is
// removed again.
func create(ctx context.Context, eng Engine, instance string, want Want, link string) error {
	config, host := containerConfig(instance, want, link)
	return createPart(ctx, eng, instance, birth{part: simulatorOf(instance), config: config, host: host})
}

// birth is a container that is to be made.
type birth struct {
	part
	config *container.Config
	host   *container.HostConfig
	// prepare is called between creating and starting it; nil for nothing to do.
	prepare func(ctx context.Context, id string) error
}

func createPart(ctx context.Context, eng Engine, instance string, b birth) error {
	if err := ensureVolumeOf(ctx, eng, instance, b.part); err != nil {
		return err
	}
	host := b.host
	err := createAndStart(ctx, eng, b)
	if err == nil || errors.Is(err, errLost) || errors.Is(err, ErrImageGone) || ctx.Err() != nil {
		return err
	}
	if dropMissing(host, err) {
		if err = createAndStart(ctx, eng, b); err == nil || errors.Is(err, errLost) || ctx.Err() != nil {
			return err
		}
	}
	// The engine's words for a refused limit differ by runtime, so whatever the
	// reason, the second attempt tells whether it was that.
	host.Ulimits = slices.DeleteFunc(host.Ulimits, func(u *container.Ulimit) bool { return u.Name == "nofile" })
	switch again := createAndStart(ctx, eng, b); {
	case again == nil || errors.Is(again, errLost):
		return again
	}
	return err
}

func createAndStart(ctx context.Context, eng Engine, b birth) error {
	name := b.container
	made, err := eng.ContainerCreate(ctx, b.config, b.host, &network.NetworkingConfig{}, nil, name)
	if cerrdefs.IsConflict(err) {
		return errLost // the name is what decides
	}
	if cerrdefs.IsNotFound(err) { // of all that is named here, only the image is looked for before the start
		return fmt.Errorf("create %s %q: %w: %w", b.role, name, ErrImageGone, err)
	}
	if err != nil {
		return fmt.Errorf("create %s %q: %w", b.role, name, err)
	}
	if b.prepare != nil {
		err = b.prepare(ctx, made.ID)
	}
	if err == nil {
		err = eng.ContainerStart(ctx, made.ID, container.StartOptions{})
	}
	if err == nil {
		return nil
	}
	if cerrdefs.IsConflict(err) || cerrdefs.IsNotFound(err) && gone(ctx, eng, made.ID) {
		return errLost // taken for the leftover of a process that died
	}
	err = fmt.Errorf("start %s %q: %w", b.role, name, err)
	ctx, cancel := cleanup(ctx)
	defer cancel()
	if e := eng.ContainerRemove(ctx, made.ID, container.RemoveOptions{}); e != nil && !cerrdefs.IsNotFound(e) {
		err = errors.Join(err, fmt.Errorf("remove it again: %w", e))
	}
	return err
}

// gone tells a container that is no longer there from a start that missed
// something else, such as its image.
func gone(ctx context.Context, eng Engine, id string) bool {
	_, err := eng.ContainerInspect(ctx, id)
	return cerrdefs.IsNotFound(err)
}

// ensureVolume makes the state volume. It outlives every container.
func ensureVolume(ctx context.Context, eng Engine, instance string) error {
	return ensureVolumeOf(ctx, eng, instance, simulatorOf(instance))
}

func ensureVolumeOf(ctx context.Context, eng Engine, instance string, p part) error {
	name := p.volume
	v, err := eng.VolumeCreate(ctx, volume.CreateOptions{
		Name:   name,
		Labels: map[string]string{LabelInstance: instance, LabelRole: p.volumeRole},
	})
	if err != nil {
		return fmt.Errorf("create volume %q: %w", name, err)
	}
	// The engine returns a volume that is there already as it is.
	if v.Labels[LabelInstance] != instance {
		return &ForeignError{Kind: "volume", Name: name, Instance: instance}
	}
	return nil
}
