package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/linuxarena/ctis/server/api"
	"github.com/linuxarena/ctis/server/rule"
)

// memories are what journals tell of what rules remember, by trajectory. They are
// filled at start and emptied as the trajectories begin to be served.
//
// A request that has no record of its own, because its journal is full, changes what
// rules remember all the same. That is kept in a file of its trajectory beside the
// journals, which is replaced before the request is answered.
type memories struct {
	dir string
	mu  sync.Mutex
	// found is by trajectory, then host and revision.
	found map[string]map[memoryKey]*rule.Memory
	lost  map[string]map[memoryKey]*rule.Memory // without a record
}

type memoryKey struct {
	host     string
	revision int
}

// kept is an element of such a file.
type kept struct {
	Host     string `json:"host"`
	Revision int    `json:"revision"`
	rule.Memory
}

const memorySuffix = ".json"

// newMemories reads what is kept in dir. A file that cannot be read is set aside and
// told of: the journals still tell the most of it.
func newMemories(dir string) (m *memories, problems []string, err error) {
	m = &memories{dir: dir, found: map[string]map[memoryKey]*rule.Memory{}, lost: map[string]map[memoryKey]*rule.Memory{}}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, nil, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, nil, err
	}
	for _, e := range entries {
		id, ok := strings.CutSuffix(e.Name(), memorySuffix)
		if !ok {
			continue
		}
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		var list []kept
		if err == nil {
			err = json.Unmarshal(b, &list)
		}
		if err != nil {
			problems = append(problems, fmt.Sprintf("what rules of trajectory %s remember of requests without a record was damaged (%v) and is set aside as %q", id, err, e.Name()+".damaged"))
			if err := os.Rename(filepath.Join(dir, e.Name()), filepath.Join(dir, e.Name()+".damaged")); err != nil {
				return nil, nil, err
			}
			continue
		}
		m.lost[id] = map[memoryKey]*rule.Memory{}
		for _, k := range list {
			m.lost[id][memoryKey{k.Host, k.Revision}] = &k.Memory
		}
	}
	return m, problems, nil
}

// note takes what a journal tells; see the journal's Options.Effect.
func (m *memories) note(trajectory string, e *api.RuleEffect) {
	m.mu.Lock()
	defer m.mu.Unlock()
	memoryIn(m.found, trajectory, e).Add(e)
}

// settle forgets what journals tell of trajectories that are not registered.
func (m *memories) settle(registered func(id string) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.found, func(id string, _ map[memoryKey]*rule.Memory) bool { return !registered(id) })
}

func memoryIn(all map[string]map[memoryKey]*rule.Memory, trajectory string, e *api.RuleEffect) *rule.Memory {
	if all[trajectory] == nil {
		all[trajectory] = map[memoryKey]*rule.Memory{}
	}
	key := memoryKey{e.Host, e.Revision}
	if all[trajectory][key] == nil {
		all[trajectory][key] = &rule.Memory{}
	}
	return all[trajectory][key]
}

// recall gives what is known of one revision of a host's rules.
func (m *memories) recall(trajectory string) func(host string, revision int) *rule.Memory {
	return func(host string, revision int) *rule.Memory {
		m.mu.Lock()
		defer m.mu.Unlock()
		key := memoryKey{host, revision}
		sum := &rule.Memory{}
		for _, part := range []*rule.Memory{m.found[trajectory][key], m.lost[trajectory][key]} {
			if part != nil {
				sum.Merge(part)
			}
		}
		return sum
	}
}

// served: the trajectory remembers by itself from now on.
func (m *memories) served(trajectory string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.found, trajectory)
}

// keep stores what a request without a record changed.
func (m *memories) keep(trajectory string, e *api.RuleEffect) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	memory := memoryIn(m.lost, trajectory, e)
	before := memory.Clone()
	memory.Add(e)
	var list []kept
	for key, memory := range m.lost[trajectory] {
		list = append(list, kept{key.host, key.revision, *memory})
	}
	b, err := json.Marshal(list)
	path := filepath.Join(m.dir, trajectory+memorySuffix)
	if err == nil {
		err = os.WriteFile(path+".new", b, 0o600)
	}
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		*memory = before
	}
	return err
}

// forget removes what is kept of a trajectory that begins or is over.
func (m *memories) forget(trajectory string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.found, trajectory)
	delete(m.lost, trajectory)
	if err := os.Remove(filepath.Join(m.dir, trajectory+memorySuffix)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
