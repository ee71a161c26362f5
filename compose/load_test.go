package compose

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

var update = flag.Bool("update", false, "rewrite the expected problems in testdata")

// Each file in testdata/load is an environment with the problems it must be
// found to have. Its comment says what must be noticed; lines in it of the form
// "env: NAME=value", "profile: NAME", "env-file: PATH" and "id: ID" are options.
func TestLoadReportsExactlyTheseProblems(t *testing.T) {
	stories, err := filepath.Glob("testdata/load/*.txtar")
	if err != nil || len(stories) < 40 {
		t.Fatalf("%d stories, %v", len(stories), err)
	}
	for _, story := range stories {
		t.Run(strings.TrimSuffix(filepath.Base(story), ".txtar"), func(t *testing.T) {
			t.Parallel()
			a, err := txtar.ParseFile(story)
			if err != nil {
				t.Fatal(err)
			}
			dir := writeArchive(t, a)
			o := storyOptions(string(a.Comment), dir)
			env, problems := Load(context.Background(), o)
			if (env == nil) != problems.HasErrors() {
				t.Errorf("environment is %v, but HasErrors is %v", env, problems.HasErrors())
			}
			got := render(problems, dir)
			if *update {
				setFile(a, "want", got)
				if err := os.WriteFile(story, txtar.Format(a), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if want := fileIn(a, "want"); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

func TestLoadIsDeterministic(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "ctis.toml", "netwrok='x'\nwebhook=1\n[personas.'a.test']\nendpoints=['dta','webhok']\nserver=1\n[personas.a.b]\n")
	write(t, dir, "compose.yaml", "services:\n  a: {imag: x, prots: [1]}\n  b: {image: x, networks: [z, y], depends_on: [q, r]}\n  c: {build: 3, imagee: ${X:?}}\n")
	_, first := Load(context.Background(), Options{Dir: dir})
	want := render(first, dir)
	for range 20 {
		if _, again := Load(context.Background(), Options{Dir: dir}); render(again, dir) != want {
			t.Fatalf("got\n%s\nwant\n%s", render(again, dir), want)
		}
	}
}

func TestLoadStopsWhenCancelled(t *testing.T) {
	dir := writeEnvironment(t, "network = 'default'\n", "services: {default: {image: x}}\n")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	env, ps := Load(ctx, Options{Dir: dir})
	if env != nil && len(ps) > 0 || env == nil && !ps.HasErrors() {
		t.Errorf("environment %v with problems %v", env, ps)
	}
}

// render is what a terminal shows, with hints indented below their problem.
func render(ps Problems, dir string) string {
	var b strings.Builder
	for _, p := range ps {
		b.WriteString(p.String() + "\n")
		if p.Hint != "" {
			b.WriteString("    " + p.Hint + "\n")
		}
	}
	return strings.NewReplacer(dir+"/", "", dir, "DIR").Replace(b.String())
}

func storyOptions(comment, dir string) Options {
	o := Options{Dir: dir}
	for line := range strings.Lines(comment) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch key {
		case "env":
			o.Environ = append(o.Environ, value)
		case "profile":
			o.Profiles = append(o.Profiles, value)
		case "env-file":
			o.EnvFiles = append(o.EnvFiles, filepath.Join(dir, value))
		case "id":
			o.ID = value
		}
	}
	return o
}

func writeArchive(t *testing.T, a *txtar.Archive) string {
	t.Helper()
	dir := t.TempDir()
	for _, f := range a.Files {
		if f.Name != "want" {
			write(t, dir, f.Name, string(f.Data))
		}
	}
	return dir
}

func writeEnvironment(t *testing.T, toml, yaml string) string {
	t.Helper()
	dir := t.TempDir()
	write(t, dir, ConfigFile, toml)
	write(t, dir, "compose.yaml", yaml)
	return dir
}

func write(t *testing.T, dir, name, content string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func fileIn(a *txtar.Archive, name string) string {
	for _, f := range a.Files {
		if f.Name == name {
			return string(f.Data)
		}
	}
	return ""
}

func setFile(a *txtar.Archive, name, content string) {
	for i := range a.Files {
		if a.Files[i].Name == name {
			a.Files[i].Data = []byte(content)
			return
		}
	}
	a.Files = append(a.Files, txtar.File{Name: name, Data: []byte(content)})
}
