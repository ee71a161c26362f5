package compose

import (
	"net/textproto"
	"slices"
	"strings"

	"github.com/linuxarena/ctis/server/api"
	templates "github.com/linuxarena/ctis/server/rule"
)

const groupHint = `path_regex = "^/files/(.+)$" has one group, .Match 1; .Match 0 is all that it matched`

var respondKeys = []string{"status", "headers", "body", "body_file", "json", "template"}

// action reads what a rule does.
func (r *configReader) action(table map[string]any, path []string, rule *Rule, on ruleHost) {
	rule.Pass = r.boolean(table, below(path, "pass"))
	if fault, ok := r.text(table, below(path, "fault")...); ok && fault != "" {
		rule.Fault = fault
		if !slices.Contains(api.Faults, fault) {
			r.problems.errorf(r.index.value(below(path, "fault")...), "there is no fault %q", fault).
				hint("%s", nearestOr(fault, api.Faults, "faults are "+strings.Join(api.Faults, ", ")))
		}
	}
	if respond, ok := r.table(table, below(path, "respond")...); ok {
		rule.Respond = r.respond(respond, below(path, "respond"), rule, on)
	}
	rule.Edit = r.edit(table, path, rule, on)
	// A key that is there and wrong is reported already, and shows what was meant.
	_, responds := table["respond"]
	_, faults := table["fault"]
	_, passes := table["pass"].(bool)
	passes = rule.Pass || table["pass"] != nil && !passes
	truncates := rule.Fault == api.FaultTruncate
	switch {
	case responds && rule.Pass:
		r.problems.errorf(r.index.key(below(path, "pass")...), "respond and pass are in one rule").
			hint("a rule answers by itself, or passes the request on")
	case responds && faults && !truncates && slices.Contains(api.Faults, rule.Fault):
		r.problems.errorf(r.index.key(below(path, "respond")...), "respond is never sent: fault %q sends nothing", rule.Fault).
			hint("remove one of them; fault = %q sends half of a response", api.FaultTruncate)
	case faults && rule.Pass && !truncates && slices.Contains(api.Faults, rule.Fault):
		r.problems.errorf(r.index.key(below(path, "pass")...), "pass does nothing here: fault %q sends nothing", rule.Fault)
	case truncates && !responds && !rule.Pass:
		r.problems.errorf(r.index.value(below(path, "fault")...), "fault %q has no response to cut", rule.Fault).
			hint("add respond, or pass = true to cut what the host answers")
	case truncates && responds && rule.Respond != nil && bodyless(rule.Respond, rule.bodyFile):
		r.problems.errorf(r.index.value(below(path, "fault")...), "fault %q has nothing to cut: the response has no body", rule.Fault).
			hint("give respond a body; fault = %q sends no response at all", api.FaultEmpty)
	case !responds && !faults && !passes:
		r.problems.errorf(r.index.value(path...), "%s does nothing", keyName(path)).
			hint("add respond, fault or pass = true")
	}
}

// bodyless says whether a response is certain to have no body. One that was to have
// a wrong one is not: that is reported already.
func bodyless(res *api.RuleResponse, file string) bool {
	switch {
	case res.Status == 204 || res.Status == 304:
		return true
	case res.Page: // from 300 on the host has a page of its own
		return res.Status < 300
	}
	return file == "" && !res.JSON && len(res.Body) == 0
}

func nearestOr(name string, known []string, otherwise string) string {
	if near, ok := Nearest(name, known); ok {
		return "did you mean \"" + near + "\"?"
	}
	return otherwise
}

func (r *configReader) boolean(parent map[string]any, path []string) bool {
	v, ok := parent[path[len(path)-1]]
	if !ok {
		return false
	}
	b, ok := v.(bool)
	if !ok {
		r.wrongType(v, "a boolean", path)
	}
	return b
}

func (r *configReader) respond(table map[string]any, path []string, rule *Rule, on ruleHost) *api.RuleResponse {
	r.keys(table, path, respondKeys)
	res := &api.RuleResponse{Status: 200, Template: r.boolean(table, below(path, "template"))}
	if v, ok := table["status"]; ok {
		if n := r.status(v, below(path, "status")); n != 0 {
			res.Status = n
		}
	}
	res.Headers = r.respondHeaders(table, below(path, "headers"), on)
	r.respondBody(table, path, res, rule)
	_, body := table["body"]
	_, file := table["body_file"]
	_, json := table["json"]
	res.Page = !body && !file && !json
	if res.Template {
		for _, h := range res.Headers {
			r.template(h[1], r.index.value(below(path, "headers", h[0])...), "header "+h[0])
		}
	}
	rule.Respond = res
	if err := templates.CheckGroups(&rule.Rule); err != nil {
		r.problems.errorf(r.index.value(path...), "%v", err).
			hint(groupHint)
	}
	return res
}

// status reads a status; 0 is one that was reported.
func (r *configReader) status(v any, path []string) int {
	n, ok := v.(int64)
	at := r.index.value(path...)
	switch {
	case !ok:
		r.wrongType(v, "an integer", path)
	case n >= 100 && n < 200:
		r.problems.errorf(at, "status %d announces another response and is none itself", n).hint("use 200 to 599")
	case n < 200 || n > 599:
		r.problems.errorf(at, "status %d is out of range", n).hint("use 200 to 599")
	default:
		return int(n)
	}
	return 0
}

// respondHeaders reads headers in the order of the file. A header that is sent
// several times has a list of values.
func (r *configReader) respondHeaders(parent map[string]any, path []string, on ruleHost) [][2]string {
	table, ok := r.table(parent, path...)
	if !ok {
		return nil
	}
	var headers [][2]string
	seen := map[string]string{}
	for _, name := range r.ordered(table, path) {
		at := below(path, name)
		canonical := textproto.CanonicalMIMEHeaderKey(name)
		switch first, twice := seen[canonical]; {
		case !headerToken(name):
			r.problems.errorf(r.index.key(at...), "%q is not a legal header name", name)
		case isConnectionHeader(name):
			p := r.problems.errorf(r.index.key(at...), "header %q cannot be set: the simulator sets it for each connection", name)
			if canonical == "Content-Length" {
				p.hint("fault = %q ends a response before the length it announced", api.FaultTruncate)
			}
		case canonical == "Server" && on == onPersona:
			r.problems.errorf(r.index.key(at...), "header %q cannot be set by a rule: all answers of a persona have one", name).
				hint("set server_header of the persona")
		case twice:
			r.problems.errorf(r.index.key(at...), "header %q stands twice in %s, first as %q", name, keyName(path), first).
				hint("send it several times with a list: %q = [\"…\", \"…\"]", first)
		}
		seen[canonical] = name
		for _, v := range r.headerValues(table[name], at) {
			headers = append(headers, [2]string{name, v})
		}
	}
	return headers
}

func (r *configReader) headerValues(v any, path []string) []string {
	paths, list := [][]string{path}, []any{v}
	if several, ok := v.([]any); ok {
		paths, list = nil, several
		for i := range several {
			paths = append(paths, below(path, elem(i)))
		}
		if len(several) == 0 {
			r.problems.errorf(r.index.value(path...), "%s is empty", keyName(path)).hint("leave the header out")
		}
	}
	var values []string
	for i, v := range list {
		s, ok := v.(string)
		switch {
		case !ok:
			p := r.problems.errorf(r.index.value(paths[i]...), "%s must be a string, not %s", keyName(paths[i]), tomlType(v))
			if n, ok := v.(int64); ok {
				p.hint("write \"%d\"", n)
			}
		case !headerText(s):
			r.problems.errorf(r.index.value(paths[i]...), "%q is not a legal header value", s).
				hint("leave out line breaks, other control characters, and spaces at its ends")
		default:
			values = append(values, s)
		}
	}
	return values
}

// respondBody reads the body in whichever way it is given. The content of a file
// comes later: reading a config touches no other file.
func (r *configReader) respondBody(table map[string]any, path []string, res *api.RuleResponse, rule *Rule) {
	var given []string
	for _, key := range []string{"body", "body_file", "json"} {
		if _, ok := table[key]; ok {
			given = append(given, key)
		}
	}
	if len(given) > 1 {
		r.problems.errorf(r.index.key(below(path, given[1])...), "%s are in one respond", strings.Join(given, " and ")).
			hint("keep one of them: a response has one body")
	}
	if len(given) > 0 && (res.Status == 204 || res.Status == 304) {
		r.problems.errorf(r.index.key(below(path, given[0])...), "a response with status %d has no body", res.Status).
			hint("remove %s, or choose another status", given[0])
	}
	if v, ok := table["body"]; ok {
		if s, ok := v.(string); ok { // an empty one is a body too
			res.Body = []byte(s)
		} else {
			p := r.problems.errorf(r.index.value(below(path, "body")...), "%s must be a string, not %s", keyName(below(path, "body")), tomlType(v))
			if _, ok := v.(map[string]any); ok {
				p.hint("use json = { … } for a JSON body")
			}
		}
	}
	if v, ok := table["json"]; ok {
		if body, ok := r.json(v, below(path, "json")); ok {
			res.Body, res.JSON = body, true
			if !slices.ContainsFunc(res.Headers, func(h [2]string) bool { return strings.EqualFold(h[0], "Content-Type") }) {
				res.Headers = append(res.Headers, [2]string{"Content-Type", "application/json"})
			}
		}
	}
	if s, ok := r.text(table, below(path, "body_file")...); ok {
		rule.bodyFile = s
	}
	switch _, hasJSON := table["json"]; {
	case !res.Template:
	case hasJSON:
		r.jsonTemplates(table["json"], below(path, "json"))
	default:
		r.template(string(res.Body), r.index.value(below(path, "body")...), "body")
	}
}

// jsonTemplates checks the strings of a JSON body, each of which is a template
// for itself: so what it puts in is encoded and cannot break the JSON.
func (r *configReader) jsonTemplates(v any, path []string) {
	switch v := v.(type) {
	case string:
		r.template(v, r.index.value(path...), "this string")
	case map[string]any:
		for _, name := range r.ordered(v, path) {
			r.jsonTemplates(v[name], below(path, name))
		}
	case []any, []map[string]any:
		list, _ := elements(v)
		for i, e := range list {
			r.jsonTemplates(e, below(path, elem(i)))
		}
	}
}

func (r *configReader) template(text string, at place, what string) {
	if err := templates.CheckTemplate(text); err != nil {
		r.problems.errorf(at, "%s is no template: %s", what, err).
			hint("templates are Go's text/template, with the functions %s; template = false sends the text as it is", strings.Join(api.TemplateFuncs, ", "))
	}
}
