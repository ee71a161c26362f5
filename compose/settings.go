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
)

// settingsFormat changes when the meaning of [Environment.Settings] does, so
// that values of different versions never compare equal by accident.
const settingsFormat = "ctis settings 1\n"

// settings is the value of [Environment.Settings]. The project should be
// loaded under a name that is the same for all trajectories.
func settings(c *Config, defaultService string, p *types.Project) (string, error) {
	type persona struct {
		Host         Hostname
		ServerHeader string
		Endpoints    []string
	}
	declared := struct {
		Network, DefaultService string
		Personas                []persona
	}{Network: c.Network, DefaultService: defaultService}
	for _, q := range c.Personas {
		declared.Personas = append(declared.Personas, persona{q.Host, q.ServerHeader, append([]string{}, q.Endpoints...)})
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
