package netpin

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/client"

	"github.com/linuxarena/ctis/e2e/images"
)

// lab is a real engine with a project of its own.
type lab struct {
	*testing.T
	eng     *client.Client
	project string
	image   string
}

func newLab(t *testing.T) *lab {
	t.Helper()
	if os.Getenv("CTIS_E2E") != "1" {
		t.Skip("needs a Docker engine: set CTIS_E2E=1")
	}
	eng, err := client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { eng.Close() })
	l := &lab{T: t, eng: eng, project: fmt.Sprintf("netpin-test-%d", time.Now().UnixNano())}
	l.image, err = images.Scratch(t.Context(), eng, images.Agent())
	l.must(err)
	return l
}

func (l *lab) must(err error) {
	l.Helper()
	if err != nil {
		l.Fatal(err)
	}
}

func (l *lab) labels(more ...string) map[string]string {
	m := map[string]string{labelProject: l.project}
	for i := 0; i < len(more); i += 2 {
		m[more[i]] = more[i+1]
	}
	return m
}

// network makes a planned network as Compose would.
func (l *lab) network(key string, p NetworkPlan) string {
	l.Helper()
	n, err := l.eng.NetworkCreate(l.Context(), l.project+"_"+key, network.CreateOptions{Labels: l.labels(labelNetwork, key), Internal: true, IPAM: &network.IPAM{
		Config: []network.IPAMConfig{{Subnet: p.Subnet.String(), IPRange: p.Range.String(), Gateway: p.Gateway.String()}}}})
	l.must(err)
	l.Cleanup(func() { l.must(RemoveNetwork(context.WithoutCancel(l.Context()), l.eng, n.ID)) })
	return n.ID
}

func (l *lab) container(labels map[string]string, start bool, networks map[string]*network.EndpointSettings) string {
	l.Helper()
	c, err := l.eng.ContainerCreate(l.Context(), &container.Config{Image: l.image, Cmd: []string{"wait"}, Labels: labels}, &container.HostConfig{},
		&network.NetworkingConfig{EndpointsConfig: networks}, nil, "")
	l.must(err)
	l.Cleanup(func() {
		l.must(l.eng.ContainerRemove(context.WithoutCancel(l.Context()), c.ID, container.RemoveOptions{Force: true}))
	})
	if start {
		l.must(l.eng.ContainerStart(l.Context(), c.ID, container.StartOptions{}))
	}
	return c.ID
}

func (l *lab) plan(n NetworkWant) NetworkPlan {
	l.Helper()
	taken, err := Taken(l.Context(), l.eng, os.DirFS("/"))
	l.must(err)
	p, err := Compute(Want{Pool: DefaultPool, Taken: taken, Seed: l.project, Networks: []NetworkWant{n}})
	l.must(err)
	return p.Networks[n.Key]
}

func TestThePlanHoldsOnARealEngine(t *testing.T) {
	l := newLab(t)
	ctx := t.Context()
	p := l.plan(NetworkWant{Key: "external", Simulator: true, Services: []ServiceWant{{Name: "default"}}})
	id := l.network("external", p)
	if again := l.plan(NetworkWant{Key: "other"}); again.Subnet.Overlaps(p.Subnet) {
		t.Errorf("%s is planned although %s is there", again.Subnet, p.Subnet)
	}
	if _, err := l.eng.NetworkCreate(ctx, l.project+"_rival", network.CreateOptions{IPAM: &network.IPAM{Config: []network.IPAMConfig{{Subnet: p.Subnet.String()}}}}); !IsOverlap(err) {
		t.Errorf("the engine's words for a lost race are not recognised: %v", err)
	}
	found, ok, err := FindNetwork(ctx, l.eng, l.project, "external")
	if err != nil || !ok || found.ID != id || !slices.Equal(found.Subnets, []netip.Prefix{p.Subnet}) {
		t.Errorf("found %+v, %t, %v", found, ok, err)
	}

	service := l.container(l.labels(labelService, "default"), false, map[string]*network.EndpointSettings{l.project + "_external": {IPAMConfig: &network.EndpointIPAMConfig{IPv4Address: p.Services["default"].String()}}})
	dynamic := l.container(l.labels(labelService, "worker"), true, map[string]*network.EndpointSettings{l.project + "_external": {}})
	simulator := l.container(nil, true, nil)
	o := AttachOptions{Container: simulator, NetworkID: id, Address: p.Simulator, Aliases: []string{"filebin.net", "api.example.com"}}
	for _, changed := range []bool{true, false} {
		at, err := Attach(ctx, l.eng, o)
		if err != nil || at.Changed != changed || !slices.Equal(at.Addresses, []netip.Addr{p.Simulator}) || !slices.Equal(at.Subnets, []netip.Prefix{p.Subnet}) {
			t.Fatalf("attached %+v, %v", at, err)
		}
	}

	want := func(when string) {
		t.Helper()
		project, err := FindProject(ctx, l.eng, l.project)
		l.must(err)
		got := map[string]netip.Addr{}
		for _, p := range project.Peers(found.ID, nil) {
			got[p.Service] = p.Address
		}
		if got["default"] != p.Services["default"] || !p.Range.Contains(got["worker"]) {
			t.Errorf("%s: peers %v, plan %+v", when, got, p)
		}
	}
	want("before the service starts")
	l.must(l.eng.ContainerStart(ctx, service, container.StartOptions{}))
	want("while it runs")
	none := 5
	l.must(l.eng.ContainerStop(ctx, service, container.StopOptions{Timeout: &none}))
	l.must(l.eng.ContainerRestart(ctx, dynamic, container.StopOptions{Timeout: &none}))
	l.must(l.eng.ContainerStart(ctx, service, container.StartOptions{}))
	want("after restarts in another order")

	o.Aliases = []string{"filebin.net"}
	if at, err := Attach(ctx, l.eng, o); err != nil || !at.Changed || at.Addresses[0] != p.Simulator {
		t.Errorf("other aliases: %+v, %v", at, err)
	}
	for range 2 {
		l.must(Detach(ctx, l.eng, simulator, id))
	}
	left, err := FindProject(ctx, l.eng, l.project)
	if err != nil || len(left.Containers) != 2 || len(left.Networks) != 1 || left.Empty() {
		t.Errorf("left %+v, %v", left, err)
	}
}

func TestANetworkThatSomebodyHoldsIsNotRemoved(t *testing.T) {
	l := newLab(t)
	id := l.network("external", l.plan(NetworkWant{Key: "external"}))
	guest := l.container(nil, true, nil)
	_, err := Attach(t.Context(), l.eng, AttachOptions{Container: guest, NetworkID: id})
	l.must(err)
	info, err := l.eng.ContainerInspect(t.Context(), guest)
	l.must(err)
	var held *NetworkHeldError
	if err := RemoveNetwork(t.Context(), l.eng, id); !errors.As(err, &held) || !slices.Equal(held.Holders, []string{info.Name[1:]}) {
		t.Errorf("got %v", err)
	}
}

func TestTwoProcessesAttachingTheSameBothSucceed(t *testing.T) {
	l := newLab(t)
	p := l.plan(NetworkWant{Key: "external", Simulator: true})
	id := l.network("external", p)
	simulator := l.container(nil, true, nil)
	var group sync.WaitGroup
	errs := make([]error, 4)
	for i := range errs {
		group.Go(func() {
			_, errs[i] = Attach(l.Context(), l.eng, AttachOptions{Container: simulator, NetworkID: id, Address: p.Simulator, Aliases: []string{"filebin.net"}})
		})
	}
	group.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
}
