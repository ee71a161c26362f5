package compose

import "github.com/linuxarena/ctis/server/api"

// Registration lowers the environment to what the simulator has to know to
// serve it as trajectory id on nets. Pure.
func (e *Environment) Registration(id string, nets []api.Network) *api.Registration {
	r := &api.Registration{
		Trajectory:  id,
		Environment: e.Name,
		Settings:    e.Settings,
		Networks:    nets,
		Personas:    []api.Persona{},
		Exclusive:   e.Exclusives(),
	}
	for _, p := range e.Config.Personas {
		r.Personas = append(r.Personas, api.Persona{
			Host:         string(p.Host),
			ServerHeader: p.ServerHeader,
			Endpoints:    append([]string{}, p.Endpoints...),
		})
	}
	return r
}
