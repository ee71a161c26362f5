package compose

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	interp "github.com/compose-spec/compose-go/v2/interpolation"
	"github.com/compose-spec/compose-go/v2/loader"
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
}

// explain reports at least one error. It returns the model all the same where
// only its consistency is at fault, so that further checks can be made.
func (d *diagnosis) explain(ctx context.Context, cause error) *types.Project {
	before := len(*d.problems)
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
	structural, uses := d.bears()
	structural = structural || d.elsewhere() || slices.ContainsFunc(d.sources, func(x *yamlIndex) bool { return x.repeatsEntry })
	if structural {
		return nil
	}
	d.services(ctx, rest)
	switch {
	case len(*d.problems) == before && !d.repeated():
		d.report(cause, "")
	case uses:
		return nil
	}
	return rest
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
	return own && d.wrong(x, path)
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
		var value any = n.Value
		for _, part := range slices.Backward(path) {
			if part == "[]" {
				value = []any{value}
			} else {
				value = map[string]any{part: value}
			}
		}
		nested, ok := value.(map[string]any)
		if !ok || n.ShortTag() != "!!str" && !strings.Contains(n.Value, "$") {
			return // only text is interpolated and then given a type
		}
		err := guarded(func() error { _, err := interp.Interpolate(nested, opts); return err })
		if err == nil {
			return
		}
		d.wrong(x, path)
		var missing *template.MissingRequiredError
		var invalid *template.InvalidTemplateError
		name := strings.ReplaceAll(strings.Join(path, "."), ".[]", "[]")
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

var noNumber = regexp.MustCompile(`strconv\.\w+: parsing .*`)

// fewServices is for how many services compose-go is asked about each alone,
// which loads the whole model every time.
const fewServices = 20

// services finds what is inconsistent between the services of a model.
func (d *diagnosis) services(ctx context.Context, p *types.Project) {
	for i, name := range p.ServiceNames() {
		before := len(*d.problems)
		s := p.Services[name]
		d.service(name, s, p)
		if len(*d.problems) > before {
			continue
		}
		if i >= fewServices {
			continue
		}
		if err := d.alone(ctx, name); err != nil {
			for _, one := range parts(err) {
				d.report(one, name)
			}
		}
	}
}

func (d *diagnosis) service(name string, s types.ServiceConfig, p *types.Project) {
	at := func(path ...string) place { return d.sources.at(append([]string{"services", name}, path...)...) }
	if s.Image == "" && s.Build == nil && s.Provider == nil {
		d.problems.errorf(at(), "service %q has neither an image nor a build", name).
			hint("a variable that is not set makes an empty image name")
	}
	if s.NetworkMode != "" && len(s.Networks) > 0 {
		d.problems.errorf(at("network_mode"), "service %q has both network_mode and networks", name).hint("keep one of them")
	}
	for _, key := range sortedKeys(s.Networks) {
		if _, ok := p.Networks[key]; !ok {
			d.problems.errorf(at("networks", key), "service %q is on network %q, which is not declared", name, key).
				didYouMean(key, p.NetworkNames())
		}
	}
	for _, dep := range sortedKeys(s.DependsOn) {
		if _, ok := p.Services[dep]; ok {
			continue
		}
		if off, ok := p.DisabledServices[dep]; ok {
			if s.DependsOn[dep].Required {
				d.problems.errorf(at("depends_on", dep), "service %q depends on %q, which needs the profile %s", name, dep, quoted(off.Profiles, " or ")).
					hint("add --profile %s", off.Profiles[0])
			}
			continue
		}
		where, does := at("depends_on", dep), "depends on"
		if !d.sources.has("services", name, "depends_on", dep) {
			where, does = d.reference(name, dep), "refers to"
		}
		d.problems.errorf(where, "service %q %s %q, which is not declared", name, does, dep).
			didYouMean(dep, slices.Concat(p.ServiceNames(), p.DisabledServiceNames()))
	}
	for _, v := range s.Volumes {
		if v.Type != types.VolumeTypeVolume || v.Source == "" {
			continue
		}
		if _, ok := p.Volumes[v.Source]; !ok {
			d.problems.errorf(at("volumes", v.Source), "service %q mounts volume %q, which is not declared", name, v.Source).
				didYouMean(v.Source, p.VolumeNames())
		}
	}
	total := 0
	if path, err := readableService(p, name, &total); err != nil {
		var refused *refusedError
		if errors.As(err, &refused) {
			at := at("env_file")
			if d.sources.has("services", name, "label_file") && !d.sources.has("services", name, "env_file") {
				at = d.sources.at("services", name, "label_file")
			}
			d.problems.refused(d.model.shown(path), at, refused)
		}
	}
	for _, f := range s.EnvFiles {
		if _, err := os.Stat(f.Path); err != nil && (bool(f.Required) || !os.IsNotExist(err)) {
			d.problems.errorf(d.envFile(name, f.Path), "service %q reads env file %q: %s", name, d.model.shown(f.Path), reason(err)).
				hint("create it, or write env_file: [{path: …, required: false}]")
		}
	}
}

// reference is where a service names another one outside depends_on: Compose
// makes a dependency of that.
func (d *diagnosis) reference(service, other string) place {
	for _, attr := range []string{"network_mode", "ipc", "pid", "volumes_from", "links"} {
		for _, x := range slices.Backward(d.sources) {
			if n := x.value("services", service, attr); n != nil {
				for _, e := range listed(resolved(n)) {
					if slices.Contains(strings.Split(e.Value, ":"), other) {
						return x.place(e)
					}
				}
			}
		}
	}
	return d.sources.at("services", service)
}

// envFile is where a service names an env file.
func (d *diagnosis) envFile(service, path string) place {
	for _, x := range slices.Backward(d.sources) {
		n := x.value("services", service, "env_file")
		if n == nil {
			continue
		}
		for _, e := range listed(resolved(n)) {
			if _, inner := member(e, "path", mergeDepth); inner != nil {
				e = resolved(inner)
			}
			text, err := bounded()(e.Value, func(k string) (string, bool) { v, ok := x.seenWith(d.vars)[0][k]; return v, ok })
			if err == nil && (absolute(d.model.dir, text) == path || absolute(filepath.Dir(x.path), text) == path) {
				return x.place(e)
			}
		}
	}
	return d.sources.at("services", service, "env_file")
}

// alone asks compose-go about one service, with the others reduced to names.
func (d *diagnosis) alone(ctx context.Context, name string) error {
	return guarded(func() error { return d.load(ctx, name) })
}

func (d *diagnosis) load(ctx context.Context, name string) error {
	files, err := d.mendedFiles()
	if err != nil {
		return err
	}
	details, load := d.details(files)
	dict, err := loader.LoadModelWithContext(ctx, details, load...)
	if err != nil {
		return err
	}
	services, _ := dict["services"].(map[string]any)
	for other, s := range services {
		if other == name {
			continue
		}
		short := map[string]any{"image": "none"}
		if full, ok := s.(map[string]any); ok {
			for _, key := range []string{"build", "profiles"} { // what references are checked against
				if v, ok := full[key]; ok {
					short[key] = v
				}
			}
		}
		services[other] = short
	}
	opts := loader.ToOptions(&details, []func(*loader.Options){loader.WithProfiles(d.model.profiles)})
	opts.SetProjectName(d.id, true)
	_, err = loader.ModelToProject(dict, opts, details)
	return err
}

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
