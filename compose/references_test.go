package compose

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/template"
)

func TestReferencesIn(t *testing.T) {
	for text, want := range map[string][]substitution{
		"plain":                {},
		"$A-${B}":              {{name: "A"}, {name: "B"}},
		"$$A $${B} $$$C":       {{name: "C"}},
		"${A:-x${B-y}z} $C":    {{name: "A", operator: ":-", argument: "x${B-y}z"}, {name: "B", operator: "-", argument: "y"}, {name: "C"}},
		"${A:?say ${B}}":       {{name: "A", operator: ":?", argument: "say ${B}"}, {name: "B"}},
		"${A+}${B:+b}":         {{name: "A", operator: "+"}, {name: "B", operator: ":+", argument: "b"}},
		"$1 $ ${} ${1A} a$":    {},
		"${A":                  {},
		"${A:80}${B/x}":        {},
		"$é$A_1é":              {{name: "A_1"}},
		"${A:-}":               {{name: "A", operator: ":-"}},
		"\"${A:-{\"k\": 1}}\"": {{name: "A", operator: ":-", argument: "{\"k\": 1}"}},
	} {
		if got := referencesIn(text); !slices.Equal(got, want) {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
}

// namesByComposeGo are the variables that compose-go itself sees in a text.
func namesByComposeGo(text string) []string {
	return slices.Sorted(maps.Keys(template.ExtractVariables(map[string]any{"x": text}, template.DefaultPattern)))
}

func namesByUs(text string) []string {
	names := map[string]bool{}
	for _, r := range referencesIn(text) {
		names[r.name] = true
	}
	return sortedKeys(names)
}

func TestReferencesAreThoseThatComposeGoSees(t *testing.T) {
	corpus := os.Getenv("CTIS_CORPUS")
	if corpus == "" {
		if os.Getenv("CI") == "true" {
			t.Fatal("CTIS_CORPUS is not set; it must name the corpus in CI")
		}
		t.Skip("CTIS_CORPUS is not set: no corpus of Compose files to read")
	}
	files, err := filepath.Glob(filepath.Join(corpus, "compose", "*", "*.y*ml"))
	if err != nil || len(files) < 50 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	seen := 0
	for _, f := range files {
		content, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(content)) {
			want := namesByComposeGo(line)
			if slices.Contains(want, "") {
				continue // malformed, or in several lines: compose-go has no name for it
			}
			seen += len(want)
			if got := namesByUs(line); !slices.Equal(got, want) {
				t.Errorf("%s: %q: got %q, compose-go sees %q", f, line, got, want)
			}
		}
	}
	if seen < 100 {
		t.Errorf("only %d variables in %d files", seen, len(files))
	}
}

// FuzzReferences looks for texts that are read without end or beyond their end.
func FuzzReferences(f *testing.F) {
	for _, s := range []string{"$A", "${A:-${B}}", "$$", "${", "$", "${A:?}", "${A-{}}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, r := range referencesIn(text) {
			if r.name == "" || !strings.Contains(text, r.name) || !strings.Contains(text, r.argument) {
				t.Errorf("%q: %+v is not in it", text, r)
			}
		}
	})
}

func TestAssignmentsTellLines(t *testing.T) {
	content := "\ufeff# A=no\nA=1\r\nexport B = \"two\nC=no\\\"\n\"\nD='x\n$E'\nE: yes # $F\nF\n\n  G=\"$A\"\nA=again\n!=x\nnot a name\n"
	var got []string
	for _, a := range assignments(content) {
		got = append(got, strings.Join([]string{a.name, strings.Repeat("I", a.line), a.text, map[bool]string{true: "literal"}[a.literal]}, "|"))
	}
	want := []string{"A|II|1|", "B|III|\"two\nC=no\\\"\n\"|", "D|IIIIII|'x\n$E'|literal", "E|IIIIIIII|yes|", "F|IIIIIIIII||", "G|IIIIIIIIIII|\"$A\"|", "A|IIIIIIIIIIII|again|"}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}
