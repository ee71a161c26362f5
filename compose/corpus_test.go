package compose

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The corpus holds Compose files that nobody in this project wrote, with what
// docker compose says about each. CTIS_CORPUS names the directory that holds compose/.
func TestCorpusLoadsWhatComposeAccepts(t *testing.T) {
	corpus := os.Getenv("CTIS_CORPUS")
	if corpus == "" {
		if os.Getenv("CI") == "true" {
			t.Fatal("CTIS_CORPUS is not set; it must name the corpus in CI")
		}
		t.Skip("CTIS_CORPUS is not set: no corpus of Compose files to load")
	}
	entries, err := filepath.Glob(filepath.Join(corpus, "compose", "*", "expected.json"))
	if err != nil || len(entries) == 0 {
		t.Fatalf("no entries in %q: %v", corpus, err)
	}
	for _, entry := range entries {
		dir := filepath.Dir(entry)
		t.Run(filepath.Base(dir), func(t *testing.T) {
			t.Parallel()
			var expected struct {
				RC       int
				Files    []string
				Services map[string]json.RawMessage
			}
			content, err := os.ReadFile(entry)
			if err == nil {
				err = json.Unmarshal(content, &expected)
			}
			if err != nil {
				t.Fatal(err)
			}
			o := Options{Dir: t.TempDir(), Environ: corpusEnviron(t, dir), Profiles: []string{"*"}}
			var files []string
			for _, f := range expected.Files {
				files = append(files, `"`+filepath.Join(dir, f)+`"`)
			}
			write(t, o.Dir, ConfigFile, "network = \"default\"\ncompose_files = ["+strings.Join(files, ", ")+"]\n")
			// The corpus has no ctis.toml, so the network and the default service
			// are asked of the environment only as far as Compose's own part goes.
			_, problems := Load(context.Background(), o)
			var composeErrors []string
			for _, p := range problems {
				if p.Severity == SeverityError && filepath.Base(p.File) != ConfigFile {
					composeErrors = append(composeErrors, p.String()+"\n    "+p.Hint)
				}
				if p.Line == 0 || p.Column == 0 {
					t.Errorf("no position: %s", p)
				}
			}
			refused := len(composeErrors) > 0
			t.Logf("\n%s", strings.Join(composeErrors, "\n"))
			if want := expected.RC != 0; refused != want {
				t.Errorf("refused is %v, docker compose says %v", refused, want)
			}
		})
	}
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
