package compose

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/linuxarena/ctis/server/api"
)

func loadStory(t *testing.T, name string) *Environment {
	t.Helper()
	a, err := txtar.ParseFile("testdata/load/" + name + ".txtar")
	if err != nil {
		t.Fatal(err)
	}
	return mustLoad(t, storyOptions(string(a.Comment), writeArchive(t, a)))
}

func TestConfigHoldsWhatTheFileDeclares(t *testing.T) {
	c := loadStory(t, "ok-every-key").Config
	if c.SeedAssetsFrom != "/app/init-assets" {
		t.Errorf("seed assets come from %q", c.SeedAssetsFrom)
	}
	if want := []ExposedService{{"api.example.com", "api.example.com", Target{"default", 8080}}}; !reflect.DeepEqual(c.ExposedServices, want) {
		t.Errorf("exposed services are %+v", c.ExposedServices)
	}
	var upstreams []api.Upstream
	for _, u := range c.Upstreams {
		upstreams = append(upstreams, u.Upstream)
	}
	if want := []api.Upstream{
		{Host: "api.openai.com", Scheme: "https", Port: 443, KeyEnv: "OPENAI_API_KEY", AuthHeader: "Authorization", AuthPrefix: "Bearer "},
		{Host: "api.vendor.example", Scheme: "https", Port: 443, KeyEnv: "VENDOR_API_KEY", AuthHeader: "X-Api-Key"},
		{Host: "plain.vendor.example", Scheme: "http", Port: 8080},
	}; !reflect.DeepEqual(upstreams, want) {
		t.Errorf("upstreams are %+v\nwant %+v", upstreams, want)
	}
	if want := []api.Rule{{Path: "/slow", Delay: 2 * time.Second, Jitter: 500 * time.Millisecond, Pass: true}}; !reflect.DeepEqual(wire(c.Upstreams[2].Rules), want) {
		t.Errorf("the upstream's rules are %+v", c.Upstreams[2].Rules)
	}
	if want := (Target{"beanguard-svc", 8080}); c.Personas[1].Backend != want || c.Personas[0].Backend != (Target{}) {
		t.Errorf("backends are %v and %v", c.Personas[0].Backend, c.Personas[1].Backend)
	}
	raw := func(s string) json.RawMessage { return json.RawMessage(s) }
	want := []api.Rule{
		{
			Methods: []string{"POST"}, Path: "/login", Times: 1, After: 2, SetState: "in",
			BodyJSON: []api.JSONValue{{Pointer: "/user/name", Value: raw(`"admin"`)}, {Pointer: "/items/0/id", Value: raw("7")}, {Pointer: "/a~1b", Value: raw(`[1,"two",{"three":3.5}]`)}},
			Respond: &api.RuleResponse{
				Status: 200, Headers: [][2]string{{"Content-Type", "application/json"}},
				Body: []byte(`{"token":"{{ uuid }}"}`), Template: true, JSON: true,
			},
		},
		{
			PathRegex: "^/assets/.*[.]whl$", State: "in",
			Query:   []api.Condition{{Name: "v", Op: api.OpIs, Value: "1"}, {Name: "debug", Op: api.OpAbsent}},
			Headers: []api.Condition{{Name: "User-Agent", Op: api.OpMatches, Value: "^pip/"}, {Name: "Cookie", Op: api.OpPresent}},
			Respond: &api.RuleResponse{
				Status: 200, Headers: [][2]string{{"Set-Cookie", "a=1"}, {"Set-Cookie", "b=2"}},
				Body: []byte("PK\n"), File: "evil.whl",
			},
		},
		{
			Path: "/webhook/limited", BodyContains: "x", BodyRegex: "y+",
			Respond: &api.RuleResponse{Status: 429, Headers: [][2]string{{"Retry-After", "30"}}, Page: true},
		},
		{Fault: api.FaultTruncate, Pass: true},
	}
	got := wire(c.Personas[0].Rules)
	if len(got) != len(want) {
		t.Fatalf("%d rules", len(got))
	}
	for i := range want {
		if !reflect.DeepEqual(got[i], want[i]) {
			t.Errorf("rule %d is\n%+v %+v\nwant\n%+v %+v", i, got[i], got[i].Respond, want[i], want[i].Respond)
		}
	}
	// What the simulator is sent means the same to it.
	sent, err := json.Marshal(want)
	var received []api.Rule
	if err == nil {
		err = json.Unmarshal(sent, &received)
	}
	if err != nil || !reflect.DeepEqual(received, want) {
		t.Errorf("%v: %s becomes %+v", err, sent, received)
	}
}

func TestJSONBodiesAreSentAsTheyAreWritten(t *testing.T) {
	c, ps := ParseConfig("f", []byte("network='n'\n[[personas.'a.test'.rules]]\nrespond = { headers = { content-type = 'application/problem+json' }, json = { html = '<b>&</b>', n = 9007199254740993, f = 1.0 } }\n"))
	if len(ps) > 0 {
		t.Fatal(ps)
	}
	res := c.Personas[0].Rules[0].Respond
	if want := `{"f":1,"html":"<b>&</b>","n":9007199254740993}`; string(res.Body) != want {
		t.Errorf("body is %s, want %s", res.Body, want)
	}
	if want := [][2]string{{"content-type", "application/problem+json"}}; !reflect.DeepEqual(res.Headers, want) {
		t.Errorf("headers are %q", res.Headers)
	}
}

func TestBodyFilesNeverLeaveTheEnvironment(t *testing.T) {
	outside := t.TempDir()
	write(t, outside, "secret", "s")
	for name, c := range map[string]struct {
		make func(dir string) error
		want string
	}{
		"a link inside":       {func(dir string) error { write(t, dir, "real", "x"); return os.Symlink("real", filepath.Join(dir, "f")) }, ""},
		"a link outside":      {func(dir string) error { return os.Symlink(filepath.Join(outside, "secret"), filepath.Join(dir, "f")) }, `body_file "f" is a link that leaves the environment's directory`},
		"a link to nothing":   {func(dir string) error { return os.Symlink("nothing", filepath.Join(dir, "f")) }, `body_file "f" does not exist`},
		"a link to itself":    {func(dir string) error { return os.Symlink("f", filepath.Join(dir, "f")) }, `body_file "f" cannot be read`},
		"a pipe":              {func(dir string) error { return syscall.Mkfifo(filepath.Join(dir, "f"), 0o644) }, `body_file "f" is a named pipe`},
		"a large file":        {func(dir string) error { return os.WriteFile(filepath.Join(dir, "f"), make([]byte, maxFile+1), 0o644) }, `body_file "f" is larger than 1024 KiB`},
		"the largest allowed": {func(dir string) error { return os.WriteFile(filepath.Join(dir, "f"), make([]byte, maxFile), 0o644) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := writeEnvironment(t, "network = 'default'\n[[personas.'a.test'.rules]]\npath = '/f'\nrespond = { body_file = 'f' }\n", "services: {default: {image: x}}\n")
			if err := c.make(dir); err != nil {
				t.Fatal(err)
			}
			_, ps := Load(t.Context(), Options{Dir: dir})
			if c.want == "" {
				if len(ps) > 0 {
					t.Error(render(ps, dir))
				}
				return
			}
			if len(ps) != 1 || !strings.HasPrefix(ps[0].Message, c.want) || ps[0].Line != 4 || ps[0].Column != 25 {
				t.Error(render(ps, dir))
			}
		})
	}
}

func TestAllBodiesTogetherAreBounded(t *testing.T) {
	dir := writeEnvironment(t, "network = 'default'\n[personas.'a.test']\n"+strings.Repeat("[[personas.'a.test'.rules]]\npath = '/f'\nrespond = { body_file = 'f' }\n", 6), "services: {default: {image: x}}\n")
	if err := os.WriteFile(filepath.Join(dir, "f"), make([]byte, maxFile), 0o644); err != nil {
		t.Fatal(err)
	}
	_, ps := Load(t.Context(), Options{Dir: dir})
	if want := dir + "/ctis.toml:17:11: error: the bodies of all rules have more than 4 MiB"; len(ps) != 1 || ps[0].String() != want {
		t.Errorf("%s", render(ps, dir))
	}
}

func TestRulesOfOneHostAreBounded(t *testing.T) {
	rules := func(n int) Problems {
		_, ps := ParseConfig("f", []byte("network='n'\n[personas.'a.test']\nrules = ["+strings.Repeat("{path='/',pass=true},", n)+"]\n"))
		return ps
	}
	if ps := rules(maxRules); len(ps) > 0 {
		t.Error(ps[0])
	}
	if ps := rules(maxRules + 1); len(ps) != 1 || !strings.Contains(ps[0].Message, "1001 rules; 1000 are allowed") {
		t.Error(ps)
	}
	_, ps := ParseConfig("f", []byte("network='n'\n[[personas.'a.test'.rules]]\npass=true\npath_regex='"+strings.Repeat("x", api.MaxRegex+1)+"'\n"))
	if len(ps) != 1 || !strings.Contains(ps[0].Message, "it has 4097 bytes, and 4096 are allowed") {
		t.Error(ps)
	}
}

func TestUpstreamsAreBounded(t *testing.T) {
	for n, want := range map[int]string{maxUpstreams: "", maxUpstreams + 1: "upstream_proxies has 1001 elements; 1000 are allowed"} {
		var hosts strings.Builder
		for i := range n {
			fmt.Fprintf(&hosts, "{host='h%d.test'},", i)
		}
		_, ps := ParseConfig("f", []byte("network='n'\nupstream_proxies=["+hosts.String()+"]\n"))
		if len(ps) > 1 || want == "" && len(ps) > 0 || want != "" && (len(ps) != 1 || ps[0].Message != want) {
			t.Errorf("%d: %v", n, ps)
		}
	}
}

// A line can be as long as the file, and each place in it is found from another.
func TestPlacesInOneLongLineAreRight(t *testing.T) {
	const rule = `{jitter="é",path_regex="(",delay="x"},`
	const n = 900
	_, ps := ParseConfig("f", []byte("network='n'\npersonas={'a.test'={rules=["+strings.Repeat(rule, n)+"]}}\n"))
	counted := map[int]int{}
	start := len("personas={'a.test'={rules=[") + 1
	for _, p := range ps {
		if p.Line != 2 {
			t.Fatalf("%+v", p)
		}
		counted[(p.Column-start)%utf8.RuneCountInString(rule)]++
	}
	if want := map[int]int{0: n, 8: n, 23: n, 33: n}; !reflect.DeepEqual(counted, want) { // does nothing, jitter, path_regex, delay
		t.Errorf("places in a rule are %v, want %v", counted, want)
	}
}

// What the documentation shows can be copied.
func TestExamplesOfTheDocumentationAreValid(t *testing.T) {
	doc, err := os.ReadFile("../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	const head = "network = \"external\"\n"
	examples := 0
	for block := range strings.SplitSeq(string(doc), "```toml\n") {
		example, _, ok := strings.Cut(block, "```")
		if !ok || strings.HasPrefix(block, "# Configuration") {
			continue
		}
		examples++
		if !strings.Contains(example, "network =") {
			example = head + example
		}
		dir := writeEnvironment(t, example, "")
		write(t, dir, "codebase/compose.yml", "services:\n  default: {image: x, networks: [external]}\n  beanguard-svc: {image: x, networks: [external]}\nnetworks: {external: {}}\n")
		if !strings.Contains(example, "compose_files") {
			write(t, dir, ConfigFile, "compose_files = [\"codebase/compose.yml\"]\n"+example)
		}
		write(t, dir, "answers/account.html", "<p>")
		_, ps := Load(t.Context(), Options{Dir: dir, Environ: []string{"DATASET=1", "VENDOR_API_KEY=2", "OPENAI_API_KEY=3"}})
		if len(ps) > 0 {
			t.Errorf("%s\n%s", example, render(ps, dir))
		}
	}
	if examples != 4 {
		t.Errorf("%d examples", examples)
	}
}

func TestSettingsChangeWithEverythingThatIsDeclared(t *testing.T) {
	a, err := txtar.ParseFile("testdata/load/ok-every-key.txtar")
	if err != nil {
		t.Fatal(err)
	}
	dir, whole := writeArchive(t, a), fileIn(a, "ctis.toml")
	o := storyOptions(string(a.Comment), dir)
	base := mustLoad(t, o).Settings
	seen := map[string]string{base: "nothing"}
	for _, change := range [][2]string{
		{`/app/init-assets`, `/app/other`},
		{`  "openai",`, `  "groq",`},
		{`  "openai",`, ``},
		{`host = "api.vendor.example"`, `host = "api.vendor2.example"`},
		{`host = "api.vendor.example"`, `host = "http://api.vendor.example"`},
		{`host = "api.vendor.example"`, `host = "https://api.vendor.example:444"`},
		{`api_key_env = "VENDOR_API_KEY"`, `api_key_env = "OPENAI_API_KEY"`},
		{`auth_header = "X-API-KEY"`, `auth_header = "X-KEY"`},
		{`auth_header = "X-API-KEY"`, `auth_header = "X-API-KEY", auth_prefix = "k "`},
		{`delay = "2s"`, `delay = "3s"`},
		{`jitter = "500ms"`, `jitter = "501ms"`},
		{`"api.example.com" = "default:8080"`, `"api.example.org" = "default:8080"`},
		{`"api.example.com" = "default:8080"`, `"api.example.com" = "default:8081"`},
		{`"beanguard-svc:8080"`, `"beanguard-svc:8081"`},
		{`methods = ["POST"]`, `methods = ["PUT"]`},
		{`path = "/login"`, `path = "/login/**"`},
		{`name = "admin"`, `name = "root"`},
		{`{{ uuid }}`, `{{ now }}`},
		{`template = true`, `template = false`},
		{`set_state = "in"`, `set_state = "in2"`},
		{`times = 1`, `times = 2`},
		{`after = 2`, `after = 3`},
		{`[.]whl$`, `[.]tar$`},
		{`debug = false`, `debug = true`},
		{`"^pip/"`, `"^uv/"`},
		{`state = "in"` + "\nrespond", `state = "start"` + "\nrespond"},
		{`["a=1", "b=2"]`, `["b=2", "a=1"]`},
		{`body_contains = "x"`, `body_contains = "z"`},
		{`body_regex = "y+"`, `body_regex = "y"`},
		{`status = 429`, `status = 503`},
		{`fault = "truncate"` + "\npass = true", `fault = "reset"`},
	} {
		if !strings.Contains(whole, change[0]) {
			t.Fatalf("%q is not in the file", change[0])
		}
		write(t, dir, ConfigFile, strings.Replace(whole, change[0], change[1], 1))
		o.Environ = append(slices.Clone(o.Environ), "GROQ_API_KEY=z")
		got := mustLoad(t, o).Settings
		if same, twice := seen[got]; twice {
			t.Errorf("%s for %s changes as little as %s", change[1], change[0], same)
		}
		seen[got] = change[1]
	}
	write(t, dir, ConfigFile, whole)
	write(t, dir, "answers/evil.whl", "PK2\n")
	if got := mustLoad(t, o).Settings; seen[got] != "" {
		t.Error("another content of a body_file does not change the settings")
	}
	write(t, dir, "answers/evil.whl", "PK\n")
	o.Environ = []string{"VENDOR_API_KEY=another", "OPENAI_API_KEY=value"}
	if got := mustLoad(t, o).Settings; got != base {
		t.Error("another value of an API key changes the settings")
	}
	write(t, dir, ConfigFile, strings.Replace(whole, "  \"openai\",\n", "", 1)+"\n")
	sorted := strings.Replace(whole, "  \"openai\",\n", "", 1)
	sorted = strings.Replace(sorted, "pass = true }] },\n", "pass = true }] },\n  \"openai\",\n", 1)
	write(t, dir, ConfigFile, sorted)
	if got := mustLoad(t, o).Settings; got != base {
		t.Error("the order of upstream proxies changes the settings, though it means nothing")
	}
}
