package rule

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/linuxarena/ctis/server/api"
)

// jsonValue asks for a value at a place of a JSON body. Neither finding the place
// nor comparing texts and numbers there makes copies.
type jsonValue struct {
	pointer string
	place   int // number of the pointer in the set, see placeOf
	tokens  []string
	want    any    // json.Number for numbers
	text    []byte // as written in the rule, for messages
	number  []byte // canonical, of a number
	integer bool   // it is written as isInteger says
}

func compileJSONValue(v api.JSONValue) (*jsonValue, error) {
	c := &jsonValue{pointer: v.Pointer, place: -1, text: v.Value}
	var err error
	if c.tokens, err = pointerTokens(v.Pointer); err != nil {
		return nil, fmt.Errorf("body_json: %q %w", clip(v.Pointer), err)
	}
	if c.want, err = decodeJSON(v.Value); err != nil {
		return nil, fmt.Errorf("body_json: the value at %q is no JSON", clip(v.Pointer))
	}
	if n, ok := c.want.(json.Number); ok {
		c.number = canonicalNumber(nil, []byte(n))
		c.text = []byte(n)
		c.integer = isInteger(c.text)
	}
	return c, nil
}

func (c *jsonValue) meets(q *Request) bool {
	doc, ok := q.json()
	if !ok {
		return false
	}
	raw, ok := c.find(q, doc)
	return ok && c.equals(raw)
}

// find is lookup, done once for what several rules look at.
func (c *jsonValue) find(q *Request, doc []byte) (raw []byte, ok bool) {
	if c.place < 0 {
		return lookup(doc, c.tokens)
	}
	at := &q.places[c.place]
	if at.found == unknown {
		at.found = noJSON
		if at.raw, ok = lookup(doc, c.tokens); ok {
			at.found = isJSON
		}
	}
	return at.raw, at.found == isJSON
}

func (c *jsonValue) why(q *Request) string {
	doc, ok := q.json()
	if !ok {
		return "body_json: the body is no JSON"
	}
	raw, ok := lookup(doc, c.tokens)
	if !ok {
		return fmt.Sprintf("body_json: there is nothing at %q", c.pointer)
	}
	return fmt.Sprintf("body_json: %q is %s, not %s", c.pointer, clip(string(raw)), clip(string(c.text)))
}

// pointerTokens takes a JSON Pointer (RFC 6901) apart.
func pointerTokens(pointer string) ([]string, error) {
	if pointer == "" {
		return nil, nil
	}
	if pointer[0] != '/' {
		return nil, errors.New("is no JSON Pointer: it does not begin with a slash")
	}
	tokens := strings.Split(pointer[1:], "/")
	for i, t := range tokens {
		for k := range len(t) {
			if t[k] == '~' && (k+1 == len(t) || t[k+1] != '0' && t[k+1] != '1') {
				return nil, errors.New("is no JSON Pointer: ~ is not followed by 0 or 1")
			}
		}
		tokens[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(t)
	}
	return tokens, nil
}

func decodeJSON(raw []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if d.More() {
		return nil, errors.New("more than one value")
	}
	return v, nil
}

// equals compares a value of a valid document.
func (c *jsonValue) equals(raw []byte) bool {
	switch want := c.want.(type) {
	case string:
		return raw[0] == '"' && stringIs(raw, want)
	case json.Number:
		if raw[0] != '-' && (raw[0] < '0' || raw[0] > '9') {
			return false
		}
		if c.integer && isInteger(raw) {
			return bytes.Equal(raw, c.text)
		}
		var room [64]byte
		return bytes.Equal(canonicalNumber(room[:0], raw), c.number)
	case bool:
		return want == (raw[0] == 't') && (raw[0] == 't' || raw[0] == 'f')
	case nil:
		return raw[0] == 'n'
	}
	if raw[0] != '{' && raw[0] != '[' {
		return false
	}
	v, err := decodeJSON(raw)
	return err == nil && same(v, c.want)
}

// same compares decoded values: numbers by value, objects in any order.
func same(a, b any) bool {
	switch a := a.(type) {
	case json.Number:
		b, ok := b.(json.Number)
		return ok && bytes.Equal(canonicalNumber(nil, []byte(a)), canonicalNumber(nil, []byte(b)))
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for k, v := range a {
			if w, ok := b[k]; !ok || !same(v, w) {
				return false
			}
		}
		return true
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for i := range a {
			if !same(a[i], b[i]) {
				return false
			}
		}
		return true
	}
	return a == b
}

// isInteger says whether a JSON number is written with digits only. Of such numbers
// only the same ones are written the same.
func isInteger(raw []byte) bool {
	for _, c := range raw {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}

// canonicalNumber appends a JSON number in the one form all spellings of its value
// share: its digits without zeros at either end, and the power of ten behind them.
// Powers too large to count make a number equal to nothing but its own spelling.
func canonicalNumber(b, raw []byte) []byte {
	start := len(b)
	mantissa, power, scientific := raw, 0, bytes.IndexAny(raw, "eE")
	if scientific >= 0 {
		mantissa = raw[:scientific]
		sign, digits := 1, raw[scientific+1:]
		if len(digits) > 0 && (digits[0] == '+' || digits[0] == '-') {
			if digits[0] == '-' {
				sign = -1
			}
			digits = digits[1:]
		}
		digits = bytes.TrimLeft(digits, "0")
		if len(digits) > 12 {
			return append(b, raw...)
		}
		for _, d := range digits {
			power = 10*power + int(d-'0')
		}
		power *= sign
	}
	if len(mantissa) > 0 && mantissa[0] == '-' {
		b = append(b, '-')
		mantissa = mantissa[1:]
	}
	digits, fraction := len(b), false
	for _, c := range mantissa {
		if c == '.' {
			fraction = true
			continue
		}
		if fraction {
			power--
		}
		if c != '0' || len(b) > digits {
			b = append(b, c)
		}
	}
	for len(b) > digits && b[len(b)-1] == '0' {
		b = b[:len(b)-1]
		power++
	}
	if len(b) == digits {
		return append(b[:start], '0')
	}
	return strconv.AppendInt(append(b, 'e'), int64(power), 10)
}
