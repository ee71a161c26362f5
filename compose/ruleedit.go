package compose

import (
	"net/textproto"

	"github.com/linuxarena/ctis/server/api"
)

var editKeys = []string{"status", "headers", "replace"}

// edit reads what a rule changes of a response it passes on.
func (r *configReader) edit(parent map[string]any, rulePath []string, rule *Rule, on ruleHost) *api.ResponseEdit {
	path := below(rulePath, "edit")
	table, ok := r.table(parent, path...)
	if !ok {
		return nil
	}
	r.keys(table, path, editKeys)
	if _, passes := parent["pass"]; !passes {
		p := r.problems.errorf(r.index.key(path...), "edit changes what is passed on, and this rule passes nothing")
		if p.hint("add pass = true"); rule.Respond != nil {
			p.hint("write into respond what it shall be")
		}
	}
	if len(table) == 0 {
		r.problems.errorf(r.index.value(path...), "%s is empty", keyName(path)).hint("leave it out")
	}
	e := &api.ResponseEdit{}
	if v, ok := table["status"]; ok {
		e.Status = r.status(v, below(path, "status"))
	}
	headers := map[string]any{}
	given, _ := r.table(table, below(path, "headers")...)
	for _, name := range r.ordered(given, below(path, "headers")) {
		if v, isBool := given[name].(bool); isBool {
			at := below(path, "headers", name)
			switch {
			case v:
				r.problems.errorf(r.index.value(at...), "%s is true, which is no value", keyName(at)).hint("write a string, or false to remove the header")
			case !headerToken(name), isConnectionHeader(name), textproto.CanonicalMIMEHeaderKey(name) == "Server" && on == onPersona:
				r.problems.errorf(r.index.key(at...), "header %q cannot be removed by a rule", name)
			}
			e.Remove = append(e.Remove, textproto.CanonicalMIMEHeaderKey(name))
			continue
		}
		headers[name] = given[name]
	}
	if len(headers) > 0 {
		e.Set = r.respondHeaders(map[string]any{"headers": headers}, below(path, "headers"), on)
	}
	e.Replace = r.replacements(table, below(path, "replace"))
	return e
}

// replacements reads texts and what takes their place, in the order of the file.
func (r *configReader) replacements(parent map[string]any, path []string) [][2]string {
	table, ok := r.table(parent, path...)
	if !ok {
		return nil
	}
	var pairs [][2]string
	for _, old := range r.ordered(table, path) {
		at := below(path, old)
		s, ok := table[old].(string)
		switch {
		case !ok:
			r.wrongType(table[old], "a string", at)
		case old == "":
			r.problems.errorf(r.index.key(at...), "an empty text cannot be replaced")
		case s == old:
			r.problems.errorf(r.index.value(at...), "%q is replaced by itself", excerpt(old))
		}
		pairs = append(pairs, [2]string{old, s})
	}
	return pairs
}
