package netpin

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/network"

	"github.com/linuxarena/ctis/server/api"
)

// DriftKind says in which way a trajectory is no longer as it was set up.
type DriftKind string

// The kinds of drift. Those of the simulator can be put right without touching the
// trajectory; of the others see [Drift.Deep].
const (
	DriftDetached  DriftKind = "detached"  // the simulator is off the network
	DriftAddress   DriftKind = "address"   // the simulator has another address there
	DriftNames     DriftKind = "names"     // it goes by other names there
	DriftPeer      DriftKind = "peer"      // a container has another address than the simulator was told
	DriftNetwork   DriftKind = "network"   // the network was made anew under another id
	DriftGone      DriftKind = "gone"      // the network is no more
	DriftContainer DriftKind = "container" // a container was made behind ctis' back, without what ctis puts into one
	DriftAmbiguous DriftKind = "ambiguous" // several networks stand in its place
	DriftOff       DriftKind = "off"       // a container was taken off the network
	DriftSidecar   DriftKind = "sidecar"   // the sidecar of the exposed services does not do its work
	DriftUpstream  DriftKind = "upstream"  // the gateway would not pass on what it is to
)

// Drift is one way in which a trajectory is no longer as it was set up.
type Drift struct {
	Kind      DriftKind `json:"kind"`
	Network   string    `json:"network,omitempty"`   // Compose key
	Service   string    `json:"service,omitempty"`   // whose container it is
	Container string    `json:"container,omitempty"` // its name
	Want      string    `json:"want,omitempty"`
	Have      string    `json:"have,omitempty"`

	ContainerID string `json:"-"`
}

// Deep tells whether containers or networks have to be made anew to put it right,
// which takes the environment's files.
func (d Drift) Deep() bool {
	switch d.Kind {
	case DriftGone, DriftContainer, DriftOff, DriftSidecar:
		return true
	}
	return false
}

func (d Drift) String() string {
	switch d.Kind {
	case DriftDetached:
		return fmt.Sprintf("the simulator is not on network %q any more", d.Network)
	case DriftAddress:
		return fmt.Sprintf("the simulator's address on network %q is %s, not %s", d.Network, d.Have, d.Want)
	case DriftNames:
		return fmt.Sprintf("the simulator goes by other names on network %q: %s", d.Network, d.Have)
	case DriftPeer:
		return fmt.Sprintf("container %q has the address %s on network %q, not %s", d.Container, d.Have, d.Network, d.Want)
	case DriftNetwork:
		return fmt.Sprintf("network %q was made anew: its id is %s, not %s", d.Network, d.Have, d.Want)
	case DriftGone:
		return fmt.Sprintf("network %q (%s) is gone", d.Network, d.Want)
	case DriftAmbiguous:
		return fmt.Sprintf("network %q exists several times: %s; docker network rm ID removes those that are too many", d.Network, d.Have)
	case DriftSidecar:
		return fmt.Sprintf("the sidecar of the exposed services is %s", d.Have)
	case DriftUpstream:
		return "upstream proxies: " + d.Have
	case DriftOff:
		return fmt.Sprintf("container %q was taken off network %q", d.Container, d.Network)
	}
	return fmt.Sprintf("container %q was made anew, without the certificate authority that ctis puts into one", d.Container)
}

// FindDrift compares a registered trajectory with what the engine has of it. The
// simulator is named by its container's id; p is the trajectory's project. An
// ambiguous network is an [*AmbiguousNetworkError].
func FindDrift(ctx context.Context, eng Engine, simulatorID string, t api.TrajectoryStatus, p Project) ([]Drift, error) {
	sim, err := eng.ContainerInspect(ctx, simulatorID)
	if err != nil {
		return nil, fmt.Errorf("look at the simulator: %w", err)
	}
	found := []Drift{}
	for _, n := range t.Networks {
		now, err := CurrentNetwork(ctx, eng, p, n)
		if err != nil {
			return nil, err
		}
		found = append(found, networkDrift(n, now, sim, t.Hosts())...)
		if now.ID != "" {
			found = append(found, peerDrift(n, now, p)...)
		}
	}
	sidecar, err := sidecarDrift(ctx, eng, t, p)
	if err != nil {
		return nil, err
	}
	found = append(found, sidecar...)
	// One that never was on a network of the simulator is known by its labels only.
	for _, c := range p.Containers {
		seen := slices.ContainsFunc(found, func(d Drift) bool { return d.ContainerID == c.ID }) || slices.ContainsFunc(t.Networks, func(n api.Network) bool {
			return slices.ContainsFunc(n.Peers, func(p api.Peer) bool { return p.Container == c.ID })
		})
		if c.Labels[LabelTrajectory] == "" && !c.OneOff() && !seen {
			found = append(found, Drift{Kind: DriftContainer, Service: c.Service, Container: c.Name, ContainerID: c.ID})
		}
	}
	return found, nil
}

// CurrentNetwork finds what a registered network is now: itself, the one Compose
// made in its place, or the zero Network.
func CurrentNetwork(ctx context.Context, eng Engine, p Project, n api.Network) (Network, error) {
	for _, own := range p.Networks {
		if own.ID == n.ID {
			return own, nil
		}
	}
	again, found, err := FindNetwork(ctx, eng, p.Name, n.Name)
	if err != nil || found {
		return again, err
	}
	// One that Compose did not make (external: true) is not among the project's.
	external, err := eng.NetworkInspect(ctx, n.ID, network.InspectOptions{})
	if errdefs.IsNotFound(err) {
		return Network{}, nil
	}
	if err != nil {
		return Network{}, fmt.Errorf("look at network %q: %w", n.Name, err)
	}
	return fromEngine(external), nil
}

// networkDrift compares a registered network, and the simulator's place on it,
// with what there is now.
func networkDrift(n api.Network, now Network, sim container.InspectResponse, names []string) []Drift {
	switch now.ID {
	case "":
		return []Drift{{Kind: DriftGone, Network: n.Name, Want: short(n.ID)}}
	case n.ID:
	default:
		return []Drift{{Kind: DriftNetwork, Network: n.Name, Want: short(n.ID), Have: short(now.ID)}}
	}
	e := endpoint(sim, now.ID, now.Name)
	if e == nil {
		return []Drift{{Kind: DriftDetached, Network: n.Name}}
	}
	var found []Drift
	if have := addresses(e); !sameAddresses(have, n.Addresses) {
		found = append(found, Drift{Kind: DriftAddress, Network: n.Name, Want: list(n.Addresses), Have: list(have)})
	}
	if !sameAliases(e.Aliases, names, sim) {
		found = append(found, Drift{Kind: DriftNames, Network: n.Name, Want: strings.Join(names, ","), Have: strings.Join(e.Aliases, ",")})
	}
	return found
}

// peerDrift compares the containers that the simulator was told of with those
// there are. Of a container that does not run, an address nobody fixed is unknown
// and says nothing.
func peerDrift(n api.Network, now Network, p Project) []Drift {
	var found []Drift
	told := map[string][]api.Peer{} // by container id
	for _, peer := range n.Peers {
		if peer.Container != "" {
			told[peer.Container] = append(told[peer.Container], peer)
		}
	}
	for _, c := range p.Containers {
		have, on := c.Addresses[now.ID]
		known, before := told[c.ID]
		d := Drift{Network: n.Name, Service: c.Service, Container: c.Name, ContainerID: c.ID}
		switch {
		case before && !on:
			d.Kind = DriftOff
		case before && known[0].Unprepared, on && !before && len(told) > 0:
			d.Kind = DriftContainer
		case before && len(have) > 0:
			var want []netip.Addr
			for _, peer := range known {
				want = append(want, peer.Address)
			}
			if sameAddresses(have, want) {
				continue
			}
			d.Kind, d.Want, d.Have = DriftPeer, list(want), list(have)
		default:
			continue
		}
		if !c.OneOff() {
			found = append(found, d)
		}
	}
	return found
}

func sameAddresses(a, b []netip.Addr) bool {
	set := func(addrs []netip.Addr) []netip.Addr {
		addrs = slices.Clone(addrs)
		slices.SortFunc(addrs, netip.Addr.Compare)
		return slices.Compact(addrs)
	}
	return slices.Equal(set(a), set(b))
}

func list(addrs []netip.Addr) string {
	texts := make([]string, len(addrs))
	for i, a := range addrs {
		texts[i] = a.String()
	}
	return strings.Join(texts, " ")
}
