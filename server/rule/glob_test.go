package rule

import (
	"strings"
	"testing"

	"github.com/linuxarena/ctis/server/api"
)

// TestGlobsEndForWhatClientsMakeUp: a path as long as a head may be, made for patterns
// that nearly match everywhere. Going back over them would not end.
func TestGlobsEndForWhatClientsMakeUp(t *testing.T) {
	long := "/" + strings.Repeat("a", 64<<10)
	for _, pattern := range []string{
		"/*a*a*a*a*a*b", "/**a**a**a**a**b", "/**a*a*a*a*b", "**" + strings.Repeat("a", 4000) + "b", "/*" + strings.Repeat("a", 4000) + "*b", "/" + strings.Repeat("*a", 1000) + "b", "/" + strings.Repeat("**a", 1000) + "b",
	} {
		g, err := compileGlob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		if g.match(long) {
			t.Errorf("%.20s matches", pattern)
		}
		if g.slow == nil && !g.match(long+"b") {
			t.Errorf("%.20s does not match with a b", pattern)
		}
	}
}

// TestGlobsMatchWhatTheirDefinitionDoes compares with the definition for every short
// pattern and path of a few characters.
func TestGlobsMatchWhatTheirDefinitionDoes(t *testing.T) {
	words := func(of []string, most int) []string {
		all := []string{""}
		for from, n := 0, 0; n < most; n++ {
			end := len(all)
			for _, w := range all[from:end] {
				for _, c := range of {
					all = append(all, w+c)
				}
			}
			from = end
		}
		return all
	}
	paths := words([]string{"a", "b", "/", "*"}, 5)
	for _, pattern := range words([]string{"a", "b", "/", "*", "**", `\*`}, 4) {
		re, err := api.PathGlob("/" + pattern)
		if err != nil {
			continue // the definition refuses it
		}
		g, err := compileGlob("/" + pattern)
		if err != nil {
			t.Fatalf("%q: %v", pattern, err)
		}
		for _, path := range paths {
			if got, want := g.match("/"+path), re.MatchString("/"+path); got != want {
				t.Fatalf("%q and %q: %v, by definition %v", "/"+pattern, "/"+path, got, want)
			}
		}
	}
}
