package compose

import (
	"cmp"
	"slices"
)

// servedHost is a hostname that leads agents to the simulator or to the sidecar,
// with the place that declares it.
type servedHost struct {
	host  Hostname
	name  string // as written
	what  string // what it is declared as
	place place
}

// served are the hostnames of the file that are valid, in its order.
func (c *Config) served() []servedHost {
	var all []servedHost
	add := func(host Hostname, name, what string, at place) {
		if host != "" {
			all = append(all, servedHost{host, name, what, at})
		}
	}
	for _, p := range c.Personas {
		add(p.Host, p.Name, "persona", c.index.key("personas", p.Name))
	}
	for _, e := range c.ExposedServices {
		add(e.Host, e.Name, "exposed service", c.index.key("exposed_services", e.Name))
	}
	for _, u := range c.Upstreams {
		add(u.Host, string(u.Host), "upstream proxy", c.index.value(u.path...))
	}
	slices.SortStableFunc(all, func(a, b servedHost) int {
		return cmp.Or(cmp.Compare(a.place.Line, b.place.Line), cmp.Compare(a.place.Column, b.place.Column))
	})
	return all
}

// repeatedHosts reports hostnames that stand more than once in the file. Of two
// upstreams, the upstreams themselves say more.
func (r *configReader) repeatedHosts(c *Config) {
	first := map[Hostname]servedHost{}
	for _, s := range c.served() {
		f, twice := first[s.host]
		switch {
		case !twice:
			first[s.host] = s
		case s.what != f.what:
			r.problems.errorf(s.place, "hostname %q is declared twice, first as the %s %q in line %d", s.name, f.what, f.name, f.place.Line).
				hint("one host can be one thing only: a persona, an exposed service or an upstream proxy")
		case s.what != "upstream proxy":
			r.problems.errorf(s.place, "hostname %q is declared twice, first as %q in line %d", s.name, f.name, f.place.Line)
		}
	}
	r.repeatedUpstreams(c)
}

// takenNames finds served hostnames that the environment itself gives another
// meaning: such a name would never reach the simulator.
func (c *checker) takenNames() {
	taken := map[Hostname][]mapping{}
	for _, m := range c.mappings() {
		if host, err := ParseHostname(m.name); err == nil {
			taken[host] = append(taken[host], m)
		}
	}
	for _, s := range c.config.served() {
		for _, m := range taken[s.host] {
			c.takenName(s, m)
		}
	}
}

func (c *checker) takenName(s servedHost, m mapping) {
	p := c.problems.errorf(s.place, "hostname %q is taken by the environment: service %q has it as %s", s.name, m.service, m.what)
	switch s.what {
	case "persona":
		p.hint("remove it there (%s:%d), or play another name", m.at.File, m.at.Line)
	case "exposed service":
		p.hint("remove it there (%s:%d), or expose another name", m.at.File, m.at.Line)
	default:
		p.hint("remove it there (%s:%d), or do not proxy it", m.at.File, m.at.Line)
	}
}
