package imagehash

import (
	"errors"
	"fmt"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
)

// arg follows BuildKit: a passed value wins, then the default, then a global ARG
// of the same name.
func (s *scanner) arg(c *instructions.ArgCommand, sc, outer *scope) error {
	for _, a := range c.Args {
		s.declared[a.Key] = true
		before := sc.variable(a.Key)
		if v, ok := s.args[a.Key]; ok {
			sc.set(a.Key, v)
			s.argued(c, sc, before)
			continue
		}
		if a.Value != nil {
			if err := s.assign(sc, a.Key, *a.Value, sc); err != nil {
				return err
			}
			s.argued(c, sc, before)
			continue
		}
		if outer == nil { // global, without a value: nothing unless passed
			if sc.why[a.Key] == "" {
				sc.setEmpty(a.Key)
			}
			continue
		}
		if v, ok := outer.known[a.Key]; ok {
			sc.set(a.Key, v)
			s.argued(c, sc, before)
		} else if why := outer.why[a.Key]; why != "" {
			sc.setUnknown(a.Key, why)
			s.argued(c, sc, before)
		} else {
			if sc.handed[a.Key] {
				s.need(line(c), "ARG "+a.Key+" with the value that a stage it is built FROM gave it")
			}
			sc.setEmpty(a.Key)
		}
	}
	return nil
}

// env sets all pairs of one instruction from the variables before it.
func (s *scanner) env(c *instructions.EnvCommand, sc *scope) error {
	before := sc.clone()
	for _, kv := range c.Env {
		name, err := before.expand(s.lex, kv.Key)
		if err != nil {
			return err
		}
		if err := s.assign(sc, name, kv.Value, before); err != nil {
			return err
		}
		sc.byEnv[name] = true
		delete(sc.byArg, name)
		delete(sc.handed, name)
	}
	return nil
}

// assign sets name to word expanded in from. A word that depends on an unknown
// variable makes name unknown too; that is only an error once a source uses it.
func (s *scanner) assign(sc *scope, name, word string, from *scope) error {
	v, err := from.expand(s.lex, word)
	var unknown *unknownError
	switch {
	case errors.As(err, &unknown):
		sc.setUnknown(name, fmt.Sprintf("it is made from $%s: %s", unknown.name, unknown.why))
	case err != nil:
		return err
	default:
		sc.set(name, v)
	}
	return nil
}
