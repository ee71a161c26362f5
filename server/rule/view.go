package rule

import (
	"encoding/json"
	"fmt"
	"net/textproto"
	"strings"
)

// view is the dot of templates: what they see of the request. Its methods are all
// that a template can call on it.
type view struct{ x *execution }

// String is what a template shows that shows all of it.
func (v view) String() string { return v.Method() + " " + v.Target() }

// Method is the request's method.
func (v view) Method() string { return v.x.request.Method }

// Scheme is http or https.
func (v view) Scheme() string { return v.x.request.Scheme }

// Host is the host as the client called it.
func (v view) Host() string { return v.x.request.Host }

// Path is the decoded path.
func (v view) Path() string { return v.x.request.Path }

// Target is path and query as they were sent.
func (v view) Target() string { return v.x.request.Target }

// RawQuery is the query as it was sent.
func (v view) RawQuery() string { return v.x.request.RawQuery }

// Trajectory is the trajectory's id.
func (v view) Trajectory() string { return v.x.firing.host.Trajectory }

// Rule is what records call the rule.
func (v view) Rule() string { return v.x.firing.Rule.Ref }

// State is the host's state before the rule fired.
func (v view) State() string { return v.x.firing.State }

// Query is the first value of a query parameter, "" without one.
func (v view) Query(name string) (value string, err error) {
	v.x.request.query(name, func(raw string) bool { value = unescape(raw); return false })
	return value, v.x.spend(len(v.x.request.RawQuery))
}

// Header is the first value of a header field, "" without one.
func (v view) Header(name string) (value string, err error) {
	v.x.request.header(textproto.CanonicalMIMEHeaderKey(name), func(s string) bool { value = s; return false })
	return value, v.x.spend(16 * len(v.x.request.Headers))
}

// Cookie is the value of a cookie, "" without one.
func (v view) Cookie(name string) (value string, err error) {
	n := 0
	v.x.request.header("Cookie", func(s string) bool {
		n += len(s)
		for pair := range strings.SplitSeq(s, ";") {
			if k, val, ok := strings.Cut(strings.TrimSpace(pair), "="); ok && k == name {
				value = strings.Trim(val, `"`)
				return false
			}
		}
		return true
	})
	return value, v.x.spend(n)
}

// Body is the request's body, of a long one the beginning.
func (v view) Body() (string, error) {
	b := v.x.request.content()
	if err := v.x.spend(len(b)); err != nil {
		return "", err
	}
	return string(b), nil
}

// Form is the first value of a field of a body that is a URL-encoded form, ""
// without one.
func (v view) Form(name string) (value string, err error) {
	b := v.x.request.content()
	if err := v.x.spend(len(b)); err != nil {
		return "", err
	}
	q := Request{RawQuery: string(b)}
	q.query(name, func(raw string) bool { value = unescape(raw); return false })
	return value, nil
}

// JSON is the body as JSON: maps, lists, texts, numbers as they are written. It is
// nil for a body that is none.
func (v view) JSON() (any, error) {
	b, ok := v.x.request.json()
	if !ok {
		return nil, nil
	}
	if err := v.x.spend(8 * len(b)); err != nil { // as maps it takes several times the room
		return nil, err
	}
	return decodeJSON(b)
}

// Value is the value at a place of a JSON body, by dotted names or a JSON Pointer,
// "" where there is none. Texts and numbers are given as texts, anything else as
// JSON.
func (v view) Value(place string) (string, error) {
	b, ok := v.x.request.json()
	if err := v.x.spend(len(b)); err != nil || !ok {
		return "", err
	}
	pointer := place
	if place != "" && place[0] != '/' {
		pointer = "/" + strings.ReplaceAll(strings.NewReplacer("~", "~0", "/", "~1").Replace(place), ".", "/")
	}
	tokens, err := pointerTokens(pointer)
	if err != nil {
		return "", fmt.Errorf("%q %w", clip(place), err)
	}
	raw, ok := lookup(b, tokens)
	switch {
	case !ok:
		return "", nil
	case raw[0] == '"':
		var s string
		err := json.Unmarshal(raw, &s)
		return s, err
	}
	return string(raw), nil
}

// Match is what the n-th group of path_regex matched, "" for a group that took no
// part; 0 is all of it.
func (v view) Match(n int) (string, error) {
	if err := v.x.spend(len(v.x.request.Path)); err != nil {
		return "", err
	}
	for _, c := range v.x.firing.Rule.conditions {
		p, ok := c.(pathRegex)
		if !ok {
			continue
		}
		groups := p.FindStringSubmatch(v.x.request.Path)
		if n < 0 || n >= len(groups) {
			return "", fmt.Errorf("path_regex has no group %d", n)
		}
		return groups[n], nil
	}
	return "", fmt.Errorf("the rule has no path_regex")
}
