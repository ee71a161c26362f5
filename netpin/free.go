package netpin

import (
	"errors"
	"net/netip"
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

// InUse counts the ranges of a pool that are taken.
func InUse(pool netip.Prefix, taken []netip.Prefix) int { return overlapping(pool, taken) }

// LabelTrajectory is on every network that ctis has Compose make.
const LabelTrajectory = "io.ctis.trajectory"
