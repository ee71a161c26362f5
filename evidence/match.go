package evidence

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/linuxarena/ctis/server/api"
)

// Answer is what can be said about a condition.
type Answer int

// The answers. Unknown is one of a condition about what the journal does not hold.
const (
	No Answer = iota
	Unknown
	Yes
)

// Match is a set of conditions about one record. Of a list one has to fit, except that
// every one of Contains and Regexes has to.
type Match struct {
	Kinds, Hosts, Methods []string
	Paths                 []Pattern // globs about [api.TargetPath]
	Statuses              []Status
	SHA256                []string // of the body, in hex
	Contains              [][]byte // in the body
	Regexes               []Pattern
}

// Pattern is a compiled expression and how it was written.
type Pattern struct {
	Text string
	*regexp.Regexp
}

// Glob makes a pattern of a path glob ([api.PathGlob]).
func Glob(text string) (Pattern, error) {
	re, err := api.PathGlob(text)
	return Pattern{text, re}, err
}

// Regex makes a pattern of a regular expression, bounded as [api.CheckRegex] says.
func Regex(text string) (Pattern, error) {
	if err := api.CheckRegex(text); err != nil {
		return Pattern{}, err
	}
	re, err := regexp.Compile(text)
	return Pattern{text, re}, err
}

// Status selects responses by their status.
type Status struct {
	Text        string
	least, most int // both 0 for no response at all
}

// ParseStatus reads "404", "4xx" or "none".
func ParseStatus(s string) (Status, error) {
	if s == "none" {
		return Status{Text: s}, nil
	}
	if class, ok := strings.CutSuffix(strings.ToLower(s), "xx"); ok && len(class) == 1 && class[0] >= '1' && class[0] <= '9' {
		n := int(class[0]-'0') * 100
		return Status{s, n, n + 99}, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 100 || n > 999 {
		return Status{}, fmt.Errorf("%q is no status", s)
	}
	return Status{s, n, n}, nil
}

// Empty tells that there are no conditions.
func (m *Match) Empty() bool {
	return len(m.Kinds)+len(m.Hosts)+len(m.Methods)+len(m.Paths)+len(m.Statuses)+len(m.SHA256)+len(m.Contains)+len(m.Regexes) == 0
}

// NeedsBody tells that conditions are about bodies' bytes.
func (m *Match) NeedsBody() bool { return len(m.Contains)+len(m.Regexes) > 0 }

// Finding is what came of one condition.
type Finding struct {
	Condition string `json:"condition"` // as it is given on the command line
	Answer    Answer `json:"-"`
	Was       string `json:"was"` // what the record has there
}

// Judge checks every condition. The whole fits when all do, and is unknown when none
// is missed and some cannot be answered. Bodies are read in pieces.
func (m *Match) Judge(ctx context.Context, r *api.Record, bodies Bodies) (Answer, []Finding, error) {
	var all []Finding
	add := func(flag string, values []string, a Answer, was string) {
		all = append(all, Finding{"--" + flag + " " + strings.Join(values, " or "), a, was})
	}
	one := func(flag string, values []string, has string, same func(want, has string) bool) {
		if len(values) > 0 {
			add(flag, values, answer(slices.ContainsFunc(values, func(want string) bool { return same(want, has) })), has)
		}
	}
	equal := func(want, has string) bool { return want == has }
	var q api.Request
	if r.Request != nil {
		q = *r.Request
	}
	one("kind", m.Kinds, r.Kind, equal)
	one("host", m.Hosts, q.Host, func(want, has string) bool { return r.Request != nil && api.HostName(want) == api.HostName(has) })
	one("method", m.Methods, q.Method, equal)
	if len(m.Paths) > 0 {
		path := api.TargetPath(q.Target)
		add("path", texts(m.Paths), answer(slices.ContainsFunc(m.Paths, func(p Pattern) bool { return r.Request != nil && p.MatchString(path) })), path)
	}
	if len(m.Statuses) > 0 {
		a, was := m.status(r)
		var values []string
		for _, s := range m.Statuses {
			values = append(values, s.Text)
		}
		add("status", values, a, was)
	}
	sent := SentBodies(r)
	if len(m.SHA256) > 0 {
		one("body-sha256", m.SHA256, q.Body.SHA256, func(want, _ string) bool {
			return slices.ContainsFunc(sent, func(b *api.Body) bool { return strings.EqualFold(b.SHA256, want) })
		})
	}
	if m.NeedsBody() {
		whole := Yes // of the other conditions: a body that cannot matter is not read
		for _, f := range all {
			whole = min(whole, f.Answer)
		}
		found, err := m.bodies(ctx, sent, bodies, whole == No)
		if err != nil {
			return No, nil, err
		}
		if mayTunnel(r) {
			for i := range found {
				found[i].Answer = max(found[i].Answer, Unknown)
				found[i].Was += ", and what goes over the WebSocket is not known"
			}
		}
		all = append(all, found...)
	}
	total := Yes
	for _, f := range all {
		total = min(total, f.Answer)
	}
	return total, all, nil
}

func answer(yes bool) Answer {
	if yes {
		return Yes
	}
	return No
}

func texts(ps []Pattern) (out []string) {
	for _, p := range ps {
		out = append(out, p.Text)
	}
	return out
}

func (m *Match) status(r *api.Record) (Answer, string) {
	if r.Response == nil && (r.OutcomeUnknown || Pending(r)) {
		return Unknown, "not known"
	}
	for _, s := range m.Statuses {
		if r.Response == nil && s.most == 0 || r.Response != nil && s.least <= r.Response.Status && r.Response.Status <= s.most {
			return Yes, s.Text
		}
	}
	if r.Response == nil {
		return No, "none"
	}
	return No, strconv.Itoa(r.Response.Status)
}

// Pending tells that the outcome of a joined record is still to come.
func Pending(r *api.Record) bool {
	return r.Response == nil && !r.OutcomeUnknown && r.Error == "" && api.OutcomeFollows(r.Kind)
}

// mayTunnel tells that a record's client may have sent more than is known: it asked to
// switch protocols, and the outcome is not there.
func mayTunnel(r *api.Record) bool {
	if r.Request == nil || !r.OutcomeUnknown && !Pending(r) {
		return false
	}
	return r.Request.Method == "CONNECT" || header(r.Request.Headers, "Upgrade") != ""
}

// bodies answers the conditions about the bytes of any of sent. Only those that are in
// the record are read where cheap is set.
func (m *Match) bodies(ctx context.Context, sent []*api.Body, bodies Bodies, cheap bool) ([]Finding, error) {
	var all []Finding
	check := func(condition string, in func(io.Reader) (bool, error)) error {
		f := Finding{Condition: condition, Was: "no body"}
		for _, b := range sent {
			f.Was = fmt.Sprintf("a body of %d bytes", b.Size)
			if b.Encoding == api.EncodingFile && cheap {
				f.Answer, f.Was = max(f.Answer, Unknown), f.Was+", not read"
				continue
			}
			r, err := OpenBody(ctx, b, bodies)
			if errors.Is(err, ErrNotKept) {
				f.Answer, f.Was = max(f.Answer, Unknown), f.Was+" that was not kept whole"
				continue
			}
			if err != nil {
				return err
			}
			yes, err := in(r)
			if err = errors.Join(err, r.Close()); err != nil {
				return fmt.Errorf("read body %q: %w", b.SHA256, err)
			}
			if yes {
				f.Answer = Yes
				break
			}
		}
		all = append(all, f)
		return nil
	}
	for _, want := range m.Contains {
		if err := check(fmt.Sprintf("--body-contains %q", want), func(r io.Reader) (bool, error) { return contains(r, want) }); err != nil {
			return nil, err
		}
	}
	for _, p := range m.Regexes {
		if err := check("--body-regex "+p.Text, func(r io.Reader) (bool, error) {
			last := &lastError{r: r}
			yes := p.MatchReader(bufio.NewReaderSize(last, 64<<10))
			return yes, last.err
		}); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// lastError remembers why reading ended, which a regular expression does not tell.
type lastError struct {
	r   io.Reader
	err error
}

func (l *lastError) Read(b []byte) (int, error) {
	n, err := l.r.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		l.err = err
	}
	return n, err
}

// contains searches a stream in pieces.
func contains(r io.Reader, want []byte) (bool, error) {
	buf := make([]byte, 0, 64<<10+len(want))
	for {
		n, err := r.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if bytes.Contains(buf, want) {
			return true, nil
		}
		if keep := len(want) - 1; len(buf) > keep {
			buf = buf[:copy(buf, buf[len(buf)-max(keep, 0):])]
		}
		if errors.Is(err, io.EOF) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
}
