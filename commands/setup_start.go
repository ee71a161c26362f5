package commands

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/linuxarena/ctis/netpin"
	"github.com/linuxarena/ctis/server/api"
)

// start starts the services and waits until each has a verdict.
func (s *setup) start(ctx context.Context, line *uiStep) (string, error) {
	created, err := netpin.FindProject(ctx, s.app.engine, s.id)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, s.o.waitTimeout, errWaitTimeout)
	defer cancel()
	if err := s.unchanged(); err != nil {
		return "", err
	}
	upErr := s.app.runner.Up(ctx, s.call, line.detail)
	if err := s.app.wait(ctx, s.env, s.id, upErr, line); err != nil {
		return "", errors.Join(s.unchanged(), err)
	}
	if err := s.noDrift(ctx, created); err != nil {
		return "", err
	}
	if err := s.members(ctx); err != nil {
		return "", err
	}
	if err := s.report(ctx); err != nil {
		return "", err
	}
	return plural(len(s.result.Services), "service"), nil
}

// report completes the result from what runs, and tells the simulator which
// service has which address.
func (s *setup) report(ctx context.Context) error {
	project, err := netpin.FindProject(ctx, s.app.engine, s.id)
	if err != nil {
		return err
	}
	peers := api.Peers{}
	for _, n := range s.nets {
		peers[n.Name] = project.Peers(n.ID, n.Peers)
	}
	if err := s.sim.Client.SetPeers(ctx, s.id, peers); err != nil {
		return err
	}
	if err := s.app.repin(ctx, s.sim.Client, s.env, s.id, s.nets); err != nil {
		return err
	}
	r := &s.result
	r.Trajectory, r.Network = s.id, s.env.Network
	if len(s.nets) > 0 && len(s.nets[0].Addresses) > 0 {
		r.Simulator.Address = s.nets[0].Addresses[0].String()
	}
	r.Personas, r.ExposedServices, r.UpstreamProxies = s.env.Hostnames(), map[string]string{}, []string{}
	r.Services = []upService{}
	for _, c := range project.Containers {
		svc := upService{Service: c.Service, Container: c.Name, Addresses: map[string]string{}, Ports: c.Ports}
		for _, n := range project.Networks {
			if addrs := c.Addresses[n.ID]; len(addrs) > 0 {
				svc.Addresses[n.Key] = addrs[0].String()
			}
		}
		r.Services = append(r.Services, svc)
	}
	slices.SortFunc(r.Services, func(a, b upService) int {
		return cmp.Or(cmp.Compare(a.Service, b.Service), cmp.Compare(a.Container, b.Container))
	})
	return nil
}
