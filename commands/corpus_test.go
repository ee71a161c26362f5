package commands

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/linuxarena/ctis/compose"
	"github.com/linuxarena/ctis/netpin"
)

// TestTheOverrideIsEffectiveForTheWholeCorpus goes the way of `ctis up` as far
// as it needs no engine: plan, override, and docker compose's own word for it
// that each value is in effect. The files are ones that nobody here wrote.
func TestTheOverrideIsEffectiveForTheWholeCorpus(t *testing.T) {
	docker := realDocker(t)
	root := os.Getenv("CTIS_CORPUS")
	if root == "" {
		if os.Getenv("CI") == "true" {
			t.Fatal("CTIS_CORPUS is not set; it must name the corpus in CI")
		}
		t.Skip("CTIS_CORPUS is not set: no corpus of Compose files to override")
	}
	choices, err := os.ReadFile("../compose/testdata/corpus.tsv")
	if err != nil {
		t.Fatal(err)
	}
	tried := 0
	for line := range strings.Lines(string(choices)) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if line[0] == '#' {
			continue
		}
		dir := filepath.Join(root, "compose", fields[0])
		environ := append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")}, corpusEnviron(t, dir)...)
		env := loadCorpusEntry(t, dir, fields[1], fields[2], environ)
		if env == nil {
			continue // package compose's tests say why
		}
		tried++
		t.Run(fields[0], func(t *testing.T) {
			t.Parallel()
			a := &app{instance: "ctis", runner: &compose.Runner{Docker: docker, Environ: environ}}
			s := &setup{app: a, id: "corpus-1", env: env, pool: netpin.DefaultPool}
			var err error
			if s.plan, err = netpin.Compute(s.want(nil)); err != nil {
				t.Fatal(err)
			}
			if _, err := s.override(context.Background()); err != nil {
				t.Errorf("%v\n%s", err, s.call.Override)
			}
		})
	}
	if tried < 50 {
		t.Errorf("only %d entries could be tried", tried)
	}
}

// loadCorpusEntry loads an entry with all its profiles, or returns nil.
func loadCorpusEntry(t *testing.T, dir, service, network string, environ []string) *compose.Environment {
	t.Helper()
	var expected struct{ Files []string }
	content, err := os.ReadFile(filepath.Join(dir, "expected.json"))
	if err == nil {
		err = json.Unmarshal(content, &expected)
	}
	if err != nil {
		t.Fatal(err)
	}
	toml := fmt.Sprintf("network = %q\ncompose_files = [", network)
	for _, f := range expected.Files {
		toml += strconv.Quote(filepath.Join(dir, f)) + ", "
	}
	toml += "]\n"
	if service != "-" {
		toml += fmt.Sprintf("default_service = %q\n", service)
	}
	own := t.TempDir()
	if err := os.WriteFile(filepath.Join(own, compose.ConfigFile), []byte(toml+"[personas.\"persona.test\"]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	env, _ := compose.Load(context.Background(), compose.Options{Dir: own, ID: "corpus-1", Environ: environ, Profiles: []string{"*"}})
	return env
}

// corpusEnviron reads the entry's variables; ${PWD} in them is its directory.
func corpusEnviron(t *testing.T, dir string) []string {
	t.Helper()
	environ := []string{"PWD=" + dir}
	content, err := os.ReadFile(filepath.Join(dir, "corpus.env"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for line := range strings.Lines(strings.ReplaceAll(string(content), "${PWD}", dir)) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			environ = append(environ, line)
		}
	}
	return environ
}

// realDocker is a docker with Compose, which CI must have. The first in PATH
// is the one that the scripts of this package get.
func realDocker(t *testing.T) string {
	t.Helper()
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		docker := filepath.Join(dir, "docker")
		if exec.Command(docker, "compose", "version").Run() == nil {
			return docker
		}
	}
	if os.Getenv("CI") == "true" {
		t.Fatal("docker compose is not installed")
	}
	t.Skip("docker compose is not installed, so nothing can be merged")
	return ""
}
