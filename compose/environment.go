// Package compose turns an environment directory (a ctis.toml and Compose
// files) into a checked model, and sets that model up and down through Docker
// Compose.
//
// Everything up to the generated override is pure or only reads files: no
// engine is asked, and every problem is reported with the file, line and
// column that has to be changed. Only [Runner] starts processes. The
// environment's own files are never written to.
package compose

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/compose-spec/compose-go/v2/types"
)

// Options says which environment to load, and how.
type Options struct {
	Dir      string   // contains ctis.toml
	ID       string   // trajectory id = project name; "" while only validating
	Profiles []string // none: those that the environment's own .env asks for
	EnvFiles []string // none: .env beside the first Compose file, if there is one
	Environ  []string // the caller's environment, KEY=value
}

// Environment is an environment without errors, ready to be set up.
type Environment struct {
	Dir     string // absolute
	Name    string // base name of Dir, for people
	Config  *Config
	Project *types.Project // as Compose would run it: interpolated, active profiles only

	ProjectDir string   // absolute: what relative paths in Compose files refer to
	Files      []string // absolute Compose files, in order
	EnvFiles   []string // absolute
	Profiles   []string // active ones

	DefaultService string // the agent's service
	Network        string // key of the network that the simulator joins

	// Keys are the API keys of upstream proxies that are set.
	Keys Keys

	// Exclusive is what no two trajectories can have at once, as the Compose files
	// come upon it: networks first, then volumes, then what services use.
	Exclusive []Exclusive

	// Settings is the SHA-256, in hex, over everything that shapes containers or
	// what hosts answer. The same environment has the same value under every
	// project name; any change that would make another container, persona,
	// exposed service or upstream proxy changes it. The values of API keys are no
	// part of it.
	Settings string

	inherit []string // see [Invocation]
	inputs  inputs   // what it was read from
}

// begin gives the environment's ctis.toml as the caller would write it and the
// absolute path of its directory, or says what is wrong with the options.
func (o Options) begin() (file, dir string, ps Problems) {
	file = filepath.Join(o.Dir, ConfigFile)
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		ps.errorf(place{File: file}, "%q has no absolute path: %s", o.Dir, err)
	}
	if o.ID != "" {
		if err := ValidateID(o.ID); err != nil {
			ps.errorf(place{File: file}, "%s", err).hint("use %q", SuggestID(o.ID))
		}
	}
	return file, dir, ps
}

// Load reads and checks an environment (SPEC §3). It needs no engine and
// reports all problems at once; the Environment is nil if any is an error.
// A cancelled context ends it early with the problem that it was cancelled.
func Load(ctx context.Context, o Options) (*Environment, Problems) {
	file, dir, ps := o.begin()
	if ps.HasErrors() {
		return nil, ps
	}
	if undeclared(dir, file) {
		return nil, surveyProblems(ctx, o, dir, file)
	}
	content, ok := readConfig(o.Dir, file, &ps)
	if !ok {
		return nil, ps
	}
	return loadDeclared(ctx, o, dir, file, content)
}

// loadDeclared is Load with the content of a ctis.toml.
func loadDeclared(ctx context.Context, o Options, dir, file string, content []byte) (*Environment, Problems) {
	config, ps := ParseConfig(file, content)
	if config == nil {
		return nil, besidesTOML(ctx, o, dir, file, content, ps)
	}
	l := &environmentLoad{o: o, dir: dir, config: config, problems: ps, shownFiles: []string{file}}
	env := l.load(ctx)
	ps = l.sure().sorted(l.shownFiles)
	if ps.HasErrors() {
		return nil, ps
	}
	return env, ps
}

// readConfig reads ctis.toml, or says why it cannot be read.
func readConfig(dir, file string, ps *Problems) ([]byte, bool) {
	var refused *refusedError
	content, err := readFile(file)
	if err == nil {
		return content, true
	}
	fi, dirErr := os.Stat(dir)
	switch {
	case os.IsNotExist(dirErr):
		ps.errorf(place{File: dir}, "this directory does not exist").
			hint("name a directory that has a %s", ConfigFile)
	case dirErr == nil && !fi.IsDir():
		ps.errorf(place{File: dir}, "this is a file, and an environment is a directory").
			hint("name the directory: %s", filepath.Dir(dir))
	case errors.As(err, &refused):
		ps.refused(file, place{File: file}, refused)
	case os.IsNotExist(err):
		ps.errorf(place{File: file}, "there is no %s, so this directory is no environment", ConfigFile).
			hint("name the directory that has one, or add a Compose file here and let ctis init write one")
	default:
		ps.errorf(place{File: file}, "cannot be read: %s", reason(err))
	}
	return nil, false
}

// environmentLoad is one run of Load.
type environmentLoad struct {
	o          Options
	dir        string
	config     *Config
	problems   Problems
	shownFiles []string // the order in which files are reported
	unsure     []place  // where variables are used whose value is not known
}

// sure are the problems without what depends on variables that are not known.
func (l *environmentLoad) sure() Problems {
	return slices.DeleteFunc(l.problems, func(p Problem) bool {
		return slices.ContainsFunc(l.unsure, func(at place) bool {
			same := at.File == p.File && at.Line == p.Line
			return same && (at.Column == p.Column || strings.Contains(p.Message, strconv.Quote(standIn)))
		})
	})
}

// check holds the project against its config, and drops what only follows from
// mistakes that are told already.
func (l *environmentLoad) check(c *checker, affected []string) {
	before := len(l.problems)
	c.check()
	about := func(p Problem) bool {
		return slices.ContainsFunc(affected, func(name string) bool { return strings.Contains(p.Message, name) })
	}
	l.problems = append(l.problems[:before:before], slices.DeleteFunc(slices.Clone(l.problems[before:]), about)...)
}

// shown is a path as the user would write it.
func (l *environmentLoad) shown(path string) string {
	if rel, err := filepath.Rel(l.dir, path); err == nil && filepath.IsLocal(rel) {
		return filepath.Join(l.o.Dir, rel)
	}
	return path
}

// composed is the Compose half of an environment: resolved, and not yet held
// against what ctis.toml says of it.
type composed struct {
	model   *model
	id      string
	vars    types.Mapping
	sources sources
	project *types.Project

	// affected are the names of what is wrong in a way that other problems would
	// follow from.
	affected []string
}

// compose resolves the Compose project; nil where the problems say why it cannot be.
func (l *environmentLoad) compose(ctx context.Context) *composed {
	m, ps := newModel(l.o, l.dir, l.config, l.shown)
	l.problems = append(l.problems, ps...)
	if m == nil {
		vars := environMapping(withoutCompose(l.o.Environ))
		l.requiredVariables(vars)
		l.apiKeys(vars)
		return nil
	}
	for _, f := range m.files {
		l.shownFiles = append(l.shownFiles, l.shown(f))
	}
	id := l.o.ID
	if id == "" {
		id = placeholderID
	}
	vars, err := m.variables(id)
	if err != nil {
		l.problems.errorf(place{File: l.shown(m.envFiles[0])}, "%s", err)
		return nil
	}
	l.requiredVariables(vars)
	l.apiKeys(vars)

	v := newInventory(m, &l.problems)
	src, safe := v.take(vars)
	if !safe {
		return nil
	}
	for _, u := range references(src) {
		if slices.Contains(m.unsure, u.name) {
			l.unsure = append(l.unsure, u.at)
		}
	}
	var affected []string
	unsetVariables(m, src, vars, &l.problems)
	project, err := m.load(ctx, id)
	if err != nil {
		if ctx.Err() != nil {
			l.problems.errorf(place{File: l.shown(m.files[0])}, "%s", ctx.Err())
			return nil
		}
		d := diagnosis{model: m, id: id, vars: vars, sources: src, problems: &l.problems, lost: v.lost}
		if project = d.explain(ctx, err); project == nil {
			return nil
		}
		affected = d.affected
	}
	return &composed{model: m, id: id, vars: vars, sources: src, project: project, affected: affected}
}

func (l *environmentLoad) load(ctx context.Context) *Environment {
	l.bodyFiles()
	l.authorityFiles()
	p := l.compose(ctx)
	if p == nil {
		return nil
	}
	m, project := p.model, p.project
	other := l.other(ctx, m)
	c := checker{config: l.config, dir: l.dir, id: p.id, project: project, other: other, sources: p.sources, model: m, vars: p.vars, problems: &l.problems}
	l.check(&c, p.affected)
	if l.problems.HasErrors() {
		return nil
	}
	digest, err := settings(l.config, c.defaultService, cmp.Or(other, project))
	if err != nil {
		l.problems.errorf(place{File: l.shown(m.files[0])}, "%s", err)
		return nil
	}
	return &Environment{
		Dir: l.dir, Name: filepath.Base(l.dir), Config: l.config,
		Project:    project.WithoutUnnecessaryResources(),
		ProjectDir: m.dir, Files: m.files, EnvFiles: m.envFiles, Profiles: m.profiles,
		DefaultService: c.defaultService, Network: l.config.Network, Keys: keysOf(l.config, p.vars),
		Exclusive: c.exclusive, Settings: digest, inherit: m.mentioned(p.sources, project), inputs: m.read,
	}
}

// other is the model under another name, or nil: then only this name works, and
// what depends on it cannot be told.
func (l *environmentLoad) other(ctx context.Context, m *model) *types.Project {
	vars, err := m.variables(otherID)
	if err != nil {
		return nil
	}
	var ps Problems // its files may be others
	if _, safe := m.takeInventory(vars, &ps); !safe || ps.HasErrors() {
		return nil
	}
	project, err := m.load(ctx, otherID)
	if err != nil {
		return nil
	}
	return project
}

func environMapping(environ []string) types.Mapping {
	m := types.Mapping{}
	for _, kv := range environ {
		if k, v, ok := strings.Cut(kv, "="); ok {
			m[k] = v
		}
	}
	return m
}

// Reaching returns the services whose traffic can reach the simulator, sorted:
// those on its network, and those that share the network of one of them.
func (e *Environment) Reaching() []string {
	var names []string
	for name := range e.Project.Services {
		if e.reaches(name, len(e.Project.Services)) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// ReadOnly tells whether a service's root file system is read-only.
func (e *Environment) ReadOnly(service string) bool { return e.Project.Services[service].ReadOnly }

// reaches follows network_mode: service:… at most hops times.
func (e *Environment) reaches(name string, hops int) bool {
	s, ok := e.Project.Services[name]
	if !ok || s.Provider != nil || hops < 0 {
		return false
	}
	if _, on := s.Networks[e.Network]; on {
		return true
	}
	shared, ok := strings.CutPrefix(s.NetworkMode, types.ServicePrefix)
	return ok && e.reaches(shared, hops-1)
}
