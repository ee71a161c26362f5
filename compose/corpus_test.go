package compose

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/types"
)

// The corpus holds Compose files that nobody in this project wrote, with what
// docker compose says about each. CTIS_CORPUS names the directory that holds
// compose/. testdata/corpus.tsv chooses a network and a default service for each
// entry, and testdata/corpus.golden is what ctis makes of it then.

// corpusEntry is one entry with docker compose's own view of it.
type corpusEntry struct {
	name, dir        string
	service, network string // what its ctis.toml says; service may be ""

	Files    []string
	RC       int
	Error    string
	Networks map[string]struct {
		Name     string
		Driver   string
		External bool
		Internal bool
		IPAM     struct{ Config []struct{ Subnet string } }
	}
	Services map[string]struct {
		Networks    map[string]*struct{ IPv4Address string }
		NetworkMode string `json:"network_mode"`
		Replicas    *int
		Ports       []corpusPort
	}
}

type corpusPort struct {
	Target    uint32
	Published string
	Protocol  string
}

func corpus(t *testing.T) []corpusEntry {
	t.Helper()
	root := os.Getenv("CTIS_CORPUS")
	if root == "" {
		if os.Getenv("CI") == "true" {
			t.Fatal("CTIS_CORPUS is not set; it must name the corpus in CI")
		}
		t.Skip("CTIS_CORPUS is not set: no corpus of Compose files to load")
	}
	content, err := os.ReadFile("testdata/corpus.tsv")
	if err != nil {
		t.Fatal(err)
	}
	var entries []corpusEntry
	for line := range strings.Lines(string(content)) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if line[0] == '#' {
			continue
		}
		e := corpusEntry{name: fields[0], dir: filepath.Join(root, "compose", fields[0]), service: strings.TrimPrefix(fields[1], "-"), network: fields[2]}
		content, err := os.ReadFile(filepath.Join(e.dir, "expected.json"))
		if err == nil {
			err = json.Unmarshal(content, &e)
		}
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, e)
	}
	found, err := filepath.Glob(filepath.Join(root, "compose", "*", "expected.json"))
	if err != nil || len(found) != len(entries) {
		t.Fatalf("%d entries in %q, %d in testdata/corpus.tsv, %v", len(found), root, len(entries), err)
	}
	return entries
}

// load loads the entry with a ctis.toml of its own: the corpus has none.
func (e corpusEntry) load(t *testing.T) (*Environment, Problems, string) {
	t.Helper()
	dir := t.TempDir()
	var files []string
	for _, f := range e.Files {
		files = append(files, strconv.Quote(filepath.Join(e.dir, f)))
	}
	toml := fmt.Sprintf("network = %q\ncompose_files = [%s]\n", e.network, strings.Join(files, ", "))
	if e.service != "" {
		toml += fmt.Sprintf("default_service = %q\n", e.service)
	}
	write(t, dir, ConfigFile, toml+"[personas.\"persona.test\"]\n")
	env, ps := Load(context.Background(), Options{Dir: dir, ID: "corpus-1", Environ: corpusEnviron(t, e.dir), Profiles: []string{"*"}})
	return env, ps, dir
}

func TestCorpus(t *testing.T) {
	entries := corpus(t)
	blocks := make([]string, len(entries))
	t.Run("entries", func(t *testing.T) {
		for i, e := range entries {
			t.Run(e.name, func(t *testing.T) {
				t.Parallel()
				blocks[i] = e.outcome(t)
			})
		}
	})
	got := strings.Join(blocks, "\n")
	const golden = "testdata/corpus.golden"
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	content, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Split(string(content), "\n== ")
	for i, block := range strings.Split(got, "\n== ") {
		if i >= len(want) || block != want[i] && block+"\n" != want[i] {
			t.Errorf("got\n== %s\nwhich is not in %s", strings.TrimPrefix(block, "== "), golden)
		}
	}
	if len(want) != len(blocks) {
		t.Errorf("%s has %d entries, not %d", golden, len(want), len(blocks))
	}
}

// outcome is what people are told of an entry, and what of it is a network, a
// service and a port. It must be docker compose's view wherever that accepts it.
func (e corpusEntry) outcome(t *testing.T) string {
	env, ps, dir := e.load(t)
	var b strings.Builder
	fmt.Fprintf(&b, "== %s\n", e.name)
	refused := false
	for _, p := range ps {
		if p.Line == 0 || p.Column == 0 || p.Line == 1 && p.Column == 1 && len(e.Services) > 0 {
			t.Errorf("no position: %s", p)
		}
		refused = refused || p.Severity == SeverityError && filepath.Base(p.File) != ConfigFile
	}
	switch {
	case env != nil:
		b.WriteString("loads\n")
	case !refused:
		b.WriteString("loads, but not with a simulator\n")
	default:
		b.WriteString("refused\n")
	}
	if want := e.RC != 0; refused != want {
		t.Errorf("refused is %v, docker compose says %v: %s", refused, want, e.Error)
	}
	if refused {
		fmt.Fprintf(&b, "docker compose: %s\n", e.Error)
	} else {
		project := e.project(t, env)
		e.compare(t, project)
		b.WriteString(describe(project))
	}
	for _, p := range ps {
		if p.Severity == SeverityWarning {
			p.Hint = "" // the same each time; testdata/load has them
		}
		b.WriteString(render(Problems{p}, dir))
	}
	root := filepath.Dir(filepath.Dir(e.dir)) // what lies outside the entry is named as from here
	return strings.NewReplacer(e.dir+"/", "", e.dir, ".", dir, ".", root, "CORPUS").Replace(b.String())
}

// project is the model, also of an entry where no network can be the simulator's.
func (e corpusEntry) project(t *testing.T, env *Environment) *types.Project {
	if env != nil {
		return env.Project
	}
	c, _ := ParseConfig(ConfigFile, []byte("network = 'default'\n"))
	for _, f := range e.Files {
		c.ComposeFiles = append(c.ComposeFiles, filepath.Join(e.dir, f))
	}
	o := Options{Environ: corpusEnviron(t, e.dir), Profiles: []string{"*"}}
	m, ps := newModel(o, e.dir, c, func(p string) string { return p })
	if m == nil {
		t.Fatal(ps)
	}
	p, err := m.load(context.Background(), "corpus-1")
	if err != nil {
		t.Fatal(err)
	}
	return p.WithoutUnnecessaryResources()
}

// compare holds the model against docker compose's.
func (e corpusEntry) compare(t *testing.T, p *types.Project) {
	t.Helper()
	same := func(what string, got, want any) {
		t.Helper()
		if g, w := fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want); g != w {
			t.Errorf("%s: got %s, docker compose has %s", what, g, w)
		}
	}
	same("services", p.ServiceNames(), sortedKeys(e.Services))
	same("networks", sortedKeys(p.Networks), sortedKeys(e.Networks))
	for key, want := range e.Networks {
		got := p.Networks[key]
		same("network "+key+": name", got.Name, strings.Replace(want.Name, "ctistest", "corpus-1", 1))
		same("network "+key+": external, internal", []bool{bool(got.External), got.Internal}, []bool{want.External, want.Internal})
		var gotPools, wantPools []string
		for _, pool := range got.Ipam.Config {
			gotPools = append(gotPools, pool.Subnet)
		}
		for _, pool := range want.IPAM.Config {
			wantPools = append(wantPools, pool.Subnet)
		}
		same("network "+key+": subnets", gotPools, wantPools)
	}
	for name, want := range e.Services {
		got := p.Services[name]
		same("service "+name+": networks", sortedKeys(got.Networks), sortedKeys(want.Networks))
		same("service "+name+": network_mode", got.NetworkMode, want.NetworkMode)
		var ports []corpusPort
		for _, port := range got.Ports {
			ports = append(ports, corpusPort{port.Target, port.Published, port.Protocol})
		}
		same("service "+name+": ports", ports, want.Ports)
		if want.Replicas != nil {
			same("service "+name+": replicas", got.GetScale(), *want.Replicas)
		}
	}
}

// describe is the model's shape in a few lines.
func describe(p *types.Project) string {
	var b strings.Builder
	for _, key := range sortedKeys(p.Networks) {
		n := p.Networks[key]
		fmt.Fprintf(&b, "network %s: %s", key, n.Name)
		for _, pool := range n.Ipam.Config {
			b.WriteString(" " + pool.Subnet)
		}
		for word, is := range map[string]bool{" external": bool(n.External), " internal": n.Internal} {
			if is {
				b.WriteString(word)
			}
		}
		b.WriteString("\n")
	}
	for _, name := range p.ServiceNames() {
		s := p.Services[name]
		on := sortedKeys(s.Networks)
		if s.NetworkMode != "" {
			on = []string{"network_mode " + s.NetworkMode}
		}
		var ports []string
		for _, port := range s.Ports {
			ports = append(ports, fmt.Sprintf("%s:%d/%s", port.Published, port.Target, port.Protocol))
		}
		fmt.Fprintf(&b, "service %s: %s\n", name, strings.TrimSpace(strings.Join(on, ", ")+"; "+strings.Join(ports, " ")))
	}
	return b.String()
}

// corpusEnviron reads the entry's variables; ${PWD} in them is its directory.
func corpusEnviron(t *testing.T, dir string) []string {
	content, err := os.ReadFile(filepath.Join(dir, "corpus.env"))
	if os.IsNotExist(err) {
		return []string{"PWD=" + dir}
	}
	if err != nil {
		t.Fatal(err)
	}
	environ := []string{"PWD=" + dir}
	for line := range strings.Lines(strings.ReplaceAll(string(content), "${PWD}", dir)) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			environ = append(environ, line)
		}
	}
	return environ
}
