package compose

import (
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const kitchenSink = `services:
  default:
    image: alpine
    container_name: agent
    environment: [SSL_CERT_FILE=/mine, "PLAIN=1", CURL_CA_BUNDLE]
    labels: ["own=1"]
    dns: [1.1.1.1]
    extra_hosts: ["other.example:10.0.0.1"]
    ports:
      - "8080:80"
      - "127.0.0.1:5353:53/udp"
      - "9000-9001:9000-9001"
      - "7000"
    networks: [external, default]
  lists:
    image: alpine
    networks:
      external: {aliases: [kept.example], ipv4_address: 172.28.5.5}
      own: {priority: 5}
  implicit: {image: alpine, container_name: implicit-name, environment: {A: b}}
  silent: {image: alpine, network_mode: none, container_name: silent-name, ports: []}
  shared: {image: alpine, network_mode: "service:default"}
  hosted: {image: alpine, network_mode: host, ports: ["80:80"]}
  scaled: {image: alpine, scale: 2, networks: [own]}
  sealed: {image: alpine, read_only: true, networks: [external], volumes: ["data:/data"]}
  off: {image: alpine, profiles: [later], container_name: off}
  model:
    provider: {type: model}
volumes: {data: {}}
networks:
  external:
    ipam: {config: [{subnet: 172.28.0.0/16, ip_range: 172.28.1.0/24}]}
  own:
    labels: {keep: "me"}
  foreign: {external: true}
`

func kitchenSinkInput() OverrideInput {
	return OverrideInput{
		ID: "traj-1", Instance: "ctis", CADir: "/usr/local/share/pki",
		// "/data" has a volume already, and "default" no read-only root.
		CADirs: map[string][]string{"sealed": {"/data", "/etc/ssl/certs"}, "default": {"/etc/ssl/certs"}},
		CAEnv:  map[string]string{"SSL_CERT_FILE": "/etc/ssl/x.pem", "CURL_CA_BUNDLE": "/etc/ssl/x.pem", "ODD": "a$b $$ ${X} $"},
		Networks: map[string]NetworkPlan{
			"external": {Simulator: addr("172.28.9.9"), Services: map[string]netip.Addr{"default": addr("172.28.9.1")}},
			"default": {
				Subnet: prefix("198.18.0.0/27"), Range: prefix("198.18.0.0/28"), Gateway: addr("198.18.0.1"),
				Services: map[string]netip.Addr{"implicit": addr("198.18.0.20"), "default": addr("198.18.0.21")},
			},
			"own": {
				Subnet: prefix("198.18.0.32/27"), Range: prefix("198.18.0.32/28"), Gateway: addr("198.18.0.33"),
				Services: map[string]netip.Addr{"lists": addr("198.18.0.52")},
			},
		},
	}
}

func addr(s string) netip.Addr     { return netip.MustParseAddr(s) }
func prefix(s string) netip.Prefix { return netip.MustParsePrefix(s) }

func loadKitchenSink(t *testing.T) *Environment {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "kitchen")
	write(t, dir, ConfigFile, "network = 'external'\n[personas.'a.example']\n[personas.'b.example']\nendpoints=['data']\n")
	write(t, dir, "compose.yaml", kitchenSink)
	return mustLoad(t, Options{Dir: dir, ID: "traj-1"})
}

func mustLoad(t *testing.T, o Options) *Environment {
	t.Helper()
	env, ps := Load(context.Background(), o)
	if env == nil {
		t.Fatalf("does not load:\n%s", render(ps, o.Dir))
	}
	return env
}

func TestOverrideIsThisFile(t *testing.T) {
	checkOverride(t, loadKitchenSink(t), kitchenSinkInput(), "testdata/override.golden")
}

// checkOverride compares the override and the notes about it with a file.
func checkOverride(t *testing.T, env *Environment, in OverrideInput, golden string) {
	t.Helper()
	got, notes, err := env.Override(in)
	if err != nil {
		t.Fatal(err)
	}
	text := string(got) + "--- notes ---\n" + strings.Join(notes, "\n") + "\n"
	text = strings.NewReplacer(env.Dir, "/path/environment", env.Settings, "SETTINGS").Replace(text)
	if *update {
		if err := os.WriteFile(golden, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil || text != string(want) {
		t.Errorf("got\n%s\nwant\n%s (%v)", text, want, err)
	}
}

func TestOverrideIsDeterministic(t *testing.T) {
	env := loadKitchenSink(t)
	first, _, _ := env.Override(kitchenSinkInput())
	for range 20 {
		if again, _, _ := env.Override(kitchenSinkInput()); string(again) != string(first) {
			t.Fatalf("differs:\n%s\n%s", first, again)
		}
	}
}

func TestOverrideRefusesPlansThatWouldChangeTheEnvironment(t *testing.T) {
	env := loadKitchenSink(t)
	for name, plan := range map[string]map[string]NetworkPlan{
		"a subnet over the environment's own":       {"external": {Subnet: prefix("198.18.0.0/27"), Simulator: addr("198.18.0.20")}},
		"another address than the service's own":    {"external": {Simulator: addr("172.28.9.9"), Services: map[string]netip.Addr{"lists": addr("172.28.9.1")}}},
		"one address for two replicas":              {"external": {Simulator: addr("172.28.9.9")}, "own": {Services: map[string]netip.Addr{"scaled": addr("198.18.0.5")}}},
		"a network that no service uses":            {"external": {Simulator: addr("172.28.9.9")}, "foreign": {}},
		"no simulator address for a service's dns:": {},
	} {
		in := kitchenSinkInput()
		in.Networks = plan
		if out, _, err := env.Override(in); err == nil {
			t.Errorf("%s is accepted:\n%s", name, out)
		}
	}
}

func TestComposeTakesTheOverrideOverAsWritten(t *testing.T) {
	needCompose(t)
	env := loadKitchenSink(t)
	config := mergedConfig(t, env, kitchenSinkInput(), nil)
	if err := env.VerifyOverride(config, kitchenSinkInput()); err != nil {
		t.Fatal(err)
	}
	var m mergedModel
	if err := json.Unmarshal(config, &m); err != nil {
		t.Fatal(err)
	}
	def := m.Services["default"]
	if v := def.Environment["SSL_CERT_FILE"]; v == nil || *v != "/mine" {
		t.Errorf("the environment's own SSL_CERT_FILE is %v", v)
	}
	if v := addressesOf(def.ExtraHosts, "other.example"); v != "10.0.0.1" {
		t.Errorf("the environment's own extra host is %q", v)
	}
	if def.Labels["own"] != "1" || m.Networks["own"].Labels["keep"] != "me" {
		t.Error("the environment's own labels are lost")
	}
	if got := m.Networks["external"].IPAM.Config[0].Subnet; got != "172.28.0.0/16" {
		t.Errorf("the environment's own subnet is %s", got)
	}
	if e := m.Services["lists"].Networks["external"]; e == nil || e.IPv4 != "172.28.5.5" || len(e.Aliases) == 0 || e.Aliases[0] != "kept.example" {
		t.Errorf("the environment's own endpoint is %+v", e)
	}
	if _, on := m.Services["implicit"].Networks["default"]; !on || len(m.Services["implicit"].Networks) != 1 {
		t.Errorf("a service on the implicit network is on %v", m.Services["implicit"].Networks)
	}
	if got := m.Services["sealed"].Volumes; len(got) != 3 || got[0].Target != "/data" || got[2].Target != "/etc/ssl/certs" {
		t.Errorf("a read-only service has the mounts %+v", got)
	}
	if len(m.Services["silent"].Networks) != 0 {
		t.Error("a service without network has got one")
	}
}

// The value that Compose would hand to a container must be the one that was
// meant, whatever $ it has.
func TestOverrideKeepsEveryDollar(t *testing.T) {
	needCompose(t)
	env := mustLoad(t, Options{Dir: writeEnvironment(t, "network='default'\n", "services: {default: {image: alpine}}\n"), ID: "t"})
	in := OverrideInput{ID: "t", Instance: "i", CAEnv: map[string]string{}}
	for i, v := range []string{"$", "a$b", "$$", "${X}", "$X", "end$", "$$$", "${X:?no}", "a\nb$\t\"'\\", "#$ : -", "ü$ü", "true", "0x10", ""} {
		in.CAEnv["V"+string(rune('A'+i))] = v
	}
	config := mergedConfig(t, env, in, nil)
	if err := env.VerifyOverride(config, in); err != nil {
		t.Fatal(err)
	}
	// config escapes what it prints; loading that again must give the value back.
	dir := t.TempDir()
	write(t, dir, ConfigFile, "network='default'\n")
	write(t, dir, "compose.yaml", string(config))
	again := mustLoad(t, Options{Dir: dir, ID: "t"})
	for k, want := range in.CAEnv {
		if got := again.Project.Services["default"].Environment[k]; got == nil || *got != want {
			t.Errorf("%s is %v, not %q", k, got, want)
		}
	}
}

func TestVerifyNoticesEachValueThatIsNotInEffect(t *testing.T) {
	needCompose(t)
	env := loadKitchenSink(t)
	config := string(mergedConfig(t, env, kitchenSinkInput(), nil))
	for _, c := range []struct{ from, to, service, network, key string }{
		{`"io.ctis.trajectory": "traj-1"`, `"x": "y"`, "default", "", "label io.ctis.trajectory"},
		{`"/etc/ssl/x.pem"`, `"/other"`, "default", "", "environment CURL_CA_BUNDLE"},
		{`"a.example=172.28.9.9"`, `"a.example=1.2.3.4"`, "default", "", "extra_hosts a.example"},
		{`"198.18.0.20"`, `"198.18.0.4"`, "implicit", "", "address on default"},
		{`"implicit-name"`, `"lost"`, "implicit", "", "alias on default"},
		{`"target": 80,`, `"target": 81,`, "default", "", "ports"},
		{`"target": 80,`, `"target": 80, "published": "8080",`, "default", "", "ports"},
		{`"subnet": "198.18.0.32/27"`, `"subnet": "10.0.0.0/8"`, "", "own", "ipam"},
		{`"target": "/etc/ssl/certs"`, `"target": "/elsewhere"`, "sealed", "", "mount at /etc/ssl/certs"},
		{`"target": "/usr/local/share/pki"`, `"target": "/elsewhere"`, "sealed", "", "mount at /usr/local/share/pki"},
		{`"implicit": {`, `"gone": {`, "implicit", "", "presence"},
	} {
		broken := strings.ReplaceAll(config, c.from, c.to)
		if broken == config {
			t.Fatalf("%q is not in the merged model:\n%s", c.from, config)
		}
		err := env.VerifyOverride([]byte(broken), kitchenSinkInput())
		var mismatch *MismatchError
		if !errors.As(err, &mismatch) || !strings.Contains(err.Error(), c.key) {
			t.Errorf("%s → %s: %v", c.from, c.to, err)
		}
	}
	if err := env.VerifyOverride([]byte("no json"), kitchenSinkInput()); err == nil {
		t.Error("no JSON is accepted")
	}
}

// The plans here give every service an address on every network, which is more
// than `ctis up` plans; package commands tries what that does plan.
func TestComposeTakesTheOverrideOverForTheWholeCorpus(t *testing.T) {
	needCompose(t)
	tried := 0
	for _, e := range corpus(t) {
		env, _, _ := e.load(t)
		if env == nil {
			continue
		}
		tried++
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			in := planAnything(env)
			if err := env.VerifyOverride(mergedConfig(t, env, in, corpusEnviron(t, e.dir)), in); err != nil {
				t.Error(err)
			}
		})
	}
	if tried < 50 {
		t.Errorf("only %d entries could be tried", tried)
	}
}

// planAnything gives every network and service what an override can give it.
func planAnything(env *Environment) OverrideInput {
	in := OverrideInput{ID: "corpus-1", Instance: "ctis", CADir: "/usr/local/share/pki", NginxImage: DefaultNginxImage, Networks: map[string]NetworkPlan{},
		CAEnv: map[string]string{"SSL_CERT_FILE": "/etc/ssl/all.pem", "NODE_EXTRA_CA_CERTS": "/etc/ssl/all.pem"}}
	subnet := prefix("198.18.0.0/24")
	for _, f := range env.NetworkFacts() {
		plan := NetworkPlan{Simulator: subnet.Addr().Next(), Services: map[string]netip.Addr{}}
		if f.Own() {
			plan.Subnet, plan.Range, plan.Gateway = subnet, netip.PrefixFrom(subnet.Addr(), 25), subnet.Addr().Next()
			a := addr(strings.TrimSuffix(subnet.Addr().String(), ".0") + ".130")
			for _, s := range f.Services {
				if s.Replicas <= 1 && !s.Static.IsValid() {
					plan.Services[s.Name] = a
					a = a.Next()
				}
			}
			b := subnet.Addr().As4()
			b[2]++
			subnet = netip.PrefixFrom(netip.AddrFrom4(b), 24)
		}
		in.Networks[f.Key] = plan
	}
	return in
}

// mergedConfig is what docker compose makes of the environment and its override.
func mergedConfig(t *testing.T, env *Environment, in OverrideInput, environ []string) []byte {
	t.Helper()
	file, _, err := env.Override(in)
	if err != nil {
		t.Fatal(err)
	}
	r := &Runner{Environ: append(os.Environ(), environ...)}
	config, err := r.Config(context.Background(), env.Invocation(in.ID, file))
	if err != nil {
		var run *RunError
		if errors.As(err, &run) {
			t.Fatalf("%s\n%s\n%s", err, run.Output(), file)
		}
		t.Fatal(err)
	}
	return config
}

// needCompose skips where there is no docker compose, which CI must have. No
// engine is needed.
func needCompose(t *testing.T) {
	t.Helper()
	if err := exec.Command("docker", "compose", "version").Run(); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("docker compose is not installed: %v", err)
		}
		t.Skipf("docker compose is not installed, so nothing can be merged: %v", err)
	}
}
