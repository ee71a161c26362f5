package compose

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"text/template"

	"github.com/compose-spec/compose-go/v2/types"

	"github.com/linuxarena/ctis/server/api"
)

// Starter returns the content of a ctis.toml for the Compose files named
// (absolute), or where there are none, for those that are found in or one level
// below o.Dir. What it returns passes [Load]; where that cannot be, content is
// nil and the problems say what is wrong with the Compose project. A ctis.toml
// that is there already is not looked at, and nothing is written.
func Starter(ctx context.Context, o Options, files []string) (content []byte, s *Survey, ps Problems) {
	file := filepath.Join(o.Dir, ConfigFile)
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		ps.errorf(place{File: file}, "%q has no absolute path: %s", o.Dir, err)
		return nil, nil, ps
	}
	if s, ps = survey(ctx, o, dir, file, files); ps.HasErrors() {
		return nil, s, ps
	}
	if content, err = s.render(); err != nil {
		ps.errorf(place{File: file}, "%s", err)
		return nil, s, ps
	}
	if _, ps = loadDeclared(ctx, o, dir, file, content); ps.HasErrors() {
		return nil, s, ps
	}
	return content, s, ps
}

// examples are what a starter's options are shown with: names and ports that
// the environment has.
type examples struct {
	Required []string // variables
	Backend  string   // service:port on the simulator's network
	Exposed  string   // service:port on any network
}

// shownVariables is how many variables an example lists.
const shownVariables = 5

func examplesOf(p *types.Project, g Guess, uses []use, vars types.Mapping) examples {
	var e examples
	for _, u := range uses {
		needed := strings.HasSuffix(u.operator, "?") || u.operator == "" && vars[u.name] == ""
		if needed && u.passed == "" && !strings.HasPrefix(u.name, "COMPOSE_") && !slices.Contains(e.Required, u.name) && len(e.Required) < shownVariables {
			e.Required = append(e.Required, u.name)
		}
	}
	if len(e.Required) == 0 {
		e.Required = []string{"VENDOR_API_KEY"}
	}
	e.Backend = target(p, g.DefaultService, func(s types.ServiceConfig) bool {
		_, on := s.Networks[g.Network]
		return on && s.GetScale() == 1
	})
	e.Exposed = target(p, g.DefaultService, func(s types.ServiceConfig) bool { return len(s.Networks) > 0 })
	return e
}

// target is the service:port that serves best as an example: of another service
// than the agent's if there is one that is fit, with a port it says it has.
func target(p *types.Project, agent string, fit func(types.ServiceConfig) bool) string {
	names := slices.DeleteFunc(p.ServiceNames(), func(name string) bool {
		s := p.Services[name]
		return name != agent && (s.Provider != nil || s.GetScale() < 1 || !fit(s))
	})
	rank := func(name string) int {
		return cmp.Or(map[bool]int{true: 2}[name == agent], map[bool]int{true: 1}[port(p.Services[name]) == 0])
	}
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(rank(a), rank(b)) })
	name := firstOf(names, agent)
	return fmt.Sprintf("%s:%d", name, cmp.Or(port(p.Services[name]), 8080))
}

// port is the first TCP port that a service says it listens on, or 0.
func port(s types.ServiceConfig) int {
	for _, q := range s.Ports {
		if q.Target > 0 && q.Target <= 65535 && (q.Protocol == "" || q.Protocol == "tcp") {
			return int(q.Target)
		}
	}
	for _, e := range s.Expose {
		number, protocol, _ := strings.Cut(e, "/")
		var n int
		if _, err := fmt.Sscanf(number, "%d", &n); err == nil && n > 0 && n <= 65535 && (protocol == "" || protocol == "tcp") {
			return n
		}
	}
	return 0
}

// render writes the survey as a ctis.toml.
func (s *Survey) render() ([]byte, error) {
	var out bytes.Buffer
	err := starterTemplate.Execute(&out, map[string]any{
		"Survey": s, "Explicit": s.explicit, "Examples": s.examples,
		"Endpoints": api.BuiltinEndpoints, "ServerHeader": api.DefaultServerHeader,
	})
	return out.Bytes(), err
}

// tomlText is a TOML basic string. JSON's are the same but for DEL, which TOML
// wants escaped.
func tomlText(s string) (string, error) {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		return "", err
	}
	return strings.ReplaceAll(strings.TrimSuffix(b.String(), "\n"), "\x7f", `\u007f`), nil
}

func tomlList(list []string) (string, error) {
	texts := make([]string, len(list))
	for i, s := range list {
		var err error
		if texts[i], err = tomlText(s); err != nil {
			return "", err
		}
	}
	return "[" + strings.Join(texts, ", ") + "]", nil
}

var starterTemplate = template.Must(template.New(ConfigFile).Funcs(template.FuncMap{"text": tomlText, "list": tomlList}).Parse(starterText))

// starterText is a ctis.toml with every option. A line that begins with # and
// one space explains; without that #, any other line is an option that is on.
const starterText = `# ctis.toml makes this directory an environment. Lines like this one explain;
# to turn an option on, remove the # in front of it (and of what belongs to it).
# "ctis validate" checks this file and the Compose files; nothing is started.

# The Compose network on which the simulator plays the internet: its key in the
# Compose file, without the project's name in front.
# Guessed: {{.Survey.NetworkReason}}.
network = {{text .Survey.Network}}

# The service the agent works in. Left out: the one marked x-default: true, else
# the one called default.
# Guessed: {{.Survey.ServiceReason}}.
{{if not .Explicit}}#{{end}}default_service = {{text .Survey.DefaultService}}

# The Compose files, relative to this one, in the order in which they are
# merged. Left out: those that Compose finds beside this file.
{{if .Survey.ComposeFiles}}compose_files = {{list .Survey.ComposeFiles}}{{else}}#compose_files = {{list .Survey.Found}}{{end}}

# Variables that must be set and not empty before anything is started; all that
# are missing are named at once. "ctis config" lists those that are used.
#required_env_vars = {{list .Examples.Required}}

# A directory in the agent's container whose files are served under /assets of
# the personas that have that endpoint. It is deleted in the container.
#seed_assets_from = "/app/init-assets"

# Real APIs that the agent reaches through the simulator, which adds the key on
# the way: built-in providers by name, others by host. The key is in the
# variable api_key_env. auth_header (default "Authorization") carries it, behind
# auth_prefix with its space (default "Bearer " for that header). ca_file = "ca.pem"
# names further certificate authorities, for a host that no public one vouches for.
#upstream_proxies = [
#  "openai",
#  { host = "api.vendor.example", api_key_env = "VENDOR_API_KEY", auth_header = "X-API-KEY", auth_prefix = "Token " },
#]

# Public hostnames in front of services of this environment, with TLS: each is
# a service and the port it listens on.
#[exposed_services]
#"app.example.com" = {{text .Examples.Exposed}}

# Personas are public hostnames that the simulator plays. Each answers on the
# first path segments in endpoints{{range $i, $e := .Endpoints}}{{if $i}},{{else}}:{{end}} {{$e}}{{end}} are built in.
#[personas."filebin.net"]
#endpoints = {{list .Endpoints}}

# What the persona says in its Server header; its error pages look like that
# server's. Default: {{.ServerHeader}}.
#server_header = "Apache/2.4.71 (Debian)"

# Rules of a persona come before its endpoints; the first that matches answers.
# This one: by method, path (* matches within a segment), query and header;
# not the first request (after), and three times only (times).
#[[personas."filebin.net".rules]]
#methods = ["GET", "POST"]
#path = "/webhook/limited"
#query = { page = "2" }
#headers = { "X-Client" = "curl" }
#after = 1
#times = 3
#respond = { status = 429, headers = { "Retry-After" = "30" }, body = "slow down" }

# By regular expressions and by what a JSON body has at a path (RFC 6901); the
# answer is JSON. In place of json, body has a text and body_file names a file
# beside this one. It puts the persona into a state that other rules can ask for.
#[[personas."filebin.net".rules]]
#path_regex = "^/data/[0-9]+$"
#body_regex = "(?i)password"
#body_json = { "/user/name" = "root" }
#respond = { status = 403, json = { error = "denied" } }
#set_state = "denied"

# Only in that state: by a text in the body, late by 2 s and up to 500 ms more.
# The answer is a Go template over the request.
#[[personas."filebin.net".rules]]
#state = "denied"
#body_contains = "again"
#delay = "2s"
#jitter = "500ms"
#respond = { status = 200, body = "no {{"{{"}}.Method{{"}}"}} for you", template = true }

# The connection ends without an answer: reset, empty, truncate or timeout.
#[[personas."filebin.net".rules]]
#path = "/public/broken"
#fault = "reset"

# The endpoint answers as without a rule, but late.
#[[personas."filebin.net".rules]]
#path = "/public/slow"
#delay = "5s"
#pass = true

# A persona whose answers come from a service of this environment, its backend.
# endpoints that are not built in, and /, go there.
#[personas."api.service.example"]
#endpoints = ["v1"]
#backend = {{text .Examples.Backend}}
`
