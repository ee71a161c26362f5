package netpin

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/docker/docker/api/types/network"
)

// Free finds one subnet of the given prefix length in the pool that overlaps
// nothing taken. No room is an [*ExhaustedError] naming purpose.
func Free(pool netip.Prefix, bits int, taken []netip.Prefix, purpose string) (netip.Prefix, error) {
	if err := checkPool(pool); err != nil {
		return netip.Prefix{}, err
	}
	subnet, err := newAllocator(pool, taken, purpose).take(bits)
	if errors.Is(err, errNoSubnet) {
		err = &ExhaustedError{Pool: pool, Networks: []string{purpose}, Taken: overlapping(pool, taken)}
	}
	return subnet, err
}

// LabelTrajectory is on every network that ctis has Compose make.
const LabelTrajectory = "io.ctis.trajectory"

// CountNetworks counts the engine's networks, and how many of them belong to
// trajectories.
func CountNetworks(ctx context.Context, eng Engine) (all, trajectories int, err error) {
	list, err := eng.NetworkList(ctx, network.ListOptions{})
	if err != nil {
		return 0, 0, fmt.Errorf("list networks: %w", err)
	}
	for _, n := range list {
		if n.Labels[LabelTrajectory] != "" {
			trajectories++
		}
	}
	return len(list), trajectories, nil
}
