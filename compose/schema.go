package compose

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	interp "github.com/compose-spec/compose-go/v2/interpolation"
	"github.com/compose-spec/compose-go/v2/schema"
	"go.yaml.in/yaml/v4"
)

// attributes validates a file against the Compose schema, one attribute of one
// service (network, volume, …) at a time.
func (d *diagnosis) attributes(x *yamlIndex) {
	opts := *d.model.interpolation(x.seenWith(d.vars)[0]).Interpolate
	known := composeAttributes()
	type mistake struct {
		key     *yaml.Node
		section string
	}
	told := map[mistake]bool{} // what several entries merge in is wrong in one place
	try := func(key, n *yaml.Node, path ...string) {
		if n = resolved(n); n.Tag == "!reset" {
			return
		}
		if key := keyWithoutText(n); key != nil {
			d.wrong(x, path)
			d.notText(x, key, path)
			return
		}
		var value any
		if d.replaced(n).Decode(&value) != nil {
			return // reported with the file
		}
		for _, part := range slices.Backward(path) {
			value = map[string]any{part: value}
		}
		var doc map[string]any
		if guarded(func() (err error) { doc, err = interp.Interpolate(value.(map[string]any), opts); return err }) != nil {
			return // reported by interpolation
		}
		m := mistake{key, path[0]}
		again := told[m]
		eachRefusal(doc, path, func(text string) {
			if _, rest, _ := strings.Cut(text, " "); alike.MatchString(rest) && d.stoodIn(n) {
				return // by what stands in for others
			}
			d.wrong(x, path)
			if !again {
				told[m] = true
				d.attribute(x, path, known, text)
			}
		})
	}
	for _, root := range x.roots {
		if root.Kind != yaml.MappingNode {
			d.problems.errorf(x.place(root), "a Compose file must be a mapping at its top")
			continue
		}
		d.textual(x, root, nil, func(key, body *yaml.Node) {
			section := key.Value
			kind, sectioned := sectionKinds[section]
			if body = resolved(body); !sectioned || body.Kind != yaml.MappingNode {
				try(key, body, section)
				return
			}
			d.textual(x, body, []string{section}, func(key, entry *yaml.Node) {
				name := key.Value
				entry = resolved(entry)
				if entry.Kind != yaml.MappingNode || len(known[kind]) == 0 {
					try(key, entry, section, name)
					return
				}
				d.textual(x, entry, []string{section, name}, func(key, value *yaml.Node) {
					try(key, value, section, name, key.Value)
				})
			})
		})
	}
}

// stoodIn says whether anything below n has a stand-in.
func (d *diagnosis) stoodIn(n *yaml.Node) bool {
	return d.standIns[n] != "" || slices.ContainsFunc(n.Content, d.stoodIn)
}

// eachRefusal calls yield with each thing that the schema says of doc, in which
// nothing but the attribute at path stands. The schema names one at a time; what it
// names is then taken out.
func eachRefusal(doc map[string]any, path []string, yield func(text string)) {
	kept := map[string][]int{} // of a list: at which place in the file each member stands that is left
	gone := map[string]bool{}
	for range maxMends {
		err := guarded(func() error { return schema.Validate(doc) })
		if err == nil {
			return
		}
		text := err.Error()
		full, rest, _ := strings.Cut(text, " ")
		parts := strings.Split(full, ".")
		target := slices.Clone(parts)
		if m := notAllowed.FindStringSubmatch(text); m != nil {
			target = append(target, m[1])
		}
		_, taken := takeOut(doc, target, nil, kept)
		copy(parts, target) // the places in the file
		at := strings.Join(target, ".")
		if gone[at] = true; len(gone) > 1 && alike.MatchString(rest) {
			return // they were not before
		}
		if m := noProperty.FindStringSubmatch(rest); m == nil || !gone[at+"."+m[1]] {
			yield(strings.TrimSuffix(strings.Join(parts, ".")+" "+rest, " "))
		}
		if !taken || len(target) <= len(path) {
			return
		}
	}
}

// takeOut returns n without what is at path, and puts the places that members of lists
// have in the file into path; kept has those of each list. It is false where there is
// nothing.
func takeOut(n any, path, before []string, kept map[string][]int) (any, bool) {
	if len(path) == 0 {
		return n, false
	}
	switch n := n.(type) {
	case map[string]any:
		member, ok := n[path[0]]
		switch {
		case !ok:
		case len(path) == 1:
			delete(n, path[0])
		default:
			n[path[0]], ok = takeOut(member, path[1:], append(slices.Clone(before), path[0]), kept)
		}
		return n, ok
	case []any:
		i, err := strconv.Atoi(path[0])
		if err != nil || i < 0 || i >= len(n) {
			return n, false
		}
		list := strings.Join(before, ".")
		if kept[list] == nil {
			for i := range n {
				kept[list] = append(kept[list], i)
			}
		}
		path[0] = strconv.Itoa(kept[list][i])
		if len(path) == 1 {
			kept[list] = slices.Delete(kept[list], i, i+1)
			return slices.Delete(n, i, i+1), true
		}
		var ok bool
		n[i], ok = takeOut(n[i], path[1:], append(slices.Clone(before), path[0]), kept)
		return n, ok
	}
	return n, false
}

// textual calls yield for the members of the mapping at path, those that it
// merges in included. A key that is no text is reported instead.
func (d *diagnosis) textual(x *yamlIndex, n *yaml.Node, path []string, yield func(key, value *yaml.Node)) {
	for _, m := range members(n, mergeDepth) {
		if m.key.ShortTag() == "!!str" {
			yield(m.key, m.value)
			continue
		}
		d.wrong(x, append(slices.Clone(path), m.key.Value))
		d.notText(x, m.key, path)
	}
}

// notText reports a key in what is at path, once for all that merge it in.
func (d *diagnosis) notText(x *yamlIndex, key *yaml.Node, path []string) {
	at, where := x.place(key), "at the top of a Compose file"
	if len(path) > 0 {
		where = "in " + strings.Join(path, ".")
	}
	if !slices.ContainsFunc(*d.problems, func(p Problem) bool { return place{p.File, p.Line, p.Column} == at }) {
		d.problems.errorf(at, "a key %s is not text", where).hint("put it in quotes")
	}
}

// keyWithoutText is the first key below n that is a number, a date or the like.
func keyWithoutText(n *yaml.Node) *yaml.Node {
	for i, c := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 {
			if tag := resolved(c).ShortTag(); tag != "!!str" && tag != "!!merge" {
				return c
			}
		}
		if found := keyWithoutText(c); found != nil {
			return found
		}
	}
	return nil
}

// each calls yield for the members of a mapping.
func each(n *yaml.Node, yield func(key string, value *yaml.Node)) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		yield(n.Content[i].Value, n.Content[i+1])
	}
}

// sectionKinds are the sections that hold named entries, with the schema's
// definition of an entry.
var sectionKinds = map[string]string{"services": "service", "networks": "network", "volumes": "volume", "secrets": "secret", "configs": "config"}

// elementNumber is how the schema writes the place of an element in a list.
var elementNumber = regexp.MustCompile(`\.(\d+)\b`)

var notAllowed = regexp.MustCompile(`additional propert(?:y|ies) '([^']+)'`)

// attribute reports what the schema says about the attribute at path.
func (d *diagnosis) attribute(x *yamlIndex, path []string, known map[string][]string, text string) {
	last := path[len(path)-1]
	at, _ := x.find(path)
	names := known[""]
	if len(path) == 3 {
		names = known[sectionKinds[path[0]]]
	}
	if len(path) != 2 && !slices.Contains(names, last) && !strings.HasPrefix(last, "x-") {
		where := "at the top of a Compose file"
		if len(path) == 3 {
			where = fmt.Sprintf("in %s", strings.Join(path[:2], "."))
		}
		d.problems.errorf(at, "unknown attribute %q %s", last, where).didYouMean(last, names)
		return
	}
	full, rest, _ := strings.Cut(text, " ")
	parts := strings.Split(full, ".")
	for i, part := range parts {
		if _, err := strconv.Atoi(part); err == nil && i > 2 {
			full = strings.Join(parts[:i], ".") + strings.TrimPrefix(elementNumber.ReplaceAllString("."+strings.Join(parts[i:], "."), "[$1]"), ".")
			break
		}
	}
	if m := notAllowed.FindStringSubmatch(text); m != nil {
		if len(path) == 1 && sectionKinds[path[0]] != "" || full == path[0] {
			at, _ = x.find(append(parts, m[1]))
			d.problems.errorf(at, "%q is not a name that something in %s can have", m[1], full).
				hint("letters, digits, dots, underscores and hyphens make a name")
			return
		}
		at, _ = x.find(append(parts, m[1]))
		d.problems.errorf(at, "unknown attribute %q in %s", m[1], full)
		return
	}
	at, _ = x.find(parts)
	if rest == "false schema" {
		d.problems.errorf(at, "unknown attribute %q in %s", parts[len(parts)-1], strings.Join(parts[:len(parts)-1], "."))
		return
	}
	if m := noPattern.FindStringSubmatch(rest); m != nil {
		d.problems.errorf(at, "%s is %q, which does not match %s", full, m[1], m[2])
		return
	}
	if forms := d.forms(path); len(parts) == len(path) && len(forms) > 0 && strings.HasPrefix(rest, "must be ") {
		p := d.problems.errorf(at, "%s must be %s", full, strings.Join(forms, " or "))
		if n := x.value(path...); n != nil && slices.Equal(forms, []string{"text"}) && resolved(n).Kind == yaml.ScalarNode {
			p.hint("put it in quotes: %q", resolved(n).Value)
		}
		return
	}
	if m := noProperty.FindStringSubmatch(rest); m != nil {
		d.problems.errorf(at, "%s has no %s", full, m[1])
		return
	}
	d.problems.errorf(at, "%s", plainTypes.Replace(text))
}

var (
	alike      = regexp.MustCompile(`^items at \d+ and \d+ are equal`)
	noProperty = regexp.MustCompile(`^missing property '(.*)'$`)
	noPattern  = regexp.MustCompile(`^'(.*)' does not match pattern '(.*)'$`)
	// plainTypes are the schema's words for the forms of values, and people's.
	plainTypes = strings.NewReplacer("a array", "a list", "an array", "a list", "array", "list", "a null", "nothing", "null", "nothing", "a string", "text", "string", "text", "a integer", "a whole number", "integer", "whole number")
)

// forms are the forms that the schema lets an attribute have, if it tells.
func (d *diagnosis) forms(path []string) []string {
	type node struct {
		Ref        string           `json:"$ref"`
		Type       any              `json:"type"`
		OneOf      []node           `json:"oneOf"`
		AnyOf      []node           `json:"anyOf"`
		AllOf      []node           `json:"allOf"`
		Properties map[string]*node `json:"properties"`
	}
	var doc struct {
		node
		Defs map[string]node `json:"$defs"`
	}
	if json.Unmarshal([]byte(schema.Schema), &doc) != nil {
		return nil
	}
	names := map[string]string{"string": "text", "array": "a list", "object": "a mapping", "number": "a number", "integer": "a number", "boolean": "true or false"}
	var forms []string
	var collect func(n node, hops int)
	collect = func(n node, hops int) {
		if n.Ref != "" && hops > 0 {
			collect(doc.Defs[strings.TrimPrefix(n.Ref, "#/$defs/")], hops-1)
		}
		types, _ := n.Type.([]any)
		for _, t := range append(types, n.Type) {
			if s, ok := t.(string); ok && names[s] != "" && !slices.Contains(forms, names[s]) {
				forms = append(forms, names[s])
			}
		}
		for _, sub := range slices.Concat(n.OneOf, n.AnyOf) {
			collect(sub, hops)
		}
	}
	switch len(path) {
	case 1:
		if n := doc.Properties[path[0]]; n != nil {
			collect(*n, mergeDepth)
		}
	case 2:
		return []string{"a mapping"}
	case 3:
		def := doc.Defs[sectionKinds[path[0]]]
		for _, part := range append(def.AllOf, def) {
			if part.Ref != "" {
				part = doc.Defs[strings.TrimPrefix(part.Ref, "#/$defs/")]
			}
			if n := part.Properties[path[2]]; n != nil {
				collect(*n, mergeDepth)
				break
			}
		}
	}
	return forms
}

// composeAttributes reads the names of the attributes of each kind of entry
// out of the schema that compose-go validates against; "" is the file's top.
func composeAttributes() map[string][]string {
	type definition struct {
		Properties map[string]json.RawMessage `json:"properties"`
		AllOf      []struct {
			Ref string `json:"$ref"`
		} `json:"allOf"`
	}
	var doc struct {
		definition
		Defs map[string]definition `json:"$defs"`
	}
	names := map[string][]string{}
	if json.Unmarshal([]byte(schema.Schema), &doc) != nil {
		return names // then nothing is known, and compose-go's own words are used
	}
	names[""] = sortedKeys(doc.Properties)
	for _, kind := range sectionKinds {
		def := doc.Defs[kind]
		names[kind] = sortedKeys(def.Properties)
		for _, part := range def.AllOf {
			names[kind] = append(names[kind], sortedKeys(doc.Defs[strings.TrimPrefix(part.Ref, "#/$defs/")].Properties)...)
		}
	}
	return names
}
