package journal

import (
	"encoding/json"
	"strings"

	"github.com/linuxarena/ctis/server/api"
)

// filter is the part of a query that decides about single records.
type filter struct {
	all   bool // nothing is asked
	kinds map[string]bool
	hosts map[string]bool
	since string // as records write it, so that texts compare like instants
}

func newFilter(q api.JournalQuery) filter {
	f := filter{all: len(q.Kinds) == 0 && len(q.Hosts) == 0 && q.Since.IsZero()}
	if len(q.Kinds) > 0 {
		f.kinds = make(map[string]bool)
		for _, k := range q.Kinds {
			f.kinds[k] = true
		}
	}
	if len(q.Hosts) > 0 {
		f.hosts = make(map[string]bool)
		for _, h := range q.Hosts {
			f.hosts[hostOnly(h)] = true
		}
	}
	if !q.Since.IsZero() {
		b, _ := api.Time{Time: q.Since}.MarshalJSON() // cannot fail
		f.since = strings.Trim(string(b), `"`)
	}
	return f
}

func (f filter) selects(h head, line []byte) bool {
	if f.kinds != nil && !f.kinds[string(h.kind)] {
		return false
	}
	if f.since != "" && string(h.time) < f.since {
		return false
	}
	if f.hosts == nil {
		return true
	}
	var rec struct {
		Request *struct {
			Host string `json:"host"`
		} `json:"request"`
	}
	if json.Unmarshal(line, &rec) != nil || rec.Request == nil {
		return false
	}
	return f.hosts[hostOnly(rec.Request.Host)]
}

// hostOnly is a host as it is compared: lower case, no port, no final dot.
func hostOnly(host string) string {
	host = strings.ToLower(host)
	if i := strings.LastIndexByte(host, ':'); i >= 0 && !strings.HasSuffix(host, "]") {
		host = host[:i]
	}
	return strings.TrimSuffix(host, ".")
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
