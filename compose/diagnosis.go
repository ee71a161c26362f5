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

	"github.com/compose-spec/compose-go/v2/cli"
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
}

// explain reports at least one error. It returns the model all the same where
// only its consistency is at fault, so that further checks can be made.
func (d *diagnosis) explain(ctx context.Context, cause error) *types.Project {
	if d.problems.compose() {
		return nil // a file could not be parsed; anything else would follow from that
	}
	before := len(*d.problems)
	own := slices.DeleteFunc(slices.Clone(d.sources), func(x *yamlIndex) bool { return !slices.Contains(d.model.files, x.path) })
	for _, files := range []sources{own, d.sources} { // included files see further variables, so they come last
		for _, x := range files {
			d.interpolation(x)
			d.attributes(x)
		}
		if len(*d.problems) > before {
			return nil
		}
	}
	lenient, err := d.model.unresolved(ctx, d.id, cli.WithConsistency(false))
	if err != nil {
		d.whole(cause)
		return nil
	}
	d.services(ctx, lenient)
	if len(*d.problems) == before {
		d.whole(cause)
	}
	return lenient
}

// compose says whether there are errors outside ctis.toml already.
func (p Problems) compose() bool {
	return slices.ContainsFunc(p, func(q Problem) bool {
		return q.Severity == SeverityError && filepath.Base(q.File) != ConfigFile
	})
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

// interpolation tries each value of a file on its own.
func (d *diagnosis) interpolation(x *yamlIndex) {
	opts := *d.model.interpolation(d.vars).Interpolate
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
		var missing *template.MissingRequiredError
		var invalid *template.InvalidTemplateError
		name := strings.ReplaceAll(strings.Join(path, "."), ".[]", "[]")
		switch {
		case errors.As(err, &missing):
			p := d.problems.errorf(x.place(n), "%s needs the variable %q, which is not set", name, missing.Variable)
			p.Hint = missing.Reason
		case errors.As(err, &invalid):
			d.problems.errorf(x.place(n), "%s has an invalid interpolation: %s", name, firstLine(n.Value)).
				hint("a literal $ is written $$; a default is written ${NAME:-default}")
		default:
			cause := strings.TrimPrefix(innermost(err).Error(), "failed to cast to expected type: ")
			d.problems.errorf(x.place(n), "%s has the wrong type: %s: %s", name, firstLine(n.Value), strings.TrimSuffix(cause, ": "))
		}
	})
}

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
			d.problems.errorf(d.placeIn(err, name), "%s", tidy(err))
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
		d.problems.errorf(at("depends_on", dep), "service %q depends on %q, which is not declared", name, dep).
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
			d.problems.errorf(at("env_file"), "service %q reads env file %q: %s", name, d.model.shown(f.Path), reason(err)).
				hint("create it, or write env_file: [{path: …, required: false}]")
		}
	}
}

// alone asks compose-go about one service, with the others reduced to names.
func (d *diagnosis) alone(ctx context.Context, name string) error {
	return guarded(func() error { return d.load(ctx, name) })
}

func (d *diagnosis) load(ctx context.Context, name string) error {
	o, err := d.model.options(d.id)
	if err != nil {
		return err
	}
	dict, err := o.LoadModel(ctx)
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
	details := types.ConfigDetails{WorkingDir: d.model.dir, Environment: d.vars}
	opts := loader.ToOptions(&details, []func(*loader.Options){loader.WithProfiles(d.model.profiles)})
	opts.SetProjectName(d.id, true)
	_, err = loader.ModelToProject(dict, opts, details)
	return err
}

// whole reports compose-go's own words, for what nothing above has found.
func (d *diagnosis) whole(err error) {
	var missing *fs.PathError
	if errors.As(err, &missing) {
		d.problems.errorf(d.mention(missing.Path), "%q: %s", d.model.shown(missing.Path), reason(err))
		return
	}
	d.problems.errorf(d.placeIn(err, ""), "%s", tidy(err))
}

// mention is where a file names another.
func (d *diagnosis) mention(path string) place {
	at := d.sources.at()
	for _, x := range d.sources {
		x.scalars(func(_ []string, n *yaml.Node) {
			if n.Value == path || n.Value != "" && filepath.Join(filepath.Dir(x.path), n.Value) == path {
				at = x.place(n)
			}
		})
	}
	return at
}

var (
	pathInText    = regexp.MustCompile(`\b(?:services|networks|volumes|secrets|configs|jobs|models)\.[^\s:]+`)
	serviceInText = regexp.MustCompile(`service "([^"]+)"|cycle detected: (\S+) ->`)
)

// placeIn guesses from compose-go's words where a mistake is. Only the place
// depends on the guess.
func (d *diagnosis) placeIn(err error, service string) place {
	text := err.Error()
	path := strings.Split(strings.NewReplacer("[", ".", "]", "").Replace(pathInText.FindString(text)), ".")
	if len(path) > 1 && d.sources.has(path[:2]...) {
		return d.sources.at(path...)
	}
	if m := serviceInText.FindStringSubmatch(text); m != nil && service == "" {
		service = m[1] + m[2]
	}
	if service != "" {
		return d.sources.at("services", service)
	}
	return d.sources.at()
}

// tidy is compose-go's message without the sentinel it ends in, on one line.
func tidy(err error) string {
	s := strings.TrimSuffix(err.Error(), ": invalid compose project")
	return strings.Join(strings.Fields(s), " ")
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
