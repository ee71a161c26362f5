package netpin

import (
	"net/netip"
	"testing"
)

// What is exposed is reached on networks that the simulator does not join, too, and
// its address there is never to be another container's.
func TestServicesThatWantItHaveFixedAddressesOnEveryNetwork(t *testing.T) {
	services := []ServiceWant{{Name: "api", Fixed: true}, {Name: "other"}, {Name: "many", Replicas: 3, Fixed: true}, {Name: "edge", Fixed: true}}
	w := Want{Pool: DefaultPool, Seed: "x", Networks: []NetworkWant{
		{Key: "own", IPv6: true, Services: services},
		{Key: "spacious", UserSubnets: []netip.Prefix{pfx("10.7.0.0/24")}, Services: services},
		{Key: "narrow", UserSubnets: []netip.Prefix{pfx("10.8.0.0/28")}, Services: services},
		{Key: "ranged", UserSubnets: []netip.Prefix{pfx("10.9.0.0/28")}, UserRange: pfx("10.9.0.0/29"), Services: services},
		{Key: "plain", Services: []ServiceWant{{Name: "other"}}},
	}}
	plan := mustCompute(t, w)
	checkPlan(t, w, plan)
	own := plan.Networks["own"]
	if len(own.Services) != 2 || len(own.Services6) != 2 || own.Simulator.IsValid() {
		t.Errorf("own: %+v", own)
	}
	for name, a := range own.Services {
		if own.Range.Contains(a) || !own.Subnet.Contains(a) || own.Range6.Contains(own.Services6[name]) {
			t.Errorf("%s has %s and %s, which the engine may give to others of %s and %s", name, a, own.Services6[name], own.Range, own.Range6)
		}
	}
	if got := plan.Networks["spacious"].Services; len(got) != 2 || got["api"] != adr("10.7.0.254") || got["edge"] != adr("10.7.0.253") {
		t.Errorf("spacious: %v", got)
	}
	// Three replicas and one more may take, while they are replaced, all but a few addresses.
	if got := plan.Networks["narrow"].Services; len(got) != 0 {
		t.Errorf("narrow: %v", got)
	}
	if got := plan.Networks["ranged"].Services; len(got) != 2 || got["api"] != adr("10.9.0.14") {
		t.Errorf("ranged: %v", got)
	}
	if got := plan.Networks["plain"].Services; len(got) != 0 {
		t.Errorf("plain: %v", got)
	}

	// Brought up again, each keeps its address.
	again := w
	again.Networks = []NetworkWant{w.Networks[0]}
	again.Networks[0].Existing = []netip.Prefix{own.Subnet, own.Subnet6}
	again.Networks[0].ExistingAddresses = map[string][]netip.Addr{"edge": {own.Services["edge"]}, "api": {own.Services["api"]}}
	again.Networks[0].Services = append([]ServiceWant{{Name: "aa", Fixed: true}}, services...)
	if got := mustCompute(t, again).Networks["own"].Services; got["api"] != own.Services["api"] || got["edge"] != own.Services["edge"] {
		t.Errorf("again: %v, before %v", got, own.Services)
	}
}
