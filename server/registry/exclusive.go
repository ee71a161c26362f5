package registry

import (
	"maps"
	"net/http"
	"net/netip"
	"slices"

	"github.com/linuxarena/ctis/server/api"
)

// kinds are those of [api.Exclusive].
var kinds = []string{api.KindSubnet, api.KindNetwork, api.KindVolume, api.KindContainer, api.KindBridge, api.KindParent, api.KindHost}

// checkExclusive judges a list by itself. One that was not understood would be
// guarded by nobody.
func checkExclusive(id string, list []api.Exclusive) *api.Error {
	if len(list) > maxExclusive {
		return invalid("trajectory %q has %d exclusive things; at most %d are known", id, len(list), maxExclusive)
	}
	for _, x := range list {
		if !slices.Contains(kinds, x.Kind) || x.Name == "" || len(x.Name) > 4096 {
			return invalid("trajectory %q: %q %q is nothing that can be exclusive", id, clip(x.Kind), clip(x.Name))
		}
		if _, err := netip.ParsePrefix(x.Name); x.Kind == api.KindSubnet && err != nil {
			return invalid("trajectory %q: %q is no subnet", id, clip(x.Name))
		}
	}
	return nil
}

// exclude refuses what another trajectory has, or is just being given; mu is held.
// The trajectory's own is no obstacle: its caller holds it.
func (r *Registry) exclude(id string, list []api.Exclusive) *api.Error {
	for _, t := range r.Snapshot() {
		if x, ok := api.Meeting(list, t.Exclusive); ok && t.Trajectory != id {
			e := api.Errorf(http.StatusConflict, api.CodeConflict, "trajectory %q has the %s %q", t.Trajectory, x.Kind, x.Name)
			e.Holders, e.Exclusive = []string{t.Trajectory}, &x
			return e
		}
	}
	for _, other := range slices.Sorted(maps.Keys(r.held)) {
		if x, ok := api.Meeting(list, r.held[other]); ok && other != id {
			e := api.Errorf(http.StatusConflict, api.CodeHeld, "trajectory %q is being given the %s %q", other, x.Kind, x.Name)
			e.Holders, e.Exclusive = []string{other}, &x
			return e
		}
	}
	return nil
}
