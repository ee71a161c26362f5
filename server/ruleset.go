package server

import (
	"encoding/json"
	"net/http"

	"github.com/linuxarena/ctis/server/api"
	"github.com/linuxarena/ctis/server/registry"
	"github.com/linuxarena/ctis/server/rule"
)

// SetRules: see [admin.Simulator]. The new rules are stored first, then recorded,
// then in force: a request that they take comes after their record.
func (c control) SetRules(id, host string, s api.RuleSet) (*api.HostRules, error) {
	if _, err := rule.Compile(s.Rules); err != nil {
		return nil, api.Errorf(http.StatusBadRequest, api.CodeInvalid, "rules of %q: %v", clip(host), err)
	}
	c.lockFor(id)
	defer c.changing.Unlock()
	n := c.routes.Load().tenants[id]
	if n == nil {
		return nil, api.Errorf(http.StatusNotFound, api.CodeNotFound, "trajectory %q is not registered", clip(id))
	}
	err := c.registry.SetRules(id, host, s.Rules, func(t *registry.Trajectory) error {
		if err := c.recordRules(n, host, s); err != nil {
			return err
		}
		return n.setRules(&t.Registration, func(string, int) *rule.Memory { return nil })
	})
	if err != nil {
		return nil, err
	}
	status := (*n.rules.Load())[host].Status()
	c.log.Info("rules replaced", "trajectory", id, "host", host, "revision", status.Revision, "rules", len(s.Rules))
	return &status, nil
}

// replacedRules are the personas whose rules are not those of the registration.
func replacedRules(t *registry.Trajectory) (hosts []string) {
	for _, s := range rulesIn(&t.Registration) {
		if s.revision > 0 {
			hosts = append(hosts, s.host)
		}
	}
	return hosts
}

// recordRules writes the record of rules that are put in force.
func (c control) recordRules(n *tenant, host string, s api.RuleSet) error {
	if s.Rules == nil {
		s.Rules = []api.Rule{}
	}
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	spool := n.journal.NewSpool()
	defer spool.Discard()
	if _, err := spool.Write(text); err != nil {
		return err
	}
	kept := n.journal.Keep(spool)
	if err := spool.Err(); err != nil {
		return err
	}
	return c.record(n, &api.Record{Kind: api.KindRulesSet, Persona: host, Raw: &kept})
}

// Rules: see [admin.Simulator].
func (c control) Rules(id string) (*api.RulesList, error) {
	t, ok := c.registry.Lookup(id)
	n := c.routes.Load().tenants[id]
	if !ok || n == nil {
		return nil, api.Errorf(http.StatusNotFound, api.CodeNotFound, "trajectory %q is not registered", clip(id))
	}
	list := &api.RulesList{Hosts: []api.HostRules{}}
	hosts := *n.rules.Load()
	for _, s := range rulesIn(&t.Registration) {
		if h := hosts[s.host]; h != nil {
			list.Hosts = append(list.Hosts, h.Status())
		}
	}
	return list, nil
}
