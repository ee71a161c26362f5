package compose

import (
	"encoding/json"
	"errors"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/linuxarena/ctis/server/api"
)

const exposing = `network = "external"
[personas."filebin.net"]
[exposed_services]
"api.example.com" = "web:3000"
"admin.example.com" = "web:3001"
"deep.example.com" = "deep:80"
"pool.example.com" = "pool:8000"
"bücher.example" = "deep:81"
`

const exposingCompose = `services:
  default: {image: alpine, networks: [external], dns: [1.1.1.1]}
  web: {image: alpine, networks: [middle, external], container_name: web-name}
  deep: {image: alpine, networks: {zone: {aliases: [edge-2]}, own: {ipv4_address: 10.1.2.9}}}
  pool: {image: alpine, networks: [middle], scale: 2}
  edge: {image: alpine, networks: [external]}
  off: {image: alpine, hostname: edge-3, profiles: [later]}
networks:
  external: {enable_ipv6: true}
  middle: {}
  own: {ipam: {config: [{subnet: 10.1.2.0/24}]}}
  zone: {}
`

func loadExposing(t *testing.T) *Environment {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "exposing")
	write(t, dir, ConfigFile, exposing)
	write(t, dir, "compose.yaml", exposingCompose)
	return mustLoad(t, Options{Dir: dir, ID: "traj-1"})
}

func exposingInput() OverrideInput {
	return OverrideInput{
		ID: "traj-1", Instance: "ctis", NginxImage: "nginx:$1",
		Networks: map[string]NetworkPlan{
			"external": {
				Subnet: prefix("198.18.0.0/27"), Range: prefix("198.18.0.0/28"), Gateway: addr("198.18.0.1"), Simulator: addr("198.18.0.16"),
				Services: map[string]netip.Addr{"default": addr("198.18.0.17"), "edge": addr("198.18.0.18"), "web": addr("198.18.0.19"), "edge-4": addr("198.18.0.20")},
			},
			"middle": {Subnet: prefix("198.18.0.32/27"), Range: prefix("198.18.0.32/28"), Gateway: addr("198.18.0.33")},
			"own":    {Services: map[string]netip.Addr{"deep": addr("10.1.2.9")}},
			"zone":   {},
		},
	}
}

func TestTheSidecarReachesEachTargetByANameOfItsOwn(t *testing.T) {
	env := loadExposing(t)
	s := env.Sidecar("traj-1")
	if s.Service != "edge-4" || !slices.Equal(s.Networks, []string{"external", "middle", "own"}) || !s.IPv6 || s.Resolve6 {
		t.Errorf("%+v", s)
	}
	if got := strings.Join(s.Hostnames(), " "); got != "api.example.com admin.example.com deep.example.com pool.example.com xn--bcher-kva.example" {
		t.Errorf("hostnames %s", got)
	}
	networks, aliases := []string{}, map[string]string{}
	for _, r := range s.Routes {
		networks = append(networks, r.Network)
		if have, ok := aliases[r.Target.Service]; ok && have != r.Alias || len(r.Alias) != 25 || strings.Contains(r.Alias, ".") {
			t.Errorf("%+v", r)
		}
		aliases[r.Target.Service] = r.Alias
	}
	if !slices.Equal(networks, []string{"external", "external", "own", "middle", "own"}) {
		t.Errorf("networks %q", networks)
	}
	if len(aliases) != 3 || aliases["web"] == aliases["deep"] || aliases["web"] == env.Sidecar("traj-2").Routes[0].Alias {
		t.Errorf("aliases %q", aliases)
	}
	if len(env.Hostnames()) != 1 {
		t.Errorf("the simulator answers for %q", env.Hostnames())
	}
	if got := env.Registration("traj-1", nil, nil).Exposed; len(got) != 5 || got[4] != (api.Exposed{Host: "xn--bcher-kva.example", Service: "deep", Port: 81}) {
		t.Errorf("registered %+v", got)
	}
}

func TestTheSidecarIsPlannedAndJudgedLikeAService(t *testing.T) {
	env := loadExposing(t)
	exposed := map[string]string{}
	for _, f := range env.NetworkFacts() {
		for _, s := range f.Services {
			if s.Fixed && s.Name != "edge-4" {
				exposed[f.Key] += s.Name
			}
		}
		on := slices.ContainsFunc(f.Services, func(s NetworkService) bool { return s.Name == "edge-4" && s.Replicas == 1 && s.Fixed })
		if on != (f.Key != "zone") {
			t.Errorf("the sidecar is on %q: %t", f.Key, on)
		}
	}
	if exposed["external"] != "web" || exposed["own"] != "deep" || exposed["middle"] != "pool" || exposed["zone"] != "" {
		t.Errorf("exposed are %q", exposed)
	}
	facts := env.ServiceFacts()
	if last := facts[len(facts)-1]; last.Name != "edge-4" || last.Replicas != 1 {
		t.Errorf("%+v", facts)
	}
	if none := loadKitchenSink(t); none.Sidecar("t") != nil || slices.ContainsFunc(none.ServiceFacts(), func(f ServiceFacts) bool { return f.Name == "edge" }) {
		t.Error("an environment that exposes nothing has a sidecar")
	}
}

func TestTheSidecarsOverrideIsThisFile(t *testing.T) {
	env := loadExposing(t)
	checkOverride(t, env, exposingInput(), "testdata/override_exposed.golden")
	in := exposingInput()
	in.NginxImage = ""
	if _, _, err := env.Override(in); err == nil {
		t.Error("a sidecar without an image is accepted")
	}
	in = exposingInput()
	delete(in.Networks["external"].Services, "edge-4")
	if _, notes, err := env.Override(in); err != nil || len(notes) != 1 || !strings.Contains(notes[0], `"default" has dns of its own`) {
		t.Errorf("without a fixed address of the sidecar: %q, %v", notes, err)
	}
}

func TestComposeTakesTheSidecarOverAsWritten(t *testing.T) {
	needCompose(t)
	env := loadExposing(t)
	config := string(mergedConfig(t, env, exposingInput(), nil))
	if err := env.VerifyOverride([]byte(config), exposingInput()); err != nil {
		t.Fatal(err)
	}
	var m struct {
		Services map[string]struct {
			Sysctls map[string]string `json:"sysctls"`
			Logging struct {
				Driver  string            `json:"driver"`
				Options map[string]string `json:"options"`
			} `json:"logging"`
			DNSOpt     []string `json:"dns_opt"`
			Tmpfs      []string `json:"tmpfs"`
			StopSignal string   `json:"stop_signal"`
			MemLimit   string   `json:"mem_limit"`
		} `json:"services"`
	}
	if err := json.Unmarshal([]byte(config), &m); err != nil {
		t.Fatal(err)
	}
	if s := m.Services["edge-4"]; s.Sysctls["net.ipv4.ip_forward"] != "0" || s.Sysctls["net.ipv6.conf.all.forwarding"] != "0" || s.Logging.Driver != "local" || s.Logging.Options["max-file"] != "5" ||
		!slices.Equal(s.DNSOpt, []string{"ndots:1"}) || len(s.Tmpfs) != 1 || s.StopSignal != "SIGQUIT" || s.MemLimit != "1073741824" {
		t.Errorf("%+v", s)
	}
	alias := env.Sidecar("traj-1").Routes[0].Alias
	for _, c := range [][3]string{
		{`"image": "nginx:$$1"`, `"image": "nginx:2"`, "image"},
		{`"read_only": true`, `"read_only": false`, "read_only"},
		{`"65532:65532"`, `"0:0"`, "user"},
		{`"198.18.0.20"`, `"198.18.0.21"`, "address on external"},
		{alias, "xother", "alias on external"},
		{`"deep.example.com"`, `"x.example.com"`, "alias on external"},
		{`"edge-4": {`, `"gone": {`, "image"},
	} {
		broken := strings.ReplaceAll(config, c[0], c[1])
		var mismatch *MismatchError
		if err := env.VerifyOverride([]byte(broken), exposingInput()); broken == config || !errors.As(err, &mismatch) || !strings.Contains(err.Error(), c[2]) {
			t.Errorf("%s → %s: %v", c[0], c[1], err)
		}
	}
}
