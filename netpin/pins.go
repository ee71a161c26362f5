package netpin

import (
	"fmt"

	"github.com/linuxarena/ctis/server/api"
)

// Pins finds the container that each of the services is, and its address on the
// network with an id. A container counts only by the labels that say it is of this
// project and that service. One that never ran has the fixed address it will have;
// without one, its pin has no address until it runs.
func (p Project) Pins(networkID string, services []string) (api.Pins, error) {
	pins := api.Pins{}
	for _, service := range services {
		var found []Container
		for _, c := range p.Containers {
			if c.Service == service && c.Labels[labelProject] == p.Name {
				found = append(found, c)
			}
		}
		if len(found) != 1 {
			return nil, fmt.Errorf("service %q of %q is a backend and has %d containers; it must have one", service, p.Name, len(found))
		}
		addresses, on := found[0].Addresses[networkID]
		if !on {
			return nil, fmt.Errorf("container %q is a backend and not on the simulator's network", found[0].Name)
		}
		pin := api.Pin{Container: found[0].ID, Network: networkID}
		if len(addresses) > 0 {
			pin.Address = addresses[0]
		}
		pins[service] = pin
	}
	return pins, nil
}
