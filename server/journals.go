package server

import (
	"errors"
	"net/http"
	"time"

	"github.com/linuxarena/ctis/server/api"
	"github.com/linuxarena/ctis/server/journal"
)

// Journals: see [admin.Simulator].
func (c control) Journals() (*api.Journals, error) {
	// Before the looking: a journal that is written to meanwhile must not seem old.
	list := &api.Journals{Now: time.Now().UTC()}
	var err error
	if list.Journals, err = c.journal.List(); err != nil {
		return nil, err
	}
	for i := range list.Journals {
		list.Journals[i].Live = c.live(list.Journals[i].Name)
	}
	return list, nil
}

// live tells whether somebody still has to do with the trajectory of a journal.
// What an archived one is of is over, whoever has its id now.
func (c control) live(name string) bool {
	if _, n := api.SplitArchived(name); n > 0 {
		return false
	}
	_, registered := c.registry.Lookup(name)
	return registered || c.registry.Held(name)
}

// RemoveJournal: see [admin.Simulator]. It waits until nothing of its trajectory
// is in work any more, and no trajectory of its id is registered meanwhile.
func (c control) RemoveJournal(name string, before time.Time) error {
	id, _ := api.SplitArchived(name)
	c.lockFor(id)
	defer c.changing.Unlock()
	if c.live(name) {
		e := api.Errorf(http.StatusConflict, api.CodeBusy, "the trajectory of journal %q is not over", clip(name))
		e.Holders = []string{id}
		return e
	}
	known, err := c.journal.Remove(name, before)
	switch {
	case errors.Is(err, journal.ErrNewer):
		return api.Errorf(http.StatusConflict, api.CodeBusy, "journal %q was written to since", clip(name))
	case err != nil:
		return err
	case !known:
		return api.Errorf(http.StatusNotFound, api.CodeNotFound, "there is no journal %q", clip(name))
	}
	c.log.Info("journal removed", "journal", name)
	return nil
}
