package gateway

import (
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/linuxarena/ctis/server/admin"
	"github.com/linuxarena/ctis/server/api"
	"github.com/linuxarena/ctis/server/durable"
)

// routes is the table of contents of the gateway's administrative interface. Answers
// are JSON; a refusal is {"error":{…}} as [api.Error] says.
func (g *Gateway) routes() http.Handler {
	return admin.NewHandler(g.log, map[string]admin.Answer{
		"GET /v1/health":               g.health,
		"GET /v1/status":               g.status,
		"PUT /v1/peer":                 g.setPeer,
		"GET /v1/keys":                 g.keyDigests,
		"PUT /v1/keys":                 g.setKeys,
		"POST /v1/trajectories":        g.claim,
		"DELETE /v1/trajectories/{id}": g.releaseClaims,
		"POST /v1/retire":              g.retire,
	})
}

type empty struct{}

// health: 200 {"ok":true} while requests are served, 500 otherwise.
func (g *Gateway) health(*http.Request) (any, error) {
	if !g.serving.Load() {
		return nil, errors.New("the listeners are not open; the gateway is starting or stopping")
	}
	return map[string]bool{"ok": true}, nil
}

// status: 200 [api.GatewayStatus].
func (g *Gateway) status(*http.Request) (any, error) {
	return &api.GatewayStatus{
		Protocol: api.Protocol, Started: g.started, Retired: g.claims.retired.Load(),
		Identity: g.identity.Fingerprint, Peer: g.peering.Load().Simulator,
		Claims: g.claims.list(), Keys: g.keys.names(), Problems: append([]string{}, g.found...),
	}, nil
}

// setPeer: body [api.Peering]; 200 {}. 400 for what is no fingerprint or network, 507
// when the volume is full.
func (g *Gateway) setPeer(r *http.Request) (any, error) {
	var p api.Peering
	if err := admin.Decode(r, &p); err != nil {
		return nil, err
	}
	if len(p.Simulator) != 64 {
		return nil, invalid("%q is no fingerprint", p.Simulator)
	}
	if len(p.Closed) > maxNetworks || len(p.Open) > maxNetworks {
		return nil, invalid("more than %d networks are named", maxNetworks)
	}
	for _, n := range slices.Concat(p.Closed, p.Open) {
		if !n.IsValid() || n != n.Masked() {
			return nil, invalid("%s is no network", n)
		}
	}
	g.changing.Lock()
	defer g.changing.Unlock()
	old := g.peering.Load()
	if old.Simulator == p.Simulator && slices.Equal(old.Closed, p.Closed) && slices.Equal(old.Open, p.Open) {
		return empty{}, nil
	}
	if err := durable.WriteSealed(g.peerPath, fileVersion, p, 0o600); err != nil {
		return nil, fmt.Errorf("what was told of the simulator is not stored: %w", err)
	}
	g.peering.Store(&p)
	return empty{}, nil
}

// keyDigests: 200 [api.KeyDigests].
func (g *Gateway) keyDigests(*http.Request) (any, error) { return g.keys.digests(), nil }

// setKeys: body [api.Keys]; 200 [api.KeysSet]. 400 for what can be no key, 409 conflict
// with Holders and Fields when a key in use would change, 507 when the volume is full.
func (g *Gateway) setKeys(r *http.Request) (any, error) {
	var given api.Keys
	if admin.Decode(r, &given) != nil {
		return nil, invalid("the body is no map of keys") // the decoder's words repeat what it read
	}
	g.changing.Lock()
	defer g.changing.Unlock()
	done, err := g.keys.put(given, g.claims.users)
	if err != nil {
		return nil, err
	}
	if len(done.Added)+len(done.Changed) > 0 {
		g.log.Info("keys delivered", "added", done.Added, "changed", done.Changed)
	}
	return done, nil
}

// claim: body [api.Claims]; 200 [api.Claimed]. 400 invalid, 409 conflict with Host,
// Holders and Fields, 410 when the gateway is retired, 507 when the volume is full.
func (g *Gateway) claim(r *http.Request) (any, error) {
	var c api.Claims
	if err := admin.Decode(r, &c); err != nil {
		return nil, err
	}
	g.changing.Lock()
	defer g.changing.Unlock()
	unchanged, err := g.claims.claim(c)
	if err != nil {
		return nil, err
	}
	if !unchanged {
		g.pool.forget(c.Trajectory)
	}
	answer := &api.Claimed{Unchanged: unchanged, Missing: []string{}}
	for _, u := range c.Upstreams {
		if _, ok := g.keys.value(u.KeyEnv); u.KeyEnv != "" && !ok {
			answer.Missing = append(answer.Missing, u.KeyEnv)
		}
	}
	slices.Sort(answer.Missing)
	answer.Missing = slices.Compact(answer.Missing)
	return answer, nil
}

// releaseClaims: 200 [api.Released], also when there is nothing to release.
func (g *Gateway) releaseClaims(r *http.Request) (any, error) {
	g.changing.Lock()
	defer g.changing.Unlock()
	id := r.PathValue("id")
	done, err := g.claims.release(id)
	if err != nil {
		return nil, err
	}
	g.pool.forget(id)
	return done, nil
}

// retire: 200 {}; 409 busy with Holders while anything is claimed.
func (g *Gateway) retire(*http.Request) (any, error) {
	g.changing.Lock()
	defer g.changing.Unlock()
	if err := g.claims.retire(); err != nil {
		return nil, err
	}
	g.log.Info("retired: no claim is taken any more")
	return empty{}, nil
}
