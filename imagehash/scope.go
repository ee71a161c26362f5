package imagehash

import (
	"fmt"
	"maps"
	"slices"

	"github.com/moby/buildkit/frontend/dockerfile/shell"
)

// scope is what a stage knows of its variables at one instruction. It
// distinguishes three states, because a source path may only be built from what
// the Dockerfile itself settles:
//
//   - known: it has a value
//   - empty: declared by ARG without a value, and none was passed
//   - anything else: unknown. The base image, or the builder (TARGETARCH), may
//     set it. Only a stage that begins FROM scratch knows all there is.
type scope struct {
	known   map[string]string
	empty   map[string]bool
	why     map[string]string // for unknown variables the Dockerfile mentions: what makes them so
	settled bool              // what nothing here mentions is not set at all
}

func newScope() *scope {
	return &scope{known: map[string]string{}, empty: map[string]bool{}, why: map[string]string{}}
}

func (s *scope) clone() *scope {
	return &scope{known: maps.Clone(s.known), empty: maps.Clone(s.empty), why: maps.Clone(s.why), settled: s.settled}
}

func (s *scope) set(name, value string) {
	s.known[name] = value
	delete(s.empty, name)
	delete(s.why, name)
}

func (s *scope) setEmpty(name string) {
	if _, ok := s.known[name]; ok {
		return // ARG without a value keeps what an ENV above it set
	}
	s.empty[name] = true
	delete(s.why, name)
}

func (s *scope) setUnknown(name, why string) {
	delete(s.known, name)
	delete(s.empty, name)
	s.why[name] = why
}

// Get and Keys make a scope a [shell.EnvGetter].
func (s *scope) Get(name string) (string, bool) { v, ok := s.known[name]; return v, ok }

// Keys lists the known variables.
func (s *scope) Keys() []string { return slices.Sorted(maps.Keys(s.known)) }

// unknownError says that a word depends on a variable of unknown value.
type unknownError struct{ name, why string }

func (e *unknownError) Error() string {
	return fmt.Sprintf("$%s is not settled by the Dockerfile (%s); give it a value with ARG, ENV or a build argument", e.name, e.why)
}

// expand replaces the variables in word. An *unknownError comes with the value
// the word has when unknown variables are empty.
func (s *scope) expand(lex *shell.Lex, word string) (string, error) {
	res, err := lex.ProcessWordWithMatches(word, s)
	if err != nil {
		return "", err
	}
	for _, name := range slices.Sorted(maps.Keys(res.Unmatched)) {
		if s.empty[name] {
			continue
		}
		why := s.why[name]
		if why == "" && s.settled {
			continue
		}
		if why == "" {
			why = "no ARG or ENV sets it"
		}
		return res.Result, &unknownError{name, why}
	}
	return res.Result, nil
}
