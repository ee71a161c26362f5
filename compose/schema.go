package compose

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	interp "github.com/compose-spec/compose-go/v2/interpolation"
	"github.com/compose-spec/compose-go/v2/schema"
	"go.yaml.in/yaml/v4"
)

// attributes validates a file against the Compose schema, one attribute of one
// service (network, volume, …) at a time.
func (d *diagnosis) attributes(x *yamlIndex) {
	opts := *d.model.interpolation(d.vars).Interpolate
	known := composeAttributes()
	try := func(n *yaml.Node, path ...string) {
		if n.Tag == "!reset" || n.Tag == "!override" {
			return
		}
		var value any
		if n.Decode(&value) != nil {
			return // reported with the file
		}
		for _, part := range slices.Backward(path) {
			value = map[string]any{part: value}
		}
		var doc map[string]any
		if guarded(func() (err error) { doc, err = interp.Interpolate(value.(map[string]any), opts); return err }) != nil {
			return // reported by interpolation
		}
		if err := guarded(func() error { return schema.Validate(doc) }); err != nil {
			d.attribute(x, path, known, err)
		}
	}
	for _, root := range x.roots {
		if root.Kind != yaml.MappingNode {
			d.problems.errorf(x.place(root), "a Compose file must be a mapping at its top")
			continue
		}
		each(root, func(section string, body *yaml.Node) {
			kind, sectioned := sectionKinds[section]
			if !sectioned || body.Kind != yaml.MappingNode {
				try(body, section)
				return
			}
			each(body, func(name string, entry *yaml.Node) {
				for entry.Kind == yaml.AliasNode {
					entry = entry.Alias
				}
				if entry.Kind != yaml.MappingNode || len(known[kind]) == 0 {
					try(entry, section, name)
					return
				}
				each(entry, func(attr string, value *yaml.Node) {
					if attr != "<<" {
						try(value, section, name, attr)
					}
				})
			})
		})
	}
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

var notAllowed = regexp.MustCompile(`additional propert(?:y|ies) '([^']+)'`)

// attribute reports what the schema says about the attribute at path.
func (d *diagnosis) attribute(x *yamlIndex, path []string, known map[string][]string, err error) {
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
	text := err.Error()
	full, rest, _ := strings.Cut(text, " ")
	parts := strings.Split(full, ".")
	if m := notAllowed.FindStringSubmatch(text); m != nil {
		at, _ = x.find(append(parts, m[1]))
		d.problems.errorf(at, "unknown attribute %q in %s", m[1], full)
		return
	}
	at, _ = x.find(parts)
	if rest == "false schema" {
		d.problems.errorf(at, "unknown attribute %q in %s", parts[len(parts)-1], strings.Join(parts[:len(parts)-1], "."))
		return
	}
	// compose-go puts "a" before every type
	d.problems.errorf(at, "%s", strings.NewReplacer("a array", "an array", "a integer", "an integer").Replace(text))
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
