package compose

import (
	"strings"

	"github.com/compose-spec/compose-go/v2/types"
)

const exportIt = "export it, or put it into .env beside the Compose file"

// requiredVariables reports the required variables that are not set or empty.
func (l *environmentLoad) requiredVariables(vars types.Mapping) {
	for i, name := range l.config.RequiredEnvVars {
		if !envName.MatchString(name) || vars[name] != "" {
			continue
		}
		l.problems.errorf(l.config.index.value("required_env_vars", elem(i)), "required variable %q is %s", name, unsetState(vars, name)).hint(exportIt)
	}
}

// apiKeys reports the variables of API keys that are not set or empty. Of a host
// that the file declares that is an error. A built-in provider answers 503
// instead (SPEC §10), which its author should know beforehand. The values appear
// in no message.
func (l *environmentLoad) apiKeys(vars types.Mapping) {
	for _, u := range l.config.Upstreams {
		if !envName.MatchString(u.KeyEnv) {
			continue
		}
		at := l.config.index.value(u.path...)
		if u.Provider == "" {
			at = l.config.index.value(below(u.path, "api_key_env")...)
		}
		switch key := vars[u.KeyEnv]; {
		case key == "" && u.Provider == "":
			l.problems.errorf(at, "API key variable %q is %s", u.KeyEnv, unsetState(vars, u.KeyEnv)).hint(exportIt)
		case key == "":
			l.problems.warnf(at, "upstream proxy %q has no key, because %q is %s: it will answer 503", u.Provider, u.KeyEnv, unsetState(vars, u.KeyEnv)).hint(exportIt)
		case !headerText(key):
			l.problems.errorf(at, "the value of API key variable %q cannot be sent in a header", u.KeyEnv).
				hint("it has a space at its end, a line break or another control character")
		}
	}
}

func unsetState(vars types.Mapping, name string) string {
	if _, ok := vars[name]; ok {
		return "empty"
	}
	return "not set"
}

// leastSecret is how long a key must be, in bytes, to be looked for within other values.
const leastSecret = 8

// heldKeys warns of containers that are given a key which only the gateway
// should have: an agent that gets there can take it elsewhere.
func (c *checker) heldKeys() {
	names := map[string]string{} // of the variable, by the key's value
	for _, u := range c.config.Upstreams {
		if v := c.vars[u.KeyEnv]; v != "" {
			names[v] = u.KeyEnv
		}
	}
	for _, service := range c.project.ServiceNames() {
		s := c.project.Services[service]
		for _, variable := range sortedKeys(s.Environment) {
			v := s.Environment[variable]
			if v == nil {
				continue
			}
			for _, key := range sortedKeys(names) {
				name := names[key]
				// A short one is in too much that has nothing to do with it.
				if *v != key && (len(key) < leastSecret || !strings.Contains(*v, key)) {
					continue
				}
				c.problems.warnf(c.sources.at("services", service, "environment", variable), "service %q has the real API key, that of %s, in its variable %s", service, name, variable).
					hint("agents need no key: the upstream proxy puts the real one in; give the service any other value")
			}
		}
	}
}
