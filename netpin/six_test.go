package netpin

import (
	"maps"
	"net/netip"
	"slices"
	"testing"

	"github.com/docker/docker/api/types/network"
)

func TestANetworkWithIPv6GetsAUniqueLocalSubnetWithFixedAddresses(t *testing.T) {
	n := NetworkWant{Simulator: true, IPv6: true, Services: []ServiceWant{{Name: "web"}, {Name: "db"}, {Name: "m", Replicas: 3}}}
	got := mustCompute(t, one(n)).Networks["external"]
	if got.Subnet6.Bits() != 64 || !pfx("fd00::/8").Contains(got.Subnet6.Addr()) || got.Range6.Addr() != got.Subnet6.Addr() || !got.Range6.Contains(got.Gateway6) {
		t.Fatalf("%+v", got)
	}
	seen := map[netip.Addr]bool{}
	for _, a := range append(slices.Collect(maps.Values(got.Services6)), got.Simulator6) {
		if !got.Subnet6.Contains(a) || got.Range6.Contains(a) || seen[a] {
			t.Errorf("%s is outside %s, dynamic or given twice", a, got.Subnet6)
		}
		seen[a] = true
	}
	if len(got.Services6) != 2 || len(seen) != 3 {
		t.Errorf("services %v: only those that run one container have an address of their own", got.Services6)
	}

	// The same trajectory has the same again; another, another network and one who
	// finds it taken have others.
	again := mustCompute(t, one(n)).Networks["external"]
	if again.Subnet6 != got.Subnet6 || again.Simulator6 != got.Simulator6 {
		t.Errorf("again: %+v", again)
	}
	w := one(n)
	w.Seed = "t2"
	for name, other := range map[string]Want{"another trajectory": w, "taken": one(n, got.Subnet6)} {
		if p := mustCompute(t, other).Networks["external"]; p.Subnet6.Overlaps(got.Subnet6) {
			t.Errorf("%s: %s", name, p.Subnet6)
		}
	}
	if p := mustCompute(t, one(n, pfx("fc00::/7"))).Networks["external"]; p.Subnet6 != got.Subnet6 {
		t.Errorf("a route over all of fc00::/7 leaves nothing to choose, and yet %s", p.Subnet6)
	}
	kept := n
	kept.Existing = []netip.Prefix{pfx("198.18.0.0/27"), pfx("fd00:1::/64")}
	if p := mustCompute(t, one(kept)).Networks["external"]; p.Subnet6 != pfx("fd00:1::/64") || !p.Subnet6.Contains(p.Simulator6) {
		t.Errorf("an existing network: %+v", p)
	}
	two := Want{Pool: DefaultPool, Seed: "t1", Networks: []NetworkWant{{Key: "a", IPv6: true}, {Key: "b", IPv6: true}, {Key: "c"}}}
	p := mustCompute(t, two)
	if p.Networks["a"].Subnet6.Overlaps(p.Networks["b"].Subnet6) || p.Networks["c"].Subnet6.IsValid() || p.Networks["a"].Simulator6.IsValid() {
		t.Errorf("%+v", p.Networks)
	}
}

func TestTheEnvironmentsOwnIPv6SubnetIsRespected(t *testing.T) {
	v4 := pfx("10.7.0.0/24")
	for _, tc := range []struct {
		name      string
		n         NetworkWant
		simulator string
		services  map[string]string
	}{
		{"whole subnet dynamic", NetworkWant{UserSubnets: []netip.Prefix{v4, pfx("fd00:9::/64")}, Services: []ServiceWant{{Name: "a"}}},
			"fd00:9::ffff:ffff:ffff:fffe", map[string]string{"a": "fd00:9::ffff:ffff:ffff:fffd"}},
		{"range at the top", NetworkWant{UserSubnets: []netip.Prefix{v4, pfx("fd00:9::/64")}, UserRange6: pfx("fd00:9::ffff:0:0:0/80")}, "fd00:9::fffe:ffff:ffff:ffff", nil},
		{"spoken for", NetworkWant{UserSubnets: []netip.Prefix{v4, pfx("fd00:9::/112")}, UserGateway6: adr("fd00:9::fffe"), Static: []netip.Addr{adr("fd00:9::fffd")},
			Services: []ServiceWant{{Name: "a", Static6: adr("fd00:9::fffc")}}}, "fd00:9::fffb", map[string]string{"a": "fd00:9::fffc"}},
		{"longer than the engine counts", NetworkWant{UserSubnets: []netip.Prefix{v4, pfx("fd00:9::/48")}}, "fd00:9::ffff:ffff:ffff:fffe", nil},
		{"narrow and all of it dynamic", NetworkWant{UserSubnets: []netip.Prefix{v4, pfx("fd00:9::/120")}}, "", nil},
		{"narrow with a range", NetworkWant{UserSubnets: []netip.Prefix{v4, pfx("fd00:9::/120")}, UserRange6: pfx("fd00:9::/121")}, "fd00:9::fe", nil},
		{"IPv4 only", NetworkWant{UserSubnets: []netip.Prefix{v4}}, "", nil},
		{"IPv6 only", NetworkWant{UserSubnets: []netip.Prefix{pfx("fd00:9::/64")}}, "fd00:9::ffff:ffff:ffff:fffe", nil},
	} {
		tc.n.Simulator, tc.n.IPv6 = true, true
		p := mustCompute(t, one(tc.n)).Networks["external"]
		if p.Own || text(p.Simulator6) != tc.simulator || len(p.Services6) != len(tc.services) {
			t.Errorf("%s: simulator %s, services %v", tc.name, p.Simulator6, p.Services6)
		}
		for name, want := range tc.services {
			if p.Services6[name].String() != want {
				t.Errorf("%s: %s at %s, not at %s", tc.name, name, p.Services6[name], want)
			}
		}
	}
	for name, n := range map[string]NetworkWant{
		"outside":                             {UserSubnets: []netip.Prefix{v4, pfx("fd00:9::/64")}, Services: []ServiceWant{{Name: "a", Static6: adr("fd00:8::1")}}},
		"no subnet":                           {Services: []ServiceWant{{Name: "a", Static6: adr("fd00:8::1")}}},
		"IPv4 subnet":                         {UserSubnets: []netip.Prefix{v4}, Services: []ServiceWant{{Name: "a", Static6: adr("fd00:8::1")}}},
		"IPv4 address without an IPv4 subnet": {UserSubnets: []netip.Prefix{pfx("fd00:9::/64")}, Services: []ServiceWant{{Name: "a", Static: adr("10.0.0.1")}}},
	} {
		n.IPv6 = true
		if _, err := Compute(one(n)); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestAttachingFixesBothFamilies(t *testing.T) {
	f := world()
	f.networks[0].IPAM.Config = append(f.networks[0].IPAM.Config, network.IPAMConfig{Subnet: "fd00::/64"})
	o := AttachOptions{Container: "ctis-simulator", NetworkID: "n1", Address: adr("198.18.0.16"), Address6: adr("fd00::1:1"), Aliases: []string{"filebin.net"}}
	for _, changed := range []bool{true, false} {
		got, err := Attach(t.Context(), f, o)
		if err != nil || got.Changed != changed || !slices.Equal(got.Addresses, []netip.Addr{o.Address, o.Address6}) {
			t.Errorf("%+v, %v", got, err)
		}
	}
	o.Address6 = adr("fd00::1:2")
	if got, err := Attach(t.Context(), f, o); err != nil || !got.Changed || got.Addresses[1] != o.Address6 {
		t.Errorf("another address: %+v, %v", got, err)
	}
}
