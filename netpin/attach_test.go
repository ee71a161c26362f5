package netpin

import (
	"context"
	"errors"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/network"
)

const simID = "51513a1a51513a1a51513a1a"

func world() *fakeEngine {
	f := &fakeEngine{}
	f.addNetwork("n1", "t1_external", "198.18.0.0/27", map[string]string{labelProject: "t1", labelNetwork: "external"})
	f.addContainer(simID, "ctis-simulator", nil)
	return f
}

func TestAttachingTwiceChangesNothing(t *testing.T) {
	f := world()
	o := AttachOptions{Container: "ctis-simulator", NetworkID: "n1", Address: adr("198.18.0.16"), Aliases: []string{"filebin.net", "example.com"}}
	for i, changed := range []bool{true, false} {
		got, err := Attach(context.Background(), f, o)
		want := Attached{Addresses: []netip.Addr{adr("198.18.0.16")}, Subnets: []netip.Prefix{pfx("198.18.0.0/27")}, Gateways: []netip.Addr{}, Changed: changed}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("time %d: %+v, %v; want %+v", i+1, got, err, want)
		}
		slices.Reverse(o.Aliases)
	}
	if len(f.calls) != 1 {
		t.Errorf("the engine was asked to change something again: %v", f.calls)
	}
}

func TestAttachingOtherwiseDetachesFirst(t *testing.T) {
	for name, change := range map[string]func(*AttachOptions){
		"another alias":   func(o *AttachOptions) { o.Aliases = []string{"example.com"} },
		"one alias more":  func(o *AttachOptions) { o.Aliases = append(slices.Clone(o.Aliases), "b.example") },
		"another address": func(o *AttachOptions) { o.Address = adr("198.18.0.17") },
	} {
		f := world()
		o := AttachOptions{Container: "ctis-simulator", NetworkID: "n1", Address: adr("198.18.0.16"), Aliases: []string{"filebin.net"}}
		if _, err := Attach(context.Background(), f, o); err != nil {
			t.Fatal(err)
		}
		f.calls = nil
		change(&o)
		got, err := Attach(context.Background(), f, o)
		if err != nil || !got.Changed || got.Addresses[0] != o.Address {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		if len(f.calls) != 2 || !strings.HasPrefix(f.calls[0], "disconnect") {
			t.Errorf("%s: calls %v", name, f.calls)
		}
	}
}

func TestLosingTheRaceToAttachTheSameIsSuccess(t *testing.T) {
	f := world()
	o := AttachOptions{Container: "ctis-simulator", NetworkID: "n1", Address: adr("198.18.0.16"), Aliases: []string{"filebin.net"}}
	f.before = func(call string) error {
		if !strings.HasPrefix(call, "connect") {
			return nil
		}
		if err := f.connect("n1", "ctis-simulator", &network.EndpointSettings{Aliases: o.Aliases, IPAMConfig: &network.EndpointIPAMConfig{IPv4Address: "198.18.0.16"}}); err != nil {
			t.Fatal(err)
		}
		return errors.New("endpoint with name ctis-simulator already exists in network t1_external")
	}
	if got, err := Attach(context.Background(), f, o); err != nil || got.Changed {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestAttachReportsWhatTheEngineRefuses(t *testing.T) {
	f := world()
	refusal := errors.New("Address already in use")
	f.before = func(string) error { return refusal }
	_, err := Attach(context.Background(), f, AttachOptions{Container: "ctis-simulator", NetworkID: "n1", Address: adr("198.18.0.16")})
	if !errors.Is(err, refusal) || !strings.Contains(err.Error(), "t1_external") {
		t.Errorf("got %v", err)
	}
	if _, err := Attach(context.Background(), f, AttachOptions{Container: "ctis-simulator", NetworkID: "gone"}); !errors.Is(err, ErrNoNetwork) {
		t.Errorf("missing network: %v", err)
	}
	if _, err := Attach(context.Background(), f, AttachOptions{Container: "gone", NetworkID: "n1"}); !errdefs.IsNotFound(err) {
		t.Errorf("missing container: %v", err)
	}
}

func TestDetachingWhatIsNotAttachedIsNoError(t *testing.T) {
	f := world()
	for _, pair := range [][2]string{{"ctis-simulator", "n1"}, {"gone", "n1"}, {"ctis-simulator", "gone"}} {
		if err := Detach(context.Background(), f, pair[0], pair[1]); err != nil {
			t.Errorf("%v: %v", pair, err)
		}
	}
	if f.calls != nil {
		t.Errorf("the engine was asked to %v", f.calls)
	}
	if _, err := Attach(context.Background(), f, AttachOptions{Container: "ctis-simulator", NetworkID: "n1"}); err != nil {
		t.Fatal(err)
	}
	refusal := errors.New("engine is busy")
	f.before = func(string) error { return refusal }
	if err := Detach(context.Background(), f, "ctis-simulator", "n1"); !errors.Is(err, refusal) {
		t.Errorf("a refusal while attached: got %v", err)
	}
	f.before = func(string) error {
		c, _ := f.container("ctis-simulator")
		clear(c.NetworkSettings.Networks)
		return refusal
	}
	if err := Detach(context.Background(), f, "ctis-simulator", "n1"); err != nil {
		t.Errorf("somebody else detached it meanwhile: got %v", err)
	}
}

func TestNetworksAreFoundByLabelAndDuplicatesRefused(t *testing.T) {
	f := world()
	f.addNetwork("n2", "t1_external", "198.18.1.0/27", nil) // same name, not Compose's
	f.addNetwork("n3", "t11_external", "198.18.2.0/27", map[string]string{labelProject: "t11", labelNetwork: "external"})
	ctx := context.Background()
	if n, ok, err := FindNetwork(ctx, f, "t1", "external"); err != nil || !ok || n.ID != "n1" || n.Subnets[0] != pfx("198.18.0.0/27") {
		t.Errorf("got %+v, %t, %v", n, ok, err)
	}
	if _, ok, err := FindNetwork(ctx, f, "t1", "internal"); ok || err != nil {
		t.Errorf("a network that is not there: %t, %v", ok, err)
	}
	var amb *AmbiguousNetworkError
	if _, _, err := FindNetworkNamed(ctx, f, "t1_external"); !errors.As(err, &amb) || !slices.Equal(amb.IDs, []string{"n1", "n2"}) {
		t.Errorf("two networks of one name: %v", err)
	}
	if n, ok, err := FindNetworkNamed(ctx, f, "t11_external"); err != nil || !ok || n.ID != "n3" {
		t.Errorf("got %+v, %t, %v", n, ok, err)
	}
	f.addNetwork("n0", "t1_external", "198.18.3.0/27", map[string]string{labelProject: "t1", labelNetwork: "external"})
	if _, _, err := FindNetwork(ctx, f, "t1", "external"); !errors.As(err, &amb) || !strings.Contains(err.Error(), "n0, n1") {
		t.Errorf("two networks of one label: %v", err)
	}
}

func TestRemovingANetworkNamesWhoHoldsIt(t *testing.T) {
	f := world()
	if _, err := Attach(context.Background(), f, AttachOptions{Container: "ctis-simulator", NetworkID: "n1"}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	err := RemoveNetwork(ctx, f, "n1")
	var held *NetworkHeldError
	if !errors.As(err, &held) || !slices.Equal(held.Holders, []string{"ctis-simulator"}) || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if slices.ContainsFunc(f.calls, func(c string) bool { return strings.HasPrefix(c, "disconnect") }) {
		t.Errorf("a living container was cut off: %v", f.calls)
	}
}

func TestGhostEndpointsAreClearedByName(t *testing.T) {
	f := world()
	f.networks[0].Containers["dead"] = network.EndpointResource{Name: "t1-default-1"}
	if err := RemoveNetwork(context.Background(), f, "n1"); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(f.calls, "disconnect n1 t1-default-1 true") {
		t.Errorf("calls %v", f.calls)
	}
	if err := RemoveNetwork(context.Background(), f, "n1"); err != nil {
		t.Errorf("a network that is gone: %v", err)
	}
}
