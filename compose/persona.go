package compose

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/linuxarena/ctis/server/api"
)

// Persona is a public hostname the simulator plays.
type Persona struct {
	Host         Hostname
	Name         string   // the hostname as the file spells it
	ServerHeader string   // never empty
	Endpoints    []string // in the order of the file
	Backend      Target   // answers the root and every endpoint; zero: none
	Rules        []Rule   // in the order of the file
}

var personaKeys = []string{"endpoints", "server_header", "backend", "rules"}

func (r *configReader) personas(doc map[string]any) []Persona {
	tables, ok := r.table(doc, "personas")
	if !ok {
		return nil
	}
	var personas []Persona
	// The first persona answers clients that name none, so order matters.
	for _, name := range r.ordered(tables, []string{"personas"}) {
		path := []string{"personas", name}
		table, ok := r.table(tables, path...)
		if !ok || r.unquoted(table, path) {
			continue
		}
		host, err := ParseHostname(name)
		if err != nil {
			r.problems.errorf(r.index.key(path...), "%s", err)
		}
		personas = append(personas, r.persona(table, path, host))
	}
	return personas
}

// unquoted reports a hostname that was written without quotes: TOML reads
// [personas.filebin.net] as a table "net" inside a table "filebin".
func (r *configReader) unquoted(table map[string]any, path []string) bool {
	found := false
	for key, v := range table {
		sub, ok := v.(map[string]any)
		if !ok || slices.Contains(personaKeys, key) {
			continue
		}
		found = true
		if full := below(path, key); !r.unquoted(sub, full) {
			r.problems.errorf(r.index.key(full...), "[%s] is a table in a table, not a hostname", keyName(full)).
				hint("write [personas.%q]", strings.Join(full[1:], "."))
		}
	}
	return found
}

func (r *configReader) persona(table map[string]any, path []string, host Hostname) Persona {
	p := Persona{Host: host, Name: path[1], ServerHeader: api.DefaultServerHeader}
	r.keys(table, path, personaKeys)
	if v, ok := r.text(table, below(path, "server_header")...); ok && v != "" {
		p.ServerHeader = v
		if !legalServerHeader(v) {
			r.problems.errorf(r.index.value(below(path, "server_header")...), "server_header %q is not a legal header value", v).
				hint("use visible ASCII characters, with single spaces only between them")
		}
	}
	p.Backend = r.target(table, "backend", below(path, "backend"))
	p.Rules = r.rules(table, path, onPersona)
	p.Endpoints = r.texts(table, below(path, "endpoints")...)
	_, backed := table["backend"] // a wrong one is a backend all the same
	for i, e := range p.Endpoints {
		r.endpoint(e, below(path, "endpoints", elem(i)), backed, p.Rules)
	}
	return p
}

// target reads the service:port that a key names. Whether the service exists is
// for the checker to say.
func (r *configReader) target(parent map[string]any, what string, path []string) Target {
	s, ok := r.text(parent, path...)
	if !ok || s == "" {
		return Target{}
	}
	t, err := ParseTarget(s)
	if err != nil {
		r.problems.errorf(r.index.value(path...), "%s %s", what, err)
	}
	return t
}

func (r *configReader) endpoint(e string, path []string, backed bool, rules []Rule) {
	at := r.index.value(path...)
	bare := strings.Trim(e, "/")
	switch {
	case e == "": // reported with its type
	case bare != e && !strings.Contains(bare, "/") && bare != "":
		r.problems.errorf(at, "endpoint %q has slashes around it", e).hint("write %q", bare)
	case !pathSegment.MatchString(e) || e == "." || e == "..":
		p := r.problems.errorf(at, "endpoint %q is not a single path segment", e)
		if first, rest, ok := strings.Cut(bare, "/"); ok && rest != "" && pathSegment.MatchString(first) {
			p.hint("write %q: everything below it is the endpoint's too", first)
		}
	case slices.Contains(api.BuiltinEndpoints, e):
		if backed {
			r.problems.warnf(at, "endpoint %q goes to the backend, as every endpoint of this persona does", e).
				hint("the built-in one of that name needs a persona without backend")
		}
	case !backed && !slices.ContainsFunc(rules, func(rule Rule) bool { return rule.answers(e) }):
		r.problems.errorf(at, "endpoint %q is not built in, and this persona has no backend and no rule to answer it", e).
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
