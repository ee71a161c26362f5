package gateway

import (
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/linuxarena/ctis/server/api"
	"github.com/linuxarena/ctis/server/durable"
	"github.com/linuxarena/ctis/server/registry"
)

// claims say which upstreams each trajectory holds, durably. The invariants are:
//
//   - Of one host all claims have the same settings; one with others is refused.
//   - A host is registered as long as somebody claims it, and for him alone: what
//     another trajectory claims is no way out for this one.
//   - Once retired, nothing can be claimed; it retires only without any claim.
//
// Everything that changes them is called with the gateway's changing held; readers see
// an immutable snapshot.
type claims struct {
	dir     string
	now     func() time.Time
	retired atomic.Bool
	current atomic.Pointer[map[string]*api.Claims]
}

const (
	claimSuffix  = ".json"
	maxUpstreams = 1000
	maxNetworks  = 256
	maxAuthority = 1 << 20 // bytes
)

// loadClaims reads what is kept in dir. A file that cannot be read back is set aside.
func loadClaims(dir string, now func() time.Time) (*claims, []string, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, nil, fmt.Errorf("claims: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, nil, fmt.Errorf("claims: %w", err)
	}
	c := &claims{dir: dir, now: now}
	kept, problems := map[string]*api.Claims{}, []string{}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), durable.TempPrefix) {
			_ = os.Remove(filepath.Join(dir, e.Name())) // of a write that a crash cut short
			continue
		}
		id, ok := strings.CutSuffix(e.Name(), claimSuffix)
		if !ok || !registry.ValidID(id) {
			continue
		}
		var one api.Claims
		problem, err := load(filepath.Join(dir, e.Name()), "claims of trajectory "+id, &one)
		if err != nil {
			return nil, nil, err
		}
		if problem != "" {
			problems = append(problems, problem)
			continue
		}
		if one.Trajectory != id {
			problems = append(problems, "claims of trajectory "+id+" belong to another one and are not honoured")
			continue
		}
		if e := checkClaims(&one); e != nil {
			problems = append(problems, "claims of trajectory "+id+" are not honoured: "+e.Message)
			continue
		}
		if e := contested(&one, kept); e != nil {
			problems = append(problems, "claims of trajectory "+id+" are not honoured: "+e.Message)
			continue
		}
		kept[id] = &one
	}
	c.current.Store(&kept)
	return c, problems, nil
}

// of is what a trajectory claims; nil for none.
func (c *claims) of(id string) *api.Claims { return (*c.current.Load())[id] }

// list is everything that is claimed, sorted by trajectory.
func (c *claims) list() []api.Claims {
	list := []api.Claims{}
	for _, id := range sorted(maps.Keys(*c.current.Load())) {
		list = append(list, *c.of(id))
	}
	return list
}

// upstream finds a host among what a trajectory claims.
func (c *claims) upstream(id, host string) (api.Upstream, bool) {
	if one := c.of(id); one != nil {
		for _, u := range one.Upstreams {
			if u.Host == host {
				return u, true
			}
		}
	}
	return api.Upstream{}, false
}

// users are the trajectories with an upstream that takes the variable's key, sorted.
func (c *claims) users(variable string) []string {
	var ids []string
	for id, one := range *c.current.Load() {
		if slices.ContainsFunc(one.Upstreams, func(u api.Upstream) bool { return u.KeyEnv == variable }) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// networks are the subnets of all trajectories with a claim.
func (c *claims) networks(yield func(string, *api.Claims) bool) {
	maps.All(*c.current.Load())(yield)
}

// claim holds upstreams for a trajectory. Claiming the same again changes nothing, but
// may tell of networks; others replace what it held before.
func (c *claims) claim(one api.Claims) (unchanged bool, err error) {
	if c.retired.Load() {
		return false, api.Errorf(http.StatusGone, api.CodeRetired, "this gateway is retired; claim for %q at its successor", one.Trajectory)
	}
	one.Upstreams = slices.Clone(one.Upstreams)
	for i := range one.Upstreams {
		one.Upstreams[i].Rules, one.Upstreams[i].RulesRevision = nil, 0
	}
	if e := checkClaims(&one); e != nil {
		return false, e
	}
	current := *c.current.Load()
	if e := contested(&one, current); e != nil {
		return false, e
	}
	one.Since = c.now().UTC()
	if old := current[one.Trajectory]; old != nil {
		one.Since = old.Since
		unchanged = sameUpstreams(old.Upstreams, one.Upstreams)
		if len(one.Networks) == 0 {
			one.Networks = old.Networks
		}
		if unchanged && slices.Equal(old.Networks, one.Networks) {
			return true, nil
		}
	}
	if err := durable.WriteSealed(c.path(one.Trajectory), fileVersion, one, 0o600); err != nil {
		return false, fmt.Errorf("the claims of %q are not stored: %w", one.Trajectory, err)
	}
	next := maps.Clone(current)
	next[one.Trajectory] = &one
	c.current.Store(&next)
	return unchanged, nil
}

// release gives up what a trajectory holds, and names what nobody holds any more.
func (c *claims) release(id string) (*api.Released, error) {
	done := &api.Released{Hosts: []string{}}
	current := *c.current.Load()
	if !registry.ValidID(id) {
		return done, nil
	}
	if err := os.Remove(c.path(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("the claims of %q are not removed: %w", id, err)
	}
	if err := durable.SyncDir(c.dir); err != nil {
		return nil, fmt.Errorf("the claims of %q are not removed: %w", id, err)
	}
	old := current[id]
	if old == nil {
		return done, nil
	}
	next := maps.Clone(current)
	delete(next, id)
	c.current.Store(&next)
	done.Known = true
	for _, u := range old.Upstreams {
		if _, ok := holder(u.Host, next); !ok {
			done.Hosts = append(done.Hosts, u.Host)
		}
	}
	slices.Sort(done.Hosts)
	return done, nil
}

// retire makes claim refuse from now on, provided that nothing is claimed.
func (c *claims) retire() error {
	ids := sorted(maps.Keys(*c.current.Load()))
	if len(ids) == 0 {
		c.retired.Store(true)
		return nil
	}
	e := api.Errorf(http.StatusConflict, api.CodeBusy, "trajectories with claims: %d; take them down first", len(ids))
	e.Holders = ids
	return e
}

func (c *claims) path(id string) string { return filepath.Join(c.dir, id+claimSuffix) }

// contested refuses an upstream that others hold with other settings.
func contested(one *api.Claims, current map[string]*api.Claims) *api.Error {
	for _, u := range one.Upstreams {
		var holders, fields []string
		for _, id := range sorted(maps.Keys(current)) {
			if id == one.Trajectory {
				continue
			}
			for _, v := range current[id].Upstreams {
				if f := v.Differs(u); v.Host == u.Host && len(f) > 0 {
					holders, fields = append(holders, id), f
				}
			}
		}
		if len(holders) > 0 {
			e := api.Errorf(http.StatusConflict, api.CodeConflict, "upstream %q is held by trajectory %q with another %s",
				u.Host, strings.Join(holders, `", "`), strings.Join(fields, ", "))
			e.Holders, e.Fields, e.Host = holders, fields, u.Host
			return e
		}
	}
	return nil
}

func holder(host string, current map[string]*api.Claims) (string, bool) {
	for id, one := range current {
		if slices.ContainsFunc(one.Upstreams, func(u api.Upstream) bool { return u.Host == host }) {
			return id, true
		}
	}
	return "", false
}

func sameUpstreams(a, b []api.Upstream) bool {
	return slices.EqualFunc(a, b, func(x, y api.Upstream) bool { return len(x.Differs(y)) == 0 })
}

// checkClaims judges a claim by itself.
func checkClaims(one *api.Claims) *api.Error {
	switch {
	case !registry.ValidID(one.Trajectory):
		return invalid("a claim is for no trajectory id")
	case len(one.Upstreams) == 0 || len(one.Upstreams) > maxUpstreams:
		return invalid("trajectory %q claims %d upstreams; 1 to %d can be claimed", one.Trajectory, len(one.Upstreams), maxUpstreams)
	case len(one.Networks) > maxNetworks:
		return invalid("trajectory %q has %d networks; at most %d are known", one.Trajectory, len(one.Networks), maxNetworks)
	}
	seen := map[string]bool{}
	for _, u := range one.Upstreams {
		if seen[u.Host] {
			return invalid("upstream %q stands twice", u.Host)
		}
		seen[u.Host] = true
		if e := registry.CheckUpstream(u); e != nil {
			return e
		}
		if len(u.Authorities) > maxAuthority {
			return invalid("upstream %q: its authorities have more than %d bytes", u.Host, maxAuthority)
		}
		if _, err := tlsRoots(u.Authorities); err != nil {
			return invalid("upstream %q: %v", u.Host, err)
		}
	}
	for _, n := range one.Networks {
		if !n.IsValid() || n != n.Masked() {
			return invalid("trajectory %q: %s is no subnet", one.Trajectory, n)
		}
	}
	return nil
}

func sorted(names iter.Seq[string]) []string {
	list := slices.Sorted(names)
	if list == nil {
		return []string{} // an empty list, never null
	}
	return list
}
