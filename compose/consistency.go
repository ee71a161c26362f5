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
)

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
