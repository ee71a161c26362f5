package registry

import (
	"errors"
	"net/http"
	"slices"

	"github.com/linuxarena/ctis/server/api"
)

// SetRules replaces the rules of a persona or an upstream. Once they are stored, recorded is called
// with the trajectory as it is then; with its error the old rules stay.
//
// Refusals are of type *[api.Error]: invalid, or not found.
func (r *Registry) SetRules(id, host string, rules []api.Rule, recorded func(*Trajectory) error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	old, ok := find(r.Snapshot(), id)
	if !ok {
		return notRegistered(id)
	}
	t := &Trajectory{Registration: clone(&old.Registration), Since: old.Since}
	if i := slices.IndexFunc(t.Personas, func(p api.Persona) bool { return p.Host == host }); i >= 0 {
		t.Personas[i].Rules = slices.Clone(rules)
		t.Personas[i].RulesRevision++
	} else if i := slices.IndexFunc(t.Upstreams, func(u api.Upstream) bool { return u.Host == host }); i >= 0 {
		t.Upstreams[i].Rules = slices.Clone(rules)
		t.Upstreams[i].RulesRevision++
	} else {
		return api.Errorf(http.StatusNotFound, api.CodeNotFound, "trajectory %q has no persona %q", id, clip(host))
	}
	if e := check(&t.Registration); e != nil {
		return e
	}
	if err := write(r.dir, t); err != nil {
		return err
	}
	if err := recorded(t); err != nil {
		return errors.Join(err, write(r.dir, old))
	}
	list := slices.DeleteFunc(slices.Clone(r.Snapshot()), func(x *Trajectory) bool { return x == old })
	r.publish(append(list, t))
	return nil
}
