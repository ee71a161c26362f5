package rule

import (
	"bytes"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"text/template"
	"time"
)

// funcs are the functions of templates, which package api lists; and Go's own
// that could take more room than there is, bounded.
func (x *execution) funcs() template.FuncMap {
	return template.FuncMap{
		"json": x.json, "base64": x.base64, "uuid": x.uuid, "now": x.now, "counter": x.counter, "hash": x.hash, "random": x.randomValue,
		"print": x.print, "println": x.println, "printf": x.printf,
		"html":     func(args ...any) (string, error) { return x.escape(template.HTMLEscaper, 5, args) },
		"js":       func(args ...any) (string, error) { return x.escape(template.JSEscaper, 6, args) },
		"urlquery": func(args ...any) (string, error) { return x.escape(template.URLQueryEscaper, 3, args) },
		tick:       x.round,
	}
}

// json encodes a value as JSON: {{json (.Query "q")}} is a quoted text.
func (x *execution) json(v any) (string, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return "", err
	}
	return strings.TrimSuffix(b.String(), "\n"), x.spend(b.Len())
}

// base64 encodes a text: {{base64 .Body}}. With "decode" before the text it
// decodes it, "" where it is none.
func (x *execution) base64(args ...any) (string, error) {
	switch len(args) {
	case 1:
		s, err := x.text(args[0])
		if err != nil {
			return "", err
		}
		return base64.StdEncoding.EncodeToString([]byte(s)), x.spend(2 * len(s))
	case 2:
		s, err := x.text(args[1])
		if err != nil || args[0] != "decode" {
			return "", errors.Join(err, unless(args[0] == "decode", `base64 takes a text, or "decode" and a text`))
		}
		plain := strings.TrimRight(strings.NewReplacer("-", "+", "_", "/", "\n", "", "\r", "").Replace(s), "=")
		b, decodeErr := base64.RawStdEncoding.DecodeString(plain)
		if decodeErr != nil {
			return "", nil //nolint:nilerr // what a client sent is no error of the rule
		}
		return string(b), x.spend(len(s))
	}
	return "", errors.New(`base64 takes a text, or "decode" and a text`)
}

func unless(ok bool, message string) error {
	if ok {
		return nil
	}
	return errors.New(message)
}

// uuid is a UUID of version 4, the same whenever the same trajectory comes to the
// same firing.
func (x *execution) uuid() (string, error) {
	var b [16]byte
	r := x.stream()
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	s := hex.EncodeToString(b[:])
	return s[:8] + "-" + s[8:12] + "-" + s[12:16] + "-" + s[16:20] + "-" + s[20:], x.spend(36)
}

// now is the time, in UTC: RFC 3339 without an argument; "unix" and "unixms" are
// the seconds and milliseconds since 1970, "http" is the form of HTTP headers, and
// any other text is a layout of Go's time package. A second argument, a duration
// such as "-1h", moves it.
func (x *execution) now(args ...string) (string, error) {
	t, layout := x.firing.Now.UTC(), ""
	if len(args) > 2 {
		return "", errors.New("now takes a layout and a duration")
	}
	if len(args) == 2 {
		d, err := time.ParseDuration(args[1])
		if err != nil {
			return "", fmt.Errorf("now: %q is not a duration", clip(args[1]))
		}
		t = t.Add(d)
	}
	if len(args) > 0 {
		layout = args[0]
	}
	if err := x.spend(len(layout)); err != nil {
		return "", err
	}
	switch layout {
	case "":
		return t.Format(time.RFC3339), nil
	case "unix":
		return strconv.FormatInt(t.Unix(), 10), nil
	case "unixms":
		return strconv.FormatInt(t.UnixMilli(), 10), nil
	case "http":
		return t.Format(http.TimeFormat), nil
	}
	return t.Format(layout), nil
}

// counter is which firing of the rule this is, counted from 1.
func (x *execution) counter() (int64, error) { return x.firing.Count, x.spend(8) }

// hash is the SHA-256 of a text in hex; before the text may stand the name of
// another hash: md5, sha1, sha256 or sha512.
func (x *execution) hash(args ...any) (string, error) {
	name := any("sha256")
	if len(args) == 2 {
		name, args = args[0], args[1:]
	}
	if len(args) != 1 {
		return "", errors.New("hash takes a text, or the name of a hash and a text")
	}
	var h hash.Hash
	switch name {
	case "md5":
		h = md5.New()
	case "sha1":
		h = sha1.New()
	case "sha256":
		h = sha256.New()
	case "sha512":
		h = sha512.New()
	default:
		return "", fmt.Errorf("hash: there is no %q; there are md5, sha1, sha256 and sha512", clip(fmt.Sprint(name)))
	}
	s, err := x.text(args[0])
	if err != nil {
		return "", err
	}
	h.Write([]byte(s))
	return hex.EncodeToString(h.Sum(nil)), x.spend(4 * len(s))
}

const alnum = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

// maxRandom bounds a random text in bytes.
const maxRandom = 4096

// randomValue is a number from 0 to below N ({{random 100}}), from A to below B
// ({{random 10 20}}), or a text of so many hex digits ({{random "hex" 32}}) or
// letters and digits ({{random "alnum" 20}}).
func (x *execution) randomValue(args ...any) (string, error) {
	usage := errors.New(`random takes a number, two numbers, or "hex" or "alnum" and a length up to 4096`)
	if len(args) == 0 || len(args) > 2 {
		return "", usage
	}
	if err := x.spend(8); err != nil {
		return "", err
	}
	kind, isText := args[0].(string)
	if !isText {
		bounds := []int64{0}
		for _, a := range args {
			n, ok := a.(int)
			if !ok {
				return "", usage
			}
			bounds = append(bounds, int64(n))
		}
		low, high := bounds[len(bounds)-2], bounds[len(bounds)-1]
		if high-low <= 0 {
			return "", fmt.Errorf("random: there is no number from %d to below %d", low, high)
		}
		return strconv.FormatInt(low+x.stream().Int64N(high-low), 10), nil
	}
	digits := map[string]string{"hex": "0123456789abcdef", "alnum": alnum}[kind]
	if len(args) != 2 || digits == "" {
		return "", usage
	}
	n, ok := args[1].(int)
	if !ok || n < 1 || n > maxRandom {
		return "", usage
	}
	b, r := make([]byte, n), x.stream()
	for i := range b {
		b[i] = digits[r.IntN(len(digits))]
	}
	return string(b), x.spend(n)
}

// text is a value as print shows it.
func (x *execution) text(v any) (string, error) {
	if s, ok := v.(string); ok {
		return s, x.spend(len(s))
	}
	return x.print(v)
}

func (x *execution) print(args ...any) (string, error) {
	s := fmt.Sprint(args...)
	return s, x.spend(len(s))
}

func (x *execution) println(args ...any) (string, error) {
	s := fmt.Sprintln(args...)
	return s, x.spend(len(s))
}

// printf bounds widths and precisions, which make much of little.
func (x *execution) printf(format string, args ...any) (string, error) {
	digits := 0
	for i := range len(format) {
		switch c := format[i]; {
		case c == '*', c == '[':
			return "", errors.New("printf: widths must be written as numbers here")
		case c >= '0' && c <= '9':
			if digits++; digits > 3 && strings.Contains(format[:i], "%") {
				return "", errors.New("printf: a width has at most three digits here")
			}
		default:
			digits = 0
		}
	}
	if err := x.spend(len(format) + 1000*strings.Count(format, "%")); err != nil {
		return "", err
	}
	s := fmt.Sprintf(format, args...)
	return s, x.spend(len(s))
}

func (x *execution) escape(by func(...any) string, growth int, args []any) (string, error) {
	s, err := x.print(args...)
	if err == nil {
		err = x.spend(growth * len(s))
	}
	if err != nil {
		return "", err
	}
	return by(s), nil
}

// stream is the random numbers of this answer.
func (x *execution) stream() *rand.Rand {
	if x.firing.stream == nil {
		x.firing.stream = x.firing.random("templates")
	}
	return x.firing.stream
}

// random are numbers that depend on the trajectory's id, the host, the rule and
// which firing of it this is, and on nothing else: a run can be repeated.
func (f *Firing) random(purpose string) *rand.Rand {
	seed := sha256.Sum256(fmt.Appendf(nil, "ctis rule\n%s\n%s\n%s\n%d\n%d\n%s\n", f.host.Trajectory, f.host.Name, f.Rule.Ref, f.host.Revision, f.Count, purpose))
	return rand.New(rand.NewChaCha8(seed))
}
