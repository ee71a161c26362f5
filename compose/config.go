package compose

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/BurntSushi/toml"

	"github.com/linuxarena/ctis/server/api"
)

// ConfigFile is the name of the file that makes a directory an environment.
const ConfigFile = "ctis.toml"

// Config is an environment's declaration as its ctis.toml has it (SPEC §2).
type Config struct {
	Network         string   // Compose network key, without the project prefix
	ComposeFiles    []string // as written; empty: Compose's own discovery
	DefaultService  string   // "": found by validation
	RequiredEnvVars []string
	Personas        []Persona // in the order of the file

	index *tomlIndex
}

// Persona is a public hostname the simulator plays.
type Persona struct {
	Host         Hostname
	Name         string   // the hostname as the file spells it
	ServerHeader string   // never empty
	Endpoints    []string // in the order of the file
}

// The keys of each table. Those that this version does not support are known
// all the same: they are no typing mistakes, and the answer to one differs.
var (
	configKeys = keySet{
		supported:   []string{"network", "compose_files", "default_service", "required_env_vars", "personas"},
		unsupported: []string{"exposed_services", "upstream_proxies", "seed_assets_from"},
	}
	personaKeys = keySet{
		supported:   []string{"endpoints", "server_header"},
		unsupported: []string{"backend", "rules"},
	}
)

type keySet struct{ supported, unsupported []string }

func (k keySet) all() []string        { return slices.Concat(k.supported, k.unsupported) }
func (k keySet) has(name string) bool { return slices.Contains(k.all(), name) }

// ParseConfig reads a ctis.toml. file names it in the problems. One syntax
// error ends the reading; otherwise every problem is reported, and the Config
// holds what could be understood.
func ParseConfig(file string, content []byte) (*Config, Problems) {
	src := strings.TrimPrefix(string(content), "\ufeff") // an editor's mark, not a character of line 1
	var ps Problems
	if at, refused := deepTOML(src); refused != nil {
		ps.refused(file, placeIn(file, src, at), refused)
		return nil, ps
	}
	var doc map[string]any
	if _, err := toml.Decode(src, &doc); err != nil {
		var syntax toml.ParseError
		if !errors.As(err, &syntax) {
			ps.errorf(place{File: file, Line: 1, Column: 1}, "%s", err)
			return nil, ps
		}
		message := strings.TrimSuffix(syntax.Message, ".")
		message = strings.ToLower(message[:min(1, len(message))]) + message[min(1, len(message)):]
		ps.errorf(placeIn(file, src, syntax.Position.Start), "%s", message)
		return nil, ps
	}
	r := &configReader{index: indexTOML(file, src), problems: &ps}
	return r.config(doc), ps
}

// configReader reads a decoded document and notes what is wrong with it.
type configReader struct {
	index    *tomlIndex
	problems *Problems
}

func (r *configReader) config(doc map[string]any) *Config {
	c := &Config{index: r.index}
	r.keys(doc, nil, configKeys)
	c.Network, _ = r.text(doc, "network")
	if _, ok := doc["network"]; !ok {
		r.problems.errorf(r.index.place(0), "network is required").
			hint("name the Compose network that the agent is on: network = \"default\" if its services list no networks")
	}
	c.DefaultService, _ = r.text(doc, "default_service")
	c.ComposeFiles = r.texts(doc, "compose_files")
	if v, ok := doc["compose_files"].([]any); ok && len(v) == 0 {
		r.problems.errorf(r.index.value("compose_files"), "compose_files is empty").
			hint("leave it out to use Compose's own discovery beside %s", ConfigFile)
	}
	c.RequiredEnvVars = r.texts(doc, "required_env_vars")
	for i, name := range c.RequiredEnvVars {
		if name != "" && !envName.MatchString(name) {
			r.problems.errorf(r.index.value("required_env_vars", elem(i)), "%q is not the name of an environment variable", name)
		}
	}
	c.Personas = r.personas(doc)
	return c
}

var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func (r *configReader) personas(doc map[string]any) []Persona {
	tables, ok := r.table(doc, "personas")
	if !ok {
		return nil
	}
	names := make([]string, 0, len(tables))
	for name := range tables {
		names = append(names, name)
	}
	// The first persona answers clients that name none, so order matters.
	slices.SortFunc(names, func(a, b string) int {
		return r.index.order("personas", a) - r.index.order("personas", b)
	})
	seen := map[Hostname]string{}
	var personas []Persona
	for _, name := range names {
		at := r.index.key("personas", name)
		table, ok := r.table(tables, "personas", name)
		if !ok || r.unquoted(table, []string{"personas", name}) {
			continue
		}
		host, err := ParseHostname(name)
		if err != nil {
			r.problems.errorf(at, "%s", err)
		} else if first, twice := seen[host]; twice {
			r.problems.errorf(at, "hostname %q is declared twice, first as %q in line %d", name, first, r.index.key("personas", first).Line)
		} else {
			seen[host] = name
		}
		personas = append(personas, r.persona(table, name, host))
	}
	return personas
}

// unquoted reports a hostname that was written without quotes: TOML reads
// [personas.filebin.net] as a table "net" inside a table "filebin".
func (r *configReader) unquoted(table map[string]any, path []string) bool {
	found := false
	for key, v := range table {
		sub, ok := v.(map[string]any)
		if !ok || personaKeys.has(key) {
			continue
		}
		found = true
		if full := append(path[:len(path):len(path)], key); !r.unquoted(sub, full) {
			r.problems.errorf(r.index.key(full...), "[%s] is a table in a table, not a hostname", toml.Key(full)).
				hint("write [personas.%q]", strings.Join(full[1:], "."))
		}
	}
	return found
}

func (r *configReader) persona(table map[string]any, name string, host Hostname) Persona {
	p := Persona{Host: host, Name: name, ServerHeader: api.DefaultServerHeader}
	path := []string{"personas", name}
	r.keys(table, path, personaKeys)
	if v, ok := r.text(table, append(path, "server_header")...); ok && v != "" {
		p.ServerHeader = v
		if !legalHeaderValue(v) {
			r.problems.errorf(r.index.value(append(path, "server_header")...), "server_header %q is not a legal header value", v).
				hint("use visible ASCII characters, with single spaces only between them")
		}
	}
	p.Endpoints = r.texts(table, append(path, "endpoints")...)
	for i, e := range p.Endpoints {
		r.endpoint(e, append(path, "endpoints", elem(i)))
	}
	return p
}

func (r *configReader) endpoint(e string, path []string) {
	at := r.index.value(path...)
	switch {
	case e == "": // reported with its type
	case strings.Trim(e, "/") != e && !strings.Contains(strings.Trim(e, "/"), "/") && strings.Trim(e, "/") != "":
		r.problems.errorf(at, "endpoint %q has slashes around it", e).hint("write %q", strings.Trim(e, "/"))
	case !pathSegment.MatchString(e) || e == "." || e == "..":
		r.problems.errorf(at, "endpoint %q is not a single path segment", e)
	case !slices.Contains(api.BuiltinEndpoints, e):
		r.problems.errorf(at, "endpoint %q is not built in, and this persona has nothing else to answer it", e).
			hint("%s", builtinHint(e))
	}
}

// pathSegment is what may stand between two slashes without being encoded
// (RFC 3986, pchar without percent-encoding).
var pathSegment = regexp.MustCompile(`^[A-Za-z0-9._~!$&'()*+,;=:@-]+$`)

func builtinHint(e string) string {
	if near, ok := Nearest(e, api.BuiltinEndpoints); ok {
		return fmt.Sprintf("did you mean %q?", near)
	}
	return "built in are " + strings.Join(api.BuiltinEndpoints, ", ")
}

// legalHeaderValue is RFC 9110's field-value without obs-text and tabs.
func legalHeaderValue(v string) bool {
	for i := 0; i < len(v); i++ {
		if v[i] < ' ' || v[i] > '~' {
			return false
		}
	}
	return strings.TrimSpace(v) == v && !strings.Contains(v, "  ")
}

// keys reports the keys of a table that do not belong there.
func (r *configReader) keys(table map[string]any, path []string, known keySet) {
	for key := range table {
		full := append(path[:len(path):len(path)], key)
		switch {
		case slices.Contains(known.supported, key):
		case slices.Contains(known.unsupported, key):
			r.problems.errorf(r.index.key(full...), "%s is not supported by this version of ctis", toml.Key(full))
		default:
			message := fmt.Sprintf("unknown key %q", key)
			if len(path) > 0 {
				message += " in " + toml.Key(path).String()
			}
			r.problems.errorf(r.index.key(full...), "%s", message).didYouMean(key, known.all())
		}
	}
}

// table, text and texts read the last part of path from parent, and report a
// value of another type. An empty string is never a useful value, so it is
// reported too.

func (r *configReader) table(parent map[string]any, path ...string) (map[string]any, bool) {
	v, ok := parent[path[len(path)-1]]
	if !ok {
		return nil, false
	}
	t, ok := v.(map[string]any)
	if !ok {
		r.wrongType(v, "a table", path)
	}
	return t, ok
}

func (r *configReader) text(parent map[string]any, path ...string) (string, bool) {
	v, ok := parent[path[len(path)-1]]
	if !ok {
		return "", false
	}
	return r.asText(v, path)
}

func (r *configReader) asText(v any, path []string) (string, bool) {
	s, ok := v.(string)
	switch {
	case !ok:
		r.wrongType(v, "a string", path)
	case s == "":
		r.problems.errorf(r.index.value(path...), "%s is empty", keyName(path))
	}
	return s, ok
}

// texts keeps a place for each element, also for one that is not a string, so
// that positions in the list stay positions in the file.
func (r *configReader) texts(parent map[string]any, path ...string) []string {
	v, ok := parent[path[len(path)-1]]
	if !ok {
		return nil
	}
	list, ok := v.([]any)
	if !ok {
		r.wrongType(v, "an array of strings", path)
		return nil
	}
	texts, seen := make([]string, len(list)), map[string]bool{}
	for i, v := range list {
		at := append(path[:len(path):len(path)], elem(i))
		texts[i], _ = r.asText(v, at)
		if seen[texts[i]] && texts[i] != "" {
			r.problems.errorf(r.index.value(at...), "%q stands twice in %s", texts[i], keyName(path))
		}
		seen[texts[i]] = true
	}
	return texts
}

func (r *configReader) wrongType(v any, want string, path []string) {
	p := r.problems.errorf(r.index.value(path...), "%s must be %s, not %s", keyName(path), want, tomlType(v))
	if s, ok := v.(string); ok && want == "an array of strings" {
		p.hint("write [%q]", s)
	}
}

// keyName renders a path as the file would, with elements as [index].
func keyName(path []string) string {
	var b strings.Builder
	for i, part := range path {
		if n, ok := strings.CutPrefix(part, "\x01"); ok {
			b.WriteString("[" + n + "]")
			continue
		}
		if i > 0 {
			b.WriteByte('.')
		}
		b.WriteString(toml.Key{part}.String())
	}
	return b.String()
}

func tomlType(v any) string {
	switch v.(type) {
	case string:
		return "a string"
	case int64:
		return "an integer"
	case float64:
		return "a float"
	case bool:
		return "a boolean"
	case time.Time:
		return "a date or time"
	case []any, []map[string]any:
		return "an array"
	case map[string]any:
		return "a table"
	}
	return "a " + strconv.Quote(fmt.Sprintf("%T", v))
}
