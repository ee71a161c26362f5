package simulator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/network"
)

const (
	// subnetAttempts is how often a subnet is asked for when the engine does not
	// take one.
	subnetAttempts = 4
	// linkPatience is long enough for an engine under load to make a network.
	linkPatience = time.Second
)

// shared is a network that every process may find it has to make.
type shared struct {
	name, role string
	internal   bool // nothing on it reaches further
}

func linkOf(instance string) shared   { return shared{LinkName(instance), RoleLink, true} }
func egressOf(instance string) shared { return shared{EgressName(instance), RoleEgress, false} }

// findLink returns the id of the instance's link network, "" if there is none.
func findLink(ctx context.Context, eng Engine, instance string) (string, error) {
	return findShared(ctx, eng, instance, linkOf(instance))
}

// ensureLink makes the link network.
func ensureLink(ctx context.Context, eng Engine, instance string, subnet func(context.Context) (netip.Prefix, error), patience time.Duration) (string, error) {
	return ensureShared(ctx, eng, instance, linkOf(instance), subnet, patience)
}

// findShared returns the id of a shared network, "" if there is none.
//
// Engines before 25 let two processes create one name twice. The oldest is the
// one everybody takes, so that all see the same without talking to each other.
func findShared(ctx context.Context, eng Engine, instance string, net shared) (string, error) {
	name := net.name
	// The filter is a substring's.
	found, err := eng.NetworkList(ctx, network.ListOptions{Filters: filters.NewArgs(filters.Arg("name", name))})
	if err != nil {
		return "", fmt.Errorf("list networks: %w", err)
	}
	found = slices.DeleteFunc(found, func(n network.Summary) bool { return n.Name != name })
	if len(found) == 0 {
		return "", nil
	}
	for _, n := range found {
		if n.Labels[LabelInstance] != instance {
			return "", &ForeignError{Kind: "network", Name: name, Instance: instance}
		}
	}
	return slices.MinFunc(found, func(a, b network.Summary) int {
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID))
	}).ID, nil
}

// ensureShared makes a shared network. subnet is asked for one only when it has to be created, and again when the
// engine does not take it because another network got it first.
//
// A refusal may also mean that another process is just making the network: the
// engine keeps its addresses before it lists it. That is given patience.
func ensureShared(ctx context.Context, eng Engine, instance string, net shared, subnet func(context.Context) (netip.Prefix, error), patience time.Duration) (string, error) {
	name := net.name
	var failed error
	for range subnetAttempts {
		id, err := findShared(ctx, eng, instance, net)
		if id != "" || err != nil {
			return id, err
		}
		var ipam *network.IPAM
		if subnet != nil {
			p, err := subnet(ctx)
			if err != nil {
				return "", fmt.Errorf("find addresses for network %q: %w", name, err)
			}
			ipam = &network.IPAM{Config: []network.IPAMConfig{{Subnet: p.String()}}}
		}
		made, err := eng.NetworkCreate(ctx, name, network.CreateOptions{
			Driver:   "bridge",
			Internal: net.internal,
			IPAM:     ipam,
			Labels:   map[string]string{LabelInstance: instance, LabelRole: net.role},
		})
		if err != nil {
			if ctx.Err() != nil {
				return "", ctx.Err()
			}
			failed = err
			if id, err := awaitShared(ctx, eng, instance, net, patience); id != "" || err != nil {
				return id, err
			}
			continue // another subnet may do
		}
		id, err = findShared(ctx, eng, instance, net)
		if err != nil {
			return "", err
		}
		if id != made.ID {
			// Another process made it as well, and first.
			if err := eng.NetworkRemove(ctx, made.ID); err != nil && !cerrdefs.IsNotFound(err) {
				return "", fmt.Errorf("remove the second network %q (%s): %w", name, made.ID, err)
			}
		}
		if id != "" {
			return id, nil
		}
	}
	if failed == nil {
		failed = errors.New("it vanishes as soon as it is made")
	}
	return "", fmt.Errorf("create network %q: %w", name, failed)
}

// awaitShared looks for the network for a while; "" means that nobody made it.
func awaitShared(ctx context.Context, eng Engine, instance string, net shared, patience time.Duration) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		id, err := findShared(ctx, eng, instance, net)
		if ctx.Err() != nil {
			return "", nil // whoever called looks again or notices its own end
		}
		if id != "" || err != nil {
			return id, err
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// cleanup gives undoing a context that is not cancelled with the work it undoes.
func cleanup(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
}
