package imagehash

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
)

// What the two builders make of variables is not the same in three cases. A
// Dockerfile with one of them has one tag, and must not give two images:
//
//   - an ARG below an ENV of that name: BuildKit takes the ARG, the classic builder
//     the ENV
//   - the same where the ENV is the base image's ([Base.Args])
//   - an ARG of a stage another is built FROM: BuildKit keeps its value there, the
//     classic builder does not

func (s *scanner) need(line int, what string) { s.needs = append(s.needs, Need{line, what}) }

// variable is a name and the value it is known to have.
type variable struct {
	name, value string
	known       bool
}

func (s *scope) variable(name string) variable {
	v, ok := s.known[name]
	return variable{name, v, ok}
}

// argued notes that an ARG gave a variable a value, and what it was before.
func (s *scanner) argued(c *instructions.ArgCommand, sc *scope, before variable) {
	if sc == s.global {
		return
	}
	name := before.name
	if sc.byEnv[name] && (!before.known || sc.variable(name) != before) {
		s.need(line(c), "ARG "+name+" below an ENV of that name")
	}
	if sc.outside != nil && sc.outside.Args[name] == 0 && !sc.byEnv[name] {
		sc.outside.Args[name] = line(c)
	}
	sc.byArg[name] = true
	delete(sc.handed, name)
}

// handedOn notes that a command uses a variable that an ARG of another stage set.
func (s *scanner) handedOn(cmd instructions.Command, sc *scope, n *node) {
	if len(sc.handed) == 0 {
		return
	}
	text := fmt.Sprint(cmd)
	used := `\$\{?%s\b`
	switch c := cmd.(type) {
	case *instructions.RunCommand:
		used = `\b%s\b` // a program may ask for it without a "$"
		text += strings.Join(c.CmdLine, " ")
		for _, f := range c.Files {
			text += "\n" + f.Data
		}
	case *instructions.CopyCommand:
		for _, f := range c.SourceContents {
			text += "\n" + f.Data
		}
	}
	for _, name := range slices.Sorted(maps.Keys(sc.handed)) {
		if regexp.MustCompile(fmt.Sprintf(used, regexp.QuoteMeta(name))).MatchString(text) {
			s.need(s.place(cmd, n)[0].Start.Line, "the ARG "+name+" of a stage it is built FROM")
		}
	}
}

// bound tells how far the classic builder goes for the target, and which stages it
// builds on its way although the target does not need them: their inputs are not
// in the context.
func (s *scanner) bound(nodes []*node, need []bool) {
	if s.target == "" {
		return
	}
	last := len(nodes) - 1
	for !strings.EqualFold(nodes[last].Name, s.target) {
		last--
	}
	if last+1 < len(nodes) {
		s.ends = nodes[last+1].Location[0].Start.Line - 1
	}
	for i, n := range nodes[:last] {
		if !need[i] && slices.ContainsFunc(n.commands(), readsContext) {
			s.need(n.Location[0].Start.Line, "leaving out this stage, which the target does not need")
		}
	}
}
