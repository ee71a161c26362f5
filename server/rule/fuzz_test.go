package rule

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/linuxarena/ctis/server/api"
)

// FuzzGlob: the quick form of a pattern matches what the pattern means.
func FuzzGlob(f *testing.F) {
	for _, seed := range [][2]string{
		{"/a/*", "/a/b"}, {"/a/**", "/a/b/c"}, {"**x", "/a/x"}, {"/*a*b*", "/xaabxb"}, {"/**a**b", "/aab"}, {"/**/v*/x", "/a/v1/x"},
		{`/\*`, "/*"}, {"/é*", "/é\xff"}, {"/**a/b**/", "/a/a/b/b/"}, {"/*", "/\xff\xfe"}, {"**", ""},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, pattern, path string) {
		re, err := api.PathGlob(pattern)
		g, err2 := compileGlob(pattern)
		if (err == nil) != (err2 == nil) {
			t.Fatalf("%q: %v, but %v", pattern, err, err2)
		}
		// A regular expression takes a byte that is no text for U+FFFD, and so takes one
		// kind for another.
		if err != nil || !utf8.ValidString(pattern) || !utf8.ValidString(path) {
			return
		}
		if want, got := re.MatchString(path), g.match(path); want != got {
			t.Errorf("%q and %q: %v, want %v", pattern, path, got, want)
		}
	})
}

// FuzzRule: whatever is registered and whatever is asked, a rule is refused or
// decides; what explains it says the same; and its answer ends.
func FuzzRule(f *testing.F) {
	for _, c := range matchCases {
		c.rule.Pass = true
		b, err := json.Marshal(c.rule)
		if err != nil {
			f.Fatal(err)
		}
		for _, q := range append(append([]string{}, c.yes...), c.not...) {
			f.Add(b, q)
		}
	}
	f.Add([]byte(`{"respond":{"status":200,"template":true,"json":true,"body":"eyJhIjoie3suTWV0aG9kfX0ifQ=="}}`), "GET /")
	f.Fuzz(func(t *testing.T, b []byte, text string) {
		var r api.Rule
		if json.Unmarshal(b, &r) != nil {
			return
		}
		began := time.Now()
		set, err := Compile([]api.Rule{r})
		if err != nil {
			return
		}
		h := NewHost("t1", "a.test", 0, set)
		for range 3 {
			q := request(text)
			v := h.Explain(q)[0]
			fired, effect := h.Decide(q)
			if v.Fires != (fired.Rule != nil) || v.Fires != (v.Why == "") || v.Fires && effect == nil {
				t.Fatalf("%s takes %q: %v, explained as %+v", b, text, fired.Rule != nil, v)
			}
			if fired.Rule == nil {
				continue
			}
			fired.Rule.Wait(&fired)
			if r.Respond != nil {
				answered(t, &fired, q)
			}
		}
		if took := time.Since(began); took > time.Minute {
			t.Errorf("it takes %s", took)
		}
	})
}

// answered makes an answer and looks whether it can be sent.
func answered(t *testing.T, fired *Firing, q *Request) {
	headers, body, err := fired.Answer(q)
	if err != nil {
		return
	}
	for _, h := range headers {
		if !legalValue(h[1]) {
			t.Errorf("header %q", h)
		}
	}
	if fired.Rule.Respond.JSON && !json.Valid(body) {
		t.Errorf("the body is no JSON: %q", body)
	}
	if len(body) > maxOutput*7+api.MaxRuleBodies { // encoding makes six bytes of one
		t.Errorf("%d bytes", len(body))
	}
}

// FuzzTemplate: a template is refused, fails, or gives something in time.
func FuzzTemplate(f *testing.F) {
	for _, s := range []string{
		"{{.}}", "{{range 1000000000}}{{end}}", `{{$x := "x"}}{{range 99}}{{$x = print $x $x}}{{end}}`, `{{range $i, $e := .JSON}}{{json $e}}{{else}}{{.Body}}{{end}}`,
		`{{printf "%9999d" 1}}`, `{{.Query "q"}}{{.Header "h"}}{{.Cookie "c"}}{{.Form "f"}}{{.Value "a.b"}}{{.Match 0}}`, `{{random "hex" 9}}{{uuid}}{{now "x" "1h"}}{{hash "md5" .Body}}{{base64 "decode" .Body}}`,
		`{{if and (eq 1 1) (lt 1 2)}}{{len .Body}}{{end}}`, `{{with $y := .Path}}{{slice $y 0 1}}{{index $y 0}}{{end}}`, `{{range 9}}{{break}}{{continue}}{{end}}`, `{{html .Body}}{{js .Body}}{{urlquery .Body}}`, `{{call .Path}}`, `{{- /* */ -}}`,
	} {
		f.Add(s, `{"a":{"b":[1,2]}}`)
	}
	f.Fuzz(func(t *testing.T, text, content string) {
		r := templated(text)
		r.Respond.Headers = [][2]string{{"X", "{{.Body}}"}}
		set, err := Compile([]api.Rule{r})
		if err != nil {
			return
		}
		h := NewHost("t1", "a.test", 0, set)
		q := request("POST /path?q=1 | H: h")
		q.Body = Text(strings.Repeat(content, 1+len(content)%7))
		fired, _ := h.Decide(q)
		began := time.Now()
		answered(t, &fired, q)
		if took := time.Since(began); took > time.Minute {
			t.Errorf("it takes %s", took)
		}
	})
}

// FuzzJSON: what is found in a document is what encoding/json finds.
func FuzzJSON(f *testing.F) {
	for _, s := range []string{`{"a":{"b":[1,{"c":null}]}}`, ` [ "x" , 1e5 ] `, `{"a":1,"a":{"b":2}}`, `{"\u0061":{"b":"\ud83d\udc4b"}}`, `"x"`, "{\"a\":{\"b\":\"\xff\"}}", `{"a":{"b":-0.10e-2}}`, `{"a":{}}`} {
		f.Add([]byte(s), "/a/b", "1")
	}
	f.Add([]byte(`"C:\new"`), "", `"C:\\new"`) // a line end, and a backslash
	f.Fuzz(func(t *testing.T, doc []byte, pointer, want string) {
		tokens, err := pointerTokens(pointer)
		if err != nil || !json.Valid(doc) || !utf8.ValidString(pointer) {
			return
		}
		raw, ok := lookup(doc, tokens)
		v, err := decodeJSON(doc)
		if err != nil {
			t.Fatal(err)
		}
		expected, there := v, true
		for _, token := range tokens {
			switch x := expected.(type) {
			case map[string]any:
				expected, there = x[token]
			case []any:
				n := -1
				for i := range x {
					if token == itoa(i) {
						n = i
					}
				}
				if there = n >= 0; there {
					expected = x[n]
				}
			default:
				there = false
			}
			if !there {
				break
			}
		}
		if ok != there {
			t.Fatalf("%q in %q: found is %v, want %v", pointer, doc, ok, there)
		}
		if !ok {
			return
		}
		found, err := decodeJSON(raw)
		if err != nil || !same(found, expected) {
			t.Fatalf("%q in %q is %q, %v; want %v", pointer, doc, raw, err, expected)
		}
		c, err := compileJSONValue(api.JSONValue{Value: []byte(want)})
		if err != nil {
			return
		}
		if got, want := c.equals(raw), same(found, c.want); got != want {
			t.Errorf("%q equals %q: %v, want %v", raw, c.text, got, want)
		}
	})
}

func itoa(n int) string { b, _ := json.Marshal(n); return string(b) }
