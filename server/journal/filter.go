package journal

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/linuxarena/ctis/server/api"
)

// filter is the part of a query that decides about single records. All of it is in a
// record's first line, so no outcome has to be known.
type filter struct {
	all          bool // nothing is asked
	kinds        []string
	hosts        []string
	methods      []string
	paths        []*regexp.Regexp
	since, until string // as records write them, so that texts compare like instants
	first, last  uint64 // last is 0 where there is no end
}

// newFilter makes the filter of a query whose globs were checked when it was parsed;
// one that is none fits nothing.
func newFilter(q api.JournalQuery) filter {
	f := filter{kinds: q.Kinds, methods: q.Methods, first: q.First, last: q.Last}
	for _, h := range q.Hosts {
		f.hosts = append(f.hosts, api.HostName(h))
	}
	for _, glob := range q.Paths {
		re, err := api.PathGlob(glob)
		if err != nil {
			re = regexp.MustCompile(`\z\A.`)
		}
		f.paths = append(f.paths, re)
	}
	f.since, f.until = instant(q.Since), instant(q.Until)
	f.all = len(q.Kinds)+len(q.Hosts)+len(q.Methods)+len(q.Paths) == 0 && f.since == "" && f.until == "" && f.first <= 1 && f.last == 0
	return f
}

// instant is one as records write it; "" for none.
func instant(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return strings.Trim(string(api.Time{Time: t}.AppendJSON(nil)), `"`)
}

// past tells that neither this record nor a later one is selected.
func (f filter) past(h head) bool { return f.last > 0 && h.seq > f.last }

func (f filter) selects(h head, line []byte) bool {
	switch {
	case h.seq < f.first, f.past(h),
		len(f.kinds) > 0 && !slices.Contains(f.kinds, string(h.kind)),
		f.since != "" && string(h.time) < f.since,
		f.until != "" && string(h.time) >= f.until:
		return false
	case len(f.hosts) == 0 && len(f.methods) == 0 && len(f.paths) == 0:
		return true
	}
	var rec struct {
		Request *struct {
			Method string `json:"method"`
			Host   string `json:"host"`
			Target string `json:"target"`
		} `json:"request"`
	}
	if json.Unmarshal(line, &rec) != nil || rec.Request == nil {
		return false
	}
	q := rec.Request
	path := api.TargetPath(q.Target)
	return (len(f.hosts) == 0 || slices.Contains(f.hosts, api.HostName(q.Host))) &&
		(len(f.methods) == 0 || slices.Contains(f.methods, q.Method)) &&
		(len(f.paths) == 0 || slices.ContainsFunc(f.paths, func(re *regexp.Regexp) bool { return re.MatchString(path) }))
}

// ring keeps the newest limit spans.
type ring struct {
	limit int
	spans []span
	first int
}

func (g *ring) add(s span) {
	if len(g.spans) < g.limit {
		g.spans = append(g.spans, s)
		return
	}
	g.spans[g.first] = s
	g.first = (g.first + 1) % g.limit
}

func (g *ring) each(f func(span) error) error {
	for i := range g.spans {
		if err := f(g.spans[(g.first+i)%len(g.spans)]); err != nil {
			return err
		}
	}
	return nil
}
