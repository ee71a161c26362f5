package compose

import (
	"slices"

	"github.com/linuxarena/ctis/server/api"
)

// Registration lowers the environment to what the simulator has to know to
// serve it as trajectory id on nets, with its backends where pins says. Pure.
func (e *Environment) Registration(id string, nets []api.Network, pins api.Pins) *api.Registration {
	r := &api.Registration{
		Trajectory:  id,
		Environment: e.Name,
		Settings:    e.Settings,
		Networks:    nets,
		Personas:    []api.Persona{},
		Exclusive:   e.Exclusives(),
		Exposed:     e.Exposed(),
	}
	for _, u := range e.Config.Upstreams {
		served := u.Upstream
		served.Rules = wire(u.Rules)
		r.Upstreams = append(r.Upstreams, served)
	}
	for _, p := range e.Config.Personas {
		served := api.Persona{
			Host:         string(p.Host),
			ServerHeader: p.ServerHeader,
			Endpoints:    append([]string{}, p.Endpoints...),
			Rules:        wire(p.Rules),
		}
		if b := p.Backend; b != (Target{}) {
			served.Backend = &api.Backend{Service: b.Service, Port: b.Port, Pin: pins[b.Service]}
		}
		r.Personas = append(r.Personas, served)
	}
	return r
}

// Backends lists the services that are the backend of a persona, sorted.
func (e *Environment) Backends() []string {
	var services []string
	for _, p := range e.Config.Personas {
		if p.Backend != (Target{}) {
			services = append(services, p.Backend.Service)
		}
	}
	slices.Sort(services)
	return slices.Compact(services)
}
