package simulator

import (
	"crypto/sha256"
	"encoding/json"
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
	const want = "1 c1e380a1e22357b4"
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
