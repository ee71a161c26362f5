package rule

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/linuxarena/ctis/server/api"
)

// request reads a request as the table below writes it: "METHOD TARGET", then
// headers and, behind "||", the body.
func request(text string) *Request {
	head, body, _ := strings.Cut(text, " || ")
	parts := strings.Split(head, " | ")
	method, target, _ := strings.Cut(parts[0], " ")
	path, rawQuery, _ := strings.Cut(target, "?")
	q := &Request{Method: method, Scheme: "https", Host: "a.test", Target: target, Path: DecodePath(path), RawQuery: rawQuery}
	for _, h := range parts[1:] {
		name, value, _ := strings.Cut(h, ": ")
		q.Headers = append(q.Headers, [2]string{name, value})
	}
	if body != "" {
		q.Body = Text(body)
	}
	return q
}

func is(name, value string) []api.Condition {
	return []api.Condition{{Name: name, Op: api.OpIs, Value: value}}
}

func matches(name, re string) []api.Condition {
	return []api.Condition{{Name: name, Op: api.OpMatches, Value: re}}
}

func present(name string) []api.Condition { return []api.Condition{{Name: name, Op: api.OpPresent}} }
func absent(name string) []api.Condition  { return []api.Condition{{Name: name, Op: api.OpAbsent}} }

func jsonAt(pointer, value string) []api.JSONValue {
	return []api.JSONValue{{Pointer: pointer, Value: []byte(value)}}
}

// matchCases are rules with what they take and near misses.
var matchCases = []struct {
	what     string
	rule     api.Rule
	yes, not []string
	why      string // a near miss is told to fail in
}{
	{"anything", api.Rule{}, []string{"GET /", "POST /a?b=c | X: y || z", "OPTIONS *", "GET http://a.test/"}, nil, ""},
	{"a method", api.Rule{Methods: []string{"POST"}}, []string{"POST /"}, []string{"GET /", "post /", "POSTS /", "POS /"}, "methods"},
	{"methods", api.Rule{Methods: []string{"PUT", "PATCH"}}, []string{"PUT /x", "PATCH /x"}, []string{"POST /x", "DELETE /x"}, "methods"},
	{"a path", api.Rule{Path: "/a/b"}, []string{"GET /a/b", "GET /a/b?x", "GET /a%2Fb", "GET /%61/b"}, []string{"GET /a/b/", "GET /a", "GET /a/bc", "GET //a/b", "GET /A/b", "GET /a/b%20", "GET /a%252Fb"}, "path"},
	{"the root", api.Rule{Path: "/"}, []string{"GET /", "GET /?x=1"}, []string{"GET //", "GET /a", "GET *"}, "path"},
	{"a star", api.Rule{Path: "/u/*/x"}, []string{"GET /u/1/x", "GET /u//x", "GET /u/a.b/x", "GET /u/%20/x"}, []string{"GET /u/1/2/x", "GET /u/1%2F2/x", "GET /u/x", "GET /u/1/x/", "GET /u/1/y"}, "path"},
	{"stars in a segment", api.Rule{Path: "/*a*b"}, []string{"GET /ab", "GET /xaxb", "GET /aab", "GET /abab"}, []string{"GET /ba", "GET /a/b", "GET /abx", "GET /x/ab"}, "path"},
	{"two stars", api.Rule{Path: "/pkg/**"}, []string{"GET /pkg/", "GET /pkg/a", "GET /pkg/a/b/c.whl"}, []string{"GET /pkg", "GET /pkgs/a", "GET /x/pkg/a"}, "path"},
	{"two stars before", api.Rule{Path: "**/latest"}, []string{"GET /latest", "GET /a/b/latest"}, []string{"GET /latest/", "GET /latests", "GET /a/lates"}, "path"},
	{"two stars between", api.Rule{Path: "/a**z"}, []string{"GET /az", "GET /a/b/z", "GET /azz"}, []string{"GET /a/b", "GET /az/", "GET /b/az"}, "path"},
	{"both kinds of stars", api.Rule{Path: "/**/v*/x"}, []string{"GET /a/v1/x", "GET /a/b/v/x", "GET //v2/x", "GET /v0/v1/x"}, []string{"GET /v1/x", "GET /a/v1/2/x", "GET /a/w1/x"}, "path"},
	{"an escaped star", api.Rule{Path: `/a\*`}, []string{"GET /a*", "GET /a%2A"}, []string{"GET /ab", "GET /a"}, "path"},
	{"a question mark in a path", api.Rule{Path: `/a\?b`}, []string{"GET /a%3Fb"}, []string{"GET /a?b", "GET /ab"}, "path"},
	{"no letters of ASCII", api.Rule{Path: "/grüße"}, []string{"GET /gr%C3%BC%C3%9Fe", "GET /grüße"}, []string{"GET /grusse", "GET /gr%FC%DFe"}, "path"},
	{"an expression", api.Rule{PathRegex: `^/v[12]/`}, []string{"GET /v1/", "GET /v2/x"}, []string{"GET /v3/", "GET /x/v1/", "GET /v1", "GET /V1/"}, "path_regex"},
	{"an expression anywhere", api.Rule{PathRegex: `\.(exe|dll)$`}, []string{"GET /a.exe", "GET /b/c.dll", "GET /x%2Eexe"}, []string{"GET /a.exe.txt", "GET /exe", "GET /a.EXE"}, "path_regex"},
	{"an expression that folds case", api.Rule{PathRegex: `(?i)^/admin`}, []string{"GET /admin", "GET /AdMiN/x"}, []string{"GET /x/admin", "GET /admi"}, "path_regex"},
	{"an expression with a choice", api.Rule{PathRegex: `^/(login|logout)$`}, []string{"GET /login", "GET /logout"}, []string{"GET /log", "GET /logins"}, "path_regex"},
	{"a parameter", api.Rule{Query: is("page", "2")}, []string{"GET /?page=2", "GET /?a=b&page=2", "GET /?page=1&page=2", "GET /?p%61ge=%32", "GET /?page=2&"}, []string{"GET /", "GET /?page=1", "GET /?page=22", "GET /?Page=2", "GET /?page", "GET /?page=2%20", "GET /?xpage=2", "GET /?page=1;page=2"}, "query"},
	{"a parameter with a space", api.Rule{Query: is("q", "a b")}, []string{"GET /?q=a+b", "GET /?q=a%20b"}, []string{"GET /?q=a%2Bb", "GET /?q=ab", "GET /?q=a b c"}, "query"},
	{"an empty parameter", api.Rule{Query: is("q", "")}, []string{"GET /?q=", "GET /?q"}, []string{"GET /?q=x", "GET /"}, "query"},
	{"a broken escape", api.Rule{Query: is("q", "100%")}, []string{"GET /?q=100%", "GET /?q=100%25"}, []string{"GET /?q=100%2", "GET /?q=100"}, "query"},
	{"a parameter that matches", api.Rule{Query: matches("id", `^\d+$`)}, []string{"GET /?id=12", "GET /?id=x&id=3", "GET /?id=%31"}, []string{"GET /?id=1x", "GET /?id=", "GET /?ids=1"}, "query"},
	{"a parameter at all", api.Rule{Query: present("debug")}, []string{"GET /?debug", "GET /?debug=0"}, []string{"GET /", "GET /?bug", "GET /debug"}, "query"},
	{"no parameter", api.Rule{Query: absent("token")}, []string{"GET /", "GET /?tokens=1"}, []string{"GET /?token", "GET /?a&token=1"}, "query"},
	{"two parameters", api.Rule{Query: append(is("a", "1"), is("b", "2")...)}, []string{"GET /?a=1&b=2", "GET /?b=2&x&a=1"}, []string{"GET /?a=1", "GET /?b=2", "GET /?a=2&b=1"}, "query"},
	{"a header", api.Rule{Headers: is("X-Client", "curl")}, []string{"GET / | X-Client: curl", "GET / | x-client: curl", "GET / | X-CLIENT: wget | X-Client: curl"}, []string{"GET /", "GET / | X-Client: Curl", "GET / | X-Client: curl/8", "GET / | X-Clients: curl", "GET / | X_Client: curl"}, "headers"},
	{"a header that matches", api.Rule{Headers: matches("User-Agent", `^python-requests/`)}, []string{"GET / | User-Agent: python-requests/2.32", "GET / | user-agent: python-requests/"}, []string{"GET / | User-Agent: my python-requests/2", "GET / | User-Agent: Python-Requests/2"}, "headers"},
	{"a header at all", api.Rule{Headers: present("Authorization")}, []string{"GET / | authorization: ", "GET / | Authorization: Bearer x"}, []string{"GET /", "GET / | Proxy-Authorization: x"}, "headers"},
	{"no header", api.Rule{Headers: absent("Cookie")}, []string{"GET /", "GET / | Cookie2: x"}, []string{"GET / | Cookie: a=1", "GET / | cookie: "}, "headers"},
	{"the host", api.Rule{Headers: is("Host", "a.test")}, []string{"GET /"}, nil, ""},
	{"another host", api.Rule{Headers: is("Host", "b.test")}, nil, []string{"GET /", "GET / | Host: b.test"}, "headers"},
	{"a text in the body", api.Rule{BodyContains: "pass word"}, []string{"POST / || pass word", "POST / || the pass word is", "POST / || ppass word"}, []string{"POST /", "POST / || password", "POST / || pass  word", "POST / || Pass word", "POST / || pass wor", "GET /pass%20word"}, "body_contains"},
	{"an expression in the body", api.Rule{BodyRegex: `AKIA[0-9A-Z]{16}`}, []string{"POST / || key=AKIA0123456789ABCDEF"}, []string{"POST /", "POST / || AKIA0123456789ABCDE", "POST / || akia0123456789ABCDEF", "POST /AKIA0123456789ABCDEF"}, "body_regex"},
	{"the whole body", api.Rule{BodyRegex: `\A(a|b)*\z`}, []string{"POST / || abba", "POST /"}, []string{"POST / || abc", "POST / || ab "}, "body_regex"},
	{"a text in JSON", api.Rule{BodyJSON: jsonAt("/user/name", `"root"`)}, []string{`POST / || {"user":{"name":"root"}}`, `POST / ||  { "x":[{"user":1}], "user" : {"id":1,"name" :"root"} } `, `POST / || {"user":{"name":"x","name":"root"}}`, `POST / || {"us\u0065r":{"name":"ro\u006ft"}}`}, []string{`POST / || {"user":{"name":"Root"}}`, `POST / || {"user":{"name":["root"]}}`, `POST / || {"user":"root"}`, `POST / || {"name":"root"}`, `POST / || {"user":{"name":"root","name":"x"}}`, `POST / || {"user":{"name":"root"}`, `POST / || {"user":{"name":"root"}} x`, `POST /`, `POST / || [{"user":{"name":"root"}}]`, `POST / || {"user.name":"root"}`}, "body_json"},
	{"a number in JSON", api.Rule{BodyJSON: jsonAt("/n", "10")}, []string{`POST / || {"n":10}`, `POST / || {"n":10.0}`, `POST / || {"n":1e1}`, `POST / || {"n":100E-1}`}, []string{`POST / || {"n":"10"}`, `POST / || {"n":1}`, `POST / || {"n":100}`, `POST / || {"n":-10}`, `POST / || {"n":10.01}`, `POST / || {"n":1e9999999999999}`}, "body_json"},
	{"a large number in JSON", api.Rule{BodyJSON: jsonAt("/n", "12345678901234567890")}, []string{`POST / || {"n":12345678901234567890}`, `POST / || {"n":12345678901234567890.0}`}, []string{`POST / || {"n":12345678901234567891}`, `POST / || {"n":1.2345678901234568e19}`}, "body_json"},
	{"nothing in numbers", api.Rule{BodyJSON: jsonAt("/n", "0")}, []string{`POST / || {"n":0}`, `POST / || {"n":-0.00}`, `POST / || {"n":0e7}`}, []string{`POST / || {"n":1}`, `POST / || {"n":null}`, `POST / || {"n":false}`}, "body_json"},
	{"a truth in JSON", api.Rule{BodyJSON: jsonAt("/ok", "true")}, []string{`POST / || {"ok":true}`}, []string{`POST / || {"ok":false}`, `POST / || {"ok":"true"}`, `POST / || {"ok":1}`, `POST / || {"ok":null}`}, "body_json"},
	{"null in JSON", api.Rule{BodyJSON: jsonAt("/x", "null")}, []string{`POST / || {"x":null}`}, []string{`POST / || {}`, `POST / || {"x":0}`, `POST / || {"x":"null"}`}, "body_json"},
	{"an element", api.Rule{BodyJSON: jsonAt("/a/1", `"b"`)}, []string{`POST / || {"a":["a","b"]}`, `POST / || {"a":[[],"b",{}]}`, `POST / || {"a":{"1":"b"}}`}, []string{`POST / || {"a":["b"]}`, `POST / || {"a":["b","a"]}`, `POST / || {"a":"b"}`}, "body_json"},
	{"an odd element", api.Rule{BodyJSON: jsonAt("/01", `1`)}, []string{`POST / || {"01":1}`}, []string{`POST / || [0,1]`, `POST / || {"1":1}`}, "body_json"},
	{"a list", api.Rule{BodyJSON: jsonAt("/a", `[1,{"b":2,"c":[]}]`)}, []string{`POST / || {"a":[1,{"c":[],"b":2.0}]}`}, []string{`POST / || {"a":[1,{"b":2}]}`, `POST / || {"a":[{"b":2,"c":[]},1]}`, `POST / || {"a":[1,{"b":2,"c":[],"d":0}]}`, `POST / || {"a":{}}`}, "body_json"},
	{"an empty object", api.Rule{BodyJSON: jsonAt("", `{}`)}, []string{`POST / || {}`, `POST / || { } `}, []string{`POST / || []`, `POST / || {"a":1}`, `POST / || "{}"`}, "body_json"},
	{"names with slashes", api.Rule{BodyJSON: jsonAt("/a~1b/c~0d", `1`)}, []string{`POST / || {"a/b":{"c~d":1}}`}, []string{`POST / || {"a":{"b":{"c~d":1}}}`, `POST / || {"a~1b":{"c~0d":1}}`}, "body_json"},
	{"text of many bytes", api.Rule{BodyJSON: jsonAt("/t", `"grüße 👋"`)}, []string{`POST / || {"t":"grüße 👋"}`, `POST / || {"t":"gr\u00fc\u00dfe \ud83d\udc4b"}`}, []string{`POST / || {"t":"grüße"}`, "POST / || {\"t\":\"gr\xfc\xdfe\"}"}, "body_json"},
	{"a backslash in JSON", api.Rule{BodyJSON: jsonAt("/p", `"C:\\new"`)}, []string{`POST / || {"p":"C:\\new"}`, `POST / || {"p":"C:\u005cnew"}`}, []string{`POST / || {"p":"C:\new"}`, `POST / || {"p":"C:new"}`, `POST / || {"p":"C:\\\\new"}`}, "body_json"},
	{"a replaced byte in JSON", api.Rule{BodyJSON: jsonAt("/p", `"a\ufffd"`)}, []string{`POST / || {"p":"a\ufffd"}`, "POST / || {\"p\":\"a\xff\"}", "POST / || {\"p\":\"a\ufffd\"}"}, []string{`POST / || {"p":"a"}`, `POST / || {"p":"a\ufffdb"}`}, "body_json"},
	{"a negative number in JSON", api.Rule{BodyJSON: jsonAt("/n", "-7")}, []string{`POST / || {"n":-7}`, `POST / || {"n":-70e-1}`}, []string{`POST / || {"n":7}`, `POST / || {"n":-77}`}, "body_json"},
	{"cookies in pieces", api.Rule{Headers: is("Cookie", "a=1; b=2")}, []string{"GET / | Cookie: a=1; b=2", "GET / | cookie: a=1 | x: y | cookie: b=2"}, []string{"GET / | Cookie: b=2; a=1", "GET / | cookie: b=2 | cookie: a=1", "GET / | cookie: a=1", "GET / | cookies: a=1; b=2", "GET / | cookie: a=1 | cookie: b=2 | cookie: c=3"}, "headers"},
	{"several cookies", api.Rule{Headers: matches("cookie", `^a=1; (.*; )?c=3$`)}, []string{"GET / | Cookie: a=1; c=3", "GET / | cookie: a=1 | cookie: b=2 | cookie: c=3"}, []string{"GET / | cookie: a=1", "GET / | cookie: c=3", "GET / | cookie: c=3 | cookie: a=1"}, "headers"},
	{"no cookies", api.Rule{Headers: absent("Cookie")}, []string{"GET /", "GET / | Cookies: a=1"}, []string{"GET / | Cookie: a=1", "GET / | cookie: a=1 | cookie: b=2", "GET / | cookie: "}, "headers"},
	{"a host in any case", api.Rule{Headers: is("host", "a.test")}, []string{"GET /", "GET / | Host: b.test"}, nil, "headers"},
	{"two values", api.Rule{BodyJSON: append(jsonAt("/a", "1"), jsonAt("/b", "2")...)}, []string{`POST / || {"a":1,"b":2}`}, []string{`POST / || {"a":1}`, `POST / || {"a":2,"b":1}`}, "body_json"},
	{"everything at once", api.Rule{Methods: []string{"POST"}, Path: "/api/*", Query: is("v", "1"), Headers: present("X-Key"), BodyContains: "a", BodyRegex: "a", BodyJSON: jsonAt("/a", "1")},
		[]string{`POST /api/x?v=1 | X-Key: k || {"a":1}`},
		[]string{`PUT /api/x?v=1 | X-Key: k || {"a":1}`, `POST /api/x/y?v=1 | X-Key: k || {"a":1}`, `POST /api/x?v=2 | X-Key: k || {"a":1}`, `POST /api/x?v=1 || {"a":1}`, `POST /api/x?v=1 | X-Key: k || {"b":1}`, `POST /api/x?v=1 | X-Key: k || {"a":2}`}, ""},
}

func TestRulesTakeWhatTheySayAndNearlyTheSameNot(t *testing.T) {
	cases := 0
	for _, c := range matchCases {
		c.rule.Pass = true
		set, err := Compile([]api.Rule{c.rule})
		if err != nil {
			t.Errorf("%s: %v", c.what, err)
			continue
		}
		for i, text := range append(append([]string{}, c.yes...), c.not...) {
			cases++
			want := i < len(c.yes)
			h := NewHost("t1", "a.test", 0, set)
			explained := h.Explain(request(text))[0]
			f, effect := h.Decide(request(text))
			if got := f.Rule != nil; got != want || got != (effect != nil) || explained.Fires != want {
				t.Errorf("%s: %q: taken is %v, explained as %+v", c.what, text, got, explained)
			}
			if !want && !strings.HasPrefix(explained.Why, c.why) {
				t.Errorf("%s: %q: %s", c.what, text, explained.Why)
			}
		}
	}
	if cases < 150 {
		t.Errorf("only %d cases", cases)
	}
	t.Logf("%d cases", cases)
}

// TestPlacesOfOneBodyAreNotMixed: what is at a place is found once for all rules, and
// there are more places than are kept.
func TestPlacesOfOneBodyAreNotMixed(t *testing.T) {
	var rules []api.Rule
	for i := range 20 {
		rules = append(rules, api.Rule{BodyJSON: jsonAt("/"+strconv.Itoa(i), `"x"`), Pass: true})
	}
	for i := range 20 {
		rules = append(rules, api.Rule{BodyJSON: jsonAt("/"+strconv.Itoa(i), strconv.Itoa(i)), Pass: true})
	}
	set, err := Compile(rules)
	if err != nil {
		t.Fatal(err)
	}
	h := NewHost("t1", "a.test", 0, set)
	for i := range 20 {
		body := fmt.Sprintf(`{"%d":0,"%d":%d}`, i+1, i, i)
		if f, _ := h.Decide(request("POST / || " + body)); f.Rule != set.At(20+i) {
			t.Errorf("%s: %+v", body, f.Rule)
		}
		q := request("POST / || " + body)
		h.Decide(q)
		q.Release()
		q.Body = Text(`{"0":"x"}`) // not what was kept of the one before
		if f, _ := h.Decide(q); f.Rule != set.At(0) {
			t.Errorf("after %s: %+v", body, f.Rule)
		}
	}
}

// TestLongBodiesAreJudgedByTheirBeginning: one whose end is not known is no JSON.
func TestLongBodiesAreJudgedByTheirBeginning(t *testing.T) {
	set, err := Compile([]api.Rule{{BodyJSON: jsonAt("/a", "1"), Pass: true}, {BodyContains: "a", Pass: true}})
	if err != nil {
		t.Fatal(err)
	}
	q := request("POST /")
	q.Body = beginning(`{"a":1}`)
	if f, _ := NewHost("t1", "a.test", 0, set).Decide(q); f.Rule != set.At(1) {
		t.Errorf("%+v", f)
	}
}

type beginning string

func (p beginning) Head() ([]byte, bool) { return []byte(p), false }
