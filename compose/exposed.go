package compose

import "strings"

// ExposedService is a public hostname in front of a service of the project.
type ExposedService struct {
	Host   Hostname
	Name   string // the hostname as the file spells it
	Target Target
}

func (r *configReader) exposedServices(doc map[string]any) []ExposedService {
	table, ok := r.table(doc, "exposed_services")
	if !ok {
		return nil
	}
	var exposed []ExposedService
	for _, name := range r.ordered(table, []string{"exposed_services"}) {
		path := []string{"exposed_services", name}
		if sub, nested := table[name].(map[string]any); nested {
			r.nestedHost(sub, path)
			continue
		}
		host, err := ParseHostname(name)
		if err != nil {
			r.problems.errorf(r.index.key(path...), "%s", err)
		}
		exposed = append(exposed, ExposedService{Host: host, Name: name, Target: r.target(table, "exposed service", path)})
	}
	return exposed
}

// nestedHost reports hostnames without quotes: TOML reads api.example.com =
// "web:80" as tables in tables.
func (r *configReader) nestedHost(table map[string]any, path []string) {
	if len(table) == 0 {
		r.problems.errorf(r.index.key(path...), "%s must be a string, not a table", keyName(path)).
			hint("write %q = \"service:port\"", strings.Join(path[1:], "."))
	}
	for key, v := range table {
		full := below(path, key)
		if sub, nested := v.(map[string]any); nested {
			r.nestedHost(sub, full)
			continue
		}
		p := r.problems.errorf(r.index.key(full...), "%s is a key in a table, not a hostname", keyName(full))
		if target, ok := v.(string); ok {
			p.hint("write %q = %q", strings.Join(full[1:], "."), target)
		}
	}
}
