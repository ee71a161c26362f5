package compose

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/compose-spec/compose-go/v2/types"
)

// Origins is everything that decides what Compose makes of an environment, with
// where it comes from.
type Origins struct {
	Dir        string `json:"environment"`
	Config     string `json:"config"`  // ctis.toml; "": there is none
	Project    string `json:"project"` // "": not known yet
	ProjectDir string `json:"project_directory"`

	Files    []string `json:"files"`
	EnvFiles []Origin `json:"env_files"`
	Profiles []Origin `json:"profiles"`
	// Ignored are variables of the process that steer Compose and that ctis does
	// not pass on.
	Ignored []string `json:"ignored"`

	// Exposed are the exposed services of ctis.toml: SERVICE:PORT by hostname.
	Exposed map[string]string `json:"exposed_services"`

	Variables []Variable `json:"variables"`
}

// Origin is a setting with what has chosen it.
type Origin struct {
	Value string `json:"value"`
	From  Source `json:"from"`
}

// Source is where a value comes from.
type Source struct {
	Kind   SourceKind `json:"kind"`
	File   string     `json:"file"`   // "" where the kind has none
	Line   int        `json:"line"`   // from 1; 0 without a file
	Column int        `json:"column"` // likewise
}

// SourceKind says what kind of thing a value comes from.
type SourceKind string

const (
	FromProcess SourceKind = "process"  // the environment ctis runs in
	FromEnvFile SourceKind = "env_file" // an env file, at File and Line
	FromDefault SourceKind = "default"  // a default in a Compose file, at File and Line
	FromCtis    SourceKind = "ctis"     // ctis sets it
	FromFlag    SourceKind = "flag"     // the command line
	FromBeside  SourceKind = "beside"   // found beside the Compose file
	FromNowhere SourceKind = "unset"    // nothing sets it
)

// Variable is one variable with one value. It comes several times where its uses
// get different values: defaults of their own, or env files of an include.
type Variable struct {
	Name   string
	Value  *string // nil: unset
	Secret bool    // ctis.toml declares it as a key, or a key is in its value
	Source Source
	Over   []Source // what else would set it, and does not win
	Uses   []VariableUse
}

// VariableUse is a place that a variable is used in.
type VariableUse struct {
	File     string `json:"file"`
	Line     int    `json:"line"`
	Column   int    `json:"column"`
	How      string `json:"how"`
	Required bool   `json:"required"` // there is no going on without a value
}

// FindOrigins tells where each value of an environment comes from. It reads files
// only, and needs no project that loads: what is missing is what it is asked for.
// Where files cannot be read as what they are, the problems say so and the
// Origins are nil. Without ctis.toml it tells of the Compose files that are found.
func FindOrigins(ctx context.Context, o Options) (*Origins, Problems) {
	file, dir, ps := o.begin()
	if ps.HasErrors() {
		return nil, ps
	}
	r := &Origins{Dir: dir, Config: file, Project: o.ID}
	var config *Config
	if undeclared(dir, file) {
		r.Config = ""
		names, ps := findFiles(dir, file)
		if ps.HasErrors() {
			return nil, ps
		}
		config = &Config{ComposeFiles: names, index: indexTOML(file, "")}
	} else {
		content, ok := readConfig(o.Dir, file, &ps)
		if !ok {
			return nil, ps
		}
		if config, ps = ParseConfig(file, content); config == nil {
			return nil, ps
		}
	}
	l := &environmentLoad{o: o, dir: dir, config: config}
	m, ps := newModel(o, dir, config, l.shown)
	if m == nil {
		return nil, ps
	}
	f := originsFinder{model: m, files: map[string][]assigned{}, environ: environMapping(m.environ), found: map[string]*Variable{}, secrets: config.keyVariables()}
	vars, err := m.variables(cmp.Or(o.ID, placeholderID))
	if err != nil {
		ps.errorf(place{File: l.shown(m.envFiles[0])}, "%s", err)
		return nil, ps
	}
	v := newInventory(m, &ps)
	if src, safe := v.take(vars); !safe || ps.HasErrors() {
		return nil, ps.sorted(nil)
	} else if ctx.Err() != nil {
		ps.errorf(place{File: src[0].file}, "%s", ctx.Err())
		return nil, ps
	}
	for _, visit := range v.visits {
		for _, u := range v.indexed[visit.path].references() {
			f.use(visit.vars, visit.levels, u)
		}
		f.envFileUses(visit)
	}
	f.configUses(config, vars)
	f.spread(vars)
	r.fill(m, o, &f)
	r.Exposed = map[string]string{}
	for _, x := range config.ExposedServices {
		r.Exposed[string(x.Host)] = x.Target.String()
	}
	r.ignored(o.Environ, m.mentioned(v.found, &types.Project{}))
	return r, nil
}

func (r *Origins) fill(m *model, o Options, f *originsFinder) {
	r.ProjectDir = m.dir
	for _, path := range m.files {
		r.Files = append(r.Files, m.shown(path))
	}
	r.EnvFiles, r.Profiles, r.Ignored, r.Variables = []Origin{}, []Origin{}, []string{}, []Variable{}
	from := Source{Kind: FromFlag}
	if len(o.EnvFiles) == 0 {
		from.Kind = FromBeside
	}
	for _, path := range m.envFiles {
		r.EnvFiles = append(r.EnvFiles, Origin{m.shown(path), from})
	}
	from = Source{Kind: FromFlag}
	if len(o.Profiles) == 0 {
		from = f.locate("COMPOSE_PROFILES", [][]string{m.envFiles})[0]
	}
	for _, p := range m.profiles {
		r.Profiles = append(r.Profiles, Origin{p, from})
	}
	for _, v := range f.order {
		r.Variables = append(r.Variables, *v)
	}
	slices.SortStableFunc(r.Variables, func(a, b Variable) int { return cmp.Compare(a.Name, b.Name) })
}

// ignored lists what of the process's environment docker compose is not given.
func (r *Origins) ignored(environ, mentioned []string) {
	passed := inherited(environ, mentioned)
	for _, kv := range environ {
		if name, _, _ := strings.Cut(kv, "="); !slices.Contains(passed, kv) && !slices.Contains(r.Ignored, name) {
			r.Ignored = append(r.Ignored, name)
		}
	}
	slices.Sort(r.Ignored)
}

// originsFinder gathers uses by the value they get.
type originsFinder struct {
	model   *model
	files   map[string][]assigned // env files, by path
	environ types.Mapping
	secrets map[string]place
	found   map[string]*Variable // by name and what else tells one from another
	order   []*Variable
}

// use notes a use among those that get the same value from the same source.
func (f *originsFinder) use(vars types.Mapping, levels [][]string, u use) {
	value, set := vars[u.name]
	sources := f.locate(u.name, levels)
	got := Variable{Name: u.name, Source: sources[0], Over: slices.Clone(sources[1:])}
	if set {
		got.Value = &value
	}
	key := u.name + "\x00" + string(got.Source.Kind) + got.Source.File + "\x00" + value
	if missing := !set || value == "" && strings.HasPrefix(u.operator, ":"); missing && strings.HasSuffix(u.operator, "-") {
		text, err := bounded()(u.argument, func(k string) (string, bool) { v, ok := vars[k]; return v, ok })
		if err != nil {
			text = u.argument
		}
		got.Value, got.Source, got.Over = &text, Source{FromDefault, u.at.File, u.at.Line, u.at.Column}, nil
		if set { // and empty
			got.Over = slices.Clone(sources)
		}
		key = u.name + "\x00default\x00" + u.argument
	}
	v := f.found[key]
	if v == nil {
		_, got.Secret = f.secrets[u.name]
		v = &got
		f.found[key] = v
		f.order = append(f.order, v)
	}
	for _, s := range got.Over {
		if !slices.Contains(v.Over, s) { // an include has env files of its own
			v.Over = append(v.Over, s)
		}
	}
	how := cmp.Or(u.passed, "interpolation")
	one := VariableUse{File: u.at.File, Line: u.at.Line, Column: u.at.Column, How: how, Required: strings.HasSuffix(u.operator, "?")}
	if !slices.Contains(v.Uses, one) {
		v.Uses = append(v.Uses, one)
	}
}

// locate lists what sets a variable, what wins first; [FromNowhere] alone if
// nothing does.
func (f *originsFinder) locate(name string, levels [][]string) []Source {
	if name == "COMPOSE_PROJECT_NAME" {
		return []Source{{Kind: FromCtis}}
	}
	var all []Source
	if _, ok := f.environ[name]; ok {
		all = append(all, Source{Kind: FromProcess})
	}
	for _, files := range levels {
		for _, path := range slices.Backward(files) {
			for _, a := range slices.Backward(f.assignments(path)) {
				if a.name == name {
					all = append(all, Source{FromEnvFile, f.model.shown(path), a.line, 1})
					break // the last of a file counts
				}
			}
		}
	}
	if len(all) == 0 {
		return []Source{{Kind: FromNowhere}}
	}
	return all
}

func (f *originsFinder) assignments(path string) []assigned {
	all, known := f.files[path]
	if !known {
		if content, err := readFile(path); err == nil {
			all = assignments(string(content))
		}
		f.files[path] = all
	}
	return all
}

// envFileUses are the variables that values of a file's env files are made of.
func (f *originsFinder) envFileUses(visit composeFile) {
	for _, files := range visit.levels {
		for _, path := range files {
			for _, a := range f.assignments(path) {
				if a.literal {
					continue
				}
				for _, r := range referencesIn(a.text) {
					f.use(visit.vars, visit.levels, use{substitution: r, passed: "env file", at: place{f.model.shown(path), a.line, 1}})
				}
			}
		}
	}
}

// configUses are those of ctis.toml.
func (f *originsFinder) configUses(c *Config, vars types.Mapping) {
	levels := [][]string{f.model.envFiles}
	for i, name := range c.RequiredEnvVars {
		if envName.MatchString(name) {
			f.use(vars, levels, use{substitution: substitution{name: name, operator: ":?"}, passed: "required_env_vars", at: c.index.value("required_env_vars", elem(i))})
		}
	}
	for _, name := range sortedKeys(f.secrets) {
		f.use(vars, levels, use{substitution: substitution{name: name, operator: ":?"}, passed: "api_key_env", at: f.secrets[name]})
	}
}

// spread marks the variables that a key's value has come into.
func (f *originsFinder) spread(vars types.Mapping) {
	for _, v := range f.order {
		for name := range f.secrets {
			if key := vars[name]; key != "" && v.Value != nil && strings.Contains(*v.Value, key) {
				v.Secret = true
			}
		}
	}
}

// keyVariables are the variables that a ctis.toml declares to hold keys, be it by
// a provider's name, each with the place of its first declaration.
func (c *Config) keyVariables() map[string]place {
	keys := map[string]place{}
	for _, u := range c.Upstreams {
		if _, twice := keys[u.KeyEnv]; !twice && envName.MatchString(u.KeyEnv) {
			keys[u.KeyEnv] = c.index.value(append(u.path[:len(u.path):len(u.path)], "api_key_env")...)
		}
	}
	return keys
}
