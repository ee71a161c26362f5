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
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"
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
	// Images are those Compose built for this project alone, by tag: with an
	// image: of its own, a service's image belongs to whoever named it.
	Images []string
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
	Shares    string   // id of the container whose network it has instead of its own; "" for none
	Ports     []string // published ports, as "0.0.0.0:32768->80/tcp"
}

// OneOff tells whether docker compose run made the container: it is no service's.
func (c Container) OneOff() bool { return c.Labels[labelOneoff] == "True" }

// Empty tells whether no container and no network is there. Volumes are kept on
// purpose unless their removal was asked for.
func (p Project) Empty() bool { return len(p.Containers) == 0 && len(p.Networks) == 0 }

// without is what p has and before had not.
func (p Project) without(before Project) Project {
	left := Project{Name: p.Name}
	for _, c := range p.Containers {
		if !slices.ContainsFunc(before.Containers, func(old Container) bool { return old.ID == c.ID }) {
			left.Containers = append(left.Containers, c)
		}
	}
	for _, n := range p.Networks {
		if !slices.ContainsFunc(before.Networks, func(old Network) bool { return old.ID == n.ID }) {
			left.Networks = append(left.Networks, n)
		}
	}
	fresh := func(now, old []string) []string {
		return slices.DeleteFunc(slices.Clone(now), func(name string) bool { return slices.Contains(old, name) })
	}
	left.Volumes = fresh(p.Volumes, before.Volumes)
	left.Anonymous = fresh(p.Anonymous, before.Anonymous)
	left.Images = fresh(p.Images, before.Images)
	return left
}

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

// Peers is what the simulator is told about the network with an id. before is what
// it was told last: it still holds for a container that has no address now, because
// it does not run. unprepared are the ids of containers that lack what ctis puts
// into one.
func (p Project) Peers(networkID string, before []api.Peer, unprepared ...string) []api.Peer {
	peers := []api.Peer{}
	idle := map[string]bool{}
	for _, c := range p.Containers {
		if c.Service == "" || c.OneOff() {
			continue
		}
		idle[c.ID] = len(c.Addresses[networkID]) == 0
		for _, a := range c.Addresses[networkID] {
			peers = append(peers, api.Peer{Service: c.Service, Address: a, Container: c.ID, Unprepared: slices.Contains(unprepared, c.ID)})
		}
	}
	for _, old := range before {
		taken := slices.ContainsFunc(peers, func(p api.Peer) bool { return p.Address == old.Address })
		if idle[old.Container] && !taken {
			peers = append(peers, old)
		}
	}
	slices.SortFunc(peers, func(a, b api.Peer) int {
		return cmp.Or(cmp.Compare(a.Service, b.Service), a.Address.Compare(b.Address))
	})
	return peers
}

// Trajectories lists the ids whose containers carry the label of an instance,
// whatever the simulator knows of them, sorted.
func Trajectories(ctx context.Context, eng Engine, instance string) ([]string, error) {
	list, err := eng.ContainerList(ctx, container.ListOptions{All: true, Filters: filters.NewArgs(
		filters.Arg("label", labelInstance+"="+instance), filters.Arg("label", LabelTrajectory))})
	if err != nil {
		return nil, fmt.Errorf("list containers of instance %q: %w", instance, err)
	}
	var ids []string
	for _, c := range list {
		ids = append(ids, c.Labels[LabelTrajectory])
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
}

// anonymousVolume is what the engine calls a volume nobody named.
var anonymousVolume = regexp.MustCompile(`^[0-9a-f]{64}$`)

// FindProject lists what a project has in the engine, from labels alone.
func FindProject(ctx context.Context, eng Engine, name string) (Project, error) {
	p, err := FindMembers(ctx, eng, name)
	if err != nil {
		return p, err
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
	images, err := eng.ImageList(ctx, image.ListOptions{Filters: projectFilter(name)})
	if err != nil {
		return p, fmt.Errorf("list images of project %q: %w", name, err)
	}
	for _, i := range images {
		for _, tag := range i.RepoTags {
			if strings.HasPrefix(tag, name+"-"+i.Labels[labelService]+":") {
				p.Images = append(p.Images, tag)
			}
		}
	}
	slices.Sort(p.Volumes)
	slices.Sort(p.Anonymous)
	p.Anonymous = slices.Compact(p.Anonymous)
	return p, nil
}

// FindMembers lists a project's containers and networks alone: of its named volumes and
// images the project it gives says nothing. It is for whoever looks often, and while dozens of
// others do: an engine takes its time for a list of images.
func FindMembers(ctx context.Context, eng Engine, name string) (Project, error) {
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
		if id, ok := strings.CutPrefix(s.HostConfig.NetworkMode, "container:"); ok {
			c.Shares = id
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
	slices.SortFunc(p.Containers, func(a, b Container) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(p.Networks, func(a, b Network) int { return cmp.Compare(a.Name+"\x00"+a.ID, b.Name+"\x00"+b.ID) })
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
	ImageRemove(ctx context.Context, ref string, o image.RemoveOptions) ([]image.DeleteResponse, error)
}

// RemoveContainers removes containers, stopping each first, by id. What is gone
// already is no error. Their anonymous volumes go with them.
func RemoveContainers(ctx context.Context, eng Sweeper, timeout time.Duration, ids ...string) error {
	var errs []error
	seconds := int(timeout.Round(time.Second).Seconds())
	for _, id := range ids {
		if err := eng.ContainerStop(ctx, id, container.StopOptions{Timeout: &seconds}); err != nil && !errdefs.IsNotFound(err) {
			errs = append(errs, fmt.Errorf("stop container %s: %w", short(id), err))
		}
		if err := eng.ContainerRemove(ctx, id, container.RemoveOptions{Force: true, RemoveVolumes: true}); err != nil && !errdefs.IsNotFound(err) && !errdefs.IsConflict(err) {
			errs = append(errs, fmt.Errorf("remove container %s: %w", short(id), err))
		}
	}
	return join(errs...)
}

// SweepOptions say what goes besides containers and networks.
type SweepOptions struct {
	Volumes []string      // these volumes, by name
	Named   bool          // the project's named volumes too
	Keep    []string      // except these
	Before  Project       // what was there before and stays, by id; volumes and images by name
	Timeout time.Duration // how long a container may take to stop
	// Settle has Sweep look again until nothing came for a while: what the engine
	// was asked for by a process that is just being ended may still be made.
	Settle bool
}

// Sweep believes that nothing more comes after so many looks at nothing, so far
// apart; maxLooks bounds all of them.
const (
	settleTime  = 300 * time.Millisecond
	settleLooks = 3
	maxLooks    = 50
)

// Sweep removes what is left of a project, by id: containers with their anonymous
// volumes, networks, images that Compose built for it, and volumes as asked. What
// is gone already is no error; a network that somebody else holds is a
// [*NetworkHeldError].
func Sweep(ctx context.Context, eng Sweeper, name string, o SweepOptions) error {
	empty := 0
	for look := 1; ; look++ {
		left, err := FindProject(ctx, eng, name)
		if err != nil {
			return err
		}
		left = left.without(o.Before)
		if err := sweep(ctx, eng, left, o); err != nil {
			return err
		}
		if empty++; !left.Empty() {
			empty = 0
		}
		if !o.Settle || empty == settleLooks || look == maxLooks {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(settleTime):
		}
	}
}

func sweep(ctx context.Context, eng Sweeper, left Project, o SweepOptions) error {
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
	for _, ref := range left.Images {
		if _, err := eng.ImageRemove(ctx, ref, image.RemoveOptions{}); err != nil && !errdefs.IsNotFound(err) && !errdefs.IsConflict(err) {
			errs = append(errs, fmt.Errorf("remove image %q: %w", ref, err))
		}
	}
	gone := slices.Concat(o.Volumes, left.Anonymous)
	if o.Named {
		gone = append(gone, left.Volumes...)
	}
	gone = slices.DeleteFunc(gone, func(v string) bool { return slices.Contains(o.Keep, v) })
	slices.Sort(gone)
	for _, v := range slices.Compact(gone) {
		if err := eng.VolumeRemove(ctx, v, false); err != nil && !errdefs.IsNotFound(err) {
			errs = append(errs, fmt.Errorf("remove volume %q: %w", v, err))
		}
	}
	return join(errs...)
}
