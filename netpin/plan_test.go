package netpin

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"testing"
)

func pfx(s string) netip.Prefix { return netip.MustParsePrefix(s) }
func adr(s string) netip.Addr   { return netip.MustParseAddr(s) }

func one(n NetworkWant, taken ...netip.Prefix) Want {
	n.Key = "external"
	return Want{Pool: DefaultPool, Taken: taken, Seed: "t1", Networks: []NetworkWant{n}}
}

func mustCompute(t testing.TB, w Want) *Plan {
	t.Helper()
	p, err := Compute(w)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestOwnNetworkKeepsFixedAddressesOutOfTheDynamicRange(t *testing.T) {
	got := mustCompute(t, one(NetworkWant{Simulator: true, Services: []ServiceWant{
		{Name: "web", Replicas: 1}, {Name: "VPN_Client"}, {Name: "workers", Replicas: 3},
	}, Reserve: 1})).Networks["external"]
	if got.Subnet.Bits() != 27 || got.Range.Bits() != 28 || got.Range.Addr() != got.Subnet.Addr() {
		t.Fatalf("subnet %s range %s: want a /27 whose lower half is the range", got.Subnet, got.Range)
	}
	base := number(got.Subnet.Addr())
	want := NetworkPlan{
		Own: true, Subnet: got.Subnet, Range: got.Range, Gateway: address(base + 1), Simulator: address(base + 16),
		Services: map[string]netip.Addr{"VPN_Client": address(base + 17), "web": address(base + 18)},
		Reserved: []netip.Addr{address(base + 19)},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestNetworkWithoutTheSimulatorGetsOnlyASubnet(t *testing.T) {
	got := mustCompute(t, one(NetworkWant{Services: []ServiceWant{{Name: "db"}}})).Networks["external"]
	if got.Simulator.IsValid() || len(got.Services) != 0 || !got.Own || !got.Gateway.IsValid() {
		t.Errorf("got %+v", got)
	}
}

func TestSubnetIsJustLargeEnough(t *testing.T) {
	for _, tc := range []struct{ singles, replicas, bits int }{
		{1, 0, 27}, {5, 0, 27}, {6, 0, 26}, {13, 0, 26}, {14, 0, 25}, {0, 5, 27}, {0, 6, 26}, {0, 500, 21},
	} {
		n := NetworkWant{Simulator: true}
		for i := range tc.singles {
			n.Services = append(n.Services, ServiceWant{Name: fmt.Sprint("s", i)})
		}
		if tc.replicas > 0 {
			n.Services = append(n.Services, ServiceWant{Name: "many", Replicas: tc.replicas})
		}
		if got := mustCompute(t, one(n)).Networks["external"].Subnet.Bits(); got != tc.bits {
			t.Errorf("%d single services and one of %d replicas: /%d, want /%d", tc.singles, tc.replicas, got, tc.bits)
		}
	}
}

func TestTakenPrefixesAreSkippedAndSeedsSpread(t *testing.T) {
	n := NetworkWant{Simulator: true, Services: []ServiceWant{{Name: "a"}}}
	first := mustCompute(t, one(n)).Networks["external"].Subnet
	second := mustCompute(t, one(n, first)).Networks["external"].Subnet
	if first.Overlaps(second) {
		t.Errorf("%s given out though %s is taken", second, first)
	}
	if again := mustCompute(t, one(n)).Networks["external"].Subnet; again != first {
		t.Errorf("the same want got %s, then %s", first, again)
	}
	distinct := map[netip.Prefix]bool{}
	for i := range 100 {
		w := one(n)
		w.Seed = fmt.Sprint("trajectory-", i)
		distinct[mustCompute(t, w).Networks["external"].Subnet] = true
	}
	if len(distinct) < 90 {
		t.Errorf("100 seeds start at %d places of 4096", len(distinct))
	}
}

func TestFourThousandNetworksFitInTheDefaultPool(t *testing.T) {
	w := Want{Pool: DefaultPool, Seed: "x"}
	for i := range 4096 {
		w.Networks = append(w.Networks, NetworkWant{Key: fmt.Sprint("n", i), Simulator: true, Services: []ServiceWant{{Name: "s"}}})
	}
	checkPlan(t, w, mustCompute(t, w))
	w.Networks = append(w.Networks, NetworkWant{Key: "one-too-many"})
	_, err := Compute(w)
	var exhausted *ExhaustedError
	if !errors.As(err, &exhausted) || len(exhausted.Networks) != 1 || exhausted.Pool != DefaultPool {
		t.Errorf("got %v, want one network that does not fit", err)
	}
}

func TestExhaustedPoolNamesWhatDoesNotFit(t *testing.T) {
	for name, taken := range map[string][]netip.Prefix{
		"pool covered by a route": {pfx("198.16.0.0/12")},
		"both halves":             {pfx("198.18.0.0/16"), pfx("198.19.0.0/16")},
	} {
		_, err := Compute(one(NetworkWant{}, taken...))
		var e *ExhaustedError
		if !errors.As(err, &e) || !slices.Equal(e.Networks, []string{"external"}) || e.Taken != len(taken) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// TestANetworkAndItsRouteAreCountedOnce: the host has a route to each network of the
// engine, and may have ones to parts of it.
func TestANetworkAndItsRouteAreCountedOnce(t *testing.T) {
	pool := pfx("10.9.0.0/26")
	for _, c := range []struct {
		taken []netip.Prefix
		count int
		says  string
	}{
		{[]netip.Prefix{pfx("10.9.0.0/27"), pfx("10.9.0.0/27")}, 1, "a network or route is in its way"},
		{[]netip.Prefix{pfx("10.9.0.32/27"), pfx("10.9.0.0/28"), pfx("10.9.0.0/27"), pfx("10.9.0.32/27"), pfx("10.9.0.33/32")}, 2, "2 ranges of networks and routes are in its way"},
		{[]netip.Prefix{pfx("10.9.0.0/27"), pfx("10.0.0.0/8")}, 1, "a network or route is in its way"},
		{[]netip.Prefix{pfx("10.8.0.0/24"), pfx("fd00::/8")}, 0, "it is too small"},
	} {
		e := &ExhaustedError{Pool: pool, Networks: []string{"external"}, Taken: overlapping(pool, c.taken)}
		if want := `address pool 10.9.0.0/26 has no room left for network "external": ` + c.says; e.Taken != c.count || e.Error() != want {
			t.Errorf("%v: %d, %s\nwant %s", c.taken, e.Taken, e, want)
		}
	}
}

func TestExistingNetworkKeepsItsSubnetAndAddresses(t *testing.T) {
	before := mustCompute(t, one(NetworkWant{Simulator: true, Services: []ServiceWant{{Name: "b"}, {Name: "c"}}})).Networks["external"]
	existing := fixedOf(before)
	again := NetworkWant{Simulator: true, Services: []ServiceWant{{Name: "a"}, {Name: "b"}, {Name: "c"}},
		Existing: []netip.Prefix{before.Subnet}, ExistingAddresses: existing}
	got := mustCompute(t, one(again, before.Subnet)).Networks["external"]
	if got.Subnet != before.Subnet || got.Simulator != before.Simulator || got.Services["b"] != before.Services["b"] || got.Services["c"] != before.Services["c"] {
		t.Errorf("got %+v, want what was there: %+v", got, before)
	}
	if a := got.Services["a"]; !a.IsValid() || got.Range.Contains(a) || slices.Contains([]netip.Addr{got.Simulator, got.Services["b"], got.Services["c"]}, a) {
		t.Errorf("the new service got %s", a)
	}
	got = mustCompute(t, one(NetworkWant{Simulator: true, Services: []ServiceWant{{Name: "b"}},
		Existing: []netip.Prefix{before.Subnet}, ExistingAddresses: map[string][]netip.Addr{"b": {before.Gateway}, SimulatorKey: {adr("10.0.0.1")}}})).Networks["external"]
	if got.Services["b"] == before.Gateway || got.Simulator == adr("10.0.0.1") {
		t.Errorf("addresses outside the fixed half were kept: %+v", got)
	}
	if _, err := Compute(one(NetworkWant{Simulator: true, Existing: []netip.Prefix{pfx("10.1.2.4/30")}})); !errors.As(err, new(*SubnetFullError)) {
		t.Errorf("a network too small to halve: %v", err)
	}
}

func fixedOf(p NetworkPlan) map[string][]netip.Addr {
	m := map[string][]netip.Addr{SimulatorKey: {p.Simulator}}
	for k, v := range p.Services {
		m[k] = []netip.Addr{v}
	}
	return m
}

func TestTheEnvironmentsOwnSubnetIsRespected(t *testing.T) {
	for _, tc := range []struct {
		name      string
		n         NetworkWant
		simulator string
		services  map[string]string
	}{
		{"whole subnet dynamic", NetworkWant{UserSubnets: []netip.Prefix{pfx("10.7.0.0/24")}, Services: []ServiceWant{{Name: "b"}, {Name: "a"}, {Name: "m", Replicas: 4}}},
			"10.7.0.254", map[string]string{"a": "10.7.0.253", "b": "10.7.0.252"}},
		{"whole subnet dynamic and narrow", NetworkWant{UserSubnets: []netip.Prefix{pfx("10.7.0.0/28")}, Services: []ServiceWant{{Name: "a"}, {Name: "m", Replicas: 4}}}, "10.7.0.14", nil},
		{"just wide enough", NetworkWant{UserSubnets: []netip.Prefix{pfx("10.7.0.0/28")}, Services: []ServiceWant{{Name: "a"}, {Name: "m", Replicas: 3}}}, "10.7.0.14", map[string]string{"a": "10.7.0.13"}},
		{"range leaves room above", NetworkWant{UserSubnets: []netip.Prefix{pfx("10.7.0.0/24")}, UserRange: pfx("10.7.0.0/25"), Services: []ServiceWant{{Name: "a"}, {Name: "m", Replicas: 2}}},
			"10.7.0.254", map[string]string{"a": "10.7.0.253"}},
		{"range at the top", NetworkWant{UserSubnets: []netip.Prefix{pfx("10.7.0.0/24")}, UserRange: pfx("10.7.0.128/25")}, "10.7.0.127", nil},
		{"gateway and fixed addresses at the top", NetworkWant{UserSubnets: []netip.Prefix{pfx("10.7.0.0/24")}, UserGateway: adr("10.7.0.254"), Static: []netip.Addr{adr("10.7.0.253")},
			Services: []ServiceWant{{Name: "a", Static: adr("10.7.0.252")}}}, "10.7.0.251", map[string]string{"a": "10.7.0.252"}},
		{"no room outside the range", NetworkWant{UserSubnets: []netip.Prefix{pfx("10.7.0.0/29")}, UserRange: pfx("10.7.0.0/29"), Services: []ServiceWant{{Name: "a"}}}, "10.7.0.6", nil},
		{"smallest subnet that works", NetworkWant{UserSubnets: []netip.Prefix{pfx("10.7.0.0/30")}}, "10.7.0.2", nil},
		{"IPv6 beside IPv4", NetworkWant{UserSubnets: []netip.Prefix{pfx("fd00::/64"), pfx("10.7.0.0/24")}}, "10.7.0.254", nil},
		{"IPv6 only", NetworkWant{UserSubnets: []netip.Prefix{pfx("fd00::/64")}, Services: []ServiceWant{{Name: "a", Static: adr("fd00::9")}}}, "", map[string]string{"a": "fd00::9"}},
		{"kept from before", NetworkWant{UserSubnets: []netip.Prefix{pfx("10.7.0.0/24")}, ExistingAddresses: map[string][]netip.Addr{SimulatorKey: {adr("10.7.0.77")}}}, "10.7.0.77", nil},
		{"huge subnet", NetworkWant{UserSubnets: []netip.Prefix{pfx("10.0.0.0/8")}, UserRange: pfx("10.128.0.0/9")}, "10.127.255.254", nil},
		{"host bits in the declaration", NetworkWant{UserSubnets: []netip.Prefix{pfx("10.7.0.5/24")}}, "10.7.0.254", nil},
	} {
		tc.n.Simulator = true
		p, err := Compute(one(tc.n))
		if err != nil {
			t.Errorf("%s: %v", tc.name, err)
			continue
		}
		got := p.Networks["external"]
		if got.Own {
			t.Errorf("%s: ctis takes over a network with an ipam of its own", tc.name)
		}
		if sim := got.Simulator; (tc.simulator == "") == sim.IsValid() || (sim.IsValid() && sim.String() != tc.simulator) {
			t.Errorf("%s: simulator at %s, want %s", tc.name, sim, tc.simulator)
		}
		if len(got.Services) != len(tc.services) {
			t.Errorf("%s: services %v, want %v", tc.name, got.Services, tc.services)
		}
		for s, a := range tc.services {
			if got.Services[s].String() != a {
				t.Errorf("%s: service %s at %s, want %s", tc.name, s, got.Services[s], a)
			}
		}
	}
}

func TestWantsNoPoolCanMeetAreRefused(t *testing.T) {
	for name, w := range map[string]Want{
		"static address without subnet":      one(NetworkWant{Services: []ServiceWant{{Name: "a", Static: adr("10.0.0.9")}}}),
		"static address outside the subnet":  one(NetworkWant{UserSubnets: []netip.Prefix{pfx("10.7.0.0/24")}, Services: []ServiceWant{{Name: "a", Static: adr("10.8.0.9")}}}),
		"no free address in declared subnet": one(NetworkWant{Simulator: true, UserSubnets: []netip.Prefix{pfx("10.7.0.0/30")}, Static: []netip.Addr{adr("10.7.0.2")}}),
		"a single address":                   one(NetworkWant{Simulator: true, UserSubnets: []netip.Prefix{pfx("10.7.0.0/32")}}),
		"network twice":                      {Pool: DefaultPool, Networks: []NetworkWant{{Key: "a"}, {Key: "a"}}},
		"no pool":                            {Networks: []NetworkWant{{Key: "a"}}},
		"IPv6 pool":                          {Pool: pfx("fd00::/64")},
		"pool with host bits":                {Pool: netip.PrefixFrom(adr("198.18.0.1"), 15)},
		"more containers than IPv4 has":      one(NetworkWant{Services: []ServiceWant{{Name: "a", Replicas: 1 << 23}}}),
	} {
		if _, err := Compute(w); err == nil || errors.As(err, new(*ExhaustedError)) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if _, err := Compute(Want{Pool: pfx("10.0.0.0/27"), Networks: []NetworkWant{{Key: "big", Services: []ServiceWant{{Name: "a", Replicas: 50}}}}}); !errors.As(err, new(*ExhaustedError)) {
		t.Errorf("network larger than the pool: got %v", err)
	}
}

// checkPlan fails unless the plan keeps what every plan promises.
func checkPlan(t *testing.T, w Want, p *Plan) {
	t.Helper()
	subnetOwner := make([]struct {
		key  string
		span span
	}, 0, len(p.Networks))
	for _, n := range w.Networks {
		np, ok := p.Networks[n.Key]
		if !ok {
			t.Fatalf("network %q has no plan", n.Key)
		}
		fixed := append([]netip.Addr{}, np.Reserved...)
		if n.Simulator {
			fixed = append(fixed, np.Simulator)
		}
		for _, a := range np.Services {
			fixed = append(fixed, a)
		}
		seen := map[netip.Addr]bool{np.Gateway: true, np.Subnet.Addr(): true, last(np.Subnet): true}
		for _, a := range fixed {
			if !np.Subnet.Contains(a) || seen[a] || np.Range.Contains(a) {
				t.Fatalf("network %q: address %s is outside, used twice or dynamic: %+v", n.Key, a, np)
			}
			seen[a] = true
		}
		if !np.Own {
			continue
		}
		if !np.Range.Contains(np.Gateway) || np.Subnet.Bits() > minBits {
			t.Fatalf("network %q: gateway %s, range %s, subnet %s", n.Key, np.Gateway, np.Range, np.Subnet)
		}
		containers := 0
		for _, s := range n.Services {
			containers += max(1, s.Replicas)
		}
		if room := 1<<(32-np.Range.Bits()) - 2; len(n.Existing) == 0 && room < 2*containers+4 {
			t.Fatalf("network %q: %d dynamic addresses for %d containers", n.Key, room, containers)
		}
		if len(n.Existing) == 0 {
			if !w.Pool.Overlaps(np.Subnet) || np.Subnet.Bits() < w.Pool.Bits() {
				t.Fatalf("network %q: %s is outside the pool", n.Key, np.Subnet)
			}
			for _, taken := range w.Taken {
				if taken.Overlaps(np.Subnet) {
					t.Fatalf("network %q: %s overlaps %s", n.Key, np.Subnet, taken)
				}
			}
		}
		subnetOwner = append(subnetOwner, struct {
			key  string
			span span
		}{n.Key, spanOf(np.Subnet)})
	}
	slices.SortFunc(subnetOwner, func(a, b struct {
		key  string
		span span
	}) int {
		return int(int64(a.span.from) - int64(b.span.from))
	})
	for i := 1; i < len(subnetOwner); i++ {
		if subnetOwner[i].span.from <= subnetOwner[i-1].span.to {
			t.Fatalf("networks %q and %q overlap", subnetOwner[i-1].key, subnetOwner[i].key)
		}
	}
}

func TestEveryPlanKeepsItsPromises(t *testing.T) {
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 1))
		pool := []netip.Prefix{DefaultPool, pfx("10.0.0.0/20"), pfx("172.16.0.0/24")}[r.IntN(3)]
		w := Want{Pool: pool, Seed: fmt.Sprint(seed)}
		for range r.IntN(30) {
			off := r.Uint64N(1 << (32 - pool.Bits()))
			w.Taken = append(w.Taken, netip.PrefixFrom(address(number(pool.Addr())+off), 20+r.IntN(13)).Masked())
		}
		for i := range 1 + r.IntN(4) {
			n := NetworkWant{Key: fmt.Sprint("n", i), Simulator: r.IntN(2) == 0, Reserve: r.IntN(3)}
			for s := range r.IntN(20) {
				n.Services = append(n.Services, ServiceWant{Name: fmt.Sprint("s", s), Replicas: r.IntN(4)})
			}
			w.Networks = append(w.Networks, n)
		}
		p, err := Compute(w)
		if err != nil {
			if !errors.As(err, new(*ExhaustedError)) {
				t.Fatalf("seed %d: %v", seed, err)
			}
			continue
		}
		checkPlan(t, w, p)
		shuffled := w
		shuffled.Networks, shuffled.Taken = slices.Clone(w.Networks), slices.Clone(w.Taken)
		r.Shuffle(len(shuffled.Networks), func(i, j int) {
			shuffled.Networks[i], shuffled.Networks[j] = shuffled.Networks[j], shuffled.Networks[i]
		})
		r.Shuffle(len(shuffled.Taken), func(i, j int) {
			shuffled.Taken[i], shuffled.Taken[j] = shuffled.Taken[j], shuffled.Taken[i]
		})
		if q := mustCompute(t, shuffled); !reflect.DeepEqual(p, q) {
			t.Fatalf("seed %d: the order of the want changes the plan", seed)
		}
	}
}

func FuzzAllocatorNeverGivesOutWhatIsTaken(f *testing.F) {
	f.Add("seed", uint32(0xc6120000), uint8(27), uint8(27))
	f.Add("", uint32(0xc6130000), uint8(16), uint8(25))
	f.Fuzz(func(t *testing.T, seed string, addr uint32, takenBits, bits uint8) {
		taken := netip.PrefixFrom(address(uint64(addr)), int(takenBits%33)).Masked()
		a := newAllocator(DefaultPool, []netip.Prefix{taken}, seed)
		var before []netip.Prefix
		for range 8 {
			p, err := a.take(16 + int(bits%12))
			if err != nil {
				if !taken.Overlaps(DefaultPool) && len(before) < 2 {
					t.Fatalf("nothing left of an empty pool")
				}
				return
			}
			if p.Overlaps(taken) || !DefaultPool.Contains(p.Addr()) || p != p.Masked() || slices.ContainsFunc(before, p.Overlaps) {
				t.Fatalf("%s given out, taken %s, before %v", p, taken, before)
			}
			before = append(before, p)
		}
	})
}

func TestPoolsThatCannotWorkAreRefused(t *testing.T) {
	for s, ok := range map[string]bool{
		"198.18.0.0/15": true, " 10.0.0.0/8 ": true, "10.0.0.0/27": true,
		"": false, "10.0.0.0": false, "10.0.0.1/24": false, "10.0.0.0/28": false, "0.0.0.0/0": false, "fd00::/48": false,
	} {
		if _, err := ParsePool(s); (err == nil) != ok {
			t.Errorf("pool %q: %v", s, err)
		}
	}
}
