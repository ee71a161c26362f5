package compose

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func starterOf(t *testing.T, compose string, files ...string) (string, *Survey, Problems) {
	t.Helper()
	dir := t.TempDir()
	write(t, dir, "compose.yaml", compose)
	content, s, ps := Starter(context.Background(), Options{Dir: dir}, files)
	return string(content), s, ps
}

// option recognises a line of a starter that is an option that is off.
var option = regexp.MustCompile(`(?m)^#([^ \n]|  )`)

// allOn is a starter with every option turned on, as its reader is told to do it.
func allOn(content []byte) []byte { return option.ReplaceAll(content, []byte("$1")) }

func TestStarterWithEveryOptionOnIsUnderstood(t *testing.T) {
	content, _, ps := starterOf(t, "services: {default: {image: a}, db: {image: b, expose: ['5432']}}\n")
	if ps.HasErrors() {
		t.Fatal(ps)
	}
	on := allOn([]byte(content))
	config, ps := ParseConfig(ConfigFile, on)
	if config == nil {
		t.Fatalf("%v\n%s", ps, on)
	}
	for _, p := range ps {
		t.Errorf("%s\n    %s", p, p.Hint)
	}
	for _, key := range []string{
		"network", "compose_files", "default_service", "required_env_vars", "seed_assets_from", "upstream_proxies", "exposed_services", "personas",
		"endpoints", "server_header", "backend", "rules",
		"methods", "path", "path_regex", "query", "headers", "body_contains", "body_regex", "body_json", "times", "after", "state",
		"respond", "delay", "jitter", "fault", "set_state", "pass",
	} {
		if !regexp.MustCompile(`(?m)^(` + key + ` =|\[\[?` + key + `|\[\[?personas.*` + key + `)`).Match(on) {
			t.Errorf("the key %q is not shown", key)
		}
	}
	if len(config.Personas) != 2 || !bytes.Contains(on, []byte(`backend = "db:5432"`)) {
		t.Errorf("personas %v in\n%s", config.Personas, on)
	}
}

func TestGuess(t *testing.T) {
	for _, c := range []struct {
		name, compose          string
		service, serviceReason string
		network, networkReason string
		wantErr                string
		serviceWritten         bool
	}{
		{name: "marked", compose: "services: {a: {image: a}, default: {image: b}, c: {image: c, x-default: true}}",
			service: "c", serviceReason: "marked x-default", network: "default", networkReason: "only network"},
		{name: "called default", compose: "services: {agent: {image: a}, default: {image: b}}",
			service: "default", serviceReason: "called default", network: "default"},
		{name: "only one", compose: "services: {x: {image: a}}", service: "x", serviceReason: "only service", network: "default", serviceWritten: true},
		{name: "two marked", compose: "services: {b: {image: a, x-default: true}, a: {image: b, x-default: true}}",
			service: "a", serviceReason: "first of 2", network: "default", serviceWritten: true},
		{name: "by name", compose: "services: {db: {image: a}, sandbox: {image: b}}", service: "sandbox", serviceReason: "like an agent's", network: "default", serviceWritten: true},
		{name: "by a word of its name", compose: "services: {db: {image: a}, my-agent_1: {image: b}}", service: "my-agent_1", serviceReason: "like an agent's", network: "default", serviceWritten: true},
		{name: "a word is a whole word", compose: "services: {db: {image: a}, reagent: {image: b}}", service: "db", serviceReason: "comes first", network: "default", serviceWritten: true},
		{name: "nobody depends on it", compose: "services: {db: {image: a}, front: {image: b, depends_on: [db]}}", service: "front", serviceReason: "no other service depends", network: "default", serviceWritten: true},
		{name: "first in the file", compose: "services:\n  z: {image: a}\n  b: {image: b}\n", service: "z", serviceReason: "comes first", network: "default", serviceWritten: true},
		{name: "only one on a network", compose: "services: {agent: {image: a, network_mode: none}, b: {image: b}}", service: "b", serviceReason: "only service on a bridge", network: "default", serviceWritten: true},
		{name: "external by name", compose: "services: {default: {image: a, networks: [alpha, the-internet]}}\nnetworks: {alpha: {}, the-internet: {}}",
			service: "default", network: "the-internet", networkReason: "leads outside"},
		{name: "not internal", compose: "services: {default: {image: a, networks: [a, z]}}\nnetworks: {a: {internal: true}, z: {}}",
			service: "default", network: "z", networkReason: "neither internal"},
		{name: "not a bridge", compose: "services: {default: {image: a, networks: [external, z]}}\nnetworks: {external: {driver: overlay}, z: {}}",
			service: "default", network: "z", networkReason: "can join"},
		{name: "the agent is cut off", compose: "services:\n  default:\n    image: a\n    network_mode: none\n", wantErr: "compose.yaml:4:5: error: service \"default\", where the agent would work, has network_mode: none"},
		{name: "no service", compose: "services: {}\n", wantErr: "no service of the project runs a container"},
		{name: "in a profile", compose: "services: {a: {image: a, profiles: [p]}}\n", wantErr: "no service of the project runs a container"},
	} {
		t.Run(c.name, func(t *testing.T) {
			content, s, ps := starterOf(t, c.compose)
			if c.wantErr != "" {
				if content != "" || len(ps) == 0 || !strings.Contains(ps[0].String(), c.wantErr) || ps[0].Line == 0 {
					t.Errorf("%q: %v", content, ps)
				}
				return
			}
			if ps.HasErrors() {
				t.Fatal(ps)
			}
			if s.DefaultService != c.service || !strings.Contains(s.ServiceReason, c.serviceReason) {
				t.Errorf("service %q, because %s", s.DefaultService, s.ServiceReason)
			}
			if s.Network != c.network || !strings.Contains(s.NetworkReason, c.networkReason) {
				t.Errorf("network %q, because %s", s.Network, s.NetworkReason)
			}
			if written := strings.Contains(content, "\ndefault_service = "); written != c.serviceWritten {
				t.Errorf("default_service is on: %v", written)
			}
		})
	}
}

func TestStarterFindsComposeFilesOneLevelDown(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "code base/compose.yml", plainYAML)
	write(t, dir, "code base/compose.override.yml", "services: {}\n")
	write(t, dir, ".hidden/compose.yml", plainYAML)
	content, _, ps := Starter(context.Background(), Options{Dir: dir}, nil)
	if ps.HasErrors() || !bytes.Contains(content, []byte("\ncompose_files = [\"code base/compose.yml\", \"code base/compose.override.yml\"]\n")) {
		t.Fatalf("%v\n%s", ps, content)
	}
	write(t, dir, "other/compose.yml", plainYAML)
	if _, _, ps = Starter(context.Background(), Options{Dir: dir}, nil); len(ps) != 1 || !strings.Contains(ps[0].Message, "code base/compose.yml, other/compose.yml") {
		t.Error(ps)
	}
	content, _, ps = Starter(context.Background(), Options{Dir: filepath.Join(dir, "other")}, []string{filepath.Join(dir, "code base/compose.yml")})
	if ps.HasErrors() || !bytes.Contains(content, []byte("\ncompose_files = [\"../code base/compose.yml\"]\n")) {
		t.Errorf("%v\n%s", ps, content)
	}
}

func TestStarterQuotesFileNames(t *testing.T) {
	dir := t.TempDir()
	name := "a\"\\\x7f\té.yml"
	write(t, dir, name, plainYAML)
	content, _, ps := Starter(context.Background(), Options{Dir: dir}, []string{filepath.Join(dir, name)})
	if ps.HasErrors() {
		t.Fatal(ps)
	}
	config, ps := ParseConfig(ConfigFile, content)
	if ps.HasErrors() || config.ComposeFiles[0] != name {
		t.Errorf("%q: %v", config.ComposeFiles, ps)
	}
}

// What Compose makes of a corpus entry is in its expected.json. Whatever Compose
// accepts gets a starter that loads, but for these, whose own content says no.
var noStarter = map[string]string{
	"UKGovernmentBEIS__ctf-evals-core__example_04_volume":   "network_mode: none",
	"UKGovernmentBEIS__inspect_ai__examples_http_proxy":     "network_mode: none",
	"UKGovernmentBEIS__inspect_ai__tests_multiple_services": "network_mode: none",
	"UKGovernmentBEIS__inspect_ai__tests_sandbox_nonroot":   "network_mode: none",
	"docker__awesome-compose__plex":                         "network_mode: host",
	"docker__compose__e2e_no_services":                      "no service of the project runs a container",
	"zjysteven__terminal-bench-env__escape_privileged":      "network_mode: host",
}

func TestCorpusGetsStarters(t *testing.T) {
	corpus := os.Getenv("CTIS_CORPUS")
	if corpus == "" {
		if os.Getenv("CI") == "true" {
			t.Fatal("CTIS_CORPUS is not set; it must name the corpus in CI")
		}
		t.Skip("CTIS_CORPUS is not set: no corpus of Compose files to write starters for")
	}
	entries, err := filepath.Glob(filepath.Join(corpus, "compose", "*", "expected.json"))
	if err != nil || len(entries) == 0 {
		t.Fatalf("no entries in %q: %v", corpus, err)
	}
	written := 0
	for _, entry := range entries {
		dir := filepath.Dir(entry)
		name := filepath.Base(dir)
		var expected struct {
			RC    int
			Files []string
		}
		content, err := os.ReadFile(entry)
		if err == nil {
			err = json.Unmarshal(content, &expected)
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Run(name, func(t *testing.T) {
			o := Options{Dir: t.TempDir(), Environ: corpusEnviron(t, dir), Profiles: []string{"*"}}
			var files []string
			for _, f := range expected.Files {
				files = append(files, filepath.Join(dir, f))
			}
			content, s, ps := Starter(context.Background(), o, files)
			var errs []string
			for _, p := range ps {
				if p.Line == 0 {
					t.Errorf("no position: %s", p)
				}
				if p.Severity == SeverityError {
					errs = append(errs, p.Message)
				}
			}
			if expected.RC != 0 {
				if content != nil || len(errs) == 0 {
					t.Errorf("a starter for what Compose refuses")
				}
				return
			}
			if why, own := noStarter[name]; own != (len(errs) > 0) || own && !strings.Contains(strings.Join(errs, "\n"), why) {
				t.Fatalf("errors %q, expected %q", errs, why)
			}
			if len(errs) > 0 {
				return
			}
			t.Logf("service %q because %s; network %q because %s", s.DefaultService, s.ServiceReason, s.Network, s.NetworkReason)
			written++
			write(t, o.Dir, ConfigFile, string(content))
			if env, ps := Load(context.Background(), o); env == nil {
				t.Errorf("what was written does not load: %v", ps)
			} else if env.DefaultService != s.DefaultService || env.Network != s.Network {
				t.Errorf("loads as %q on %q", env.DefaultService, env.Network)
			}
			write(t, o.Dir, ConfigFile, string(allOn(content)))
			on := o
			on.Environ = append(slices.Clone(o.Environ), "OPENAI_API_KEY=k", "VENDOR_API_KEY=k")
			for _, v := range s.examples.Required {
				value := "1"
				if strings.HasSuffix(v, "_DIR") || strings.HasSuffix(v, "_PATH") { // something is mounted there
					value = "/srv"
				}
				on.Environ = append(on.Environ, v+"="+value)
			}
			if env, ps := Load(context.Background(), on); env == nil {
				t.Errorf("with every option on:\n%s", render(ps, o.Dir))
			}
		})
	}
	if want := 53; written < want {
		t.Errorf("%d starters were written, not %d", written, want)
	}
}
