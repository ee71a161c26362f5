package compose

import (
	"context"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

// rawWords are marks of compose-go's own texts, which are not for people.
var rawWords = regexp.MustCompile(`interface \{\}|map\[|\[\]any|invalid compose project|mapstructure|decoding failed|%!|go-yaml|false schema|additional properties|json:|[^.]yaml: |\*types\.|strconv\.|has no better explanation|unsupported value &`)

func TestMistakesAreNamedInPlainWordsAtTheirPlace(t *testing.T) {
	const file = "testdata/mistakes.txtar"
	a, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if len(a.Files) < 2*60 {
		t.Fatalf("only %d files", len(a.Files))
	}
	for i := 0; i < len(a.Files); i += 2 {
		name, ok := strings.CutSuffix(a.Files[i].Name, ".yaml")
		if !ok || a.Files[i+1].Name != name+".want" {
			t.Fatalf("%s is not followed by what is wanted", a.Files[i].Name)
		}
		t.Run(name, func(t *testing.T) {
			if !*update {
				t.Parallel()
			}
			dir := writeEnvironment(t, plainTOML, string(a.Files[i].Data))
			_, ps := Load(context.Background(), Options{Dir: dir, Environ: []string{"EMPTY="}})
			got := render(ps, dir)
			if !ps.HasErrors() {
				t.Error("no error")
			}
			for _, p := range ps {
				if p.Severity == SeverityError && (p.Line == 0 || p.Line == 1 && p.Column == 1) {
					t.Errorf("no position: %s", got)
				}
			}
			if m := rawWords.FindString(got); m != "" {
				t.Errorf("%q leaks: %s", m, got)
			}
			if *update {
				a.Files[i+1].Data = []byte(got)
			} else if want := string(a.Files[i+1].Data); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
	if *update {
		if err := os.WriteFile(file, txtar.Format(a), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
