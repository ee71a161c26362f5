package compose

import (
	"context"
	"encoding/json"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/linuxarena/ctis/server/api"
)

const (
	settingsTOML = "network = 'default'\n[personas.'a.example']\nendpoints = ['data', 'webhook']\n[personas.'b.example']\n"
	settingsYAML = "services:\n  default: {image: 'alpine:${TAG:-1}', hostname: '${COMPOSE_PROJECT_NAME}-x'}\n  other: {image: alpine, profiles: [more]}\n  b: {image: alpine, networks: [n, default]}\nnetworks: {n: {}}\n"
)

func TestSettingsStayTheSameForTheSameEnvironment(t *testing.T) {
	dir := writeEnvironment(t, settingsTOML, settingsYAML)
	want := mustLoad(t, Options{Dir: dir}).Settings
	if len(want) != 64 || strings.Trim(want, "0123456789abcdef") != "" {
		t.Fatalf("settings are %q", want)
	}
	for name, o := range map[string]Options{
		"again":                              {},
		"under an id":                        {ID: "some-id"},
		"under another id":                   {ID: "b"},
		"with an unrelated variable":         {Environ: []string{"UNRELATED=1", "COMPOSE_PROFILES=more"}},
		"with a variable set to its default": {Environ: []string{"TAG=1"}},
	} {
		o.Dir = dir
		for range 10 {
			if got := mustLoad(t, o).Settings; got != want {
				t.Fatalf("%s: settings are %s, not %s", name, got, want)
			}
		}
	}
	write(t, dir, ConfigFile, "# a comment\n"+strings.ReplaceAll(settingsTOML, "'", "\""))
	write(t, dir, "compose.yaml", "# a comment\n"+settingsYAML)
	if got := mustLoad(t, Options{Dir: dir}).Settings; got != want {
		t.Error("comments and quotes change the settings")
	}
}

func TestSettingsChangeWithWhateverShapesContainersOrPersonas(t *testing.T) {
	dir := writeEnvironment(t, settingsTOML, settingsYAML)
	seen := map[string]string{mustLoad(t, Options{Dir: dir}).Settings: "nothing"}
	try := func(name, toml, yaml string, o Options) {
		t.Helper()
		write(t, dir, ConfigFile, toml)
		write(t, dir, "compose.yaml", yaml)
		o.Dir = dir
		got := mustLoad(t, o).Settings
		if same, ok := seen[got]; ok {
			t.Errorf("%s changes as little as %s", name, same)
		}
		seen[got] = name
	}
	change := func(s, from, to string) string {
		t.Helper()
		if !strings.Contains(s, from) {
			t.Fatalf("%q is not in %q", from, s)
		}
		return strings.Replace(s, from, to, 1)
	}
	try("another persona", settingsTOML+"[personas.'c.example']\n", settingsYAML, Options{})
	try("another server header", settingsTOML+"server_header = 'x'\n", settingsYAML, Options{})
	try("another endpoint", change(settingsTOML, "'webhook'", "'webhook', 'public'"), settingsYAML, Options{})
	try("another first persona", "network='default'\n[personas.'b.example']\n[personas.'a.example']\nendpoints = ['data', 'webhook']\n", settingsYAML, Options{})
	try("another default service", "default_service = 'b'\n"+settingsTOML, settingsYAML, Options{})
	try("another image", settingsTOML, change(settingsYAML, "alpine:", "debian:"), Options{})
	try("another variable", settingsTOML, settingsYAML, Options{Environ: []string{"TAG=2"}})
	try("another profile", settingsTOML, settingsYAML, Options{Profiles: []string{"more"}})
	try("another service", settingsTOML, change(settingsYAML, "networks: {n", "  z: {image: alpine}\nnetworks: {n"), Options{})
	try("another network setting", settingsTOML, change(settingsYAML, "n: {}", "n: {internal: true}"), Options{})
}

func TestRegistrationHoldsWhatTheSimulatorNeeds(t *testing.T) {
	env := mustLoad(t, Options{Dir: writeEnvironment(t, "network='default'\n[personas.'Z.example.']\nendpoints=['public', 'data']\n[personas.'a.example']\nserver_header='Apache'\n[personas.'b.example']\nbackend='api:81'\nendpoints=['v1']\n[personas.'c.example']\nbackend='api:82'\n", "services: {default: {image: alpine}, api: {image: alpine}}\n")})
	nets := []api.Network{{Name: "default", ID: "1", Addresses: []netip.Addr{addr("198.18.0.20")}}}
	if got := env.Backends(); !slices.Equal(got, []string{"api"}) {
		t.Errorf("backends %q", got)
	}
	pin := api.Pin{Container: "c1", Network: "1", Address: addr("198.18.0.21")}
	got := env.Registration("t-1", nets, api.Pins{"api": pin})
	want := &api.Registration{
		Trajectory: "t-1", Environment: filepath.Base(env.Dir), Settings: env.Settings, Networks: nets,
		Personas: []api.Persona{
			{Host: "z.example", ServerHeader: "nginx", Endpoints: []string{"public", "data"}},
			{Host: "a.example", ServerHeader: "Apache", Endpoints: []string{}},
			{Host: "b.example", ServerHeader: "nginx", Endpoints: []string{"v1"}, Backend: &api.Backend{Service: "api", Port: 81, Pin: pin}},
			{Host: "c.example", ServerHeader: "nginx", Endpoints: []string{}, Backend: &api.Backend{Service: "api", Port: 82, Pin: pin}},
		},
		Exclusive: []api.Exclusive{{Kind: api.KindNetwork, Name: placeholderID + "_default"}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	got.Personas[0].Endpoints[0] = "changed"
	if env.Config.Personas[0].Endpoints[0] != "public" {
		t.Error("the registration shares memory with the environment")
	}
}

func TestNetworkFactsDescribeUsedNetworks(t *testing.T) {
	env := loadKitchenSink(t)
	got := env.NetworkFacts()
	want := []NetworkFact{
		{Key: "default", Name: "traj-1_default", Services: []NetworkService{{Name: "default", Replicas: 1}, {Name: "implicit", Replicas: 1}}},
		{Key: "external", Name: "traj-1_external", Pools: []Pool{{Subnet: prefix("172.28.0.0/16"), Range: prefix("172.28.1.0/24")}},
			Services: []NetworkService{{Name: "default", Replicas: 1}, {Name: "lists", Replicas: 1, Static: addr("172.28.5.5")}, {Name: "sealed", Replicas: 1}}},
		{Key: "own", Name: "traj-1_own", Services: []NetworkService{{Name: "lists", Replicas: 1}, {Name: "scaled", Replicas: 2}}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	if !got[0].Own() || got[1].Own() {
		t.Error("own ipam is told wrong")
	}
}

func TestReachingFollowsSharedNetworks(t *testing.T) {
	if got, want := loadKitchenSink(t).Reaching(), []string{"default", "lists", "sealed", "shared"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestServiceFactsCountContainers(t *testing.T) {
	got := map[string]ServiceFacts{}
	for _, f := range loadKitchenSink(t).ServiceFacts() {
		got[f.Name] = f
	}
	if len(got) != 9 || got["scaled"].Replicas != 2 || !got["model"].Provider || got["default"].Replicas != 1 {
		t.Errorf("got %+v", got)
	}
}

func TestVariablesOfTheProcessBeatThoseOfTheEnvFile(t *testing.T) {
	dir := writeEnvironment(t, "network='default'\nrequired_env_vars=['A','B','C']\n",
		"services: {default: {image: '${A}-${B}-${C}-${COMPOSE_PROJECT_NAME}', environment: [B]}}\n")
	write(t, dir, ".env", "A=file\nB=file\nC=${A}c\nCOMPOSE_PROJECT_NAME=evil\n")
	env := mustLoad(t, Options{Dir: dir, ID: "me", Environ: []string{"A=process", "COMPOSE_PROJECT_NAME=evil"}})
	s := env.Project.Services["default"]
	if want := "process-file-processc-me"; s.Image != want {
		t.Errorf("image is %q, want %q", s.Image, want)
	}
	if v := s.Environment["B"]; v == nil || *v != "file" {
		t.Errorf("environment is %v", s.Environment)
	}
	if want := []string{filepath.Join(env.Dir, ".env")}; !slices.Equal(env.EnvFiles, want) {
		t.Errorf("env files are %q", env.EnvFiles)
	}
}

func TestInvocationLoadsTheSameModelAsLoad(t *testing.T) {
	needCompose(t)
	dir := writeEnvironment(t, "network='default'\ncompose_files=['sub/a.yaml', 'b.yaml']\n", "services: {wrong: {image: wrong}}\n")
	write(t, dir, "sub/a.yaml", "services:\n  default: {image: 'a:${V}', volumes: ['./x:/x']}\n  off: {image: x, profiles: [later]}\n  on: {image: x, profiles: [chosen]}\n")
	write(t, dir, "b.yaml", "services: {default: {user: '${COMPOSE_PROJECT_NAME}'}}\n")
	write(t, dir, "sub/.env", "V=sub\nCOMPOSE_PROFILES=chosen\nCOMPOSE_FILE=c.yaml\n")
	write(t, dir, ".env", "V=wrong\n")
	env := mustLoad(t, Options{Dir: dir, ID: "me"})
	r := &Runner{Environ: append(os.Environ(), "COMPOSE_FILE=/nowhere", "COMPOSE_PROFILES=later", "COMPOSE_ENV_FILES=/nowhere")}
	config, err := r.Config(t.Context(), env.Invocation("me", nil))
	if err != nil {
		t.Fatal(err)
	}
	var m struct {
		Name     string
		Services map[string]struct {
			Image, User string
			Volumes     []struct{ Source string }
		}
	}
	if err := json.Unmarshal(config, &m); err != nil {
		t.Fatal(err)
	}
	d := m.Services["default"]
	if m.Name != "me" || d.Image != "a:sub" || d.User != "me" || d.Volumes[0].Source != filepath.Join(env.Dir, "sub/x") {
		t.Errorf("docker compose sees %s", config)
	}
	p := env.Project.Services["default"]
	if p.Image != d.Image || p.User != d.User || p.Volumes[0].Source != d.Volumes[0].Source {
		t.Errorf("Load sees %+v, docker compose %+v", p, d)
	}
	if got, want := sortedKeys(m.Services), env.Project.ServiceNames(); !slices.Equal(got, want) {
		t.Errorf("docker compose has the services %q, Load %q", got, want)
	}
}

func TestAProfileThatNoServiceHasIsTold(t *testing.T) {
	dir := writeEnvironment(t, plainTOML, "services:\n  default: {image: x}\n  extra: {image: x, profiles: [debug]}\n")
	for profile, want := range map[string]string{"debug": "", "*": "", "debgu": `no service has the profile "debgu", which is asked for`} {
		_, ps := Load(context.Background(), Options{Dir: dir, Profiles: []string{profile}})
		got := ""
		for _, p := range ps {
			if strings.Contains(p.Message, "profile") {
				got = p.Message
				if p.Severity != SeverityWarning || p.Hint != `did you mean "debug"?` {
					t.Errorf("%+v", p)
				}
			}
		}
		if got != want {
			t.Errorf("%s: %q, not %q", profile, got, want)
		}
	}
}
