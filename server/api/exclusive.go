package api

import (
	"net/netip"
	"slices"
)

// Exclusive is something on the engine or its host that only one trajectory at a
// time can have: two that shared it would see each other, or each other's files.
type Exclusive struct {
	Kind string `json:"kind"` // one of the Kind constants
	Name string `json:"name"` // as the engine knows it; of a subnet, the prefix
}

// The kinds of [Exclusive].
const (
	KindSubnet    = "subnet"    // of a network; overlapping ones are the same
	KindNetwork   = "network"   // by its name on the engine
	KindVolume    = "volume"    // likewise
	KindContainer = "container" // one outside the project that it refers to, by name
	KindBridge    = "bridge"    // a network interface of the host that a network is to make
	KindParent    = "parent"    // a network interface of the host that a network is put on
	KindHost      = "host"      // a namespace of the host: "network" or "ipc"
)

// Meets says whether two trajectories cannot have x and y at once.
func (x Exclusive) Meets(y Exclusive) bool {
	if x.Kind != y.Kind {
		return false
	}
	if x.Kind == KindSubnet {
		a, errA := netip.ParsePrefix(x.Name)
		b, errB := netip.ParsePrefix(y.Name)
		return errA == nil && errB == nil && a.Overlaps(b)
	}
	return x.Name == y.Name
}

// Meeting finds the first of xs that meets one of ys.
func Meeting(xs, ys []Exclusive) (Exclusive, bool) {
	for _, x := range xs {
		if slices.ContainsFunc(ys, x.Meets) {
			return x, true
		}
	}
	return Exclusive{}, false
}

// HoldRequest is the body of a hold.
type HoldRequest struct {
	// Exclusive is what the caller is about to make or use for the trajectory; none
	// when it only takes down.
	Exclusive []Exclusive `json:"exclusive"`
}
