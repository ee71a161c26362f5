package compose

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
	"go.yaml.in/yaml/v4"
)

// fewServices is for how many services compose-go is asked about each alone,
// which loads the whole model every time.
const fewServices = 20

// services finds what is inconsistent between the services of a model.
func (d *diagnosis) services(ctx context.Context, p *types.Project) {
	for i, name := range p.ServiceNames() {
		wrong, readable := d.service(name, p.Services[name], p)
		if !readable {
			continue // compose-go would read what must not be
		}
		// The rest of the service is asked about without what is told already.
		for range maxMends {
			if i >= fewServices || ctx.Err() != nil || !d.takeOut(name, wrong) {
				break
			}
			err := d.alone(ctx, name)
			if err == nil {
				break
			}
			wrong = nil
			for _, one := range parts(err) {
				d.report(one, name)
				if path := translate(one, name).path; len(path) >= 3 && path[1] == name {
					wrong = append(wrong, path[2])
				}
			}
			if len(wrong) == 0 {
				break
			}
		}
	}
}

// takeOut takes attributes out of a service, in each file that has them. It is
// false where that cannot be: compose-go would stop at them again.
func (d *diagnosis) takeOut(service string, attributes []string) bool {
	for _, attr := range attributes {
		path, taken := []string{"services", service, attr}, false
		for _, x := range d.sources {
			if _, depth := x.find(path); depth < len(path) {
				continue
			}
			if !slices.Contains(d.model.files, x.path) {
				return false
			}
			taken = d.wrong(x, path) || taken
		}
		if !taken {
			return false
		}
	}
	return true
}

// service finds what can be told of one service without compose-go. It returns
// the attributes that are wrong, and whether all files that the service names
// can be read.
func (d *diagnosis) service(name string, s types.ServiceConfig, p *types.Project) (wrong []string, readable bool) {
	at := func(path ...string) place { return d.sources.at(append([]string{"services", name}, path...)...) }
	bad := func(attr string) {
		if !slices.Contains(wrong, attr) {
			wrong = append(wrong, attr)
		}
	}
	if s.Image == "" && s.Build == nil && s.Provider == nil {
		bad("image")
		d.problems.errorf(at(), "service %q has neither an image nor a build", name).
			hint("a variable that is not set makes an empty image name")
	}
	if s.NetworkMode != "" && len(s.Networks) > 0 {
		bad("network_mode")
		d.problems.errorf(at("network_mode"), "service %q has both network_mode and networks", name).hint("keep one of them")
	}
	for _, key := range sortedKeys(s.Networks) {
		if _, ok := p.Networks[key]; !ok {
			bad("networks")
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
				bad("depends_on")
				profiles := neededProfiles(p, dep)
				d.problems.errorf(at("depends_on", dep), "service %q depends on %q, which needs the profile %s%s", name, dep, quoted(off.Profiles, " or "), further(profiles)).
					hint("%s", addProfiles(profiles))
			}
			continue
		}
		where, attr, does := at("depends_on", dep), "depends_on", "depends on"
		if !d.sources.has("services", name, "depends_on", dep) {
			where, attr = d.reference(name, dep)
			does = "refers to"
		}
		bad(attr)
		d.problems.errorf(where, "service %q %s %q, which is not declared", name, does, dep).
			didYouMean(dep, slices.Concat(p.ServiceNames(), p.DisabledServiceNames()))
	}
	d.lostDependencies(name, s, p)
	for _, v := range s.Volumes {
		if v.Type != types.VolumeTypeVolume || v.Source == "" {
			continue
		}
		if _, ok := p.Volumes[v.Source]; !ok {
			bad("volumes")
			d.problems.errorf(d.written().volume(name, v), "service %q mounts volume %q, which is not declared", name, v.Source).
				didYouMean(v.Source, p.VolumeNames())
		}
	}
	d.declared(name, s, p, bad)
	total := 0
	path, unreadable := readableService(p, name, &total)
	if unreadable != nil {
		var refused *refusedError
		if errors.As(unreadable, &refused) {
			at, _ := d.fileOf(name, path)
			d.problems.refused(d.model.shown(path), at, refused)
		}
	}
	for _, f := range s.EnvFiles {
		if _, err := os.Stat(f.Path); err != nil && (bool(f.Required) || !os.IsNotExist(err)) {
			bad("env_file")
			at, _ := d.fileOf(name, f.Path)
			d.problems.errorf(at, "service %q reads env file %q: %s", name, d.model.shown(f.Path), reason(err)).
				hint("create it, or write env_file: [{path: …, required: false}]")
		} else if err == nil && f.Format == "" && unreadable == nil {
			before := len(*d.problems)
			if d.model.envFileMistakes(d.problems, f.Path, p.Environment); len(*d.problems) > before {
				bad("env_file")
			}
		}
	}
	return wrong, unreadable == nil
}

// lostDependencies finds services that are not declared in a depends_on that was
// taken out, since something else is wrong with it.
func (d *diagnosis) lostDependencies(name string, s types.ServiceConfig, p *types.Project) {
	known := slices.Concat(p.ServiceNames(), p.DisabledServiceNames())
	for _, x := range d.sources {
		list := x.value("services", name, "depends_on")
		if list == nil || len(s.DependsOn) > 0 {
			continue
		}
		var deps []*yaml.Node
		switch list = resolved(list); list.Kind {
		case yaml.MappingNode:
			for _, m := range members(list, mergeDepth) {
				deps = append(deps, m.key)
			}
		case yaml.SequenceNode:
			deps = listed(list)
		}
		for _, n := range deps {
			dep := d.written().text(x)(n)
			if n.ShortTag() == "!!str" && dep != "" && !slices.Contains(known, dep) {
				d.problems.errorf(x.place(n), "service %q depends on %q, which is not declared", name, dep).didYouMean(dep, known)
			}
		}
	}
}

// declared finds uses of configs, secrets and models that no file declares.
func (d *diagnosis) declared(name string, s types.ServiceConfig, p *types.Project, bad func(attr string)) {
	undeclared := func(at place, attr, does, kind, source string, known []string) {
		if slices.Contains(known, source) {
			return
		}
		bad(attr)
		problem := d.problems.errorf(at, "service %q %s the %s %q, which is not declared", name, does, kind, source)
		problem.hint("declare it at the top of a Compose file")
		problem.didYouMean(source, known)
	}
	source := func(attr, source string) place {
		return d.written().at(name, attr, func(n *yaml.Node, text textOf) bool {
			if n.Kind == yaml.MappingNode {
				_, n = member(n, "source", mergeDepth)
			}
			return text(n) == source
		})
	}
	for _, f := range s.Configs {
		undeclared(source("configs", f.Source), "configs", "uses", "config", f.Source, sortedKeys(p.Configs))
	}
	for _, f := range s.Secrets {
		undeclared(source("secrets", f.Source), "secrets", "uses", "secret", f.Source, sortedKeys(p.Secrets))
	}
	for _, key := range sortedKeys(s.Models) {
		undeclared(d.sources.at("services", name, "models", key), "models", "uses", "model", key, sortedKeys(p.Models))
	}
	if s.Build != nil {
		for _, f := range s.Build.Secrets {
			at := d.sources.at("services", name, "build", "secrets", f.Source)
			undeclared(at, "build", "builds with", "secret", f.Source, sortedKeys(p.Secrets))
		}
	}
}

// reference is where a service names another one outside depends_on, and by
// which attribute: Compose makes a dependency of that.
func (d *diagnosis) reference(service, other string) (at place, attr string) {
	for _, attr := range []string{"network_mode", "ipc", "pid", "volumes_from", "links"} {
		for _, x := range slices.Backward(d.sources) {
			if n := x.value("services", service, attr); n != nil {
				for _, e := range listed(resolved(n)) {
					if slices.Contains(strings.Split(e.Value, ":"), other) {
						return x.place(e), attr
					}
				}
			}
		}
	}
	return d.sources.at("services", service), "depends_on"
}

// fileOf is where a service names a file of variables or labels, and by which
// attribute.
func (d *diagnosis) fileOf(service, path string) (at place, attr string) {
	for _, attr := range []string{"env_file", "label_file"} {
		found := false
		at := d.written().from(service, attr, func(x *yamlIndex, n *yaml.Node, text textOf) bool {
			if n.Kind == yaml.MappingNode {
				_, n = member(n, "path", mergeDepth)
			}
			name := text(n)
			found = name != "" && (absolute(d.model.dir, name) == path || absolute(filepath.Dir(x.path), name) == path)
			return found
		})
		if found {
			return at, attr
		}
	}
	attr = "env_file"
	if !d.sources.has("services", service, attr) && d.sources.has("services", service, "label_file") {
		attr = "label_file"
	}
	return d.sources.at("services", service, attr), attr
}

func (d *diagnosis) written() writtenLists { return writtenLists{d.sources, d.model, d.vars} }

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
			if v, ok := full["profiles"]; ok { // what references are checked against
				short["profiles"] = v
			}
			if _, ok := full["build"]; ok { // likewise, and no more than that it is there
				short["build"] = map[string]any{"context": "."}
			}
		}
		services[other] = short
	}
	opts := loader.ToOptions(&details, []func(*loader.Options){loader.WithProfiles(d.model.profiles)})
	opts.SetProjectName(d.id, true)
	_, err = loader.ModelToProject(dict, opts, details)
	return err
}
