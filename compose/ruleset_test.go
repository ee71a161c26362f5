package compose

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestNamesAndEditsOfRulesAreRead(t *testing.T) {
	for text, want := range map[string]string{
		"name = 'a-1'\npass = true": "",
		"pass = true\nedit = { status = 201, headers = { X-A = 'b', Via = false, C = ['d', 'e'] }, replace = { 'x' = 'y' } }": "",
		"name = '1a'\npass = true":                                        `2:8: error: name "1a" is no name`,
		"name = ''\npass = true":                                          "2:8: error: rules[0].name is empty",
		"respond = {}\nedit = { status = 200 }":                           "3:1: error: edit changes what is passed on, and this rule passes nothing",
		"pass = true\nedit = {}":                                          "3:8: error: rules[0].edit is empty",
		"pass = true\nedit = { status = 101 }":                            "3:19: error: status 101 announces",
		"pass = true\nedit = { body = 'x' }":                              `3:10: error: unknown key "body" in rules[0].edit`,
		"pass = true\nedit = { headers = { A = true } }":                  "3:26: error: rules[0].edit.headers.A is true",
		"pass = true\nedit = { headers = { Server = false } }":            `3:22: error: header "Server" cannot be removed`,
		"pass = true\nedit = { headers = { Content-Length = '1' } }":      `3:22: error: header "Content-Length" cannot be set`,
		"pass = true\nedit = { headers = { A = 1 } }":                     "3:26: error: rules[0].edit.headers.A must be a string",
		"pass = true\nedit = { replace = { a = 'a' } }":                   `3:26: error: "a" is replaced by itself`,
		"pass = true\nedit = { replace = { a = 1 } }":                     "3:26: error: rules[0].edit.replace.a must be a string",
		"pass = true\nedit = { replace = { '' = 'a' } }":                  "3:22: error: an empty text cannot be replaced",
		"pass = true\nset_state = \"a\\nb\"":                              `3:13: error: set_state "a\nb" has a control character`,
		"respond = { template = true, body = '{{define \"x\"}}{{end}}' }": "2:37: error: body is no template: define and block are not known here",
	} {
		file := filepath.Join(t.TempDir(), "f.toml")
		if err := os.WriteFile(file, []byte("[[rules]]\n"+text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		f, ps := LoadRules(file, "f.toml")
		switch {
		case want == "" && len(ps) > 0:
			t.Errorf("%s: %v", text, ps)
		case want == "":
			if rules, ok := f.For("a.test"); !ok || len(rules) != 1 {
				t.Errorf("%s: %+v", text, rules)
			}
		case len(ps) != 1 || !strings.HasPrefix(ps[0].String(), "f.toml:"+want):
			t.Errorf("%s: %v, want %s", text, ps, want)
		}
	}
}

// FuzzRules: what is found to be in order, the simulator takes; what it would not
// take has been told in the words of the file.
func FuzzRules(f *testing.F) {
	for _, s := range []string{
		"[[rules]]\npath='/a/*'\nquery={a='b'}\nheaders={X={regex='y'}}\nrespond={status=429,headers={A=['b']},json={c='{{uuid}}'},template=true}\n",
		"[[rules]]\nmethods=['GET']\nbody_json={a.b=1}\ndelay='1s'\njitter='2s'\npass=true\nedit={status=201,headers={A=false},replace={x='y'}}\n",
		"[[rules]]\nname='a'\nstate='x'\nset_state='y'\nafter=1\ntimes=2\nfault='reset'\n[[rules]]\nname='a'\nfault='truncate'\nrespond={status=400}\n",
		"rules=[{path_regex='^/(a|b)$',pass=true}]", "rules=[]", "rules=1", "[[rules]]\nbody_regex='('\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		var ps Problems
		defer func(began time.Time) {
			if took := time.Since(began); took > time.Minute {
				t.Errorf("it takes %s", took)
			}
		}(time.Now())
		r, doc := readTOML("f", content, &ps)
		if r == nil {
			return
		}
		r.rules(doc, nil, onPersona)
		for _, p := range ps {
			if strings.HasPrefix(p.Message, notTaken) && !strings.Contains(p.Message, "bodies of all rules") {
				t.Errorf("%q: %v", content, p)
			}
		}
	})
}
