package compose

import (
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/compose-spec/compose-go/v2/format"
	"github.com/compose-spec/compose-go/v2/types"
	"go.yaml.in/yaml/v4"
)

// writtenLists finds the elements of a service's lists in the files that they are
// written in. An index of the model is no index there: Compose makes several
// entries of a range of ports, and puts together what several files, and services
// that are extended, say.
type writtenLists struct {
	sources sources
	model   *model
	vars    types.Mapping
}

// textOf gives what a value means to Compose: with its variables; "" for what is
// none, or no text.
type textOf func(n *yaml.Node) string

// at is where the list called attr of a service has the element that is meant,
// in the file that wins; otherwise where the service has the list, as far as it is known.
func (w writtenLists) at(service, attr string, meant func(n *yaml.Node, text textOf) bool) place {
	return w.from(service, attr, func(_ *yamlIndex, n *yaml.Node, text textOf) bool { return meant(n, text) })
}

// from is at for what depends on the file that an element stands in.
func (w writtenLists) from(service, attr string, meant func(x *yamlIndex, n *yaml.Node, text textOf) bool) place {
	if at, ok := w.in(w.sources, service, attr, meant, mergeDepth); ok {
		return at
	}
	return w.sources.at("services", service, attr)
}

func (w writtenLists) in(files sources, service, attr string, meant func(*yamlIndex, *yaml.Node, textOf) bool, depth int) (place, bool) {
	for _, x := range slices.Backward(files) {
		list := x.value("services", service, attr)
		if list == nil {
			continue
		}
		for _, n := range listed(resolved(list)) {
			if meant(x, n, w.text(x)) {
				return x.place(n), true
			}
		}
	}
	for _, x := range slices.Backward(files) {
		extends := x.value("services", service, "extends")
		if extends == nil || depth == 0 {
			continue
		}
		extends = resolved(extends)
		other, from := extends, files
		if extends.Kind == yaml.MappingNode {
			_, file := member(extends, "file", mergeDepth)
			if _, other = member(extends, "service", mergeDepth); file != nil {
				from = w.named(x, w.text(x)(file))
			}
		}
		if name := w.text(x)(other); name != "" {
			if at, ok := w.in(from, name, attr, meant, depth-1); ok {
				return at, true
			}
		}
	}
	return place{}, false
}

// named are the files that x means by a path.
func (w writtenLists) named(x *yamlIndex, file string) sources {
	var files sources
	for _, y := range w.sources {
		if y.path == absolute(filepath.Dir(x.path), file) || y.path == absolute(w.model.dir, file) {
			files = append(files, y)
		}
	}
	return files
}

func (w writtenLists) text(x *yamlIndex) textOf {
	vars := x.seenWith(w.vars)[0]
	return func(n *yaml.Node) string {
		if n == nil || resolved(n).Kind != yaml.ScalarNode {
			return ""
		}
		text, err := bounded()(resolved(n).Value, func(k string) (string, bool) { v, ok := vars[k]; return v, ok })
		if err != nil {
			return ""
		}
		return text
	}
}

// port is where a service publishes p, alone or in a range.
func (w writtenLists) port(service string, p types.ServicePortConfig) place {
	same := func(q types.ServicePortConfig) bool {
		return q.HostIP == p.HostIP && q.Target == p.Target && q.Published == p.Published && strings.EqualFold(q.Protocol, p.Protocol)
	}
	return w.at(service, "ports", func(n *yaml.Node, text textOf) bool {
		if n.Kind != yaml.MappingNode {
			written, err := types.ParsePortConfig(text(n))
			return err == nil && slices.ContainsFunc(written, same)
		}
		field := func(name string) string { _, v := member(n, name, mergeDepth); return text(v) }
		q := p
		q.HostIP, q.Published = field("host_ip"), field("published")
		if protocol := field("protocol"); protocol != "" {
			q.Protocol = protocol
		} else {
			q.Protocol = "tcp"
		}
		target, err := types.ParsePortConfig(field("target"))
		return err == nil && len(target) == 1 && target[0].Target == p.Target && same(q)
	})
}

// volume is where a service mounts v: it mounts one thing only at one path.
func (w writtenLists) volume(service string, v types.ServiceVolumeConfig) place {
	return w.at(service, "volumes", func(n *yaml.Node, text textOf) bool {
		target := ""
		if n.Kind == yaml.MappingNode {
			_, t := member(n, "target", mergeDepth)
			target = text(t)
		} else if written, err := format.ParseVolume(text(n)); err == nil {
			target = written.Target
		}
		return target != "" && path.Clean(target) == path.Clean(v.Target)
	})
}

// same is where a list of a service has just this text.
func (w writtenLists) same(service, attr, text string) place {
	return w.at(service, attr, func(n *yaml.Node, of textOf) bool { return of(n) == text })
}
