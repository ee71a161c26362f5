package api

import (
	"strings"
	"testing"
)

func TestPathGlobMatchesWholePaths(t *testing.T) {
	for _, c := range []struct{ glob, matches, not string }{
		{"/", "/", "|/a|//"},
		{"/a", "/a", "/a/|/ab|/b/a|/A|a"},
		{"/a/*", "/a/b|/a/|/a/b.c|/a/ü|/a/b\nc", "/a|/a/b/c|/a/b/"},
		{"/a/**", "/a/|/a/b/c|/a/b/|/a/\n", "/a|/b/a/c"},
		{"/a**", "/a|/ab|/a/b/c", "/b/a"},
		{"**", "/|/a/b|", ""},
		{"**/x", "/x|/a/b/x", "/xx|/x/y"},
		{"/*/x", "/a/x|//x", "/x|/a/b/x"},
		{"/v1*/x*.json", "/v1/x.json|/v10/xy.json", "/v1/xy/.json|/v1/x.jsonl"},
		{`/a\*b`, "/a*b", "/axb|/ab"},
		{`/a\?b\#c`, "/a?b#c", "/ab"},
		{`/a\\b`, `/a\b`, "/ab"},
		{"/a.b[c]+(d){2}|e$^", "/a.b[c]+(d){2}|e$^", "/axbc|/a"},
		{"/grüße/*", "/grüße/x", "/gruesse/x"},
	} {
		re, err := PathGlob(c.glob)
		if err != nil {
			t.Errorf("%q: %v", c.glob, err)
			continue
		}
		// In these, | stands between paths, but not in the glob that has one itself.
		split := func(s string) []string {
			if strings.Contains(c.glob, "|") {
				return strings.SplitN(s, "\x00", -1)
			}
			return strings.Split(s, "|")
		}
		for _, path := range split(c.matches) {
			if !re.MatchString(path) {
				t.Errorf("%q does not match %q", c.glob, path)
			}
		}
		for _, path := range split(c.not) {
			if re.MatchString(path) && c.not != "" {
				t.Errorf("%q matches %q", c.glob, path)
			}
		}
	}
}

func TestPathGlobRefusesWhatIsNoPath(t *testing.T) {
	for glob, want := range map[string]string{
		"":       "slash",
		"a":      "slash",
		"*":      "slash",
		"*/a":    "slash",
		"/***":   "three stars",
		"/a?b=c": `has a "?"`,
		"/a#b":   `has a "#"`,
		`/a\`:    "backslash",
	} {
		if _, err := PathGlob(glob); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", glob, err)
		}
	}
}

// A pattern either is refused or matches what it says: itself, where it has no
// star and no backslash.
func FuzzPathGlob(f *testing.F) {
	for _, s := range []string{"/", "/a/*", "**", `/\`, "/é*", "/a\xff*", "/[", "/a?", strings.Repeat("/**", 20)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, glob string) {
		re, err := PathGlob(glob)
		if err != nil {
			return
		}
		if !strings.ContainsAny(glob, `*\`) && (!re.MatchString(glob) || re.MatchString(glob+"x") || re.MatchString("/x"+glob)) {
			t.Errorf("%q compiles to %s", glob, re)
		}
		if strings.Count(glob, "*") > 0 && !strings.Contains(glob, `\`) && !re.MatchString(strings.ReplaceAll(glob, "*", "")) {
			t.Errorf("%q does not match with its stars empty", glob)
		}
	})
}
