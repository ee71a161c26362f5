package commands

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/linuxarena/ctis/compose"
	"github.com/linuxarena/ctis/compose/trust"
	"github.com/linuxarena/ctis/netpin"
)

// unseal has services with a read-only root made anew with volumes where their
// trust stores are. Which directories those are only a container tells: the image
// may not have been here before it was created.
func (s *setup) unseal(ctx context.Context, line *uiStep) error {
	var sealed []string
	for _, name := range s.env.Reaching() {
		if s.env.ReadOnly(name) {
			sealed = append(sealed, name)
		}
	}
	if len(sealed) == 0 {
		return nil
	}
	targets, err := s.unstarted(ctx, sealed)
	if err != nil || len(targets) == 0 {
		return err
	}
	line.detail("looking for trust stores on read-only roots")
	ca, err := s.sim.Client.CA(ctx)
	if err != nil {
		return err
	}
	found, err := trust.Sealed(ctx, s.app.engine, trust.Options{CA: ca, Containers: targets})
	if err != nil || len(found) == 0 {
		return err
	}
	for service, dirs := range found {
		s.caDirs[service] = slices.Compact(slices.Sorted(slices.Values(append(dirs, s.caDirs[service]...))))
	}
	_, err = s.apply(ctx, line)
	return err
}

// knownCADirs are the volumes that containers of an earlier run were given, so that
// the same settings make the same containers.
func knownCADirs(p netpin.Project) map[string][]string {
	dirs := map[string][]string{}
	for _, c := range p.Containers {
		if list := c.Labels[compose.LabelTrustDirs]; list != "" {
			dirs[c.Service] = strings.Split(list, ":")
		}
	}
	return dirs
}

// unstarted lists the containers of those services that were created and have not
// run.
func (s *setup) unstarted(ctx context.Context, services []string) ([]trust.Container, error) {
	project, err := netpin.FindMembers(ctx, s.app.engine, s.id)
	if err != nil {
		return nil, err
	}
	var targets []trust.Container
	for _, c := range project.Containers {
		if slices.Contains(services, c.Service) && c.State == "created" {
			targets = append(targets, trust.Container{ID: c.ID, Service: c.Service})
		}
	}
	return targets, nil
}

// trust puts the simulator's CA into the containers on its network.
func (s *setup) trust(ctx context.Context, line *uiStep) (string, error) {
	ca, err := s.sim.Client.CA(ctx)
	if err != nil {
		return "", err
	}
	targets, err := s.unstarted(ctx, s.env.Reaching())
	if err != nil {
		return "", err
	}
	reports, err := trust.Install(ctx, s.app.engine, trust.Options{CA: ca, Containers: targets})
	if err != nil {
		return "", err
	}
	s.app.tellTrust(reports)
	return plural(len(targets), "container"), nil
}

// tellTrust warns of containers that could not be given the authority in full.
func (a *app) tellTrust(reports []trust.Report) {
	for _, r := range reports {
		if r.Bundle == "" {
			a.ui.warn(fmt.Sprintf("service %q: no bundle of trusted authorities could be put into it, so its programs will not trust the personas' certificates", r.Service))
		}
		for _, skip := range r.Skipped {
			a.ui.warn(fmt.Sprintf("service %q: %s: %s", r.Service, skip.What, skip.Reason))
		}
	}
}
