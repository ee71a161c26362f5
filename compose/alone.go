package compose

import (
	"context"
	"slices"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
	"go.yaml.in/yaml/v4"
)

// Where compose-go does not say which attribute is wrong, or which member of one, each
// is asked about where it stands alone.

// maxTrials is how many attributes are tried for the one that is at fault.
const maxTrials = 1000

// culprit finds the attribute of a service at which compose-go has stopped
// without naming it: the one that it says the same of where it stands alone.
func (d *diagnosis) culprit(ctx context.Context, cause error) (found *yamlIndex, path []string) {
	trials := 0
	for _, x := range d.sources {
		services := x.value("services")
		if services == nil || !slices.Contains(d.model.files, x.path) {
			continue
		}
		each(resolved(services), func(name string, service *yaml.Node) {
			each(resolved(service), func(attr string, value *yaml.Node) {
				trials++
				if found != nil || attr == "<<" || attr == "extends" || trials > maxTrials || ctx.Err() != nil {
					return
				}
				if err := d.isolated(ctx, x, name, attr, value); err != nil && err.Error() == cause.Error() {
					found, path = x, []string{"services", name, attr}
				}
			})
		})
	}
	return found, path
}

// maxMembers is how many members of an attribute are asked about on their own.
const maxMembers = 200

// besides asks about each member of an attribute of a service at which compose-go has
// stopped: it stops at the first that is wrong.
func (d *diagnosis) besides(ctx context.Context, x *yamlIndex, path []string) {
	value := x.value(path...)
	if value == nil || len(path) != 3 || path[0] != "services" || path[2] == "extends" { // which is about others
		return
	}
	value = resolved(value)
	service, attr := path[1], path[2]
	whole, _ := x.find(path)
	members := 0
	ask := func(alone, at *yaml.Node, key string) {
		if members++; members > maxMembers || ctx.Err() != nil {
			return
		}
		err := d.isolated(ctx, x, service, attr, alone)
		if err == nil {
			return
		}
		f := translate(err, service)
		if len(f.path) < len(path) || !slices.Equal(f.path[:3], path) {
			f.path = path
		}
		where := d.quotedIn(x, at, f, x.place(at))
		// Of a mapping, one member can lack what the others say; only what is about
		// this one counts.
		if key != "" && !slices.Contains(f.path[3:], key) && where == x.place(at) && !quotes(f.message, at.Value) {
			return
		}
		before := len(*d.problems)
		d.addAt(where, f)
		added := (*d.problems)[before]
		for i, p := range (*d.problems)[:before] {
			same := p.Severity == SeverityError && p.File == where.File
			switch {
			case same && p.Line == where.Line && p.Column == where.Column:
			case same && p.Message == added.Message && p.Line == whole.Line && p.Column == whole.Column:
				(*d.problems)[i].Line, (*d.problems)[i].Column = where.Line, where.Column // told at the attribute
			case same && p.Message == added.Message && key != "": // told further below
			default:
				continue
			}
			*d.problems = (*d.problems)[:before]
			return
		}
	}
	switch value.Kind {
	case yaml.SequenceNode:
		for _, member := range value.Content {
			ask(&yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Content: []*yaml.Node{member}}, resolved(member), "")
		}
	case yaml.MappingNode:
		each(value, func(key string, member *yaml.Node) {
			alone := mapNode()
			put(alone, key, member)
			ask(alone, resolved(member), key)
		})
	}
}

// quotes says whether a message has a value in it.
func quotes(message, value string) bool {
	return value != "" && slices.ContainsFunc(quotedInText.FindAllStringSubmatch(message, -1), func(m []string) bool { return m[1] == value })
}

// isolated asks compose-go about one attribute of one service.
func (d *diagnosis) isolated(ctx context.Context, x *yamlIndex, name, attr string, value *yaml.Node) error {
	service, services, root := mapNode(), mapNode(), mapNode()
	if attr != "image" {
		put(service, "image", textNode("none"))
	}
	put(service, attr, writtenOut(value))
	put(services, name, service)
	put(root, "services", services)
	content, err := yaml.Marshal(root)
	if err != nil {
		return err
	}
	details, opts := d.details([]types.ConfigFile{{Filename: x.path, Content: content}})
	opts = append(opts, func(o *loader.Options) { o.SkipConsistencyCheck = true })
	return guarded(func() error { _, err := loader.LoadWithContext(ctx, details, opts...); return err })
}

// writtenOut copies a value with what its aliases stand for. How much that can
// be, and that it has an end, is checked when a file is indexed.
func writtenOut(n *yaml.Node) *yaml.Node { return copied(n, nil) }

// replaced is n with stand-ins for the values that have one.
func (d *diagnosis) replaced(n *yaml.Node) *yaml.Node {
	if len(d.standIns) == 0 {
		return n
	}
	return copied(n, d.standIns)
}

func copied(n *yaml.Node, standIns map[*yaml.Node]string) *yaml.Node {
	n = resolved(n)
	c := *n
	if text, ok := standIns[n]; ok {
		c.Value = text
	}
	c.Anchor, c.Content = "", make([]*yaml.Node, len(n.Content))
	for i := range n.Content {
		c.Content[i] = copied(n.Content[i], standIns)
	}
	return &c
}
