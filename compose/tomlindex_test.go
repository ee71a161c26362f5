package compose

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/BurntSushi/toml"
	"github.com/rogpeppe/go-internal/txtar"
)

func TestTOMLIndexFindsKeysAndValuesInEveryForm(t *testing.T) {
	const src = `# comment with [brackets] and "quotes"
top = "a # no comment"
dotted . key."with.dot" = 'b'
multi = """
fake = 1
[fake]
""" # after
literal = '''
"""
x = [1]'''
array = [ # comment ]
  "one", 'two',
  { inline = 3, "q u" = [4, 5] },
  [ "nested" ],
]
date = 1979-05-27 07:32:00
inline = { a.b = 1, c = { d = "}" } }

[table."quoted name".sub]
key = true
[[list]]
k = 1
[[list]]
k = 2
[list.inner]
deep = "\u0061\"]"
[[list.rules]]
r = 1
[ spaced . out ]
z=-1.5
"\u00fc" = 1
`
	if _, err := toml.Decode(src, &map[string]any{}); err != nil {
		t.Fatal(err)
	}
	x := indexTOML("f", src)
	for _, c := range []struct {
		path       []string
		key, value string
	}{
		{[]string{"top"}, "2:1", "2:7"},
		{[]string{"dotted"}, "3:1", "3:1"},
		{[]string{"dotted", "key"}, "3:10", "3:10"},
		{[]string{"dotted", "key", "with.dot"}, "3:14", "3:27"},
		{[]string{"multi"}, "4:1", "4:9"},
		{[]string{"fake"}, "1:1", "1:1"},
		{[]string{"literal"}, "8:1", "8:11"},
		{[]string{"array"}, "11:1", "11:9"},
		{[]string{"array", elem(0)}, "12:3", "12:3"},
		{[]string{"array", elem(1)}, "12:10", "12:10"},
		{[]string{"array", elem(2), "inline"}, "13:5", "13:14"},
		{[]string{"array", elem(2), "q u", elem(1)}, "13:29", "13:29"},
		{[]string{"array", elem(3), elem(0)}, "14:5", "14:5"},
		{[]string{"date"}, "16:1", "16:8"},
		{[]string{"inline", "a", "b"}, "17:14", "17:18"},
		{[]string{"inline", "c", "d"}, "17:27", "17:31"},
		{[]string{"table", "quoted name"}, "19:8", "19:8"},
		{[]string{"table", "quoted name", "sub", "key"}, "20:1", "20:7"},
		{[]string{"list", elem(0)}, "21:3", "21:3"},
		{[]string{"list", elem(1)}, "23:3", "23:3"},
		{[]string{"list", elem(0), "k"}, "22:1", "22:5"},
		{[]string{"list", elem(1), "k"}, "24:1", "24:5"},
		{[]string{"list", elem(1), "inner", "deep"}, "26:1", "26:8"},
		{[]string{"list", elem(1), "rules", elem(0), "r"}, "28:1", "28:5"},
		{[]string{"spaced", "out", "z"}, "30:1", "30:3"},
		{[]string{"spaced", "out", "ü"}, "31:1", "31:12"},
		{[]string{"top", "no", "such"}, "2:1", "2:1"},
	} {
		if got := at(x.key(c.path...)); got != c.key {
			t.Errorf("key %q is at %s, want %s", c.path, got, c.key)
		}
		if got := at(x.value(c.path...)); got != c.value {
			t.Errorf("value of %q is at %s, want %s", c.path, got, c.value)
		}
	}
}

func at(p place) string { return fmt.Sprintf("%d:%d", p.Line, p.Column) }

func TestColumnsCountCharacters(t *testing.T) {
	_, ps := ParseConfig("f", []byte("network = 'é'\n'ünknown' = { 'é' = 1 } # ü\ncompose_files = ['é', 5]\n"))
	if got := ps.sorted(nil).String(); got != "f:2:1 f:3:23" {
		t.Errorf("problems at %s", got)
	}
}

func TestPlacesAreTheSameInWhateverOrderTheyAreAskedFor(t *testing.T) {
	src := "network = 'é'\n\n[[personas.\"ä.b\".rules]]\nrespnd = 1\npath = '/x'"
	x := indexTOML("f", src)
	for i := range src {
		for j := range src {
			for _, offset := range []int{i, j} {
				if got, want := x.place(offset), placeIn("f", src, offset); got != want {
					t.Fatalf("offset %d after %d: %v, not %v", offset, i, got, want)
				}
			}
		}
	}
}

func (p Problems) String() string {
	var at []string
	for _, q := range p {
		at = append(at, fmt.Sprintf("%s:%d:%d", q.File, q.Line, q.Column))
	}
	return strings.Join(at, " ")
}

// Whatever the library accepts, the index must know where each key is, and
// whatever the input, reading a config must end and report inside the file.
func FuzzParseConfig(f *testing.F) {
	for _, s := range []string{
		"network = 'x'\n[personas.\"a.b\"]\nendpoints = ['data']\n", "a = [[1], {b = 2}]", "[[x]]\n[[x.y]]\n[x.y.z]\nk=1",
		"a.b.c = 1\n[d]\n\"e\" = '''\nx'''", "x = {a = [\n1, # c\n]}", "\ufeffnetwork=''", "a = \"\\", "[", "[[", "a = [", "a={", "=", "'", "a=1979-05-27T07:32:00Z",
	} {
		f.Add(s)
	}
	stories, _ := filepath.Glob("testdata/load/*.txtar")
	for _, story := range stories {
		if a, err := txtar.ParseFile(story); err == nil {
			f.Add(fileIn(a, ConfigFile))
		}
	}
	f.Fuzz(func(t *testing.T, src string) {
		c, ps := ParseConfig("f", []byte(src))
		lines := strings.Split(strings.TrimPrefix(src, "\ufeff"), "\n")
		for _, p := range ps {
			if p.Line < 1 || p.Line > len(lines) || p.Column < 1 || p.Message == "" {
				t.Errorf("%+v", p)
			} else if width := utf8.RuneCountInString(lines[p.Line-1]); p.Column > width+1 {
				t.Errorf("%+v, but the line has %d characters", p, width)
			}
		}
		if c == nil {
			return
		}
		meta, err := toml.Decode(strings.TrimPrefix(src, "\ufeff"), &map[string]any{})
		if err != nil {
			t.Fatal("accepted, but not by the library")
		}
		for _, key := range meta.Keys() {
			if strings.ContainsAny(key[0], "\x00\x01") {
				continue
			}
			if c.index.order(key[0]) < 0 {
				t.Errorf("key %q has no place in %q", key, src)
			}
		}
	})
}

func TestWhatIsNoTOMLIsSaidAsPartOfALine(t *testing.T) {
	for src, want := range map[string]string{"network = \"a\x00\"": "TOML files cannot contain control characters", "a = ": "expected value"} {
		if _, err := decodeTOML(src); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, not %q", src, err, want)
		}
	}
}
