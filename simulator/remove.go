package simulator

import (
	"context"
	"errors"
	"fmt"

	cerrdefs "github.com/containerd/errdefs"

	"github.com/linuxarena/ctis/server/api"
)

// RemoveOptions says what of an instance goes.
type RemoveOptions struct {
	Volume bool // the state as well: journals, CA, stored files
	Force  bool // also while trajectories depend on it
}

// Removed lists what [Remove] removed, by name.
type Removed struct {
	Containers []string
	Networks   []string
	Volumes    []string
}

// Remove takes an instance off the engine: both containers, their networks and, if
// asked for, the state. What is not there is no error. Unless forced it removes
// only an idle simulator, and fails with a *[BusyError] otherwise. The result is
// never nil: with an error it says how far Remove came.
func Remove(ctx context.Context, eng Engine, instance string, o RemoveOptions) (*Removed, error) {
	r := &Removed{}
	if err := ValidateInstance(instance); err != nil {
		return r, err
	}
	s, err := observe(ctx, eng, instance)
	if err != nil {
		return r, err
	}
	defer s.close()
	if s.ID != "" {
		if err := retire(ctx, eng, s, o.Force); err != nil {
			return r, err
		}
		if err := removeContainer(ctx, eng, s, true); err != nil && !errors.Is(err, errLost) {
			return r, err
		}
		r.Containers = append(r.Containers, ContainerName(instance))
	}
	if err := removeGateway(ctx, eng, instance, o.Volume, r); err != nil {
		return r, err
	}
	if err := removeShared(ctx, eng, instance, linkOf(instance), r); err != nil {
		return r, err
	}
	if o.Volume {
		return r, removeVolume(ctx, eng, instance, VolumeName(instance), r)
	}
	return r, nil
}

// retire makes sure that nobody depends on the simulator.
func retire(ctx context.Context, eng Engine, s *snapshot, force bool) error {
	if s.Foreign {
		return &ForeignError{Kind: "container", Name: ContainerName(s.Instance), Instance: s.Instance}
	}
	if force {
		return nil
	}
	if !s.Answering {
		if len(s.Networks) > 0 {
			return &BusyError{Instance: s.Instance, Attached: holders(ctx, eng, s.Networks), Have: s.Image, Cause: "it does not answer"}
		}
		return nil
	}
	err := s.client.Retire(ctx)
	var refused *api.Error
	if errors.As(err, &refused) && refused.Code == api.CodeBusy {
		return &BusyError{Instance: s.Instance, Attached: refused.Holders, Have: s.Image}
	}
	if err != nil && (refused == nil || refused.Code != api.CodeRetired) {
		return fmt.Errorf("retire simulator %q: %w", ContainerName(s.Instance), err)
	}
	return nil
}

func removeVolume(ctx context.Context, eng Engine, instance, name string, r *Removed) error {
	v, err := eng.VolumeInspect(ctx, name)
	if cerrdefs.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look at volume %q: %w", name, err)
	}
	if v.Labels[LabelInstance] != instance {
		return &ForeignError{Kind: "volume", Name: name, Instance: instance}
	}
	if err := eng.VolumeRemove(ctx, name, false); err != nil && !cerrdefs.IsNotFound(err) {
		return fmt.Errorf("remove volume %q: %w", name, err)
	}
	r.Volumes = append(r.Volumes, name)
	return nil
}
