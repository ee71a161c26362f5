package simulator

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/network"

	"github.com/linuxarena/ctis/server/api"
)

// GatewayOptions says which gateway is wanted.
type GatewayOptions struct {
	Instance  string
	Image     ImageResult
	Simulator *Result // that it works for

	// EgressSubnet finds addresses for the network by which it goes out, as
	// [EnsureOptions].LinkSubnet does for the link.
	EgressSubnet func(context.Context) (netip.Prefix, error)
	// Closed are ranges that trajectories' networks are in: no upstream may be there.
	Closed []netip.Prefix

	Timeout  time.Duration  // as in [EnsureOptions]
	Progress func(Decision) // is told every decision; may be nil
}

// Gateway is one that answers, and that knows the simulator, as the simulator knows it.
type Gateway struct {
	Container string // name
	ID        string
	Reused    bool // it was there and running
	Client    *api.GatewayClient
}

// EnsureGateway makes sure that the wanted gateway runs beside a simulator that does
// (SPEC §6), in the same way as [Ensure] and with the same errors, and introduces the
// two to each other. The caller closes Gateway.Client.
//
// Its claims are the simulator's registrations seen from the other side: one that the
// simulator neither serves nor has reserved is of a trajectory that is no more, and is
// released where it is in the way of a replacement.
func EnsureGateway(ctx context.Context, eng Engine, o GatewayOptions) (*Gateway, error) {
	base := EnsureOptions{Instance: o.Instance, Image: o.Image, Timeout: o.Timeout, Progress: o.Progress}
	base.setDefaults()
	e := &ensurer{part: gatewayOf(o.Instance), eng: eng, o: base, deadline: time.Now().Add(base.Timeout), want: wanted(o.Image)}
	e.create = func(ctx context.Context) error { return createGateway(ctx, eng, o, e.want) }
	for try := 0; ; try++ {
		s, err := e.rest(ctx)
		var busy *BusyError
		switch {
		case errors.As(err, &busy) && try == 0:
			if released, e := releaseDead(ctx, eng, o.Instance, o.Simulator); e != nil || released == 0 {
				return nil, errors.Join(err, e)
			}
			continue
		case err != nil:
			return nil, err
		case s.linkID != o.Simulator.Link && try < maxActions:
			// The link was made anew, and it is still on the old one.
			err := removeContainer(ctx, eng, s, true)
			s.close()
			if err != nil && !errors.Is(err, errLost) {
				return nil, err
			}
			continue
		}
		g := &Gateway{Container: s.container, ID: s.ID, Reused: !e.acted, Client: api.NewGatewayClient(s.client)}
		if err := introduce(ctx, eng, o, s, g.Client); err != nil {
			g.Client.Close()
			return nil, err
		}
		return g, nil
	}
}

// introduce tells each of the two where the other is and how it shows that it is the one.
func introduce(ctx context.Context, eng Engine, o GatewayOptions, s *snapshot, gateway *api.GatewayClient) error {
	if !s.link.IsValid() {
		return fmt.Errorf("gateway %q has no address on network %q; `docker restart %[1]s` gives it one", s.container, LinkName(o.Instance))
	}
	link, err := subnetsOf(ctx, eng, s.linkID)
	if err != nil {
		return err
	}
	id, err := findShared(ctx, eng, o.Instance, egressOf(o.Instance))
	if err != nil {
		return err
	}
	egress, err := subnetsOf(ctx, eng, id)
	if err != nil {
		return err
	}
	peering := api.Peering{Simulator: o.Simulator.Identity, Closed: slices.Concat(link, o.Closed), Open: egress}
	if err := gateway.SetPeer(ctx, peering); err != nil {
		return fmt.Errorf("tell gateway %q about the simulator: %w", s.container, err)
	}
	err = o.Simulator.Client.SetGateway(ctx, api.Gateway{Address: netip.AddrPortFrom(s.link, api.GatewayPort), Identity: s.identity})
	if err != nil {
		return fmt.Errorf("tell simulator %q about the gateway: %w", o.Simulator.Container, err)
	}
	return nil
}

// askGateway is ask for a gateway; its trajectories are those with claims.
func (s *snapshot) askGateway(ctx context.Context) {
	st, err := api.NewGatewayClient(s.client).Status(ctx)
	if err != nil {
		s.problem = err
		return
	}
	s.Answering, s.Retired, s.Protocol, s.identity = true, st.Retired, st.Protocol, st.Identity
	for _, c := range st.Claims {
		s.Trajectories = append(s.Trajectories, c.Trajectory)
	}
}

// gatewayConfig is how the gateway is created: as the simulator, but for what it is
// there for. Its memory never becomes a file.
func gatewayConfig(instance string, want Want, egressID string) (*container.Config, *container.HostConfig) {
	config, host := containerConfig(instance, want, egressID)
	config.Cmd = []string{"gateway"}
	config.Labels[LabelRole] = RoleGateway
	host.Mounts[0].Source = GatewayVolumeName(instance)
	host.Ulimits = append(host.Ulimits, &container.Ulimit{Name: "core"})
	return config, host
}

func createGateway(ctx context.Context, eng Engine, o GatewayOptions, want Want) error {
	egress, err := ensureShared(ctx, eng, o.Instance, egressOf(o.Instance), o.EgressSubnet, linkPatience)
	if err != nil {
		return err
	}
	config, host := gatewayConfig(o.Instance, want, egress)
	return createPart(ctx, eng, o.Instance, birth{
		part: gatewayOf(o.Instance), config: config, host: host,
		prepare: func(ctx context.Context, id string) error { return joinLink(ctx, eng, o.Simulator.Link, id) },
	})
}

// joinLink puts a container on the link at an address that it has after a restart too,
// where the engine allows that: the simulator remembers it.
func joinLink(ctx context.Context, eng Engine, link, id string) error {
	subnets, err := subnetsOf(ctx, eng, link)
	if err != nil {
		return err
	}
	for _, s := range subnets {
		if !s.Addr().Is4() {
			continue
		}
		fixed := &network.EndpointSettings{IPAMConfig: &network.EndpointIPAMConfig{IPv4Address: lastHost(s).String()}}
		if err := eng.NetworkConnect(ctx, link, id, fixed); err == nil || ctx.Err() != nil {
			return err
		}
	}
	if err := eng.NetworkConnect(ctx, link, id, nil); err != nil {
		return fmt.Errorf("put it on the link network: %w", err)
	}
	return nil
}

// lastHost is the last address of a network that is not its broadcast address: the
// engine gives out the first ones first.
func lastHost(p netip.Prefix) netip.Addr {
	b := p.Masked().Addr().As4()
	for i := p.Bits(); i < 31; i++ {
		b[i/8] |= 1 << (7 - i%8)
	}
	return netip.AddrFrom4(b)
}

func subnetsOf(ctx context.Context, eng Engine, id string) ([]netip.Prefix, error) {
	n, err := eng.NetworkInspect(ctx, id, network.InspectOptions{})
	if err != nil {
		return nil, fmt.Errorf("look at network %q: %w", id, err)
	}
	var list []netip.Prefix
	for _, c := range n.IPAM.Config {
		if p, err := netip.ParsePrefix(c.Subnet); err == nil {
			list = append(list, p.Masked())
		}
	}
	return list, nil
}

// ConnectGateway makes a client of the instance's gateway. It must be running; an
// *[AbsentError] says that it is not.
func ConnectGateway(ctx context.Context, eng ExecEngine, instance string) (*api.GatewayClient, error) {
	c, err := connectPart(ctx, eng, instance, gatewayOf(instance))
	if err != nil {
		return nil, err
	}
	return api.NewGatewayClient(c), nil
}

// ObserveGateway looks at the instance's gateway; its trajectories are those that hold
// claims.
func ObserveGateway(ctx context.Context, eng Engine, instance string) (Observed, error) {
	s, err := observePart(ctx, eng, instance, gatewayOf(instance))
	if err != nil {
		return Observed{}, err
	}
	s.close()
	return s.Observed, nil
}

// releaseDead releases claims of trajectories that the simulator neither serves nor has
// reserved for a process that sets one up. It says how many.
func releaseDead(ctx context.Context, eng Engine, instance string, sim *Result) (int, error) {
	gateway, err := ConnectGateway(ctx, eng, instance)
	var absent *AbsentError
	if errors.As(err, &absent) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer gateway.Close()
	st, err := gateway.Status(ctx)
	if err != nil {
		return 0, err
	}
	n := 0
	for _, c := range st.Claims {
		done, err := ReleaseUnserved(ctx, sim.Client, gateway, c.Trajectory)
		if err != nil {
			return n, err
		}
		if done {
			n++
		}
	}
	return n, nil
}

// ReleaseUnserved releases a trajectory's claims if the simulator neither serves it nor
// has it reserved, and says whether it did.
func ReleaseUnserved(ctx context.Context, sim *api.Client, gateway *api.GatewayClient, id string) (bool, error) {
	free, err := sim.Hold(ctx, id)
	var refused *api.Error
	if errors.As(err, &refused) {
		return false, nil // somebody is at it
	}
	if err != nil {
		return false, err
	}
	defer free()
	st, err := sim.Status(ctx)
	if err != nil {
		return false, err
	}
	if slices.ContainsFunc(st.Trajectories, func(t api.TrajectoryStatus) bool { return t.Trajectory == id }) {
		return false, nil
	}
	_, err = gateway.Release(ctx, id)
	return err == nil, err
}

// removeOldGateway removes a gateway of another image than the wanted one, together
// with the simulator that is replaced: nobody has claims then. A wanted one is left,
// since another process may use it by now.
func (e *ensurer) removeOldGateway(ctx context.Context) error {
	g, err := observePart(ctx, e.eng, e.o.Instance, gatewayOf(e.o.Instance))
	if err != nil {
		return err
	}
	defer g.close()
	if g.ID == "" || g.Foreign || difference(e.want, g.Observed) == "" {
		return nil
	}
	if err := removeContainer(ctx, e.eng, g, true); err != nil && !errors.Is(err, errLost) {
		return err
	}
	return nil
}

// removeGateway takes all that is the gateway's off the engine.
func removeGateway(ctx context.Context, eng Engine, instance string, volume bool, r *Removed) error {
	g, err := observePart(ctx, eng, instance, gatewayOf(instance))
	if err != nil {
		return err
	}
	defer g.close()
	if g.Foreign {
		return &ForeignError{Kind: "container", Name: g.container, Instance: instance}
	}
	if g.ID != "" {
		if err := removeContainer(ctx, eng, g, true); err != nil && !errors.Is(err, errLost) {
			return err
		}
		r.Containers = append(r.Containers, g.container)
	}
	if err := removeShared(ctx, eng, instance, egressOf(instance), r); err != nil {
		return err
	}
	if volume {
		return removeVolume(ctx, eng, instance, g.volume, r)
	}
	return nil
}

// removeShared removes a shared network; engines before 25 may have several.
func removeShared(ctx context.Context, eng Engine, instance string, net shared, r *Removed) error {
	for range maxActions {
		id, err := findShared(ctx, eng, instance, net)
		if err != nil {
			return err
		}
		if id == "" {
			break
		}
		if err := eng.NetworkRemove(ctx, id); err != nil && !cerrdefs.IsNotFound(err) {
			return fmt.Errorf("remove network %q: %w", net.name, err)
		}
		r.Networks = append(r.Networks, net.name)
	}
	return nil
}
