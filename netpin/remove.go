package netpin

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/network"
)

// NetworkHeldError says which containers keep a network from being removed.
type NetworkHeldError struct {
	Network Network
	Holders []string // names of containers with an endpoint on it
	Err     error    // what the engine said
}

func (e *NetworkHeldError) Error() string {
	if len(e.Holders) == 0 {
		return fmt.Sprintf("network %q (%s) cannot be removed: %v", e.Network.Name, short(e.Network.ID), e.Err)
	}
	return fmt.Sprintf("network %q (%s) is still held by %s; take them off with docker network disconnect -f %s NAME",
		e.Network.Name, short(e.Network.ID), quoteAll(e.Holders), short(e.Network.ID))
}

func (e *NetworkHeldError) Unwrap() error { return e.Err }

// removeWaits are the pauses between attempts to remove a network: endpoints of
// containers that are just going away need a moment.
var removeWaits = [...]time.Duration{50 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond, time.Second}

// RemoveNetwork removes a network, trying for about two seconds, and clears
// endpoints whose container is gone. It never takes a living container off: a
// network somebody holds is a [*NetworkHeldError]. A network that is gone is no
// error.
func RemoveNetwork(ctx context.Context, eng Engine, id string) error {
	var held *NetworkHeldError
	for try := 0; ; try++ {
		err := eng.NetworkRemove(ctx, id)
		if err == nil || errdefs.IsNotFound(err) {
			return nil
		}
		net, lookErr := eng.NetworkInspect(ctx, id, network.InspectOptions{})
		if errdefs.IsNotFound(lookErr) {
			return nil
		}
		if lookErr != nil {
			return join(fmt.Errorf("remove network %q: %w", id, err), lookErr)
		}
		held = &NetworkHeldError{Network: fromEngine(net), Err: err}
		if held.Holders, err = holders(ctx, eng, net); err != nil {
			return join(held, err)
		}
		if try == len(removeWaits) {
			return held
		}
		select {
		case <-ctx.Done():
			return join(held, ctx.Err())
		case <-time.After(removeWaits[try]):
		}
	}
}

// holders names the containers with an endpoint on a network, and cuts off
// those that do not exist any more. The latter works by name, not by id: the
// engine looks a ghost endpoint up by the name it was made under.
func holders(ctx context.Context, eng Engine, net network.Inspect) ([]string, error) {
	var names []string
	for _, id := range slices.Sorted(maps.Keys(net.Containers)) {
		name := or(net.Containers[id].Name, short(id))
		_, err := eng.ContainerInspect(ctx, id)
		switch {
		case errdefs.IsNotFound(err):
			// The result shows at the next attempt to remove the network.
			_ = eng.NetworkDisconnect(ctx, net.ID, name, true)
		case err != nil:
			return names, fmt.Errorf("look at %q on network %q: %w", name, net.Name, err)
		default:
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}
