package compose

import (
	"slices"
	"strings"

	"github.com/compose-spec/compose-go/v2/types"
)

// neededProfiles are the profiles without which a service that is off cannot
// run: one of its own, and one of each that it, or what comes with that profile,
// has to wait for.
func neededProfiles(p *types.Project, service string) []string {
	var profiles []string
	seen := map[string]bool{}
	var need func(name string)
	need = func(name string) {
		s, off := p.DisabledServices[name]
		if seen[name] || !off {
			return
		}
		seen[name] = true
		if len(s.Profiles) > 0 && !slices.ContainsFunc(s.Profiles, func(q string) bool { return slices.Contains(profiles, q) }) {
			profiles = append(profiles, s.Profiles[0])
		}
		for _, dep := range sortedKeys(s.DependsOn) {
			if s.DependsOn[dep].Required {
				need(dep)
			}
		}
		if shared, ok := strings.CutPrefix(s.NetworkMode, types.ServicePrefix); ok {
			need(shared)
		}
		for _, other := range sortedKeys(p.DisabledServices) { // comes with them
			if slices.ContainsFunc(p.DisabledServices[other].Profiles, func(q string) bool { return slices.Contains(profiles, q) }) {
				need(other)
			}
		}
	}
	need(service)
	return profiles
}

// addProfiles is how profiles are asked for.
func addProfiles(profiles []string) string {
	return "add --profile " + strings.Join(profiles, " --profile ")
}

// further says which profiles are needed beside one of a service's own.
func further(profiles []string) string {
	if len(profiles) < 2 {
		return ""
	}
	return " and, for what it depends on, " + quoted(profiles[1:], " and ")
}
