package commands

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/linuxarena/ctis/netpin"
	"github.com/linuxarena/ctis/server/api"
	"github.com/linuxarena/ctis/simulator"
)

// ensureGateway makes sure of a gateway beside a simulator that runs.
func (a *app) ensureGateway(ctx context.Context, image simulator.ImageResult, sim *simulator.Result, pool netip.Prefix, detail func(string)) (*simulator.Gateway, error) {
	var lost []netip.Prefix // given out before, and not taken by the engine
	g, err := simulator.EnsureGateway(ctx, a.engine, simulator.GatewayOptions{
		Instance: a.instance, Image: image, Simulator: sim, Closed: []netip.Prefix{pool},
		Progress: func(d simulator.Decision) {
			a.log.Info("gateway", "decision", d.String())
			detail(d.String())
		},
		EgressSubnet: func(ctx context.Context) (netip.Prefix, error) {
			taken, err := a.taken(ctx)
			if err != nil {
				return netip.Prefix{}, err
			}
			egress, err := netpin.Free(pool, linkBits, append(taken, lost...), simulator.EgressName(a.instance))
			lost = append(lost, egress)
			return egress, err
		},
	})
	if err != nil {
		return nil, a.explainExhausted(ctx, err)
	}
	return g, nil
}

// gateway makes sure that the trajectory's upstream proxies will answer: the gateway is
// there, it has their keys, and they are held for this trajectory.
func (s *setup) gateway(ctx context.Context, line *uiStep) (string, error) {
	reused := true
	for try := 0; ; try++ {
		g, err := s.app.ensureGateway(ctx, *s.image, s.sim, s.pool, line.detail)
		if errors.Is(err, simulator.ErrImageGone) && try < subnetRaces {
			if _, err := s.ensureImage(ctx, line); err != nil {
				return "", err
			}
			continue
		}
		if err != nil {
			return "", err
		}
		reused = reused && g.Reused
		err = s.claim(ctx, g.Client, nil, line)
		g.Client.Close()
		if err == nil {
			break
		}
		var refused *api.Error
		if !errors.As(err, &refused) || refused.Code != api.CodeRetired || try == subnetRaces {
			return "", err
		}
		// Another process has just replaced it: its successor is the one to use.
	}
	detail := plural(len(s.env.Config.Upstreams), "upstream proxy")
	if reused {
		detail += " (reused)"
	}
	return detail, nil
}

// claim delivers keys that the gateway does not have, and holds the upstreams. Whoever
// is in the way and dead is cleared away, once each.
func (s *setup) claim(ctx context.Context, gateway *api.GatewayClient, networks []netip.Prefix, line *uiStep) error {
	claims := api.Claims{Trajectory: s.id, Networks: networks}
	for _, u := range s.env.Config.Upstreams {
		claims.Upstreams = append(claims.Upstreams, u.Upstream)
	}
	if err := s.past(ctx, line, func() error { return deliverKeys(ctx, gateway, s.env.Keys) }); err != nil {
		return s.explainKeys(err)
	}
	if !s.claimed {
		s.claimed = true
		s.steps.onUndo("releasing upstream proxies", func(ctx context.Context) error {
			if s.held {
				return nil // they were held before
			}
			return s.app.release(ctx, s.id)
		})
		status, err := gateway.Status(ctx)
		if err != nil {
			return err
		}
		s.held = slices.ContainsFunc(status.Claims, func(c api.Claims) bool { return c.Trajectory == s.id })
	}
	var done *api.Claimed
	err := s.past(ctx, line, func() (err error) {
		done, err = gateway.Claim(ctx, claims)
		return err
	})
	if err != nil {
		return s.explainClaim(err)
	}
	if networks == nil {
		for _, variable := range done.Missing {
			s.app.ui.warn(fmt.Sprintf("upstream proxy %s has no key: %q is not set; it answers 503 until ctis up with the same --id delivers one", s.withKey(variable), variable))
		}
	}
	return nil
}

// closeNetworks tells the gateway where the trajectory's networks are, now that they
// are there: no upstream may be in them.
func (s *setup) closeNetworks(ctx context.Context, line *uiStep) error {
	if len(s.env.Config.Upstreams) == 0 {
		return nil
	}
	gateway, err := simulator.ConnectGateway(ctx, s.app.engine, s.app.instance)
	if err != nil {
		return err
	}
	defer gateway.Close()
	return s.claim(ctx, gateway, subnetsOf(s.nets), line)
}

// past tries again when those in the way are dead: a project without containers is.
func (s *setup) past(ctx context.Context, line *uiStep, try func() error) error {
	cleared := map[string]bool{}
	for {
		err := try()
		var refused *api.Error
		if !errors.As(err, &refused) || refused.Code != api.CodeConflict || len(refused.Holders) == 0 {
			return err
		}
		for _, id := range refused.Holders {
			if cleared[id] || id == s.id {
				return err
			}
			dead, e := s.app.bury(ctx, s.sim.Client, id, line)
			if e != nil {
				return errors.Join(err, e)
			}
			if !dead {
				return err
			}
			cleared[id] = true
			s.app.ui.note(fmt.Sprintf("trajectory %q has no container any more: what it left is cleared away", id))
		}
	}
}

// bury takes down what a trajectory without containers left, unless a process is at
// work on it. It says whether it did.
func (a *app) bury(ctx context.Context, sim *api.Client, id string, line *uiStep) (bool, error) {
	free, err := sim.Hold(ctx, id)
	var refused *api.Error
	if errors.As(err, &refused) {
		return false, nil // alive, as far as can be told
	}
	if err != nil {
		return false, err
	}
	defer free()
	project, err := netpin.FindProject(ctx, a.engine, id)
	if err != nil || len(project.Containers) > 0 {
		return false, err
	}
	seen, err := simulator.Observe(ctx, a.engine, a.instance)
	if err != nil {
		return false, err
	}
	_, err = a.remove(ctx, id, downOptions{}, seen, line)
	return err == nil, err
}

// withKey names the upstreams that take a variable's key.
func (s *setup) withKey(variable string) string {
	var names []string
	for _, u := range s.env.Config.Upstreams {
		if u.KeyEnv == variable {
			name := u.Provider
			if name == "" {
				name = string(u.Host)
			}
			names = append(names, quoted(name))
		}
	}
	return strings.Join(names, ", ")
}

// deliverKeys gives the gateway the keys it does not have already. Those it has are
// told by their digests.
func deliverKeys(ctx context.Context, gateway *api.GatewayClient, keys map[string]string) error {
	if len(keys) == 0 {
		return nil
	}
	have, err := gateway.KeyDigests(ctx)
	if err != nil {
		return err
	}
	missing := api.Keys{}
	for name, key := range keys {
		if have.Digests[name] != api.KeyDigest(have.Salt, name, key) {
			missing[name] = key
		}
	}
	if len(missing) == 0 {
		return nil
	}
	_, err = gateway.SetKeys(ctx, missing)
	return err
}

// explainKeys makes the gateway's refusal to change a key one about who uses it.
func (s *setup) explainKeys(err error) error {
	var e *api.Error
	if !errors.As(err, &e) || e.Code != api.CodeConflict {
		return err
	}
	return &conflictError{
		msg: fmt.Sprintf("the gateway %q has another value of %s than this environment, and uses it for %s",
			simulator.GatewayName(s.app.instance), strings.Join(e.Fields, ", "), strings.Join(e.Holders, ", ")),
		hint:    fmt.Sprintf("ctis down %s ends what uses it; or set the value they have, or use another instance with --instance NAME", strings.Join(e.Holders, " ")),
		details: map[string]any{"attached": e.Holders, "keys": e.Fields, "have": s.image.Ref, "want": s.image.Ref},
	}
}

// explainClaim makes the gateway's refusal one about the environment's file.
func (s *setup) explainClaim(err error) error {
	var e *api.Error
	if !errors.As(err, &e) || e.Code != api.CodeConflict || e.Host == "" {
		return err
	}
	return &conflictError{
		msg:     fmt.Sprintf("upstream %q is held by trajectory %s with another %s", e.Host, strings.Join(e.Holders, ", "), strings.Join(e.Fields, ", ")),
		hint:    fmt.Sprintf("ctis down %s releases it; or declare it with the same settings", strings.Join(e.Holders, " ")),
		details: map[string]any{"host": e.Host, "holders": e.Holders, "fields": e.Fields},
	}
}

// release gives a trajectory's claims up. Without a gateway there is nobody to tell;
// what one that is stopped remembers is released by the next that meets it.
func (a *app) release(ctx context.Context, id string) error {
	gateway, err := simulator.ConnectGateway(ctx, a.engine, a.instance)
	var absent *simulator.AbsentError
	var foreign *simulator.ForeignError
	if errors.As(err, &absent) || errors.As(err, &foreign) {
		return nil
	}
	if err != nil {
		return err
	}
	defer gateway.Close()
	if _, err := gateway.Release(ctx, id); err != nil {
		return fmt.Errorf("the gateway does not release what %q holds: %w", id, err)
	}
	return nil
}

// restoreUpstreams makes sure that a trajectory that is served has its way out, from
// what the simulator knows alone. It says what was not as it should be. Keys are
// delivered where this process has them.
func (a *app) restoreUpstreams(ctx context.Context, sim *simulator.Result, t api.TrajectoryStatus) ([]string, error) {
	if len(t.Upstreams) == 0 {
		return nil, nil
	}
	pool, err := a.addressPool()
	if err != nil {
		return nil, err
	}
	seen, err := simulator.Observe(ctx, a.engine, a.instance)
	if err != nil {
		return nil, err
	}
	g, err := a.ensureGateway(ctx, simulator.ImageResult{Ref: seen.Image, ID: seen.ImageID, Hash: seen.Hash}, sim, pool, func(string) {})
	if err != nil {
		return nil, err
	}
	defer g.Client.Close()
	var done []string
	if !g.Reused {
		done = append(done, "the gateway "+quoted(g.Container)+" did not run")
	}
	keys := map[string]string{}
	for _, u := range t.Upstreams {
		if v := a.env[u.KeyEnv]; u.KeyEnv != "" && v != "" {
			keys[u.KeyEnv] = v
		}
	}
	status, err := g.Client.Status(ctx)
	if err != nil {
		return done, err
	}
	maps.DeleteFunc(keys, func(name, _ string) bool { return slices.Contains(status.Keys, name) })
	if err := deliverKeys(ctx, g.Client, keys); err != nil {
		return done, err
	}
	claimed, err := g.Client.Claim(ctx, api.Claims{Trajectory: t.Trajectory, Upstreams: t.Upstreams, Networks: subnetsOf(t.Networks)})
	if err != nil {
		return done, err
	}
	if !claimed.Unchanged {
		done = append(done, "the gateway did not know what it holds")
	}
	for _, variable := range claimed.Missing {
		a.ui.warn(fmt.Sprintf("trajectory %q: the gateway has no key from %q; ctis up with the same --id delivers it", t.Trajectory, variable))
	}
	return done, nil
}

// subnetsOf are where a trajectory's networks are.
func subnetsOf(networks []api.Network) []netip.Prefix {
	list := []netip.Prefix{}
	for _, n := range networks {
		list = append(list, n.Subnets...)
	}
	return list
}
