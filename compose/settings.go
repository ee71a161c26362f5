package compose

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/compose-spec/compose-go/v2/types"

	"github.com/linuxarena/ctis/server/api"
)

// settingsFormat changes when the meaning of [Environment.Settings] does, so
// that values of different versions never compare equal by accident.
const settingsFormat = "ctis settings 2\n"

// settings is the value of [Environment.Settings]. The project should be
// loaded under a name that is the same for all trajectories.
func settings(c *Config, defaultService string, p *types.Project) (string, error) {
	type exposed struct {
		Host   Hostname
		Target string
	}
	type persona struct {
		Host         Hostname
		ServerHeader string
		Endpoints    []string
		Backend      string
		Rules        []api.Rule
	}
	declared := struct {
		Network, DefaultService, SeedAssetsFrom string
		Upstreams                               []api.Upstream
		Exposed                                 []exposed
		Personas                                []persona // the first is special, so their order counts
	}{Network: c.Network, DefaultService: defaultService, SeedAssetsFrom: c.SeedAssetsFrom}
	for _, u := range c.Upstreams {
		full := u.Upstream
		full.Rules = wire(u.Rules)
		declared.Upstreams = append(declared.Upstreams, full)
	}
	slices.SortFunc(declared.Upstreams, func(a, b api.Upstream) int { return cmp.Compare(a.Host, b.Host) })
	for _, e := range c.ExposedServices {
		declared.Exposed = append(declared.Exposed, exposed{e.Host, e.Target.String()})
	}
	slices.SortFunc(declared.Exposed, func(a, b exposed) int { return cmp.Compare(a.Host, b.Host) })
	for _, q := range c.Personas {
		p := persona{Host: q.Host, ServerHeader: q.ServerHeader, Endpoints: append([]string{}, q.Endpoints...), Rules: wire(q.Rules)}
		if q.Backend != (Target{}) {
			p.Backend = q.Backend.String()
		}
		declared.Personas = append(declared.Personas, p)
	}
	h := sha256.New()
	h.Write([]byte(settingsFormat))
	e := json.NewEncoder(h)
	// encoding/json sorts the keys of maps, so equal models give equal bytes.
	if err := cmp.Or(e.Encode(declared), e.Encode(p.WithoutUnnecessaryResources())); err != nil {
		return "", fmt.Errorf("settings of %q: %w", p.Name, err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
