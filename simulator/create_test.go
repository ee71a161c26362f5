package simulator

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestVersionOfTheSettingsMovesWithThem(t *testing.T) {
	config, host := containerConfig("ctis", Want{Image: "r:src-1", Hash: "1", Protocol: 1}, "n1")
	b, err := json.Marshal([]any{config, host})
	if err != nil {
		t.Fatal(err)
	}
	const want = "2 e5bd04f8a7f38bec"
	if got := fmt.Sprintf("%s %x", configVersion, sha256.Sum256(b))[:18]; got != want {
		t.Errorf("settings are %q, want %q: raise configVersion if running simulators must be replaced, and note the new value here", got, want)
	}
}

func TestSimulatorIsCreatedWithNothingItDoesNotNeed(t *testing.T) {
	config, host := containerConfig("x", Want{Image: "r:src-1", Hash: "1", Protocol: 1}, "n1")
	switch {
	case config.User != "65532:65532":
		t.Errorf("user = %q", config.User)
	case !host.ReadonlyRootfs || host.Privileged || len(host.CapAdd) > 0 || fmt.Sprint(host.CapDrop) != "[ALL]":
		t.Error("root is writable, or a capability is left")
	case fmt.Sprint(host.SecurityOpt) != "[no-new-privileges]":
		t.Errorf("security options = %q", host.SecurityOpt)
	case len(host.PortBindings) > 0 || host.PublishAllPorts || len(config.ExposedPorts) > 0:
		t.Error("a port is published")
	case len(host.Binds) > 0 || len(host.Mounts) != 1 || host.Mounts[0].Source != "x-state":
		t.Errorf("mounts = %v %v", host.Binds, host.Mounts)
	case host.NetworkMode != "n1":
		t.Errorf("network = %q", host.NetworkMode)
	case len(config.Env) > 0:
		t.Error("there is an environment, where secrets end up")
	}
	for k := range config.Labels {
		if strings.HasPrefix(k, "com.docker.compose") {
			t.Errorf("label %s makes it part of a Compose project", k)
		}
	}
}

// Settings of IPv6 cannot be made where the kernel has none; all others stay,
// and no other failure takes any of them away.
func TestKernelWithoutIPv6GetsASimulatorWithoutItsSettings(t *testing.T) {
	f, attempts := newFake(), 0
	f.onStart = func(c *fakeContainer) error {
		attempts++
		if _, asked := c.host.Sysctls["net.ipv6.conf.all.accept_ra"]; asked {
			return errors.New("error during container init: open /proc/sys/net/ipv6/conf/all/accept_ra: no such file or directory: unknown")
		}
		return nil
	}
	c := f.containers[mustEnsure(t, f, want("1")).ID]
	if attempts != 2 || c.host.Ulimits == nil || c.host.Sysctls["net.ipv4.conf.all.rp_filter"] != "1" || c.host.Sysctls["net.ipv4.conf.default.accept_redirects"] != "0" {
		t.Errorf("%d attempts, limits %v, settings %v", attempts, c.host.Ulimits, c.host.Sysctls)
	}
	_, host := containerConfig("x", Want{}, "n1")
	if dropMissing(host, errors.New("no space left on device")) || len(host.Sysctls) != len(sysctls()) {
		t.Error("another failure took settings away")
	}
}

// A collection elsewhere may remove the image between making sure of it and using it.
func TestAnImageThatIsGoneIsToldApart(t *testing.T) {
	f, o := newFake(), want("1")
	f.noImage = map[string]bool{o.Image.Ref: true}
	if _, err := Ensure(t.Context(), f, o); !errors.Is(err, ErrImageGone) || f.creates != 1 {
		t.Errorf("after %d attempts: %v", f.creates, err)
	}
	f.noImage = nil // built again
	mustEnsure(t, f, o)
}
