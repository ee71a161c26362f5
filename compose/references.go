package compose

import (
	"strings"

	"go.yaml.in/yaml/v4"
)

// substitution is one use of a variable in a text that Compose interpolates.
type substitution struct {
	name     string
	operator string // "", or one of :- - :? ? :+ +
	argument string // what follows the operator, as written
}

// referencesIn returns the variables of a text in order, those in a default of
// another one after it. What Compose does not take for a variable is passed over.
func referencesIn(text string) []substitution {
	var all []substitution
	for i := 0; i < len(text); i++ {
		if text[i] != '$' || i+1 == len(text) {
			continue
		}
		i++
		switch c := text[i]; {
		case c == '{':
			inner, ok := braced(text[i+1:])
			if !ok {
				return all // malformed: the loader says so
			}
			n := nameLength(inner)
			r := substitution{name: inner[:n]}
			r.operator, r.argument = operatorOf(inner[n:])
			if n > 0 && (r.operator != "" || n == len(inner)) {
				all = append(append(all, r), referencesIn(r.argument)...)
			}
			i += len(inner) + 1
		case c != '$': // $$ is a literal one
			if n := nameLength(text[i:]); n > 0 {
				all = append(all, substitution{name: text[i : i+n]})
				i += n - 1
			} else {
				i--
			}
		}
	}
	return all
}

// braced returns what is before the brace that closes one already open.
func braced(s string) (inner string, ok bool) {
	for i, depth := 0, 1; i < len(s); i++ {
		switch s[i] {
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				return s[:i], true
			}
		}
	}
	return "", false
}

// nameLength is how many bytes of s are a variable's name (template.substitutionNamed
// of compose-go: a letter or _, then letters, digits and _).
func nameLength(s string) int {
	n := 0
	for n < len(s) && (s[n] == '_' || s[n]|0x20 >= 'a' && s[n]|0x20 <= 'z' || n > 0 && s[n] >= '0' && s[n] <= '9') {
		n++
	}
	return n
}

func operatorOf(s string) (operator, argument string) {
	for _, op := range []string{":-", ":?", ":+", "-", "?", "+"} {
		if rest, ok := strings.CutPrefix(s, op); ok {
			return op, rest
		}
	}
	return "", ""
}

// use is a substitution with its place.
type use struct {
	substitution
	passed string // how it reaches a service where it is not interpolated; "" otherwise
	at     place
}

// references are those of all files, in order.
func references(files sources) []use {
	var all []use
	for _, x := range files {
		all = append(all, x.references()...)
	}
	return all
}

func (x *yamlIndex) references() []use {
	var all []use
	x.scalars(func(_ []string, n *yaml.Node) {
		for _, r := range referencesIn(n.Value) {
			all = append(all, use{substitution: r, at: x.place(n)})
		}
	})
	for _, root := range x.roots {
		x.passedOn(root, &all)
	}
	return all
}

// passedOn finds the variables that Compose takes over by name alone: those of
// an environment or of build arguments without a value, and secrets and configs
// made of one.
func (x *yamlIndex) passedOn(root *yaml.Node, all *[]use) {
	entries := func(section string, yield func(*yaml.Node)) {
		if _, body := member(root, section, mergeDepth); body != nil {
			each(resolved(body), func(_ string, entry *yaml.Node) { yield(resolved(entry)) })
		}
	}
	entries("services", func(service *yaml.Node) {
		_, environment := member(service, "environment", mergeDepth)
		x.withoutValue(environment, "environment", mergeDepth, all)
		_, build := member(service, "build", mergeDepth)
		if build != nil && resolved(build).Kind == yaml.MappingNode {
			_, args := member(build, "args", mergeDepth)
			x.withoutValue(args, "build argument", mergeDepth, all)
		}
	})
	for section, how := range map[string]string{"secrets": "secret", "configs": "config"} {
		entries(section, func(entry *yaml.Node) {
			if _, name := member(entry, "environment", mergeDepth); name != nil && resolved(name).Kind == yaml.ScalarNode {
				*all = append(*all, use{substitution: substitution{name: resolved(name).Value}, passed: how, at: x.place(resolved(name))})
			}
		})
	}
}

// withoutValue finds the members of a KEY: value mapping, or a KEY=value list,
// that have a key only.
func (x *yamlIndex) withoutValue(n *yaml.Node, how string, depth int, all *[]use) {
	if n == nil || depth == 0 {
		return
	}
	found := func(n *yaml.Node) {
		if nameLength(n.Value) == len(n.Value) && n.Value != "" {
			*all = append(*all, use{substitution: substitution{name: n.Value}, passed: how, at: x.place(n)})
		}
	}
	switch n = resolved(n); n.Kind {
	case yaml.SequenceNode:
		for _, e := range n.Content {
			if e = resolved(e); e.Kind == yaml.ScalarNode {
				found(e)
			}
		}
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			key, value := n.Content[i], resolved(n.Content[i+1])
			switch {
			case key.Value == "<<":
				for _, m := range listed(value) {
					if m.Kind == yaml.MappingNode {
						x.withoutValue(m, how, depth-1, all)
					}
				}
			case value.Kind == yaml.ScalarNode && value.ShortTag() == "!!null":
				found(key)
			}
		}
	}
}
