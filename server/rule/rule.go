// Package rule is what response rules mean: it compiles the rules of a host,
// says which one takes a request and why the others do not, remembers what they
// count, and makes their answers. The simulator serves by it, and the host checks
// and tries rules by it, so that both mean the same.
//
// It does no I/O: what a rule does to a connection, and where what is remembered
// is kept, is package server's matter.
package rule

import (
	"fmt"
	"time"

	"github.com/linuxarena/ctis/server/api"
)

// Set is the rules of one host, compiled. It does not change.
type Set struct {
	rules  []Rule
	bodies bool
}

// Rule is one rule of a [Set].
type Rule struct {
	api.Rule
	Ref string // what records call it

	conditions []condition // cheapest first
	answer     *answer     // nil without Respond
}

// Error is a rule that does not compile.
type Error struct {
	Index int // of the rule, counted from 0
	Ref   string
	Err   error
}

func (e *Error) Error() string { return fmt.Sprintf("rule %q: %v", e.Ref, e.Err) }

func (e *Error) Unwrap() error { return e.Err }

// Compile makes a set. Rules beyond the bounds of package api, and such as cannot
// be followed, are an *[Error].
func Compile(rules []api.Rule) (*Set, error) {
	if len(rules) > api.MaxRules {
		return nil, fmt.Errorf("a host has %d rules; %d are allowed", len(rules), api.MaxRules)
	}
	s := &Set{rules: make([]Rule, len(rules))}
	seen, bodies := map[string]bool{}, 0
	places := map[string]int{}
	for i := range rules {
		r := &rules[i]
		ref := api.RuleRef(r, i)
		compiled, err := compile(r, ref)
		if err == nil && seen[ref] {
			err = fmt.Errorf("another rule of the host has that name")
		}
		if seen[ref] = true; r.Respond != nil {
			bodies += len(r.Respond.Body)
		}
		if err == nil && bodies > api.MaxRuleBodies {
			err = fmt.Errorf("the bodies of all rules have more than %d MiB", api.MaxRuleBodies>>20)
		}
		if err != nil {
			return nil, &Error{Index: i, Ref: ref, Err: err}
		}
		s.rules[i] = *compiled
		for _, c := range compiled.conditions {
			if c, ok := c.(*jsonValue); ok {
				c.place = placeOf(places, c.pointer)
			}
		}
		s.bodies = s.bodies || r.BodyContains != "" || r.BodyRegex != "" || len(r.BodyJSON) > 0 || r.Respond != nil && r.Respond.Template
	}
	return s, nil
}

// placeOf numbers the places of JSON bodies that the rules of a host look at. What
// is at the first ones is found once for a request (see [Request]); -1 is none of them.
func placeOf(places map[string]int, pointer string) int {
	n, ok := places[pointer]
	if !ok {
		n = len(places)
		places[pointer] = n
	}
	if n >= len(Request{}.places) {
		return -1
	}
	return n
}

func compile(r *api.Rule, ref string) (*Rule, error) {
	if err := check(r); err != nil {
		return nil, err
	}
	c := &Rule{Rule: *r, Ref: ref}
	var err error
	if c.conditions, err = conditionsOf(r); err != nil {
		return nil, err
	}
	if r.Respond != nil {
		if c.answer, err = compileAnswer(r.Respond); err != nil {
			return nil, err
		}
		if err := c.answer.checkGroups(r.PathRegex); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// Len is the number of rules.
func (s *Set) Len() int { return len(s.rules) }

// At is the i-th rule, counted from 0.
func (s *Set) At(i int) *Rule { return &s.rules[i] }

// ReadsBodies says whether rules look at bodies of requests.
func (s *Set) ReadsBodies() bool { return s.bodies }

// Wait is how long the rule holds the firing back: its delay, and of its jitter a
// part that is the same whenever the same trajectory comes to the same firing.
func (r *Rule) Wait(f *Firing) time.Duration {
	if r.Jitter <= 0 {
		return r.Delay
	}
	return r.Delay + time.Duration(f.random("jitter").Int64N(int64(r.Jitter)+1))
}
