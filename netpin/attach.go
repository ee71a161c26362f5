package netpin

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/network"
)

// AttachOptions says what to attach where.
type AttachOptions struct {
	Container string // name or id
	NetworkID string
	Address   netip.Addr // IPv4; zero, or where the engine refuses any: it picks
	Address6  netip.Addr // IPv6, likewise
	Aliases   []string   // names under which the network's resolver finds the container
}

// Attached is what the engine says after attaching.
type Attached struct {
	Addresses []netip.Addr   // the container's own, IPv4 first
	Subnets   []netip.Prefix // the network's
	Gateways  []netip.Addr   // the engine's host on the network
	Changed   bool           // false: it was attached like that before
}

// ErrNoNetwork says that the network is not there any more.
var ErrNoNetwork = errors.New("there is no such network")

// unfixable is how the engine says that a network's subnet was chosen by itself, so
// that it gives no address of one's choice there. There is no code to tell by.
const unfixable = "only when connecting to networks with user configured subnets"

// Attach puts a container on a network with a fixed address and aliases, and
// reads back what came of it. A container that is attached like that already is
// left alone, whoever did it; one that is attached otherwise is detached first.
func Attach(ctx context.Context, eng Engine, o AttachOptions) (Attached, error) {
	net, err := eng.NetworkInspect(ctx, o.NetworkID, network.InspectOptions{})
	if errdefs.IsNotFound(err) {
		return Attached{}, fmt.Errorf("attach %q to network %q: %w", o.Container, o.NetworkID, ErrNoNetwork)
	}
	if err != nil {
		return Attached{}, fmt.Errorf("attach %q to network %q: %w", o.Container, o.NetworkID, err)
	}
	done, state, err := attached(ctx, eng, net, o)
	if err != nil || state == asWanted {
		return done, err
	}
	// Only then: detaching what was not there when looked at could undo what
	// another process does at this moment.
	if state == otherwise {
		if err := Detach(ctx, eng, o.Container, net.ID); err != nil {
			return Attached{}, err
		}
	}
	settings := &network.EndpointSettings{Aliases: slices.Clone(o.Aliases)}
	if o.Address.IsValid() || o.Address6.IsValid() {
		settings.IPAMConfig = &network.EndpointIPAMConfig{IPv4Address: text(o.Address), IPv6Address: text(o.Address6)}
	}
	connectErr := eng.NetworkConnect(ctx, net.ID, o.Container, settings)
	if connectErr != nil && strings.Contains(connectErr.Error(), unfixable) {
		settings.IPAMConfig, o.Address, o.Address6 = nil, netip.Addr{}, netip.Addr{}
		connectErr = eng.NetworkConnect(ctx, net.ID, o.Container, settings)
	}
	done, state, err = attached(ctx, eng, net, o)
	switch {
	case err != nil:
		return Attached{}, join(wrapConnect(connectErr, o, net), err)
	case state == asWanted:
		// Even after an error: another process was faster with the same.
		done.Changed = connectErr == nil
		return done, nil
	case connectErr != nil:
		return Attached{}, wrapConnect(connectErr, o, net)
	}
	return Attached{}, fmt.Errorf("attach %q to network %q: the engine reports other settings than asked for (address %s)", o.Container, net.Name, strings.TrimSpace(text(o.Address)+" "+text(o.Address6)))
}

func wrapConnect(err error, o AttachOptions, net network.Inspect) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("attach %q to network %q (%s): %w", o.Container, net.Name, short(net.ID), err)
}

// attachment is how a container is on a network, compared with what is wanted.
type attachment int

const (
	notAttached attachment = iota
	otherwise              // with another address or other aliases
	asWanted
)

// attached reads the container's endpoint and compares it with what is wanted.
func attached(ctx context.Context, eng Engine, net network.Inspect, o AttachOptions) (Attached, attachment, error) {
	c, err := eng.ContainerInspect(ctx, o.Container)
	if err != nil {
		return Attached{}, notAttached, fmt.Errorf("attach %q to network %q: %w", o.Container, net.Name, err)
	}
	e := endpoint(c, net.ID, net.Name)
	if e == nil {
		return Attached{}, notAttached, nil
	}
	a := Attached{Addresses: addresses(e), Subnets: subnets(net), Gateways: gateways(net, e)}
	for _, want := range []netip.Addr{o.Address, o.Address6} {
		if want.IsValid() && !slices.Contains(a.Addresses, want.Unmap()) {
			return Attached{}, otherwise, nil
		}
	}
	if !sameAliases(e.Aliases, o.Aliases, c) {
		return Attached{}, otherwise, nil
	}
	return a, asWanted, nil
}

func text(a netip.Addr) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}

// sameAliases compares as sets, leaving out the container's own id and
// hostname, which engines before 25 list among the aliases.
func sameAliases(have, want []string, c container.InspectResponse) bool {
	set := func(names []string) []string {
		var s []string
		for _, n := range names {
			n = strings.ToLower(n)
			if n == short(c.ID) || (c.Config != nil && n == strings.ToLower(c.Config.Hostname)) {
				continue
			}
			s = append(s, n)
		}
		slices.Sort(s)
		return slices.Compact(s)
	}
	return slices.Equal(set(have), set(want))
}

// Detach takes a container off a network. Nothing to take off is no error, nor
// is a container or network that is gone.
func Detach(ctx context.Context, eng Engine, containerID, networkID string) error {
	c, err := eng.ContainerInspect(ctx, containerID)
	if errdefs.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("detach %q: %w", containerID, err)
	}
	net, err := eng.NetworkInspect(ctx, networkID, network.InspectOptions{})
	if errdefs.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("detach %q from network %q: %w", containerID, networkID, err)
	}
	if _, listed := net.Containers[c.ID]; !listed && endpoint(c, net.ID, net.Name) == nil {
		return nil
	}
	// Forced: the endpoint of a container that is just being stopped would
	// otherwise stay and hold the network.
	err = eng.NetworkDisconnect(ctx, net.ID, containerID, true)
	if err == nil || errdefs.IsNotFound(err) {
		return nil
	}
	// The engine has no code of its own for "was not attached any more".
	if again, lookErr := eng.ContainerInspect(ctx, containerID); lookErr == nil && endpoint(again, net.ID, net.Name) == nil {
		return nil
	}
	return fmt.Errorf("detach %q from network %q (%s): %w", containerID, net.Name, short(net.ID), err)
}

// endpoint finds a container's endpoint on a network by id. A container that
// never ran has no id in it yet on engines before 25: there the name decides.
func endpoint(c container.InspectResponse, id, name string) *network.EndpointSettings {
	if c.NetworkSettings == nil {
		return nil
	}
	for n, e := range c.NetworkSettings.Networks {
		if e != nil && (e.NetworkID == id || (e.NetworkID == "" && (n == name || n == id))) {
			return e
		}
	}
	return nil
}

// addresses lists an endpoint's addresses, IPv4 first. One that is not up (its
// container does not run) has at most the fixed one it asked for.
func addresses(e *network.EndpointSettings) []netip.Addr {
	v4, v6 := e.IPAddress, e.GlobalIPv6Address
	if e.IPAMConfig != nil {
		v4 = or(v4, e.IPAMConfig.IPv4Address)
		v6 = or(v6, e.IPAMConfig.IPv6Address)
	}
	var all []netip.Addr
	for _, s := range []string{v4, v6} {
		if a, err := netip.ParseAddr(s); err == nil {
			all = append(all, a.Unmap())
		}
	}
	return all
}

func or(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// short is an id as docker prints it.
func short(id string) string { return id[:min(12, len(id))] }
