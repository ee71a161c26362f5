package netpin

import (
	"context"
	"fmt"
	"strconv"

	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/network"
)

// The options of a bridge network that tell its MTU, and the engine's own default
// bridge from others of that name.
const (
	OptionMTU     = "com.docker.network.driver.mtu"
	optionDefault = "com.docker.network.bridge.default_bridge"
)

// ethernetMTU is what a bridge has where nobody says otherwise, in bytes.
const ethernetMTU = 1500

// BridgeMTU is the MTU of the engine's default bridge, in bytes, where that is not
// the usual 1500; 0 otherwise. Networks do not inherit it, and where the way out
// takes no larger packets (nested and cloud networks), TLS handshakes hang on
// networks without it while small requests work.
func BridgeMTU(ctx context.Context, eng Engine) (int, error) {
	list, err := eng.NetworkList(ctx, network.ListOptions{Filters: filters.NewArgs(filters.Arg("driver", "bridge"))})
	if err != nil {
		return 0, fmt.Errorf("look for the engine's default bridge: %w", err)
	}
	for _, n := range list {
		if n.Options[optionDefault] == "true" {
			return MTU(n.Options), nil
		}
	}
	return 0, nil // an engine without one (--bridge=none)
}

// MTU reads a network's MTU from its options; 0 for none, or the usual one.
func MTU(options map[string]string) int {
	mtu, err := strconv.Atoi(options[OptionMTU])
	if err != nil || mtu <= 0 || mtu == ethernetMTU {
		return 0
	}
	return mtu
}
