package commands

import (
	"context"
	"slices"

	"github.com/linuxarena/ctis/netpin"
	"github.com/linuxarena/ctis/server/api"
	"github.com/linuxarena/ctis/simulator"
)

// gatewayStatus looks at the gateway: nil where there is none. claims are what each
// trajectory holds there; nil where it cannot be asked.
func (a *app) gatewayStatus(ctx context.Context) (*gatewayStatus, map[string]api.Claims, error) {
	seen, err := simulator.ObserveGateway(ctx, a.engine, a.instance)
	if err != nil || seen.ID == "" || seen.Foreign {
		return nil, nil, err
	}
	g := &gatewayStatus{Container: simulator.GatewayName(a.instance), State: seen.State, Image: seen.Image, Upstreams: []string{}, Keys: []string{}}
	if !seen.Answering {
		return g, nil, nil
	}
	client, err := simulator.ConnectGateway(ctx, a.engine, a.instance)
	if err != nil {
		return nil, nil, err
	}
	defer client.Close()
	st, err := client.Status(ctx)
	if err != nil {
		return nil, nil, err
	}
	claims := map[string]api.Claims{}
	for _, c := range st.Claims {
		claims[c.Trajectory] = c
		for _, u := range c.Upstreams {
			g.Upstreams = append(g.Upstreams, u.Host)
		}
	}
	slices.Sort(g.Upstreams)
	g.Upstreams, g.Keys, g.Problems = slices.Compact(g.Upstreams), st.Keys, st.Problems
	return g, claims, nil
}

// upstreamDrift says why what a trajectory asks of its upstreams would not be passed
// on. Pure.
func upstreamDrift(t api.TrajectoryStatus, g *gatewayStatus, claims map[string]api.Claims) []netpin.Drift {
	drift := func(text string) []netpin.Drift { return []netpin.Drift{{Kind: netpin.DriftUpstream, Have: text}} }
	switch held, ok := claims[t.Trajectory]; {
	case len(t.Upstreams) == 0:
		return nil
	case g == nil:
		return drift("the gateway is gone")
	case claims == nil:
		return drift("the gateway " + quoted(g.Container) + " is " + g.State + " and does not answer")
	case !ok:
		return drift("the gateway knows of no claim")
	default:
		for _, u := range t.Upstreams {
			if !slices.ContainsFunc(held.Upstreams, func(v api.Upstream) bool { return v.Host == u.Host }) {
				return drift("the gateway knows of no claim on " + quoted(u.Host))
			}
		}
	}
	return nil
}
