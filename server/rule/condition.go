package rule

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"github.com/linuxarena/ctis/server/api"
)

// condition is one thing a rule asks of a request by itself. State and counts,
// which other requests change, are [Host]'s.
type condition interface {
	meets(q *Request) bool
	// why says in what a request that does not meet it differs.
	why(q *Request) string
}

// conditionsOf compiles what a rule asks, cheapest first.
func conditionsOf(r *api.Rule) ([]condition, error) {
	var all []condition
	if len(r.Methods) > 0 {
		for _, m := range r.Methods {
			if !token(m) {
				return nil, fmt.Errorf("%q is not a method", clip(m))
			}
		}
		all = append(all, methods(r.Methods))
	}
	if r.Path != "" && r.PathRegex != "" {
		return nil, errors.New("path and path_regex are in one rule")
	}
	if r.Path != "" {
		g, err := compileGlob(r.Path)
		if err != nil {
			return nil, fmt.Errorf("path %q %w", clip(r.Path), err)
		}
		all = append(all, path{r.Path, g})
	}
	if r.PathRegex != "" {
		e, err := compileExpression(r.PathRegex)
		if err != nil {
			return nil, fmt.Errorf("path_regex %q is no usable regular expression: %w", clip(r.PathRegex), err)
		}
		all = append(all, pathRegex{e})
	}
	for _, list := range []struct {
		what string
		of   []api.Condition
	}{{"query", r.Query}, {"headers", r.Headers}} {
		for _, c := range list.of {
			f, err := compileField(list.what, c)
			if err != nil {
				return nil, err
			}
			if list.what == "query" {
				all = append(all, query{f})
			} else {
				all = append(all, header{f})
			}
		}
	}
	return bodyConditions(all, r)
}

func bodyConditions(all []condition, r *api.Rule) ([]condition, error) {
	if r.BodyContains != "" {
		all = append(all, bodyContains(r.BodyContains))
	}
	for _, v := range r.BodyJSON {
		c, err := compileJSONValue(v)
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	if r.BodyRegex != "" {
		e, err := compileExpression(r.BodyRegex)
		if err != nil {
			return nil, fmt.Errorf("body_regex %q is no usable regular expression: %w", clip(r.BodyRegex), err)
		}
		all = append(all, bodyRegex{e})
	}
	return all, nil
}

// meets says whether a request meets all that the rule asks of it by itself.
func (r *Rule) meets(q *Request) bool {
	for _, c := range r.conditions {
		if !c.meets(q) {
			return false
		}
	}
	return true
}

// why names the first condition that a request does not meet, "" for none.
func (r *Rule) why(q *Request) string {
	for _, c := range r.conditions {
		if !c.meets(q) {
			return c.why(q)
		}
	}
	return ""
}

type methods []string

func (m methods) meets(q *Request) bool { return slices.Contains(m, q.Method) }

func (m methods) why(q *Request) string {
	return fmt.Sprintf("methods: %s is not among %s", clip(q.Method), strings.Join(m, ", "))
}

type path struct {
	pattern string
	*glob
}

func (p path) meets(q *Request) bool { return p.match(q.Path) }

func (p path) why(q *Request) string {
	return fmt.Sprintf("path: %q does not match %q", p.pattern, clip(q.Path))
}

type pathRegex struct{ *expression }

func (p pathRegex) meets(q *Request) bool { return p.matchString(q.Path) }

func (p pathRegex) why(q *Request) string {
	return fmt.Sprintf("path_regex: %q does not match %q", p.String(), clip(q.Path))
}

// field is what is asked of a query parameter or a header field.
type field struct {
	name, op, value string
	re              *expression
}

func compileField(what string, c api.Condition) (*field, error) {
	f := &field{name: c.Name, op: c.Op, value: c.Value}
	if what == "headers" && !token(c.Name) {
		return nil, fmt.Errorf("headers: %q is not a legal header name", clip(c.Name))
	}
	switch c.Op {
	case api.OpIs, api.OpPresent, api.OpAbsent:
	case api.OpMatches:
		var err error
		if f.re, err = compileExpression(c.Value); err != nil {
			return nil, fmt.Errorf("%s: %q of %q is no usable regular expression: %w", what, clip(c.Value), clip(c.Name), err)
		}
	default:
		return nil, fmt.Errorf("%s: %q asks for %q, which is nothing to ask for", what, clip(c.Name), clip(c.Op))
	}
	return f, nil
}

func (f *field) why(what string, values []string) string {
	found := "it is not there"
	switch len(values) {
	case 0:
	case 1:
		found = "it is " + strconv.Quote(clip(values[0]))
	default:
		found = fmt.Sprintf("none of its %d values is", len(values))
	}
	switch f.op {
	case api.OpIs:
		return fmt.Sprintf("%s: %q is not %q: %s", what, f.name, clip(f.value), found)
	case api.OpMatches:
		return fmt.Sprintf("%s: %q does not match %q: %s", what, f.name, clip(f.value), found)
	case api.OpPresent:
		return fmt.Sprintf("%s: %q is not there", what, f.name)
	}
	return fmt.Sprintf("%s: %q is there", what, f.name)
}

type query struct{ *field }

func (c query) meets(q *Request) bool {
	there, met := false, false
	q.query(c.name, func(raw string) bool {
		there = true
		switch c.op {
		case api.OpIs:
			met = unescapesTo(raw, c.value)
		case api.OpMatches:
			met = c.re.matchString(unescape(raw))
		}
		return !met
	})
	return met || c.op == api.OpPresent && there || c.op == api.OpAbsent && !there
}

func (c query) why(q *Request) string {
	var values []string
	q.query(c.name, func(raw string) bool { values = append(values, unescape(raw)); return true })
	return c.field.why("query", values)
}

type header struct{ *field }

func (c header) meets(q *Request) bool {
	there, met := false, false
	q.header(c.name, func(value string) bool {
		there = true
		switch c.op {
		case api.OpIs:
			met = value == c.value
		case api.OpMatches:
			met = c.re.matchString(value)
		}
		return !met
	})
	return met || c.op == api.OpPresent && there || c.op == api.OpAbsent && !there
}

func (c header) why(q *Request) string {
	var values []string
	q.header(c.name, func(value string) bool { values = append(values, value); return true })
	return c.field.why("headers", values)
}

type bodyContains string

func (t bodyContains) meets(q *Request) bool {
	return containsText(q.content(), string(t))
}

func (t bodyContains) why(q *Request) string {
	return fmt.Sprintf("body_contains: %q is not in the %d bytes of the body", clip(string(t)), len(q.content()))
}

// containsText is strings.Contains for a text in bytes: bytes.Contains would need a
// copy of the text.
func containsText(b []byte, text string) bool {
	return len(b) >= len(text) && strings.Contains(unsafe.String(unsafe.SliceData(b), len(b)), text)
}

type bodyRegex struct{ *expression }

func (c bodyRegex) meets(q *Request) bool { return c.matchBytes(q.content()) }

func (c bodyRegex) why(q *Request) string {
	return fmt.Sprintf("body_regex: %q does not match the %d bytes of the body", c.String(), len(q.content()))
}
