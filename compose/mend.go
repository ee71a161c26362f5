package compose

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"strconv"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
	"go.yaml.in/yaml/v4"
)

// compose-go stops at the first mistake. What is found to be wrong is therefore
// taken out of a copy of the files, in memory, and the rest is asked about
// again: so that one wrong attribute hides no other.

// maxMends is how many mistakes are taken out one after the other, each after
// compose-go has stopped at it. Those that are found without it do not count.
const maxMends = 30

// wrong remembers an attribute as wrong: what follows from its absence is not
// told. It is false where that is known already.
func (d *diagnosis) wrong(x *yamlIndex, path []string) bool {
	if d.taken == nil {
		d.taken = map[string][][]string{}
	}
	path = path[:min(len(path), attributeDepth(path))]
	if slices.ContainsFunc(d.taken[x.path], func(p []string) bool { return slices.Equal(p, path) }) {
		return false
	}
	d.taken[x.path] = append(d.taken[x.path], slices.Clone(path))
	return true
}

// attributeDepth is how long the path of an attribute is: services.NAME.ATTRIBUTE.
func attributeDepth(path []string) int {
	if len(path) > 0 && sectionKinds[path[0]] != "" {
		return 3
	}
	return 1
}

// mendedFiles are the model's own files without what is wrong in them.
func (d *diagnosis) mendedFiles() ([]types.ConfigFile, error) {
	var files []types.ConfigFile
	for _, path := range d.model.files {
		content, err := readFile(path)
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(d.sources, func(x *yamlIndex) bool { return x.path == path })
		if i >= 0 && (len(d.taken[path]) > 0 || d.sources[i].repeats) {
			if content, err = without(content, d.sources[i], d.taken[path]); err != nil {
				return nil, err
			}
		}
		files = append(files, types.ConfigFile{Filename: path, Content: content})
	}
	return files, nil
}

// without writes a file anew, less what stands at paths and each key that is
// there a second time.
func without(content []byte, x *yamlIndex, paths [][]string) ([]byte, error) {
	again, err := indexYAML(x.path, x.file, content) // x itself is needed as it is, for places
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	e := yaml.NewEncoder(&out)
	for _, root := range again.roots {
		dropRepeated(root)
		for _, path := range paths {
			drop(root, path, mergeDepth)
			switch {
			case len(path) < 3:
			case path[0] == "services":
				keepRunnable(root, path[1])
			case path[0] == "secrets" || path[0] == "configs":
				keepDeclared(root, path[:2])
			}
		}
		if err := e.Encode(root); err != nil {
			return nil, err
		}
	}
	err = e.Close()
	return out.Bytes(), err
}

// dropRepeated also writes nothing as null: "{a: }" would come back as an empty text.
func dropRepeated(n *yaml.Node) {
	if n.Kind == yaml.ScalarNode && n.Value == "" && n.ShortTag() == "!!null" {
		n.Value = "null"
	}
	if n.Kind == yaml.MappingNode {
		seen := map[string]bool{}
		var kept []*yaml.Node
		for i := 0; i+1 < len(n.Content); i += 2 {
			if k := n.Content[i]; k.Kind != yaml.ScalarNode || !seen[k.Value] {
				seen[k.Value] = true
				kept = append(kept, k, n.Content[i+1])
			}
		}
		n.Content = kept
	}
	for _, c := range n.Content {
		dropRepeated(c)
	}
}

// drop takes the member at path out of n, and out of what n merges in.
func drop(n *yaml.Node, path []string, depth int) {
	n = resolved(n)
	if n.Kind != yaml.MappingNode || depth < 0 {
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		switch {
		case key.Value == "<<":
			for _, m := range listed(resolved(value)) {
				drop(m, path, depth-1)
			}
		case key.Value != path[0]:
		case len(path) > 1:
			drop(value, path[1:], depth)
		default:
			n.Content = slices.Delete(n.Content, i, i+2)
			i -= 2
		}
	}
}

// keepRunnable gives a service an image that lost what it would run.
func keepRunnable(root *yaml.Node, name string) {
	_, services := member(root, "services", mergeDepth)
	if services == nil {
		return
	}
	_, service := member(services, name, mergeDepth)
	if service == nil {
		return
	}
	service = resolved(service)
	for _, attr := range []string{"image", "build", "provider", "extends"} {
		if key, _ := member(service, attr, mergeDepth); key != nil {
			return
		}
	}
	if service.Kind == yaml.MappingNode {
		put(service, "image", textNode("none"))
	}
}

// keepDeclared makes somebody else's of a secret or config that is not complete
// any more.
func keepDeclared(root *yaml.Node, path []string) {
	n := root
	for _, part := range path {
		if _, n = member(n, part, mergeDepth); n == nil {
			return
		}
	}
	if n = resolved(n); n.Kind == yaml.MappingNode {
		n.Content = nil
		put(n, "external", &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: "true"})
	}
}

// elsewhere says whether an included or extended file is wrong. Those cannot be
// mended, for compose-go reads them itself; so included ones are left out.
func (d *diagnosis) elsewhere() bool {
	if d.skipIncludes {
		return true
	}
	for path := range d.taken {
		if !slices.Contains(d.model.files, path) {
			return true
		}
	}
	return false
}

// mended loads what is left, without comparing services with each other.
func (d *diagnosis) mended(ctx context.Context) (p *types.Project, err error) {
	files, err := d.mendedFiles()
	if err != nil {
		return nil, err
	}
	details, opts := d.details(files)
	opts = append(opts, func(o *loader.Options) { o.SkipConsistencyCheck, o.SkipInclude = true, d.elsewhere() })
	err = guarded(func() (err error) { p, err = loader.LoadWithContext(ctx, details, opts...); return err })
	return p, err
}

// details prepares compose-go to load files as it loads the model.
func (d *diagnosis) details(files []types.ConfigFile) (types.ConfigDetails, []func(*loader.Options)) {
	return types.ConfigDetails{WorkingDir: d.model.dir, Environment: maps.Clone(d.vars), ConfigFiles: files},
		[]func(*loader.Options){loader.WithProfiles(d.model.profiles), func(o *loader.Options) {
			o.SetProjectName(d.id, true)
			o.SkipResolveEnvironment, o.SkipResolveLabels = true, true // they are read only where readableService has agreed
			if o.Interpolate != nil {
				o.Interpolate.Substitute = bounded()
			}
		}}
}

// bearing are the attributes, by kind of section, on which much else depends:
// where one was taken out, what is missing then says nothing.
var bearing = map[string][]string{
	"services": {"networks", "network_mode", "extends", "profiles", "provider", "deploy", "scale", "x-default"},
	"networks": {"ipam"},
}

// structural says whether other problems would follow from what was taken out
// between services already.
func (d *diagnosis) structural() bool {
	sections := []string{"services", "networks", "volumes", "secrets", "configs", "include", "name"}
	for _, paths := range d.taken {
		for _, path := range paths {
			last := path[len(path)-1]
			if _, near := Nearest(last, sections); len(path) == 1 && (near || slices.Contains(sections, last)) {
				return true
			}
			if len(path) > 1 && len(path) < attributeDepth(path) {
				return true
			}
		}
	}
	return d.elsewhere() || slices.ContainsFunc(d.sources, func(x *yamlIndex) bool { return x.repeatsEntry })
}

// affects are the names, in quotes, of services and networks that lost what much
// else depends on, and of services that extend such a one. What is said of
// them besides would be wrong half the time.
func (d *diagnosis) affects() []string {
	var names []string
	add := func(name string) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, paths := range d.taken {
		for _, path := range paths {
			if len(path) != 3 {
				continue
			}
			last := path[2]
			near, ok := Nearest(last, bearing[path[0]])
			if !ok && !slices.Contains(bearing[path[0]], last) {
				continue
			}
			add(strconv.Quote(path[1]))
			if last == "x-default" || near == "x-default" {
				add("x-default")
			}
		}
	}
	for range mergeDepth {
		for _, x := range d.sources {
			services := x.value("services")
			if services == nil {
				continue
			}
			each(resolved(services), func(name string, service *yaml.Node) {
				_, other := member(resolved(service), "extends", mergeDepth)
				if other != nil && resolved(other).Kind == yaml.MappingNode {
					_, other = member(other, "service", mergeDepth)
				}
				if other != nil && slices.Contains(names, strconv.Quote(resolved(other).Value)) {
					add(strconv.Quote(name))
				}
			})
		}
	}
	return names
}
