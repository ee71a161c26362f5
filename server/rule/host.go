package rule

import (
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/linuxarena/ctis/server/api"
)

// Host is a set of rules in force for one host of a trajectory, with what they
// remember. What happens to it is as if requests came one after another, in the
// order of their calls of [Host.Decide].
type Host struct {
	Trajectory, Name string
	Revision         int // of the rules
	set              *Set

	mu    sync.Mutex
	met   []int64 // by rule: requests that met its conditions and were counted
	state string
	steps []step // of the state that can still be taken back, oldest first
	last  uint64 // number of the last step
}

// step is a change of the state.
type step struct {
	number uint64
	before string
}

// NewHost puts a set in force. Nothing is counted yet.
func NewHost(trajectory, name string, revision int, set *Set) *Host {
	return &Host{Trajectory: trajectory, Name: name, Revision: revision, set: set, met: make([]int64, set.Len()), state: api.InitialState}
}

// Set are the rules.
func (h *Host) Set() *Set { return h.set }

// Firing is a rule that took a request.
type Firing struct {
	Rule  *Rule
	Count int64     // which firing of the rule it is, counted from 1
	State string    // the host's before it
	Now   time.Time // for templates; set by the caller

	host   *Host
	stream *rand.Rand // of templates; nil until one asks
}

// Decide finds the rule that takes a request; without one, the firing's Rule is
// nil. effect is what the request changed in the host, nil for nothing: it belongs
// into the request's record, and where that cannot be written, to [Host.Undo].
//
// Conditions that a request meets or not by itself are looked at first, without a
// lock: only what other requests change is decided under it.
func (h *Host) Decide(q *Request) (f Firing, effect *api.RuleEffect) {
	candidates := h.set.candidates(q)
	if len(candidates) == 0 {
		return f, nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, i := range candidates {
		r := &h.set.rules[i]
		if r.State != "" && r.State != h.state {
			continue
		}
		after, times := int64(r.After), int64(r.Times)
		if times > 0 && h.met[i] >= after+times {
			continue // it is used up, and need not count any more
		}
		h.met[i]++
		if effect == nil {
			effect = &api.RuleEffect{Host: h.Name, Revision: h.Revision}
		}
		effect.Counted = append(effect.Counted, int(i)+1)
		if h.met[i] <= after {
			continue
		}
		f = Firing{Rule: r, Count: h.met[i] - after, State: h.state, host: h}
		if r.SetState != "" {
			h.last++
			h.steps = append(h.steps, step{h.last, h.state})
			if len(h.steps) > maxSteps {
				h.steps = h.steps[1:]
			}
			h.state = r.SetState
			effect.State, effect.Step = r.SetState, h.last
		}
		return f, effect
	}
	return f, effect
}

// maxSteps bounds the steps that can be taken back: as many as requests of one
// trajectory are in work at a time.
const maxSteps = 4096

// candidates are the rules that can take a request as far as it alone tells, in
// order, up to the first that certainly does.
func (s *Set) candidates(q *Request) []int32 {
	found := q.met[:0]
	for i := range s.rules {
		if r := &s.rules[i]; r.meets(q) {
			found = append(found, int32(i))
			if r.State == "" && r.After == 0 && r.Times == 0 {
				break
			}
		}
	}
	return found
}

// Undo takes an effect back that did not come into any record.
func (h *Host) Undo(e *api.RuleEffect) {
	if e == nil || e.Revision != h.Revision {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, n := range e.Counted {
		if n >= 1 && n <= len(h.met) && h.met[n-1] > 0 {
			h.met[n-1]--
		}
	}
	for i := range h.steps {
		if h.steps[i].number != e.Step {
			continue
		}
		if i == len(h.steps)-1 {
			h.state = h.steps[i].before
		} else { // what came later stands on what was before this one
			h.steps[i+1].before = h.steps[i].before
		}
		h.steps = append(h.steps[:i], h.steps[i+1:]...)
		return
	}
}

// Recall adds what records tell to what the host remembers.
func (h *Host) Recall(m *Memory) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range min(len(m.Met), len(h.met)) {
		h.met[i] += m.Met[i]
	}
	if m.Step > h.last {
		h.last, h.state = m.Step, m.State
	}
}

// Memory is what records tell of one revision of a host's rules.
type Memory struct {
	Met   []int64 `json:"met"` // by rule
	State string  `json:"state,omitempty"`
	Step  uint64  `json:"step,omitempty"`
}

// Merge adds what other records tell.
func (m *Memory) Merge(o *Memory) {
	for i, n := range o.Met {
		if i == len(m.Met) {
			m.Met = append(m.Met, 0)
		}
		m.Met[i] += n
	}
	if o.Step > m.Step {
		m.Step, m.State = o.Step, o.State
	}
}

// Clone is a copy that shares nothing.
func (m *Memory) Clone() Memory {
	c := *m
	c.Met = slices.Clone(m.Met)
	return c
}

// Add adds an effect. Effects may come in any order.
func (m *Memory) Add(e *api.RuleEffect) {
	for _, n := range e.Counted {
		if n < 1 || n > api.MaxRules {
			continue
		}
		for len(m.Met) < n {
			m.Met = append(m.Met, 0)
		}
		m.Met[n-1]++
	}
	if e.Step > m.Step {
		m.Step, m.State = e.Step, e.State
	}
}

// Status describes the rules and what they remember.
func (h *Host) Status() api.HostRules {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := api.HostRules{Host: h.Name, Revision: h.Revision, State: h.state, Rules: []api.RuleStatus{}}
	for i := range h.set.rules {
		r := &h.set.rules[i]
		s.Rules = append(s.Rules, api.RuleStatus{Ref: r.Ref, Met: h.met[i], Fired: max(0, h.met[i]-int64(r.After)), Rule: r.Rule})
	}
	return s
}
