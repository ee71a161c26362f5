package commands

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/linuxarena/ctis/compose/assets"
	"github.com/linuxarena/ctis/netpin"
)

// seed copies the seed directory to where it is served and deletes it in the default
// service's containers, unless that was done.
func (s *setup) seed(ctx context.Context) error {
	if s.env.Config.SeedAssetsFrom == "" {
		return nil
	}
	return s.steps.do(ctx, "Seeding assets", func(ctx context.Context, line *uiStep) (string, error) {
		containers, err := s.seeded(ctx)
		if err != nil {
			return "", err
		}
		sum, err := assets.Copy(ctx, s.app.engine, s.sim.Client, assets.Seed{
			Trajectory: s.id, Service: s.env.DefaultService, Dir: s.env.Config.SeedAssetsFrom,
			Containers: containers, Progress: copying(line),
		})
		if err != nil {
			return "", err
		}
		s.result.Assets.Files, s.result.Assets.Bytes = sum.Files, sum.Bytes
		return plural(sum.Files, "file") + ", " + size(sum.Bytes), nil
	})
}

// seeded lists the containers that have the seed directory.
func (s *setup) seeded(ctx context.Context) ([]assets.Container, error) {
	project, err := netpin.FindMembers(ctx, s.app.engine, s.id)
	if err != nil {
		return nil, err
	}
	var containers []assets.Container
	for _, c := range project.Containers {
		if c.Service == s.env.DefaultService {
			containers = append(containers, assets.Container{ID: c.ID, Name: c.Name})
		}
	}
	if len(containers) == 0 {
		return nil, fmt.Errorf("seed assets: service %q has no container to copy them from", s.env.DefaultService)
	}
	return containers, nil
}

// thaw resumes containers that a ctis up which was killed left frozen: nobody else
// pauses one whose seed directory is not deleted yet.
func (s *setup) thaw(ctx context.Context) error {
	if s.env.Config.SeedAssetsFrom == "" {
		return nil
	}
	list, err := s.sim.Client.Assets(ctx, s.id)
	if err != nil {
		return err
	}
	var errs []error
	for _, c := range s.before.Containers {
		if c.Service != s.env.DefaultService || c.State != "paused" || list.Seeded != nil && slices.Contains(list.Seeded.Deleted, c.ID) {
			continue
		}
		if err := s.app.engine.ContainerUnpause(ctx, c.ID); err != nil {
			errs = append(errs, fmt.Errorf("container %q is paused, and cannot be resumed: %w", c.Name, err))
			continue
		}
		s.app.ui.note(fmt.Sprintf("container %q, which a ctis up that was ended had paused, goes on", c.Name))
	}
	return errors.Join(errs...)
}
