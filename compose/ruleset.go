package compose

import (
	"errors"
	"os"
	"path/filepath"
	"slices"

	"github.com/linuxarena/ctis/server/api"
)

// RuleFile is a file with the rules of one host, or a whole ctis.toml.
type RuleFile struct {
	hosts map[Hostname][]Rule // of a ctis.toml, by persona and upstream
	rules []Rule              // of any other
}

// LoadRules reads a file with rules: [[rules]] for one host, each as it would stand in
// ctis.toml, or a ctis.toml itself. A body_file is relative to the file's directory,
// and may not lead out of it. shown names the file in the problems.
func LoadRules(path, shown string) (*RuleFile, Problems) {
	var ps Problems
	content, err := readFile(path)
	at := place{File: shown}
	var refused *refusedError
	switch {
	case errors.As(err, &refused):
		ps.refused(shown, at, refused)
		return nil, ps
	case os.IsNotExist(err):
		ps.errorf(at, "there is no such file").hint("name a file with [[rules]] in it, or a %s", ConfigFile)
		return nil, ps
	case err != nil:
		ps.errorf(at, "it cannot be read: %s", reason(err))
		return nil, ps
	}
	r, doc := readTOML(shown, content, &ps)
	if r == nil {
		return nil, ps
	}
	l := &environmentLoad{o: Options{Dir: filepath.Dir(shown)}, dir: filepath.Dir(path)}
	if _, whole := doc["network"]; whole || doc["personas"] != nil {
		c := r.config(doc)
		l.config, l.problems = c, ps
		l.bodyFiles()
		f := &RuleFile{hosts: map[Hostname][]Rule{}}
		for _, u := range c.Upstreams {
			f.hosts[Hostname(u.Host)] = u.Rules
		}
		for _, p := range c.Personas {
			f.hosts[p.Host] = p.Rules
		}
		return f, l.problems.sorted(nil)
	}
	r.keys(doc, nil, []string{"rules"})
	if _, ok := doc["rules"]; !ok {
		ps.errorf(r.index.place(0), "there are no rules in it").
			hint("write [[rules]] before each rule; rules = [] is for none at all")
	}
	f := &RuleFile{rules: r.rules(doc, nil, onPersona)}
	// The environment's own way of reading body files takes a whole configuration.
	l.config, l.problems = &Config{Personas: []Persona{{Rules: f.rules}}, index: r.index}, ps
	l.bodyFiles()
	f.rules = l.config.Personas[0].Rules
	return f, l.problems.sorted(nil)
}

// For gives the rules that the file has for a host; false where it is a ctis.toml
// without that host.
func (f *RuleFile) For(host Hostname) ([]api.Rule, bool) {
	if f.hosts == nil {
		return wire(f.rules), true
	}
	rules, ok := f.hosts[host]
	return wire(rules), ok
}

// Hosts are those that the file names, sorted; none where it is not a ctis.toml.
func (f *RuleFile) Hosts() []string {
	var hosts []string
	for h := range f.hosts {
		hosts = append(hosts, string(h))
	}
	slices.Sort(hosts)
	return hosts
}
