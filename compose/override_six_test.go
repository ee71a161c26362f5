package compose

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
)

const sixes = `services:
  default: {image: alpine, networks: [six, user, own]}
  fixed: {image: alpine, networks: {user: {ipv6_address: "fd00:7::9"}}}
  many: {image: alpine, scale: 2, networks: [six]}
networks:
  six: {enable_ipv6: true}
  user: {enable_ipv6: true, ipam: {config: [{subnet: 10.7.0.0/24}, {subnet: "fd00:7::/64"}]}}
  own: {driver_opts: {com.docker.network.driver.mtu: "1280", other: kept}}
`

func sixInput() OverrideInput {
	return OverrideInput{ID: "t", Instance: "i", Networks: map[string]NetworkPlan{
		"six": {
			Subnet: prefix("198.18.0.0/27"), Range: prefix("198.18.0.0/28"), Gateway: addr("198.18.0.1"), Simulator: addr("198.18.0.16"),
			Subnet6: prefix("fd00:1::/64"), Range6: prefix("fd00:1::/112"), Gateway6: addr("fd00:1::1"), Simulator6: addr("fd00:1::1:1"),
			Services: map[string]netip.Addr{"default": addr("198.18.0.17")}, Services6: map[string]netip.Addr{"default": addr("fd00:1::1:2")}, MTU: 1400,
		},
		"user": {Services6: map[string]netip.Addr{"default": addr("fd00:7::fe"), "fixed": addr("fd00:7::9")}, MTU: 1400},
		"own":  {Subnet: prefix("198.18.0.32/27"), Range: prefix("198.18.0.32/28"), Gateway: addr("198.18.0.33"), MTU: 1400},
	}}
}

// TestBothFamiliesAndTheMTUAreInEffect: Compose takes over what the override says of
// IPv6 and of the MTU, and leaves what the environment says itself.
func TestBothFamiliesAndTheMTUAreInEffect(t *testing.T) {
	needCompose(t)
	env := mustLoad(t, Options{Dir: writeEnvironment(t, "network='six'\n", sixes), ID: "t"})
	config := string(mergedConfig(t, env, sixInput(), nil))
	if err := env.VerifyOverride([]byte(config), sixInput()); err != nil {
		t.Fatalf("%v\n%s", err, config)
	}
	for _, kept := range []string{`"com.docker.network.driver.mtu": "1280"`, `"other": "kept"`, `"fd00:7::/64"`, `"10.7.0.0/24"`} {
		if !strings.Contains(config, kept) {
			t.Errorf("the environment's own %s is lost:\n%s", kept, config)
		}
	}
	for _, c := range []struct{ from, to, key string }{
		{`"fd00:1::1:2"`, `"fd00:1::5"`, "IPv6 address on six"},
		{`"fd00:1::/112"`, `"fd00:1::/80"`, "ipam"},
		{`"1400"`, `"1500"`, "driver_opts com.docker.network.driver.mtu"},
	} {
		broken := strings.ReplaceAll(config, c.from, c.to)
		var mismatch *MismatchError
		if err := env.VerifyOverride([]byte(broken), sixInput()); broken == config || !errors.As(err, &mismatch) || !strings.Contains(err.Error(), c.key) {
			t.Errorf("%s → %s: %v", c.from, c.to, err)
		}
	}
	in := sixInput()
	in.Networks["user"].Services6["fixed"] = addr("fd00:7::a")
	if _, _, err := env.Override(in); err == nil {
		t.Error("another address than the service's own is accepted")
	}
}

func TestANetworkOfAnotherIPAMDriverIsNotPlanned(t *testing.T) {
	env := mustLoad(t, Options{Dir: writeEnvironment(t, "network='default'\n", `services:
  default: {image: alpine, networks: [default, theirs, plain]}
networks:
  theirs: {ipam: {driver: corp-dhcp}}
  plain: {ipam: {driver: default}}
`), ID: "t"})
	for _, f := range env.NetworkFacts() {
		if f.Own() != (f.Key != "theirs") {
			t.Errorf("network %q: own %t", f.Key, f.Own())
		}
	}
}
