package compose

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	interp "github.com/compose-spec/compose-go/v2/interpolation"
	"github.com/compose-spec/compose-go/v2/template"
	"github.com/compose-spec/compose-go/v2/types"
	"go.yaml.in/yaml/v4"
)

// diagnosis explains why compose-go refused a model. compose-go stops at the
// first mistake and often names no line, so the same questions are asked again
// in small: each value, each attribute, each service on its own. That finds
// all mistakes of a kind at once, with their places.
type diagnosis struct {
	model    *model
	id       string
	vars     types.Mapping
	sources  sources
	problems *Problems

	taken map[string][][]string // by file: the paths of attributes that are wrong; see mend.go

	// standIns are, for values that cannot be interpolated or given their type, others
	// that can, so that the schema can be asked about what stands beside them.
	standIns map[*yaml.Node]string

	lost         []lostFile
	skipIncludes bool // something is wrong with them
	affected     []string
}

// explain reports at least one error. It returns the model all the same where
// only its consistency is at fault, so that further checks can be made.
func (d *diagnosis) explain(ctx context.Context, cause error) *types.Project {
	before := len(*d.problems)
	d.losses()
	for _, x := range d.sources {
		d.interpolation(x)
		d.attributes(x)
	}
	if slices.ContainsFunc(d.model.files, func(path string) bool {
		return !slices.ContainsFunc(d.sources, func(x *yamlIndex) bool { return x.path == path })
	}) {
		return nil // a file is no YAML; anything else would follow from that
	}
	var rest *types.Project
	for range maxMends {
		var err error
		if rest, err = d.mended(ctx); err == nil {
			break
		}
		if ctx.Err() != nil || !d.stoppedAt(ctx, err) {
			break
		}
	}
	if rest == nil {
		if len(*d.problems) == before {
			d.report(cause, "")
		}
		return nil
	}
	if d.structural() {
		if len(*d.problems) == before && !d.repeated() {
			d.report(cause, "")
		}
		return nil
	}
	d.affected = d.affects() // what is only inconsistent is still there
	d.services(ctx, rest)
	if len(*d.problems) == before && !d.repeated() {
		d.report(cause, "")
	}
	return rest
}

// losses reports the files that others name and that cannot be used, and takes
// what names them out.
func (d *diagnosis) losses() {
	for _, f := range d.lost {
		var refused *refusedError
		switch {
		case errors.As(f.err, &refused): // reported
		case f.err != nil && remote(f.path) != "":
			d.problems.errorf(f.at, "%q is on another machine, and an environment is read from this one", remote(f.path)).
				hint("put a copy beside the environment and name its path")
		case f.err == nil:
			d.model.envFileMistakes(d.problems, f.path, f.env)
		case errors.As(f.err, new(*fs.PathError)):
			d.problems.errorf(f.at, "%q: %s", d.model.shown(f.path), reason(f.err))
		default:
			d.problems.yaml(d.model.shown(f.path), f.err)
		}
		if f.extends == nil {
			d.skipIncludes = true
		} else {
			d.wrong(f.in, f.extends)
		}
	}
	for _, x := range d.sources {
		if slices.Contains(d.model.files, x.path) {
			d.extendsCircles(x)
		}
	}
}

// maxShownCircle is how many services of a circle are named.
const maxShownCircle = 20

// extendsCircles finds services of one file that extend each other, and names each
// circle at one of them.
func (d *diagnosis) extendsCircles(x *yamlIndex) {
	next := map[string]string{}
	if services := x.value("services"); services != nil {
		each(resolved(services), func(name string, service *yaml.Node) {
			_, other := member(resolved(service), "extends", mergeDepth)
			if other != nil && resolved(other).Kind == yaml.MappingNode {
				if _, file := member(other, "file", mergeDepth); file != nil {
					return
				}
				_, other = member(other, "service", mergeDepth)
			}
			if other != nil {
				next[name] = d.written().text(x)(other)
			}
		})
	}
	// Each service is gone through once: what an earlier way has come by leads to no
	// circle that is not told.
	onWay := map[string]int{} // which way has come by
	for i, start := range sortedKeys(next) {
		name := start
		for ; name != "" && onWay[name] == 0; name = next[name] {
			onWay[name] = i + 1
		}
		if name == "" || onWay[name] != i+1 {
			continue
		}
		circle := []string{name}
		for other := next[name]; other != name; other = next[other] {
			circle = append(circle, other)
		}
		first := slices.Index(circle, slices.Min(circle)) // the same wherever it was come upon
		circle = slices.Concat(circle[first:], circle[:first+1])
		at, _ := x.find([]string{"services", circle[0], "extends"})
		shown := circle
		if len(shown) > maxShownCircle {
			shown = append(slices.Clone(shown[:maxShownCircle]), "…")
		}
		d.problems.errorf(at, "services extend each other in a circle: %s", strings.Join(shown, " extends ")).
			hint("remove one of the extends")
		d.wrong(x, []string{"services", circle[0], "extends"})
	}
}

// stoppedAt reports what compose-go has stopped at, unless that is done, and
// takes it out. It is false where nothing can be.
func (d *diagnosis) stoppedAt(ctx context.Context, err error) bool {
	further := false
	for _, one := range parts(err) {
		further = d.mistake(ctx, one) || further
	}
	return further
}

func (d *diagnosis) mistake(ctx context.Context, err error) bool {
	f := translate(err, "")
	x, path := d.attributeOf(f.path)
	if len(f.path) == 0 {
		if x, path = d.culprit(ctx, err); x != nil {
			if f = translate(err, path[1]); len(f.path) < len(path) {
				f.path = path
			}
		}
	}
	own := x != nil && slices.Contains(d.model.files, x.path)
	at := d.place(f)
	known := slices.ContainsFunc(*d.problems, func(p Problem) bool {
		return p.Severity == SeverityError && (p.File == at.File && p.Line == at.Line || !own && !d.isOwn(p.File))
	})
	var missing *fs.PathError
	switch {
	case known || err.Error() == "empty compose file" && d.taken != nil:
	case x != nil && !errors.As(err, &missing):
		d.add(f)
	default:
		d.report(err, "")
	}
	if !own {
		before := d.skipIncludes
		d.skipIncludes = true
		return !before
	}
	if !d.wrong(x, path) {
		return false
	}
	d.besides(ctx, x, path)
	return true
}

// isOwn says whether a file, as it is shown, is one of the model's own.
func (d *diagnosis) isOwn(shown string) bool {
	return slices.ContainsFunc(d.model.files, func(path string) bool { return d.model.shown(path) == shown })
}

// attributeOf is the attribute that a path of the model leads to, in the file
// that has it. A service alone is none: nearly everything would follow.
func (d *diagnosis) attributeOf(path []string) (*yamlIndex, []string) {
	n := attributeDepth(path)
	if len(path) < n || n == 1 {
		return nil, nil
	}
	for _, x := range slices.Backward(d.sources) {
		if _, depth := x.find(path[:n]); depth == n {
			return x, path[:n]
		}
	}
	return nil, nil
}

// repeated says whether a key that stands twice is what stopped compose-go.
func (d *diagnosis) repeated() bool {
	return slices.ContainsFunc(d.sources, func(x *yamlIndex) bool { return x.repeats })
}

// yaml reports a file that is no YAML.
func (p *Problems) yaml(file string, err error) {
	var syntax *yaml.LoadError
	if !errors.As(err, &syntax) {
		p.errorf(place{File: file}, "cannot be read: %s", err)
		return
	}
	message := syntax.Message
	if syntax.ContextMsg != "" {
		message += " (" + syntax.ContextMsg + ")"
	}
	p.errorf(place{File: file, Line: max(1, syntax.Mark.Line), Column: max(1, syntax.Mark.Column)}, "not valid YAML: %s", message)
}

// interpolation tries each value of a file on its own, with all the variables
// that the file is read with.
func (d *diagnosis) interpolation(x *yamlIndex) {
	for _, vars := range x.seenWith(d.vars) {
		d.interpolationWith(x, vars)
	}
}

func (d *diagnosis) interpolationWith(x *yamlIndex, vars types.Mapping) {
	opts := *d.model.interpolation(vars).Interpolate
	x.scalars(func(path []string, n *yaml.Node) {
		if n.Tag == "!reset" || len(path) == 0 {
			return
		}
		try := func(text string) error {
			nested, ok := nestedAt(path, text).(map[string]any)
			if !ok {
				return nil
			}
			return guarded(func() error { _, err := interp.Interpolate(nested, opts); return err })
		}
		if n.ShortTag() != "!!str" && !strings.Contains(n.Value, "$") {
			return // only text is interpolated and then given a type
		}
		err := try(n.Value)
		if err == nil {
			return
		}
		d.wrong(x, path)
		for _, other := range []string{"1", "true"} { // numbers and text; true or false
			if d.standIns[n] == "" && try(other) == nil {
				if d.standIns == nil {
					d.standIns = map[*yaml.Node]string{}
				}
				d.standIns[n] = other
			}
		}
		var missing *template.MissingRequiredError
		var invalid *template.InvalidTemplateError
		name := x.name(n)
		switch {
		case errors.As(err, &missing):
			state := "not set"
			if _, set := vars[missing.Variable]; set {
				state = "empty"
			}
			p := d.problems.errorf(x.place(n), "%s needs the variable %q, which is %s", name, missing.Variable, state)
			if missing.Reason != "" {
				p.Message += ": " + firstLine(missing.Reason)
			}
			p.hint("export it, or put it into .env beside the Compose file")
		case errors.As(err, &invalid):
			d.problems.errorf(x.place(n), "%s has an invalid interpolation: %s", name, firstLine(n.Value)).
				hint("a literal $ is written $$; a default is written ${NAME:-default}")
		default:
			cause := strings.TrimPrefix(innermost(err).Error(), "failed to cast to expected type: ")
			cause = noNumber.ReplaceAllString(cause, "a number is needed")
			d.problems.errorf(x.place(n), "%s has the wrong type: %s: %s", name, firstLine(n.Value), strings.TrimSuffix(cause, ": "))
		}
	})
}

// nestedAt is a document that has value at path and nothing else.
func nestedAt(path []string, value any) any {
	for _, part := range slices.Backward(path) {
		if part == "[]" {
			value = []any{value}
		} else {
			value = map[string]any{part: value}
		}
	}
	return value
}

var noNumber = regexp.MustCompile(`strconv\.\w+: parsing .*`)

// mention is where a file names another.
func (d *diagnosis) mention(path string) place {
	at := d.sources.at()
	for _, x := range d.sources {
		at = mentionIn(x, path, at)
	}
	return at
}

// mentionIn is where x names another file, or otherwise.
func mentionIn(x *yamlIndex, path string, otherwise place) place {
	x.scalars(func(_ []string, n *yaml.Node) {
		if n.Value == path || n.Value != "" && filepath.Join(filepath.Dir(x.path), n.Value) == path {
			otherwise = x.place(n)
		}
	})
	return otherwise
}

// reason is why a file operation failed, without the path that the message
// around it names already.
func reason(err error) string {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err.Error()
	}
	return err.Error()
}

// innermost follows err to its cause, past what only adds a path to it.
func innermost(err error) error {
	for {
		switch e := err.(type) {
		case interface{ Unwrap() []error }:
			if len(e.Unwrap()) == 0 {
				return err
			}
			err = e.Unwrap()[0]
		case interface{ Unwrap() error }:
			inner := e.Unwrap()
			if inner == nil || strings.HasPrefix(err.Error(), "failed to cast") {
				return err
			}
			err = inner
		default:
			return err
		}
	}
}

func firstLine(s string) string {
	line, _, more := strings.Cut(s, "\n")
	if more {
		line += " …"
	}
	return line
}
