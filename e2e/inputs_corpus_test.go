package e2e

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// corpusCases are source trees of public repositories, each under its own ignore
// file. CTIS_CORPUS names the directory they are in.
func corpusCases(t *testing.T) []buildCase {
	t.Helper()
	dir := os.Getenv("CTIS_CORPUS")
	if dir == "" {
		if os.Getenv("CI") == "true" {
			t.Fatal("CTIS_CORPUS is not set")
		}
		t.Log("CTIS_CORPUS is not set: no builder is asked about the trees of public repositories")
		return nil
	}
	trees, err := filepath.Glob(filepath.Join(dir, "dockerfile", "*", "tree.txt"))
	if err != nil || len(trees) < 10 {
		t.Fatalf("%d trees in the corpus, want 10 or more (%v)", len(trees), err)
	}
	var cases []buildCase
	for _, tree := range trees {
		text, err := os.ReadFile(tree)
		if err != nil {
			t.Fatal(err)
		}
		rules, err := os.ReadFile(filepath.Join(filepath.Dir(tree), ".dockerignore"))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		// The Dockerfile and the ignore file are the test's.
		files := slices.DeleteFunc(strings.Fields(string(text)), func(p string) bool { return p == "Dockerfile" || p == ".dockerignore" })
		if len(rules) > 0 {
			files = append(files, ".dockerignore="+string(rules))
		}
		cases = append(cases, buildCase{name: "tree of " + filepath.Base(filepath.Dir(tree)), files: files,
			parts: []part{{name: "everything", text: "COPY . /x"}}})
	}
	return cases
}
