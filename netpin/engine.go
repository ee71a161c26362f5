package netpin

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/api/types/volume"
)

// Engine is what this package asks of the engine's client.
type Engine interface {
	ContainerInspect(ctx context.Context, id string) (container.InspectResponse, error)
	ContainerList(ctx context.Context, o container.ListOptions) ([]container.Summary, error)
	NetworkList(ctx context.Context, o network.ListOptions) ([]network.Summary, error)
	NetworkInspect(ctx context.Context, id string, o network.InspectOptions) (network.Inspect, error)
	NetworkConnect(ctx context.Context, id, container string, e *network.EndpointSettings) error
	NetworkDisconnect(ctx context.Context, id, container string, force bool) error
	NetworkRemove(ctx context.Context, id string) error
	VolumeList(ctx context.Context, o volume.ListOptions) (volume.ListResponse, error)
	ImageList(ctx context.Context, o image.ListOptions) ([]image.Summary, error)
}

// The labels Compose puts on what it makes. They identify a trajectory's
// resources; names do not (their form differs between Compose releases, and
// before engine 25 two networks can share one).
const (
	labelProject = "com.docker.compose.project"
	labelNetwork = "com.docker.compose.network"
	labelService = "com.docker.compose.service"
	// labelOneoff marks what docker compose run made: no container of a service.
	labelOneoff = "com.docker.compose.oneoff"
	// labelInstance is on everything of a trajectory, as package compose puts it there.
	labelInstance = "io.ctis.instance"
)

// Network is a network of the engine.
type Network struct {
	ID      string
	Name    string
	Key     string // Compose key; "" when Compose did not make it
	Driver  string
	Labels  map[string]string
	Subnets []netip.Prefix
	Created time.Time         // by the engine's clock
	Options map[string]string // of its driver
}

// AmbiguousNetworkError says that several networks answer to one name. Using
// either would put services of one trajectory on different networks.
type AmbiguousNetworkError struct {
	Name string
	IDs  []string
}

func (e *AmbiguousNetworkError) Error() string {
	return fmt.Sprintf("network %q exists %d times (%s); remove all but one with docker network rm ID",
		e.Name, len(e.IDs), strings.Join(e.IDs, ", "))
}

// FindNetwork finds the network that Compose made for a key of a project; false
// when there is none. More than one is an [*AmbiguousNetworkError].
func FindNetwork(ctx context.Context, eng Engine, project, key string) (Network, bool, error) {
	f := filters.NewArgs(filters.Arg("label", labelProject+"="+project), filters.Arg("label", labelNetwork+"="+key))
	return findOne(ctx, eng, project+"/"+key, f, func(n network.Summary) bool {
		return n.Labels[labelProject] == project && n.Labels[labelNetwork] == key
	})
}

// FindNetworkNamed finds a network by its exact name, for one that Compose did
// not make (external: true); false when there is none.
func FindNetworkNamed(ctx context.Context, eng Engine, name string) (Network, bool, error) {
	f := filters.NewArgs(filters.Arg("name", name)) // the engine matches parts of names
	return findOne(ctx, eng, name, f, func(n network.Summary) bool { return n.Name == name })
}

func findOne(ctx context.Context, eng Engine, what string, f filters.Args, match func(network.Summary) bool) (Network, bool, error) {
	list, err := eng.NetworkList(ctx, network.ListOptions{Filters: f})
	if err != nil {
		return Network{}, false, fmt.Errorf("look for network %q: %w", what, err)
	}
	list = slices.DeleteFunc(list, func(n network.Summary) bool { return !match(n) })
	switch len(list) {
	case 0:
		return Network{}, false, nil
	case 1:
		return fromEngine(list[0]), true, nil
	}
	ids := make([]string, len(list))
	for i, n := range list {
		ids[i] = n.ID
	}
	slices.Sort(ids)
	return Network{}, false, &AmbiguousNetworkError{Name: what, IDs: ids}
}

func fromEngine(n network.Summary) Network {
	return Network{ID: n.ID, Name: n.Name, Key: n.Labels[labelNetwork], Driver: n.Driver, Labels: n.Labels, Subnets: subnets(n), Options: n.Options, Created: n.Created}
}

// subnets reads a network's IPAM. The engine can hold forms netip refuses (a
// plugin's, an empty one): they are no address range that could be used or
// overlapped, so they are left out.
func subnets(n network.Inspect) []netip.Prefix {
	var all []netip.Prefix
	for _, c := range n.IPAM.Config {
		if p, err := netip.ParsePrefix(c.Subnet); err == nil {
			all = append(all, p.Masked())
		}
	}
	return all
}

// containerName is the name a container is known by.
func containerName(c container.Summary) string {
	if len(c.Names) == 0 {
		return short(c.ID)
	}
	return strings.TrimPrefix(c.Names[0], "/")
}

func projectFilter(project string) filters.Args {
	return filters.NewArgs(filters.Arg("label", labelProject+"="+project))
}

// join keeps errors.Join from hiding a lone error's type behind a wrapper.
func join(errs ...error) error {
	errs = slices.DeleteFunc(errs, func(e error) bool { return e == nil })
	if len(errs) == 1 {
		return errs[0]
	}
	return errors.Join(errs...)
}
