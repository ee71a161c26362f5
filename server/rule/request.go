package rule

import (
	"encoding/json"
	"net/url"
	"strings"
)

// Request is what rules look at. It serves one request, in one goroutine.
type Request struct {
	Method   string
	Scheme   string      // http or https
	Host     string      // as sent
	Target   string      // as sent
	Path     string      // decoded once, see [DecodePath]
	RawQuery string      // without the question mark
	Headers  [][2]string // as received; names in any case
	Body     Body        // nil: there is none

	body   []byte
	loaded bool
	valid  validity
	met    [8]int32 // room for the rules whose conditions are met
	places [8]place // of a JSON body, by their numbers in the set of rules
	cookie string   // joined, where it came in pieces
}

// place is what is at a place of a JSON body.
type place struct {
	raw   []byte
	found validity
}

// Body is where a request's body is.
type Body interface {
	// Head gives the first [api.MaxRuleBody] bytes, or all that can be read of them;
	// whole is false where there is more. It is called once, and only if a rule asks.
	Head() (b []byte, whole bool)
}

// Text is a body that is there.
type Text string

// Head gives all of it.
func (t Text) Head() ([]byte, bool) { return []byte(t), true }

// Release lets go of the body; it is asked for again when it is needed again.
func (q *Request) Release() {
	q.body, q.loaded = nil, false
	clear(q.places[:])
}

type validity uint8

const (
	unknown validity = iota
	isJSON
	noJSON
)

// content is what of the body rules see.
func (q *Request) content() []byte {
	if !q.loaded {
		q.loaded = true
		if q.Body != nil {
			var whole bool
			if q.body, whole = q.Body.Head(); !whole {
				q.valid = noJSON // its end is not known
			}
		}
	}
	return q.body
}

// json is the body where it is JSON.
func (q *Request) json() ([]byte, bool) {
	b := q.content()
	if q.valid == unknown {
		if q.valid = noJSON; json.Valid(b) {
			q.valid = isJSON
		}
	}
	return b, q.valid == isJSON
}

// header calls yield with each value of a field, until that says stop.
func (q *Request) header(name string, yield func(string) bool) {
	switch {
	case len(name) == len("Host") && strings.EqualFold(name, "Host"): // HTTP/2 has it elsewhere
		if q.Host != "" {
			yield(q.Host)
		}
		return
	case len(name) == len("Cookie") && strings.EqualFold(name, "Cookie"):
		if c, ok := q.cookies(); ok {
			yield(c)
		}
		return
	}
	for _, f := range q.Headers {
		if len(f[0]) == len(name) && strings.EqualFold(f[0], name) && !yield(f[1]) {
			return
		}
	}
}

// cookies is the Cookie field. Clients of HTTP/2 cut it in pieces as they like, which
// mean the same as the whole (RFC 9113 §8.2.3); ok says whether there is one.
func (q *Request) cookies() (value string, ok bool) {
	if q.cookie != "" {
		return q.cookie, true
	}
	n := 0
	for _, f := range q.Headers {
		if len(f[0]) == len("Cookie") && strings.EqualFold(f[0], "Cookie") {
			if n++; n == 1 {
				value = f[1]
			} else {
				value += "; " + f[1]
			}
		}
	}
	if n > 1 {
		q.cookie = value
	}
	return value, n > 0
}

// query calls yield with each value of a parameter as it was sent, still escaped.
func (q *Request) query(name string, yield func(raw string) bool) {
	rest := q.RawQuery
	for rest != "" {
		var pair string
		pair, rest, _ = strings.Cut(rest, "&")
		if pair == "" {
			continue
		}
		key, value, _ := strings.Cut(pair, "=")
		if unescapesTo(key, name) && !yield(value) {
			return
		}
	}
}

// unescapesTo says whether a part of a query means text, without decoding it.
func unescapesTo(raw, text string) bool {
	k := 0
	for i := 0; i < len(raw); i++ {
		c := raw[i]
		switch {
		case c == '+':
			c = ' '
		case c == '%' && i+2 < len(raw) && isHex(raw[i+1]) && isHex(raw[i+2]):
			c = unhex(raw[i+1])<<4 | unhex(raw[i+2])
			i += 2
		}
		if k == len(text) || text[k] != c {
			return false
		}
		k++
	}
	return k == len(text)
}

// unescape decodes a part of a query; what is no escape stays as it is.
func unescape(raw string) string {
	if !strings.ContainsAny(raw, "%+") {
		return raw
	}
	b := make([]byte, 0, len(raw))
	for i := 0; i < len(raw); i++ {
		c := raw[i]
		switch {
		case c == '+':
			c = ' '
		case c == '%' && i+2 < len(raw) && isHex(raw[i+1]) && isHex(raw[i+2]):
			c = unhex(raw[i+1])<<4 | unhex(raw[i+2])
			i += 2
		}
		b = append(b, c)
	}
	return string(b)
}

// DecodePath decodes the path of a request target once; what is no escape stays
// as it is. A plus sign is itself there.
func DecodePath(path string) string {
	if !strings.Contains(path, "%") {
		return path
	}
	if s, err := url.PathUnescape(path); err == nil {
		return s
	}
	b := make([]byte, 0, len(path))
	for i := 0; i < len(path); i++ {
		c := path[i]
		if c == '%' && i+2 < len(path) && isHex(path[i+1]) && isHex(path[i+2]) {
			c = unhex(path[i+1])<<4 | unhex(path[i+2])
			i += 2
		}
		b = append(b, c)
	}
	return string(b)
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

func unhex(c byte) byte {
	switch {
	case c <= '9':
		return c - '0'
	case c >= 'a':
		return c - 'a' + 10
	}
	return c - 'A' + 10
}
