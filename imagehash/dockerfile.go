package imagehash

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
	"github.com/moby/buildkit/frontend/dockerfile/shell"
)

// source is one place where an instruction reads the build context.
type source struct {
	line    int
	pattern string   // as written, expanded; a path or glob
	exclude []string // patterns relative to the source directory
	parents bool     // COPY --parents: a pivot /./ may be inside
	literal bool     // a mount's source is a path, never a glob
}

// scanned is what a Dockerfile says.
type scanned struct {
	sources  []source
	remote   []Remote
	declared map[string]bool // build arguments named by ARG
}

// scanner walks the stages in order, as a builder does.
type scanner struct {
	scanned
	file   string
	lex    *shell.Lex
	args   map[string]string
	global *scope
	stages map[string]*scope // by name: what a stage built FROM it inherits
}

// scan reads a Dockerfile. Every stage counts, whatever the build's target: a
// target would be one more thing the hash depends on.
func scan(file string, data []byte, args map[string]string) (*scanned, error) {
	res, err := parser.Parse(bytes.NewReader(data))
	if err != nil {
		return nil, syntaxError(file, err)
	}
	stages, metaArgs, err := instructions.Parse(res.AST, nil)
	if err != nil {
		return nil, syntaxError(file, err)
	}
	if len(stages) == 0 {
		return nil, &SyntaxError{Dockerfile: file, Message: "has no FROM instruction"}
	}
	s := &scanner{
		scanned: scanned{declared: map[string]bool{}},
		file:    file, lex: shell.NewLex(res.EscapeToken), args: args,
		global: newScope(), stages: map[string]*scope{},
	}
	for _, name := range builderArgs {
		s.global.setUnknown(name, "the builder sets it by platform")
	}
	for i := range metaArgs {
		if err := s.arg(&metaArgs[i], s.global, nil); err != nil {
			return nil, s.at(metaArgs[i].Location(), err)
		}
	}
	for i := range stages {
		if err := s.stage(&stages[i]); err != nil {
			return nil, err
		}
	}
	return &s.scanned, nil
}

// builderArgs are set by the builder when nobody passes them.
var builderArgs = []string{
	"BUILDPLATFORM", "BUILDOS", "BUILDOSVERSION", "BUILDARCH", "BUILDVARIANT",
	"TARGETPLATFORM", "TARGETOS", "TARGETOSVERSION", "TARGETARCH", "TARGETVARIANT", "TARGETSTAGE",
}

func (s *scanner) stage(st *instructions.Stage) error {
	sc := newScope()
	base, err := s.global.expand(s.lex, st.BaseName)
	var unknown *unknownError
	if err != nil && !errors.As(err, &unknown) {
		return s.at(st.Location, err)
	}
	if parent, ok := s.stages[strings.ToLower(base)]; ok && err == nil {
		sc = parent.clone()
	}
	for _, cmd := range st.Commands {
		if err := s.command(cmd, sc); err != nil {
			return s.at(cmd.Location(), err)
		}
	}
	if st.Name != "" {
		s.stages[st.Name] = sc
	}
	return nil
}

func (s *scanner) command(cmd instructions.Command, sc *scope) error {
	switch c := cmd.(type) {
	case *instructions.ArgCommand:
		return s.arg(c, sc, s.global)
	case *instructions.EnvCommand:
		return s.env(c, sc)
	case *instructions.CopyCommand:
		if c.From != "" {
			return nil // another stage or image
		}
		// Here-documents (SourceContents) are part of the Dockerfile itself.
		return s.copy(c.SourcePaths, source{line: line(c), exclude: c.ExcludePatterns, parents: c.Parents}, sc, false)
	case *instructions.AddCommand:
		return s.copy(c.SourcePaths, source{line: line(c), exclude: c.ExcludePatterns}, sc, true)
	case *instructions.RunCommand:
		return s.run(c, sc)
	}
	return nil
}

// arg follows BuildKit: a passed value wins, then the default, then a global ARG
// of the same name.
func (s *scanner) arg(c *instructions.ArgCommand, sc, outer *scope) error {
	for _, a := range c.Args {
		s.declared[a.Key] = true
		if v, ok := s.args[a.Key]; ok {
			sc.set(a.Key, v)
			continue
		}
		if a.Value != nil {
			if err := s.assign(sc, a.Key, *a.Value, sc); err != nil {
				return err
			}
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
		} else if why := outer.why[a.Key]; why != "" {
			sc.setUnknown(a.Key, why)
		} else {
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

func (s *scanner) copy(words []string, tmpl source, sc *scope, add bool) error {
	for _, w := range words {
		p, err := sc.expand(s.lex, w)
		if err != nil {
			return err
		}
		if remote(p) {
			if !add {
				return fmt.Errorf("COPY cannot fetch %q; use ADD", p)
			}
			s.remote = append(s.remote, Remote{Line: tmpl.line, Source: p})
			continue
		}
		src := tmpl
		src.pattern = p
		s.sources = append(s.sources, src)
	}
	return nil
}

// run notes the bind mounts that have no from: they show the build context.
func (s *scanner) run(c *instructions.RunCommand, sc *scope) error {
	// A mount of any other kind may use what is unknown here.
	var unknown *unknownError
	err := c.Expand(func(w string) (string, error) {
		v, err := sc.expand(s.lex, w)
		var u *unknownError
		if errors.As(err, &u) {
			unknown, err = u, nil
		}
		return v, err
	})
	if err != nil {
		return err
	}
	for _, m := range instructions.GetMounts(c) {
		if m.Type != instructions.MountTypeBind || m.From != "" {
			continue
		}
		if unknown != nil {
			return unknown
		}
		s.sources = append(s.sources, source{line: line(c), pattern: path.Join("/", m.Source), literal: true})
	}
	return nil
}

// scp matches the short form of a git remote over ssh.
var scp = regexp.MustCompile(`^[A-Za-z0-9._-]+@[A-Za-z0-9.-]+:`)

// remote tells what ADD fetches from a path of the context.
func remote(p string) bool {
	return slices.ContainsFunc([]string{"http://", "https://", "git://", "ssh://"},
		func(scheme string) bool { return strings.HasPrefix(strings.ToLower(p), scheme) }) || scp.MatchString(p)
}

func line(c interface{ Location() []parser.Range }) int {
	if l := c.Location(); len(l) > 0 {
		return l[0].Start.Line
	}
	return 0
}

func (s *scanner) at(loc []parser.Range, err error) error {
	e := &SyntaxError{Dockerfile: s.file, Message: err.Error(), Err: err}
	if len(loc) > 0 {
		e.Line = loc[0].Start.Line
	}
	return e
}

// parsePrefix is what the parser puts before its messages; the line is known
// better from the error's location.
var parsePrefix = regexp.MustCompile(`^dockerfile parse error on line \d+: `)

func syntaxError(file string, err error) error {
	e := &SyntaxError{Dockerfile: file, Message: parsePrefix.ReplaceAllString(err.Error(), ""), Err: err}
	var loc *parser.LocationError
	if errors.As(err, &loc) && len(loc.Locations) > 0 && len(loc.Locations[0]) > 0 {
		e.Line = loc.Locations[0][0].Start.Line
	}
	return e
}
