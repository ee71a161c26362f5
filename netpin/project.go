package netpin

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/api/types/volume"

	"github.com/linuxarena/ctis/server/api"
)

// Project is everything in the engine that carries a Compose project's label.
type Project struct {
	Name       string
	Containers []Container // in any state, by name
	Networks   []Network   // by name
	Volumes    []string    // named volumes
	// Anonymous are the volumes that containers of the project have without a
	// name. Nothing can use them again once their container is gone.
	Anonymous []string
}

// Container is one container of a project.
type Container struct {
	ID, Name string
	Service  string
	State    string // as the engine says: created, running, exited, …
	Labels   map[string]string
	// Addresses are those on the project's networks, by network id. A container
	// that does not run has the fixed addresses it will have.
	Addresses map[string][]netip.Addr
	Ports     []string // published ports, as "0.0.0.0:32768->80/tcp"
}

// Empty tells whether no container and no network is there. Volumes are kept on
// purpose unless their removal was asked for.
func (p Project) Empty() bool { return len(p.Containers) == 0 && len(p.Networks) == 0 }

// Names lists the project's containers and networks for a message.
func (p Project) Names() string {
	var names []string
	for _, c := range p.Containers {
		names = append(names, "container "+c.Name)
	}
	for _, n := range p.Networks {
		names = append(names, "network "+n.Name)
	}
	return strings.Join(names, ", ")
}

// ByService lists which service has which addresses on the network with an id.
func (p Project) ByService(networkID string) map[string][]netip.Addr {
	m := map[string][]netip.Addr{}
	for _, c := range p.Containers {
		if c.Service != "" && len(c.Addresses[networkID]) > 0 {
			m[c.Service] = append(m[c.Service], c.Addresses[networkID]...)
		}
	}
	return m
}

// Peers is what the simulator is told about the network with an id.
func (p Project) Peers(networkID string) []api.Peer {
	peers := []api.Peer{}
	for service, addrs := range p.ByService(networkID) {
		for _, a := range addrs {
			peers = append(peers, api.Peer{Service: service, Address: a})
		}
	}
	slices.SortFunc(peers, func(a, b api.Peer) int {
		return cmp.Or(cmp.Compare(a.Service, b.Service), a.Address.Compare(b.Address))
	})
	return peers
}

// anonymousVolume is what the engine calls a volume nobody named.
var anonymousVolume = regexp.MustCompile(`^[0-9a-f]{64}$`)

// FindProject lists what a project has in the engine, from labels alone.
func FindProject(ctx context.Context, eng Engine, name string) (Project, error) {
	p := Project{Name: name}
	networks, err := eng.NetworkList(ctx, network.ListOptions{Filters: projectFilter(name)})
	if err != nil {
		return p, fmt.Errorf("list networks of project %q: %w", name, err)
	}
	ids := map[string]string{}
	for _, n := range networks {
		p.Networks = append(p.Networks, fromEngine(n))
		ids[n.Name] = n.ID
	}
	containers, err := eng.ContainerList(ctx, container.ListOptions{All: true, Filters: projectFilter(name)})
	if err != nil {
		return p, fmt.Errorf("list containers of project %q: %w", name, err)
	}
	for _, s := range containers {
		c := Container{ID: s.ID, Name: containerName(s), Service: s.Labels[labelService], State: s.State, Labels: s.Labels,
			Addresses: map[string][]netip.Addr{}}
		if s.NetworkSettings != nil {
			for network, e := range s.NetworkSettings.Networks {
				if e == nil {
					continue
				}
				// A container that never ran names its networks, but not by id, on engines before 25.
				if id := or(e.NetworkID, ids[network]); id != "" {
					c.Addresses[id] = addresses(e)
				}
			}
		}
		for _, port := range s.Ports {
			if port.PublicPort != 0 {
				c.Ports = append(c.Ports, fmt.Sprintf("%s->%d/%s", joinHostPort(port.IP, port.PublicPort), port.PrivatePort, port.Type))
			}
		}
		slices.Sort(c.Ports)
		for _, m := range s.Mounts {
			if m.Type == "volume" && anonymousVolume.MatchString(m.Name) {
				p.Anonymous = append(p.Anonymous, m.Name)
			}
		}
		p.Containers = append(p.Containers, c)
	}
	volumes, err := eng.VolumeList(ctx, volume.ListOptions{Filters: projectFilter(name)})
	if err != nil {
		return p, fmt.Errorf("list volumes of project %q: %w", name, err)
	}
	for _, v := range volumes.Volumes {
		if anonymousVolume.MatchString(v.Name) {
			p.Anonymous = append(p.Anonymous, v.Name)
		} else {
			p.Volumes = append(p.Volumes, v.Name)
		}
	}
	slices.SortFunc(p.Containers, func(a, b Container) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(p.Networks, func(a, b Network) int { return cmp.Compare(a.Name+"\x00"+a.ID, b.Name+"\x00"+b.ID) })
	slices.Sort(p.Volumes)
	slices.Sort(p.Anonymous)
	p.Anonymous = slices.Compact(p.Anonymous)
	return p, nil
}

func joinHostPort(ip string, port uint16) string {
	addr, err := netip.ParseAddr(ip)
	if err != nil {
		return fmt.Sprint(port)
	}
	return netip.AddrPortFrom(addr, port).String()
}

// Sweeper is the engine where things are removed.
type Sweeper interface {
	Engine
	ContainerStop(ctx context.Context, id string, o container.StopOptions) error
	ContainerRemove(ctx context.Context, id string, o container.RemoveOptions) error
	VolumeRemove(ctx context.Context, id string, force bool) error
}

// SweepOptions say what goes besides containers and networks.
type SweepOptions struct {
	Volumes   bool          // the project's named volumes too
	Anonymous []string      // volumes without a name that its containers had
	Timeout   time.Duration // how long a container may take to stop
}

// Sweep removes what is left of a project, by id: containers, networks, and
// volumes as asked. What is gone already is no error; a network that somebody
// else holds is a [*NetworkHeldError].
func Sweep(ctx context.Context, eng Sweeper, name string, o SweepOptions) error {
	left, err := FindProject(ctx, eng, name)
	if err != nil {
		return err
	}
	var errs []error
	for _, c := range left.Containers {
		seconds := int(o.Timeout.Round(time.Second).Seconds())
		if err := eng.ContainerStop(ctx, c.ID, container.StopOptions{Timeout: &seconds}); err != nil && !errdefs.IsNotFound(err) {
			errs = append(errs, fmt.Errorf("stop container %q: %w", c.Name, err))
		}
		if err := eng.ContainerRemove(ctx, c.ID, container.RemoveOptions{Force: true, RemoveVolumes: true}); err != nil && !errdefs.IsNotFound(err) && !errdefs.IsConflict(err) {
			errs = append(errs, fmt.Errorf("remove container %q: %w", c.Name, err))
		}
	}
	for _, n := range left.Networks {
		errs = append(errs, RemoveNetwork(ctx, eng, n.ID))
	}
	gone := slices.Concat(o.Anonymous, left.Anonymous)
	if o.Volumes {
		gone = append(gone, left.Volumes...)
	}
	slices.Sort(gone)
	for _, v := range slices.Compact(gone) {
		if err := eng.VolumeRemove(ctx, v, false); err != nil && !errdefs.IsNotFound(err) {
			errs = append(errs, fmt.Errorf("remove volume %q: %w", v, err))
		}
	}
	return join(errs...)
}
