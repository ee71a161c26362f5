package netpin

import (
	"fmt"
	"testing"

	"github.com/docker/docker/api/types/network"
)

// The engine's host must be known by all its addresses on a network: a process
// of the host that was taken for a container would be served as the trajectory.
func TestGatewaysAreAllAddressesOfTheHost(t *testing.T) {
	for name, c := range map[string]struct {
		config   []network.IPAMConfig
		internal bool
		options  map[string]string
		endpoint network.EndpointSettings
		want     string
	}{
		"given":            {config: []network.IPAMConfig{{Subnet: "10.1.0.0/24", Gateway: "10.1.0.9"}}, want: "[10.1.0.9]"},
		"with its length":  {config: []network.IPAMConfig{{Subnet: "10.1.0.0/24", Gateway: "10.1.0.9/24"}}, want: "[10.1.0.9]"},
		"by the endpoint":  {config: []network.IPAMConfig{{Subnet: "10.1.0.0/24"}, {Subnet: "fd00::/64"}}, endpoint: network.EndpointSettings{Gateway: "10.1.0.1", IPv6Gateway: "fd00::1"}, want: "[10.1.0.1 fd00::1]"},
		"both ways":        {config: []network.IPAMConfig{{Subnet: "10.1.0.0/24", Gateway: "10.1.0.1"}}, endpoint: network.EndpointSettings{Gateway: "10.1.0.1"}, want: "[10.1.0.1]"},
		"internal, silent": {config: []network.IPAMConfig{{Subnet: "10.1.0.0/24"}, {Subnet: "fd00::/64"}}, internal: true, want: "[10.1.0.1 fd00::1]"},
		"internal, range":  {config: []network.IPAMConfig{{Subnet: "10.1.0.0/24", IPRange: "10.1.0.128/25"}}, internal: true, want: "[10.1.0.128]"},
		"isolated":         {config: []network.IPAMConfig{{Subnet: "10.1.0.0/24"}}, internal: true, options: map[string]string{"com.docker.network.bridge.gateway_mode_ipv4": "isolated"}, want: "[]"},
		"of elsewhere":     {config: []network.IPAMConfig{{Subnet: "10.1.0.0/24"}}, endpoint: network.EndpointSettings{Gateway: "10.2.0.1"}, want: "[]"},
	} {
		n := network.Inspect{Driver: "bridge", Internal: c.internal, Options: c.options, IPAM: network.IPAM{Config: c.config}}
		if got := fmt.Sprint(gateways(n, &c.endpoint)); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
