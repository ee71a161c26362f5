package commands

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/linuxarena/ctis/netpin"
	"github.com/linuxarena/ctis/server/api"
)

// start starts the services and waits until each has a verdict.
func (s *setup) start(ctx context.Context, line *uiStep) (string, error) {
	created, err := netpin.FindMembers(ctx, s.app.engine, s.id)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, s.o.waitTimeout, errWaitTimeout)
	defer cancel()
	if err := s.unchanged(); err != nil {
		return "", err
	}
	upErr := s.app.runner.Up(ctx, s.call, line.detail)
	if upErr != nil && ctx.Err() == nil {
		again, err := s.crossed(ctx, upErr)
		if err != nil {
			return "", err
		}
		if again {
			upErr = s.app.runner.Up(ctx, s.call, line.detail)
		}
	}
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

// Somebody who made the same thing sees this trajectory's at the look after making
// it, and takes its own back; that takes a removal or two on a busy engine.
const (
	crossedWait = 20 * time.Second
	crossedPoll = 200 * time.Millisecond
)

// crossed tells whether containers could not start because another instance had made
// a network of the same name at the same moment: [setup.unshared] found nobody after
// this trajectory's was made, so it is the other that has to go back. Once it has, they
// can be started. If it does not go, the error says who it is.
func (s *setup) crossed(ctx context.Context, upErr error) (bool, error) {
	again := strings.Contains(upErr.Error(), "is ambiguous (") // the engine's words; the other may have gone by now
	for deadline := time.Now().Add(crossedWait); ; {
		taken := s.unshared(ctx, false)
		var twice *netpin.AmbiguousNetworkError
		if !isConflict(taken) && !errors.As(taken, &twice) {
			return again && ctx.Err() == nil, nil
		}
		again = true
		if time.Now().After(deadline) {
			return false, taken
		}
		select {
		case <-ctx.Done():
			return false, nil // waiting for the services says why
		case <-time.After(crossedPoll):
		}
	}
}

// report completes the result from what runs, and tells the simulator which
// service has which address.
func (s *setup) report(ctx context.Context) error {
	project, err := netpin.FindMembers(ctx, s.app.engine, s.id)
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
	r.Personas, r.ExposedServices, r.UpstreamProxies = []string{}, map[string]string{}, []string{}
	for _, p := range s.env.Config.Personas {
		r.Personas = append(r.Personas, string(p.Host))
	}
	for _, u := range s.env.Config.Upstreams {
		r.UpstreamProxies = append(r.UpstreamProxies, string(u.Host))
	}
	for _, x := range s.env.Config.ExposedServices {
		r.ExposedServices[string(x.Host)] = x.Target.String()
	}
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
