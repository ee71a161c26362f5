package compose

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/compose-spec/compose-go/v2/types"
	"go.yaml.in/yaml/v4"
)

// yamlIndex knows where in one Compose file a path of the Compose model
// stands. compose-go reports paths at best, and people need lines.
type yamlIndex struct {
	path  string // absolute
	file  string // as shown
	roots []*yaml.Node

	nodes   int        // in all, with aliases written out; counted up to a limit
	work    int        // of substituting variables, likewise
	hardest *yaml.Node // the value that has most of it

	repeats      bool // a key stands twice in one mapping
	repeatsEntry bool // and it is a section's, or an entry's in one

	scopes []types.Mapping // the variables that it is read with, once for each mention
}

// seenWith are the variables that the file is read with.
func (x *yamlIndex) seenWith(otherwise types.Mapping) []types.Mapping {
	if len(x.scopes) == 0 {
		return []types.Mapping{otherwise}
	}
	return x.scopes
}

// indexYAML parses content. The error is a *yaml.LoadError or, where the file is
// more than decoders can take, a *[refusedError].
func indexYAML(path, file string, content []byte) (*yamlIndex, error) {
	x := &yamlIndex{path: path, file: file}
	d := yaml.NewDecoder(bytes.NewReader(content))
	for {
		var doc yaml.Node
		err := d.Decode(&doc)
		if errors.Is(err, io.EOF) {
			return x, nil
		}
		var syntax *yaml.LoadError
		if errors.As(err, &syntax) && strings.Contains(syntax.Error(), "max depth") { // the parser's own limit, far beyond ours
			return x, tooDeep(path, max(1, syntax.Mark.Line), max(1, syntax.Mark.Column))
		}
		if err != nil {
			return x, err
		}
		if len(doc.Content) == 0 {
			continue
		}
		e := measure(doc.Content[0])
		if e.depth > maxDepth {
			return x, tooDeep(path, e.deepest.Line, e.deepest.Column)
		}
		if e.circle != nil {
			return x, inItself(path, e.circle)
		}
		if e.wide != nil {
			return x, tooWide(path, e.wide)
		}
		x.nodes += e.nodes
		if x.work += e.work; x.hardest == nil || work(e.hardest) > work(x.hardest) {
			x.hardest = e.hardest
		}
		x.roots = append(x.roots, doc.Content[0])
	}
}

func (x *yamlIndex) place(n *yaml.Node) place {
	return place{File: x.file, Line: n.Line, Column: n.Column}
}

// find returns the place of the longest beginning of path that the file has,
// and how many parts of the path that is.
func (x *yamlIndex) find(path []string) (place, int) {
	best, depth := place{File: x.file, Line: 1, Column: 1}, 0
	for _, root := range x.roots {
		if n, d := descend(root, path); d > depth {
			best, depth = x.place(n), d
		}
	}
	return best, depth
}

// value is what stands at path, or nil.
func (x *yamlIndex) value(path ...string) *yaml.Node {
	for _, n := range x.roots {
		for _, part := range path {
			if n == nil {
				break
			}
			_, n = member(n, part, mergeDepth)
		}
		if n != nil {
			return n
		}
	}
	return nil
}

// descend follows path below n as far as it goes. It returns the last key (or
// list element) met and the number of steps.
func descend(n *yaml.Node, path []string) (at *yaml.Node, depth int) {
	at = n
	for _, part := range path {
		key, value := member(n, part, mergeDepth)
		if key == nil {
			break
		}
		at, n, depth = key, value, depth+1
	}
	return at, depth
}

// mergeDepth is how many "<<" are followed from one mapping to another. A file
// can be wrong enough to merge a mapping into itself.
const mergeDepth = 16

// member finds part in a mapping or list. In a list a part is an index, or the
// key of a KEY=value or KEY:value element: Compose writes many mappings so.
func member(n *yaml.Node, part string, depth int) (key, value *yaml.Node) {
	for n != nil && n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	switch {
	case n == nil:
	case n.Kind == yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == part {
				return n.Content[i], n.Content[i+1]
			}
		}
		return merged(n, part, depth)
	case n.Kind == yaml.SequenceNode:
		if i, err := strconv.Atoi(part); err == nil && i >= 0 && i < len(n.Content) {
			return n.Content[i], n.Content[i]
		}
		for _, e := range n.Content {
			if rest, ok := strings.CutPrefix(e.Value, part); ok && e.Kind == yaml.ScalarNode &&
				(rest == "" || rest[0] == '=' || rest[0] == ':') {
				return e, e
			}
		}
	}
	return nil, nil
}

// merged looks part up in what a mapping merges in by "<<".
func merged(n *yaml.Node, part string, depth int) (key, value *yaml.Node) {
	for i := 0; i+1 < len(n.Content) && depth > 0; i += 2 {
		if n.Content[i].Value != "<<" {
			continue
		}
		sources := []*yaml.Node{n.Content[i+1]}
		if sources[0].Kind == yaml.SequenceNode {
			sources = sources[0].Content
		}
		for _, s := range sources {
			if s.Kind != yaml.AliasNode && s.Kind != yaml.MappingNode {
				continue
			}
			if key, value = member(s, part, depth-1); key != nil {
				return key, value
			}
		}
	}
	return nil, nil
}

// pair is one member of a mapping.
type pair struct{ key, value *yaml.Node }

// members lists what a mapping has: its own members, in order, and then those
// that it merges in by "<<", as far as no earlier one has their key. depth is
// how many "<<" are followed one from another.
func members(n *yaml.Node, depth int) []pair {
	var all []pair
	has := map[string]bool{}
	var from []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := resolved(n.Content[i]), n.Content[i+1]
		if key.ShortTag() == "!!merge" {
			from = append(from, listed(resolved(value))...)
			continue
		}
		has[key.Value] = true
		all = append(all, pair{key, value})
	}
	for _, m := range from {
		if m.Kind != yaml.MappingNode || depth == 0 {
			continue
		}
		for _, p := range members(m, depth-1) {
			if !has[p.key.Value] {
				has[p.key.Value] = true
				all = append(all, p)
			}
		}
	}
	return all
}

// scalars calls yield for each string-like value in the file, with its path as
// compose-go writes it: list elements are "[]". Anchored values come once,
// where they are defined.
func (x *yamlIndex) scalars(yield func(path []string, n *yaml.Node)) {
	var walk func(path []string, n *yaml.Node)
	walk = func(path []string, n *yaml.Node) {
		path = path[:len(path):len(path)]
		switch n.Kind {
		case yaml.ScalarNode:
			yield(path, n)
		case yaml.SequenceNode:
			for _, e := range n.Content {
				walk(append(path, "[]"), e)
			}
		case yaml.MappingNode:
			for i := 0; i+1 < len(n.Content); i += 2 {
				walk(append(path, n.Content[i].Value), n.Content[i+1])
			}
		}
	}
	for _, root := range x.roots {
		walk(nil, root)
	}
}

// name is the path of a value as people write it: services.web.ports[1].
func (x *yamlIndex) name(value *yaml.Node) string {
	var walk func(name string, n *yaml.Node) string
	walk = func(name string, n *yaml.Node) string {
		if n == value {
			return name
		}
		for i, c := range n.Content {
			below := ""
			switch {
			case n.Kind == yaml.SequenceNode:
				below = name + "[" + strconv.Itoa(i) + "]"
			case n.Kind == yaml.MappingNode && i%2 == 1:
				below = strings.TrimPrefix(name+"."+n.Content[i-1].Value, ".")
			default:
				continue
			}
			if found := walk(below, c); found != "" {
				return found
			}
		}
		return ""
	}
	for _, root := range x.roots {
		if found := walk("", root); found != "" {
			return found
		}
	}
	return ""
}

// repeated reports keys that stand twice in one mapping.
func (x *yamlIndex) repeated(ps *Problems) {
	var walk func(n *yaml.Node, depth int)
	walk = func(n *yaml.Node, depth int) {
		if n.Kind == yaml.MappingNode {
			seen := map[string]int{}
			for i := 0; i+1 < len(n.Content); i += 2 {
				k := n.Content[i]
				if first, ok := seen[k.Value]; ok && k.Kind == yaml.ScalarNode {
					x.repeats, x.repeatsEntry = true, x.repeatsEntry || depth < 2
					ps.errorf(x.place(k), "key %q is already defined in line %d", k.Value, first)
				}
				seen[k.Value] = k.Line
			}
		}
		for _, c := range n.Content {
			walk(c, depth+1)
		}
	}
	for _, root := range x.roots {
		walk(root, 0)
	}
}

// sources are the files a Compose model was made of, in the order in which
// they were merged.
type sources []*yamlIndex

// at is the place of path in the file that has most of it. Among equals the
// last wins, as it does in the model.
func (s sources) at(path ...string) place {
	var best place
	depth := -1
	for _, x := range s {
		if p, d := x.find(path); d > depth || d == depth && d > 0 {
			best, depth = p, d
		}
	}
	return best
}

// text is what is written at path, in the file that wins; "" for what is no scalar.
func (s sources) text(path ...string) string {
	for _, x := range slices.Backward(s) {
		if n := x.value(path...); n != nil {
			return resolved(n).Value
		}
	}
	return ""
}

// has says whether any file has all of path.
func (s sources) has(path ...string) bool {
	for _, x := range s {
		if _, d := x.find(path); d == len(path) {
			return true
		}
	}
	return false
}
