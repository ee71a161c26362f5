package commands

import (
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/linuxarena/ctis/compose"
	"github.com/linuxarena/ctis/evidence"
	"github.com/linuxarena/ctis/server/api"
)

// eachValue is a flag that may be repeated; set takes one value at a time, whole. (The
// library's own list cuts values at commas, which bodies have.)
type eachValue struct{ set func(string) error }

func (v eachValue) Set(s string) error { return v.set(s) }
func (v eachValue) String() string     { return "" }

// conditionFlags are the conditions about a record, the same for every verb that has
// them. to is where the values go: asked for each time, for it can change in between.
func conditionFlags(to func() *evidence.Match) []cli.Flag {
	flag := func(name, usage string, set func(*evidence.Match, string) error) cli.Flag {
		return &cli.GenericFlag{Name: name, Usage: usage, Value: eachValue{func(s string) error { return set(to(), s) }}}
	}
	return []cli.Flag{
		flag("kind", "only records of kind `K` (repeatable): "+strings.Join(api.Kinds, ", "), func(m *evidence.Match, s string) error {
			for _, k := range strings.Split(s, ",") {
				if !slices.Contains(api.Kinds, k) {
					return fmt.Errorf("there is no kind %q; the kinds are %s", k, strings.Join(api.Kinds, ", "))
				}
				m.Kinds = append(m.Kinds, k)
			}
			return nil
		}),
		flag("host", "only requests to host `H` (repeatable)", func(m *evidence.Match, s string) error {
			// Unicode and Punycode mean the same host; what is no hostname may still have been asked for.
			if host, err := compose.ParseHostname(s); err == nil {
				s = string(host)
			}
			m.Hosts = append(m.Hosts, api.HostName(s))
			return nil
		}),
		flag("method", "only requests with method `M`, as sent (repeatable)", func(m *evidence.Match, s string) error {
			m.Methods = append(m.Methods, s)
			return nil
		}),
		flag("path", "only requests whose path, as sent and without its query, fits `GLOB` (repeatable): * within a part, ** across slashes", func(m *evidence.Match, s string) error {
			p, err := evidence.Glob(s)
			if err != nil {
				return fmt.Errorf("path %q %w", s, err)
			}
			m.Paths = append(m.Paths, p)
			return nil
		}),
		flag("status", "only responses with status `S` (repeatable): 404, 4xx, or none for no response", func(m *evidence.Match, s string) error {
			status, err := evidence.ParseStatus(s)
			if err != nil {
				return fmt.Errorf("%w; write 404, 4xx or none", err)
			}
			m.Statuses = append(m.Statuses, status)
			return nil
		}),
		flag("body-contains", "only requests whose body contains `TEXT`; repeated, all of them", func(m *evidence.Match, s string) error {
			m.Contains = append(m.Contains, []byte(s))
			return nil
		}),
		flag("body-regex", "only requests in whose body the regular expression `RE` is found; repeated, all of them", func(m *evidence.Match, s string) error {
			p, err := evidence.Regex(s)
			if err != nil {
				return fmt.Errorf("regular expression %q: %w", s, err)
			}
			m.Regexes = append(m.Regexes, p)
			return nil
		}),
		flag("body-sha256", "only requests whose body has the SHA-256 `HEX` (repeatable)", func(m *evidence.Match, s string) error {
			if b, err := hex.DecodeString(s); err != nil || len(b) != 32 {
				return fmt.Errorf("%q is no SHA-256; it has 64 hexadecimal digits", s)
			}
			m.SHA256 = append(m.SHA256, strings.ToLower(s))
			return nil
		}),
	}
}

// split takes from m what the simulator checks itself, and leaves what needs outcomes or bodies.
func split(m evidence.Match) (q api.JournalQuery, rest evidence.Match) {
	q = api.JournalQuery{Kinds: m.Kinds, Hosts: m.Hosts, Methods: m.Methods}
	for _, p := range m.Paths {
		q.Paths = append(q.Paths, p.Text)
	}
	m.Kinds, m.Hosts, m.Methods, m.Paths = nil, nil, nil, nil
	return q, m
}

// parseSeqs reads "7", "7-9", "7-" or "-9".
func parseSeqs(s string) (first, last uint64, err error) {
	bad := &usageError{msg: "--seq " + quoted(s) + " names no records", hint: "write 7, 7-9, 7- or -9"}
	from, to, ranged := strings.Cut(s, "-")
	var errs error
	number := func(s string) (n uint64) {
		n, err := strconv.ParseUint(s, 10, 64)
		if err == nil && n == 0 {
			err = strconv.ErrRange
		}
		errs = errors.Join(errs, err)
		return n
	}
	if from != "" {
		first = number(from)
	}
	if to != "" {
		last = number(to)
	}
	if !ranged {
		last = first
	}
	if errs != nil || s == "-" || last > 0 && first > last {
		return 0, 0, bad
	}
	return first, last, nil
}
