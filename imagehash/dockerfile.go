package imagehash

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
	"github.com/moby/buildkit/frontend/dockerfile/shell"
)

// source is one path or glob of the build context that an instruction names.
type source struct {
	line    int
	pattern string   // as written, expanded; a path or glob
	exclude []string // patterns relative to the source directory
	parents bool     // COPY --parents: a pivot /./ may be inside
	literal bool     // a mount's source is a path, never a glob
	alone   bool     // nothing else is named by the instruction
	first   bool     // begins an instruction
}

// scanned is what a Dockerfile says.
type scanned struct {
	sources  []source // in order, those of an instruction together
	remote   []Remote
	declared map[string]bool // build arguments named by ARG
	bases    []*Base
	needs    []Need // what the classic builder does otherwise
	ends     int    // the last line it reads for the target; 0 is the file's
}

// scanner walks the stages in order, as a builder does.
type scanner struct {
	scanned
	file   string
	target string
	lex    *shell.Lex
	args   map[string]string
	global *scope
	scopes []*scope // by stage: what a stage built FROM it inherits
}

// scan reads a Dockerfile. Without a target every stage counts, whether the last
// one needs it or not: the classic builder builds them all.
func scan(o Options, data []byte) (*scanned, error) {
	s := &scanner{
		scanned: scanned{declared: map[string]bool{}},
		file:    o.Dockerfile, target: o.Target, args: o.Args, global: newScope(),
	}
	if err := s.checkFrontend(data); err != nil {
		return nil, err
	}
	res, err := parser.Parse(bytes.NewReader(data))
	if err != nil {
		return nil, syntaxError(s.file, err)
	}
	stages, metaArgs, err := instructions.Parse(res.AST, nil)
	if err != nil {
		return nil, syntaxError(s.file, err)
	}
	if len(stages) == 0 {
		return nil, &SyntaxError{Dockerfile: s.file, Message: "has no FROM instruction"}
	}
	s.lex = shell.NewLex(res.EscapeToken)
	if err := s.globals(o, stages, metaArgs); err != nil {
		return nil, err
	}
	nodes, err := s.plan(stages)
	if err != nil {
		return nil, err
	}
	need, err := needed(nodes, o.Target)
	if err != nil {
		return nil, &SyntaxError{Dockerfile: s.file, Message: err.Error(), Err: err}
	}
	s.bound(nodes, need)
	for i, n := range nodes {
		sc := s.inherit(n, need[i])
		s.scopes = append(s.scopes, sc)
		if !need[i] {
			continue
		}
		for _, cmd := range n.commands() {
			s.handedOn(cmd, sc, n)
			if err := s.command(cmd, sc); err != nil {
				return nil, s.at(s.place(cmd, n), err)
			}
		}
	}
	slices.SortStableFunc(s.remote, func(a, b Remote) int { return a.Line - b.Line }) // stages were looked through first
	return &s.scanned, nil
}

// globals sets what stands before the first stage.
func (s *scanner) globals(o Options, stages []instructions.Stage, args []instructions.ArgCommand) error {
	var p *platform
	if o.Platform != "" {
		parsed, err := parsePlatform(o.Platform)
		if err != nil {
			return err
		}
		p = &parsed
	}
	target := o.Target
	if target == "" {
		target = stages[len(stages)-1].Name
	}
	if target == "" {
		target = "default"
	}
	builderArgs(s.global, target, p)
	for i := range args {
		if err := s.arg(&args[i], s.global, nil); err != nil {
			return s.at(args[i].Location(), err)
		}
	}
	return nil
}

// inherit is the scope a stage begins with.
func (s *scanner) inherit(n *node, needed bool) *scope {
	switch {
	case n.base >= 0:
		return s.scopes[n.base].child()
	case n.image == emptyImage:
		sc := newScope()
		sc.settled = true
		sc.setUnknown("PATH", "the builder sets it")
		return sc
	}
	sc := newScope()
	sc.outside = s.foundation(n, needed)
	return sc
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
		return s.copy(&c.SourcesAndDest, source{line: line(c), exclude: c.ExcludePatterns, parents: c.Parents}, sc, nil)
	case *instructions.AddCommand:
		return s.copy(&c.SourcesAndDest, source{line: line(c), exclude: c.ExcludePatterns}, sc, c)
	case *instructions.RunCommand:
		return s.run(c, sc)
	}
	return nil
}

// copy notes the sources of a COPY or, if add is given, an ADD. Here-documents
// are part of the Dockerfile itself. Patterns of --exclude are taken as written:
// BuildKit expands no variables in them.
func (s *scanner) copy(c *instructions.SourcesAndDest, tmpl source, sc *scope, add *instructions.AddCommand) error {
	tmpl.alone = len(c.SourcePaths)+len(c.SourceContents) == 1
	tmpl.first = true
	for _, w := range c.SourcePaths {
		p, err := sc.expand(s.lex, w)
		if err != nil {
			return err
		}
		if kind, ok := fetched(p); ok {
			if add == nil {
				return fmt.Errorf("COPY cannot fetch %q; use ADD", p)
			}
			pinned := add.Checksum != "" || kind == RemoteGit && commit.MatchString(p)
			s.remote = append(s.remote, Remote{Line: tmpl.line, Kind: kind, Source: p, Pinned: pinned})
			continue
		}
		src := tmpl
		src.pattern = p
		s.sources = append(s.sources, src)
		tmpl.first = false
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
		s.sources = append(s.sources, source{line: line(c), pattern: path.Join("/", m.Source), literal: true, alone: true, first: true})
	}
	return nil
}

func line(c interface{ Location() []parser.Range }) int {
	if l := c.Location(); len(l) > 0 {
		return l[0].Start.Line
	}
	return 0
}

// place is where a command stands: that of a trigger is where the stage begins
// that it runs in, which is the one that lacks something.
func (s *scanner) place(cmd instructions.Command, n *node) []parser.Range {
	for _, own := range n.Commands {
		if own == cmd {
			return cmd.Location()
		}
	}
	return n.Location
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
