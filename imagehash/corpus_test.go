package imagehash

import (
	"bufio"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// corpus is the directory of Dockerfiles of public repositories with hand-made
// lists of what each reads. CTIS_CORPUS names what it is in.
func corpus(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("CTIS_CORPUS")
	if dir == "" {
		if os.Getenv("CI") == "true" {
			t.Fatal("CTIS_CORPUS is not set")
		}
		t.Skip("CTIS_CORPUS is not set")
	}
	return filepath.Join(dir, "dockerfile")
}

// corpusLists lists the directories that have a file of that name, and how many
// there must be: fewer than are known would be a test of less.
func corpusLists(t *testing.T, pattern string, atLeast int) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(corpus(t), "*", pattern))
	if err != nil || len(found) < atLeast {
		t.Fatalf("%d files %s in the corpus, want %d or more (%v)", len(found), pattern, atLeast, err)
	}
	return found
}

func linesOf(t *testing.T, file string) []string {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out []string
	for s := bufio.NewScanner(f); s.Scan(); {
		if s.Text() != "" {
			out = append(out, s.Text())
		}
	}
	slices.Sort(out)
	return out
}

// corpusScan reads a Dockerfile as the lists were made: with default arguments,
// for linux/amd64, on the same.
func corpusScan(t *testing.T, dir, target string) (*scanned, error) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	return scan(Options{Dockerfile: "Dockerfile", Target: target, Platform: "linux/amd64", Args: map[string]string{
		"BUILDPLATFORM": "linux/amd64", "BUILDOS": "linux", "BUILDARCH": "amd64",
	}}, text)
}

// listed writes sources as the lists do: clean, and as written where there is a
// pattern or pivot.
func listed(sources []source) []string {
	var out []string
	for _, s := range sources {
		if s.parents && strings.Contains(s.pattern, "/./") {
			out = append(out, s.pattern)
			continue
		}
		out = append(out, clean(s.pattern))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func TestSourcesOfPublicDockerfilesAreThoseListedByHand(t *testing.T) {
	for _, list := range corpusLists(t, "inputs.txt", 55) {
		dir := filepath.Dir(list)
		t.Run(filepath.Base(dir), func(t *testing.T) {
			sc, err := corpusScan(t, dir, "")
			if err != nil {
				t.Fatal(err)
			}
			if got, want := listed(sc.sources), linesOf(t, list); !slices.Equal(got, want) {
				t.Errorf("sources = %q\n   want %q", got, want)
			}
		})
	}
}

func TestSourcesOfSingleTargetsAreThoseListedByHand(t *testing.T) {
	for _, list := range corpusLists(t, "inputs.target-*.txt", 2) {
		dir := filepath.Dir(list)
		target := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(list), "inputs.target-"), ".txt")
		t.Run(filepath.Base(dir)+" "+target, func(t *testing.T) {
			sc, err := corpusScan(t, dir, target)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := listed(sc.sources), linesOf(t, list); !slices.Equal(got, want) {
				t.Errorf("sources = %q\n   want %q", got, want)
			}
		})
	}
}

// What comes from named contexts is no input; it is reported with what is read of
// it. The lists say so in words of their own, after the path.
func TestNamedContextsOfPublicDockerfilesAreReported(t *testing.T) {
	for _, list := range corpusLists(t, "inputs.named.txt", 5) {
		dir := filepath.Dir(list)
		t.Run(filepath.Base(dir), func(t *testing.T) {
			sc, err := corpusScan(t, dir, "")
			if err != nil {
				t.Fatal(err)
			}
			for _, line := range linesOf(t, list) {
				name, path, _ := strings.Cut(line, ":")
				path, _, _ = strings.Cut(path, " ")
				if !slices.ContainsFunc(sc.remote, func(r Remote) bool {
					return r.Kind == RemoteImage && r.Source == name && r.Line > 0 && (len(r.Paths) == 0 || slices.ContainsFunc(r.Paths, func(p string) bool {
						return strings.Contains(p, "$") || clean(p) == clean(path)
					}))
				}) {
					t.Errorf("%q is not reported in %+v", line, sc.remote)
				}
			}
		})
	}
}

func TestInputsOfPublicTreesAreThoseListedByHand(t *testing.T) {
	for _, list := range corpusLists(t, "context-after-ignore.txt", 9) {
		dir := filepath.Dir(list)
		t.Run(filepath.Base(dir), func(t *testing.T) {
			fsys := fstest.MapFS{}
			for _, p := range linesOf(t, filepath.Join(dir, "tree.txt")) {
				fsys[p] = &fstest.MapFile{Data: []byte(p)}
			}
			ignored, err := os.ReadFile(filepath.Join(dir, ".dockerignore"))
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}
			if err == nil {
				fsys[".dockerignore"] = &fstest.MapFile{Data: ignored}
			}
			// Whatever the tree's own says, everything is copied.
			fsys["Dockerfile"] = &fstest.MapFile{Data: []byte("FROM scratch\nCOPY . /\n")}
			in, err := Read(t.Context(), fsys, Options{Dockerfile: "Dockerfile"})
			if err != nil {
				t.Fatal(err)
			}
			got := slices.DeleteFunc(in.paths, func(p string) bool { return !slices.Contains(linesOf(t, filepath.Join(dir, "tree.txt")), p) })
			if want := linesOf(t, list); !slices.Equal(got, want) {
				t.Errorf("%d inputs, want %d\n%q\n%q", len(got), len(want), got, want)
			}
		})
	}
}

func TestDockerfilesOfOtherBuildersAreRefusedWithTheirLine(t *testing.T) {
	for name, want := range map[string]string{
		"buildkit__parser_flags":  "Dockerfile:3: unknown flag: --user",
		"idx_bind_relabel_podman": "Dockerfile:17: unexpected key 'relabel' in 'relabel=shared'",
	} {
		_, err := corpusScan(t, filepath.Join(corpus(t), name), "")
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: error = %v, want %s", name, err, want)
		}
	}
}
