package imagehash

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
)

// emptyImage is the base that is no image.
const emptyImage = "scratch"

// node is a stage and what it takes from others.
type node struct {
	*instructions.Stage
	base     int                    // the stage it is built FROM; -1 if that is none
	image    string                 // what it is built FROM otherwise; "" if the name is not settled
	triggers []instructions.Command // what ONBUILD of the base adds in front of its own
	needs    []int                  // stages that must be built for it
}

// commands lists what runs in the stage, in order.
func (n *node) commands() []instructions.Command {
	return append(n.triggers[:len(n.triggers):len(n.triggers)], n.Commands...)
}

// plan works out what each stage takes from others, by BuildKit's rules: a base
// is the latest stage of that name above it, and COPY --from and mounts take a
// name for a stage where one has it, for an image or named context otherwise.
func (s *scanner) plan(stages []instructions.Stage) ([]*node, error) {
	nodes := make([]*node, len(stages))
	byName := map[string]int{}
	for i := range stages {
		byName[strings.ToLower(stages[i].Name)] = i
	}
	delete(byName, "")
	above := map[string]int{}
	for i := range stages {
		n := &node{Stage: &stages[i], base: -1}
		nodes[i] = n
		if err := s.findBase(n, above, nodes); err != nil {
			return nil, s.at(n.Location, err)
		}
		if n.base >= 0 {
			n.needs = append(n.needs, n.base)
			triggers, err := onbuild(nodes[n.base])
			if err != nil {
				return nil, s.at(n.Location, err)
			}
			n.triggers = triggers
		}
		for _, cmd := range n.commands() {
			for _, from := range sourcesOf(cmd) {
				if from == "" {
					continue
				}
				at, ok, err := stageOf(from, byName, len(stages))
				switch {
				case err != nil:
				case !ok:
					s.outside(cmd, from)
				case at >= i:
					err = fmt.Errorf("%q is taken from before it is built; move its stage up", from)
				default:
					n.needs = append(n.needs, at)
				}
				if err != nil {
					return nil, s.at(s.place(cmd, n), err)
				}
			}
		}
		if n.Name != "" {
			above[strings.ToLower(n.Name)] = i
		}
	}
	return nodes, nil
}

func (s *scanner) findBase(n *node, above map[string]int, nodes []*node) error {
	name, err := s.global.expand(s.lex, n.BaseName)
	var unknown *unknownError
	if err == nil && name == "" {
		err = &unknownError{strings.Trim(n.BaseName, "${}"), "it has no value"}
	}
	if errors.As(err, &unknown) && s.target == "" {
		if stage := triggering(above, nodes); stage != "" {
			return fmt.Errorf("%w; it may be stage %q, whose ONBUILD instructions would then run", err, stage)
		}
		return nil // which stages are needed does not depend on it
	}
	if err != nil {
		return err
	}
	if i, ok := above[strings.ToLower(name)]; ok {
		n.base = i
		return nil
	}
	n.image = name
	if name != emptyImage {
		s.remote = append(s.remote, Remote{Line: n.Location[0].Start.Line, Kind: RemoteImage, Source: name, Pinned: pinnedImage(name)})
	}
	return nil
}

// triggering names the first stage above that has ONBUILD instructions, "" if none.
func triggering(above map[string]int, nodes []*node) string {
	first := len(nodes)
	for _, i := range above {
		if i < first && slices.ContainsFunc(nodes[i].Commands, func(c instructions.Command) bool {
			_, ok := c.(*instructions.OnbuildCommand)
			return ok
		}) {
			first = i
		}
	}
	if first == len(nodes) {
		return ""
	}
	return nodes[first].Name
}

// onbuild reads the triggers a stage leaves for those that are built FROM it.
func onbuild(n *node) ([]instructions.Command, error) {
	var out []instructions.Command
	for _, cmd := range n.Commands {
		c, ok := cmd.(*instructions.OnbuildCommand)
		if !ok {
			continue
		}
		some, err := trigger(c.Expression, line(c))
		if err != nil {
			return nil, err
		}
		out = append(out, some...)
	}
	return out, nil
}

// trigger reads the text of one ONBUILD, which stands at a line.
func trigger(text string, at int) ([]instructions.Command, error) {
	res, err := parser.Parse(strings.NewReader(text))
	if err != nil {
		return nil, err
	}
	var out []instructions.Command
	for _, child := range res.AST.Children {
		child.StartLine, child.EndLine = at, at
		one, err := instructions.ParseCommand(child)
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	return out, nil
}

// sourcesOf lists where an instruction takes files from: "" is the build context.
func sourcesOf(cmd instructions.Command) []string {
	switch c := cmd.(type) {
	case *instructions.CopyCommand:
		return []string{c.From}
	case *instructions.RunCommand:
		var out []string
		for _, m := range instructions.GetMounts(c) {
			out = append(out, m.From)
		}
		return out
	}
	return nil
}

// stageOf finds the stage that from names or counts.
func stageOf(from string, byName map[string]int, stages int) (at int, ok bool, err error) {
	if i, err := strconv.Atoi(from); err == nil {
		if i < 0 || i >= stages {
			return 0, false, fmt.Errorf("there is no stage %d; the first is 0", i)
		}
		return i, true, nil
	}
	at, ok = byName[strings.ToLower(from)]
	return at, ok, nil
}

// needed marks the stages that are built for the target, all if there is none.
func needed(nodes []*node, target string) ([]bool, error) {
	need := make([]bool, len(nodes))
	if target == "" {
		for i := range need {
			need[i] = true
		}
		return need, nil
	}
	last := -1
	var names []string
	for i, n := range nodes {
		if n.Name != "" {
			names = append(names, n.Name)
		}
		if strings.EqualFold(n.Name, target) {
			last = i
		}
	}
	if last < 0 {
		return nil, fmt.Errorf("has no stage %q to build; it names %s", target, list(names))
	}
	for todo := []int{last}; len(todo) > 0; {
		i := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if !need[i] {
			need[i] = true
			todo = append(todo, nodes[i].needs...)
		}
	}
	return need, nil
}

func list(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
