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
//   - empty: declared by ARG without a value, and none was passed, on top of no
//     image that may have set it
//   - anything else: unknown. The base image, or the builder (TARGETARCH), may
//     set it. Only a stage that begins FROM scratch knows all there is.
type scope struct {
	known   map[string]string
	empty   map[string]bool
	why     map[string]string // for unknown variables the Dockerfile mentions: what makes them so
	settled bool              // what nothing here mentions is not set at all

	byEnv   map[string]bool // set by ENV
	byArg   map[string]bool // set by an ARG of this stage
	handed  map[string]bool // set by an ARG of a stage it is built FROM, and not since
	outside *Base           // the image it is built from in the end; nil for an empty one
}

func newScope() *scope {
	return &scope{known: map[string]string{}, empty: map[string]bool{}, why: map[string]string{},
		byEnv: map[string]bool{}, byArg: map[string]bool{}, handed: map[string]bool{}}
}

func (s *scope) clone() *scope {
	return &scope{known: maps.Clone(s.known), empty: maps.Clone(s.empty), why: maps.Clone(s.why), settled: s.settled,
		byEnv: maps.Clone(s.byEnv), byArg: maps.Clone(s.byArg), handed: maps.Clone(s.handed), outside: s.outside}
}

// child is the scope of a stage built FROM one with this scope.
func (s *scope) child() *scope {
	c := s.clone()
	maps.Copy(c.handed, c.byArg)
	clear(c.byArg)
	return c
}

func (s *scope) set(name, value string) {
	s.known[name] = value
	delete(s.empty, name)
	delete(s.why, name)
}

// setEmpty declares a variable without a value. Where there is an image below that
// nobody has looked into, that may have set it.
func (s *scope) setEmpty(name string) {
	if _, ok := s.known[name]; ok {
		return // ARG without a value keeps what an ENV above it set
	}
	if s.outside != nil {
		if s.why[name] == "" {
			s.setUnknown(name, fmt.Sprintf("base image %q may set it", s.outside.Image))
		}
		return
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
