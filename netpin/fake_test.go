package netpin

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/api/types/volume"
)

// fakeEngine keeps networks and containers as engine 20.10 shows them: settings
// keyed by network name, the short id among the aliases, the id of a network
// missing where the container never ran.
type fakeEngine struct {
	networks   []*network.Inspect
	containers []*container.InspectResponse
	volumes    []*volume.Volume
	images     []image.Summary
	states     map[string]string // by container id, as are ports and mounts
	ports      map[string][]container.Port
	mounts     map[string][]container.MountPoint
	calls      []string
	// before, if set, runs before a call and may replace its result by an error.
	before func(call string) error
}

func (f *fakeEngine) record(format string, args ...any) error {
	call := fmt.Sprintf(format, args...)
	f.calls = append(f.calls, call)
	if f.before != nil {
		return f.before(call)
	}
	return nil
}

func (f *fakeEngine) addNetwork(id, name, subnet string, labels map[string]string) {
	f.networks = append(f.networks, &network.Inspect{ID: id, Name: name, Driver: "bridge", Labels: labels, Containers: map[string]network.EndpointResource{},
		IPAM: network.IPAM{Config: []network.IPAMConfig{{Subnet: subnet}}}})
}

func (f *fakeEngine) addContainer(id, name string, labels map[string]string) *container.InspectResponse {
	c := &container.InspectResponse{
		ContainerJSONBase: &container.ContainerJSONBase{ID: id, Name: "/" + name},
		Config:            &container.Config{Labels: labels, Hostname: short(id)},
		NetworkSettings:   &container.NetworkSettings{Networks: map[string]*network.EndpointSettings{}},
	}
	f.containers = append(f.containers, c)
	return c
}

func (f *fakeEngine) network(id string) (*network.Inspect, error) {
	for _, n := range f.networks {
		if n.ID == id {
			return n, nil
		}
	}
	return nil, fmt.Errorf("network %s not found: %w", id, errdefs.ErrNotFound)
}

func (f *fakeEngine) container(id string) (*container.InspectResponse, error) {
	for _, c := range f.containers {
		if c.ID == id || c.Name == "/"+id {
			return c, nil
		}
	}
	return nil, fmt.Errorf("no such container %s: %w", id, errdefs.ErrNotFound)
}

func (f *fakeEngine) ContainerInspect(_ context.Context, id string) (container.InspectResponse, error) {
	c, err := f.container(id)
	if err != nil {
		return container.InspectResponse{}, err
	}
	copied := *c
	copied.NetworkSettings = &container.NetworkSettings{Networks: maps.Clone(c.NetworkSettings.Networks)}
	return copied, nil
}

func (f *fakeEngine) ContainerList(_ context.Context, o container.ListOptions) ([]container.Summary, error) {
	var list []container.Summary
	for _, c := range f.containers {
		if o.All && matches(o.Filters, c.Name, c.Config.Labels) {
			list = append(list, container.Summary{ID: c.ID, Names: []string{c.Name}, Labels: c.Config.Labels, State: f.states[c.ID],
				NetworkSettings: &container.NetworkSettingsSummary{Networks: c.NetworkSettings.Networks}, Ports: f.ports[c.ID], Mounts: f.mounts[c.ID]})
		}
	}
	return list, nil
}

func (f *fakeEngine) NetworkList(_ context.Context, o network.ListOptions) ([]network.Summary, error) {
	var list []network.Summary
	for _, n := range f.networks {
		if matches(o.Filters, n.Name, n.Labels) {
			list = append(list, *n)
		}
	}
	return list, nil
}

func matches(args filters.Args, name string, labels map[string]string) bool {
	return args.MatchKVList("label", labels) && args.Match("name", name)
}

func (f *fakeEngine) NetworkInspect(_ context.Context, id string, _ network.InspectOptions) (network.Inspect, error) {
	n, err := f.network(id)
	if err != nil {
		return network.Inspect{}, err
	}
	return *n, nil
}

func (f *fakeEngine) NetworkConnect(_ context.Context, id, name string, e *network.EndpointSettings) error {
	if err := f.record("connect %s %s %v", id, name, e.Aliases); err != nil {
		return err
	}
	return f.connect(id, name, e)
}

func (f *fakeEngine) connect(id, name string, e *network.EndpointSettings) error {
	n, err := f.network(id)
	if err != nil {
		return err
	}
	c, err := f.container(name)
	if err != nil {
		return err
	}
	if c.NetworkSettings.Networks[n.Name] != nil {
		return fmt.Errorf("endpoint with name %s already exists in network %s: %w", c.Name, n.Name, errdefs.ErrPermissionDenied)
	}
	ep := *e
	ep.NetworkID, ep.Aliases, ep.IPAddress = n.ID, append(slices.Clone(e.Aliases), short(c.ID)), "198.18.0.5"
	if e.IPAMConfig != nil {
		ep.IPAddress, ep.GlobalIPv6Address = or(e.IPAMConfig.IPv4Address, ep.IPAddress), e.IPAMConfig.IPv6Address
	}
	c.NetworkSettings.Networks[n.Name] = &ep
	n.Containers[c.ID] = network.EndpointResource{Name: c.Name[1:]}
	return nil
}

func (f *fakeEngine) NetworkDisconnect(_ context.Context, id, name string, force bool) error {
	if err := f.record("disconnect %s %s %t", id, name, force); err != nil {
		return err
	}
	n, err := f.network(id)
	if err != nil {
		return err
	}
	for cid, e := range n.Containers {
		if e.Name == name {
			delete(n.Containers, cid)
		}
	}
	if c, err := f.container(name); err == nil {
		delete(c.NetworkSettings.Networks, n.Name)
		delete(n.Containers, c.ID)
	}
	return nil
}

func (f *fakeEngine) NetworkRemove(_ context.Context, id string) error {
	if err := f.record("remove %s", id); err != nil {
		return err
	}
	n, err := f.network(id)
	if err != nil {
		return err
	}
	if len(n.Containers) > 0 {
		return fmt.Errorf("error while removing network: network %s id %s has active endpoints: %w", n.Name, id, errdefs.ErrPermissionDenied)
	}
	f.networks = slices.DeleteFunc(f.networks, func(n *network.Inspect) bool { return n.ID == id })
	return nil
}

func (f *fakeEngine) VolumeList(_ context.Context, o volume.ListOptions) (volume.ListResponse, error) {
	var r volume.ListResponse
	for _, v := range f.volumes {
		if matches(o.Filters, v.Name, v.Labels) {
			r.Volumes = append(r.Volumes, v)
		}
	}
	return r, nil
}

func (f *fakeEngine) ImageList(_ context.Context, o image.ListOptions) ([]image.Summary, error) {
	var r []image.Summary
	for _, i := range f.images {
		if matches(o.Filters, "", i.Labels) {
			r = append(r, i)
		}
	}
	return r, nil
}

func (f *fakeEngine) ImageRemove(_ context.Context, ref string, _ image.RemoveOptions) ([]image.DeleteResponse, error) {
	return nil, f.record("rmi %s", ref)
}

func (f *fakeEngine) ContainerStop(_ context.Context, id string, o container.StopOptions) error {
	return f.record("stop %s %d", id, *o.Timeout)
}

func (f *fakeEngine) ContainerRemove(_ context.Context, id string, o container.RemoveOptions) error {
	if err := f.record("rm %s %t %t", id, o.Force, o.RemoveVolumes); err != nil {
		return err
	}
	f.containers = slices.DeleteFunc(f.containers, func(c *container.InspectResponse) bool { return c.ID == id })
	for _, n := range f.networks {
		delete(n.Containers, id)
	}
	return nil
}

func (f *fakeEngine) VolumeRemove(_ context.Context, name string, _ bool) error {
	if err := f.record("volume rm %s", name); err != nil {
		return err
	}
	n := len(f.volumes)
	f.volumes = slices.DeleteFunc(f.volumes, func(v *volume.Volume) bool { return v.Name == name })
	if len(f.volumes) == n {
		return fmt.Errorf("no such volume %s: %w", name, errdefs.ErrNotFound)
	}
	return nil
}
