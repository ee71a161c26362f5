package compose

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/dotenv"
	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/template"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/sirupsen/logrus"
)

// Project names used where no trajectory is meant. Loading under two of them
// shows what depends on the name.
const (
	placeholderID = "ctis-validate"
	otherID       = "ctis-settings"
)

// model is an environment's Compose project before it is checked: which files,
// which variables, which profiles.
type model struct {
	dir      string   // absolute: the project directory, that of the first file
	files    []string // absolute
	envFiles []string // absolute
	environ  []string // without any COMPOSE_*
	profiles []string // what --profile would say
	shown    func(path string) string
	read     inputs // what everything was read from

	// unsure are variables that lines of env files may set that are not understood.
	unsure []string
	broken bool // there are such lines
}

// newModel finds the files. Where they are missing the problems say so, and
// the model is of no use.
func newModel(o Options, dir string, c *Config, shown func(string) string) (*model, Problems) {
	var ps Problems
	m := &model{shown: shown, environ: withoutCompose(o.Environ), read: inputs{}}
	for i, name := range c.ComposeFiles {
		if name == "" {
			continue // reported with the config
		}
		path := name
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, name)
		}
		if err := present(path); err != nil {
			ps.errorf(c.index.value("compose_files", elem(i)), "Compose file %q %s", name, err)
		}
		m.files = append(m.files, path)
	}
	if len(c.ComposeFiles) == 0 {
		m.files = discover(dir)
	}
	if len(m.files) == 0 && len(c.ComposeFiles) == 0 {
		for _, name := range cli.DefaultFileNames {
			path := filepath.Join(dir, name)
			if err := present(path); err != nil && there(path) {
				ps.errorf(place{File: shown(path)}, "Compose file %q %s", name, err)
			}
		}
	}
	if len(m.files) == 0 && len(ps) == 0 && len(c.ComposeFiles) == 0 {
		ps.errorf(c.index.place(0), "there is no Compose file beside %s", ConfigFile).
			hint("add one (%s), or say where it is: compose_files = [\"path/to/compose.yaml\"]", strings.Join(cli.DefaultFileNames, ", "))
	}
	if ps.HasErrors() || len(m.files) == 0 {
		return nil, ps
	}
	m.dir = filepath.Dir(m.files[0])
	m.findEnvFiles(o, &ps)
	m.checkEnvFiles(&ps)
	if ps.HasErrors() {
		return nil, ps
	}
	m.mendEnvFiles(&ps)
	m.profiles = o.Profiles
	if len(m.profiles) == 0 {
		// The environment's own .env may choose profiles; the caller's shell may
		// not, or two callers would get two different worlds.
		vars, err := m.variables(placeholderID)
		if err != nil {
			ps.errorf(place{File: shown(m.envFiles[0])}, "%s", err)
			return nil, ps
		}
		for p := range strings.SplitSeq(vars["COMPOSE_PROFILES"], ",") {
			if p = strings.TrimSpace(p); p != "" {
				m.profiles = append(m.profiles, p)
			}
		}
	}
	return m, ps
}

func (m *model) findEnvFiles(o Options, ps *Problems) {
	for _, f := range o.EnvFiles {
		path, err := filepath.Abs(f)
		if err == nil {
			err = present(path)
		}
		if err != nil {
			ps.errorf(place{File: f}, "env file %q %s", f, err)
		}
		m.envFiles = append(m.envFiles, path)
		m.read.record(path)
	}
	if len(o.EnvFiles) > 0 {
		return
	}
	path := filepath.Join(m.dir, ".env")
	if fi, err := os.Stat(path); err == nil && !fi.IsDir() { // one that appears later is not read
		m.envFiles = []string{path}
		m.read.record(path)
	}
}

// standIn is the value of a variable that is not known: Compose takes it for text,
// a number and for true.
const standIn = "1"

// mendEnvFiles reports each line of the env files that is not understood.
func (m *model) mendEnvFiles(ps *Problems) {
	vars := environMapping(m.environ)
	for _, path := range m.envFiles {
		if _, err := dotenv.GetEnvFromFile(vars, []string{path}); err == nil {
			continue
		}
		m.broken = true
		_, unsure := m.envFileMistakes(ps, path, vars)
		m.unsure = append(m.unsure, unsure...)
	}
}

// understood is what can be read of env files some lines of which are wrong.
func (m *model) understood(vars types.Mapping) types.Mapping {
	values := types.Mapping{}
	for _, path := range m.envFiles {
		var ignored Problems // reported once, by mendEnvFiles
		more, _ := m.envFileMistakes(&ignored, path, vars.Clone().Merge(values))
		for k, v := range more {
			values[k] = v
		}
	}
	for _, name := range m.unsure {
		if _, known := values[name]; !known {
			values[name] = standIn
		}
	}
	return values
}

// checkEnvFiles reports the env files that must not be read.
func (m *model) checkEnvFiles(ps *Problems) {
	check := newEnvFiles(environMapping(m.environ))
	for _, path := range m.envFiles {
		var refused *refusedError
		if errors.As(check.check(path), &refused) {
			ps.refused(m.shown(path), place{File: m.shown(path)}, refused)
		}
	}
}

// discover does what Compose does when it is given no file, but only in dir.
func discover(dir string) []string {
	var files []string
	for _, names := range [][]string{cli.DefaultFileNames, cli.DefaultOverrideFileNames} {
		for _, name := range names {
			if path := filepath.Join(dir, name); present(path) == nil {
				files = append(files, path)
				break
			}
		}
		if len(files) == 0 {
			break // an override alone is no project
		}
	}
	return files
}

// present says in what way path is no file at all. Whether it is one that may be
// read is for [readFile] to say.
func present(path string) error {
	fi, err := os.Stat(path)
	var wrong *os.PathError
	switch {
	case os.IsNotExist(err) && there(path):
		return fmt.Errorf("is a link to what does not exist")
	case os.IsNotExist(err):
		return fmt.Errorf("does not exist")
	case errors.Is(err, syscall.ELOOP):
		return fmt.Errorf("is a link that leads in a circle")
	case errors.As(err, &wrong):
		return fmt.Errorf("cannot be read: %w", wrong.Err) // the caller names the file
	case err != nil:
		return fmt.Errorf("cannot be read: %w", err)
	case fi.IsDir():
		return fmt.Errorf("is a directory")
	}
	return nil
}

// there says whether something has that name, if only a link that leads nowhere.
func there(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// withoutCompose drops the variables that would steer Compose itself: a stray
// COMPOSE_FILE in somebody's shell must not change an environment.
func withoutCompose(environ []string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(kv string) bool {
		return strings.HasPrefix(kv, "COMPOSE_")
	})
}

// variables are the process's, then those of the env files (Compose's
// precedence), with the project name that Compose would see.
func (m *model) variables(name string) (types.Mapping, error) {
	vars := types.Mapping{}
	for _, kv := range m.environ {
		if k, v, ok := strings.Cut(kv, "="); ok && k != "" {
			vars[k] = v
		}
	}
	vars["COMPOSE_PROJECT_NAME"] = name
	if m.broken {
		return vars.Merge(m.understood(vars)), nil
	}
	fromFiles, err := dotenv.GetEnvFromFile(vars, m.envFiles)
	if err != nil {
		return nil, err
	}
	return vars.Merge(fromFiles), nil
}

// options prepares compose-go to load the model under a project name, exactly
// as Compose would with the arguments of [Invocation].
func (m *model) options(name string, more ...cli.ProjectOptionsFn) (*cli.ProjectOptions, error) {
	// compose-go says some things only through this global logger. What matters
	// of them is reported as problems, and the terminal belongs to commands.
	logrus.SetOutput(io.Discard)
	vars, err := m.variables(name)
	if err != nil {
		return nil, err
	}
	return cli.NewProjectOptions(slices.Clone(m.files), append([]cli.ProjectOptionsFn{
		cli.WithName(name),
		cli.WithWorkingDirectory(m.dir),
		func(o *cli.ProjectOptions) error { o.Environment = maps.Clone(vars); return nil },
		cli.WithProfiles(m.profiles),
		cli.WithLoadOptions(func(o *loader.Options) {
			if o.Interpolate != nil { // it is not where files are only looked for
				o.Interpolate.Substitute = bounded()
			}
		}),
	}, more...)...)
}

// load resolves the model as Compose would run it. Its files have to be in an
// inventory that found nothing.
func (m *model) load(ctx context.Context, name string) (*types.Project, error) {
	p, err := m.unresolved(ctx, name)
	if err == nil {
		m.read.recordServices(p) // only now is it known which
		err = readableServices(p)
	}
	if err != nil {
		return nil, err
	}
	err = guarded(func() (err error) {
		if p, err = p.WithServicesEnvironmentResolved(false); err == nil {
			p, err = p.WithServicesLabelsResolved(false)
		}
		return err
	})
	return p, err
}

// unresolved is the model without what services read from other files.
func (m *model) unresolved(ctx context.Context, name string, more ...cli.ProjectOptionsFn) (*types.Project, error) {
	o, err := m.options(name, append(more, cli.WithoutEnvironmentResolution, cli.WithoutLabelsResolution)...)
	if err != nil {
		return nil, err
	}
	var p *types.Project
	err = guarded(func() (err error) { p, err = o.LoadProject(ctx); return err })
	return p, err
}

// guarded calls into compose-go, which takes some malformed files for
// impossible and panics.
func guarded(f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("this Compose file is malformed in a way that has no better explanation: %v", r)
		}
	}()
	return f()
}

// substitute is compose-go's substitution that reports unset variables to
// unset instead of to a logger.
func substitute(unset func(name string)) func(string, template.Mapping) (string, error) {
	return func(text string, mapping template.Mapping) (string, error) {
		return template.SubstituteWithOptions(text, mapping, template.WithoutLogging,
			template.WithReplacementFunction(func(sub string, mapping template.Mapping, c *template.Config) (string, error) {
				value, applied, err := template.DefaultReplacementAppliedFunc(sub, mapping, c)
				if err == nil && !applied {
					unset(strings.Trim(sub, "${}"))
				}
				return value, err
			}))
	}
}

// interpolation returns compose-go's own options for a file, so that a value
// can be tried out on its own.
func (m *model) interpolation(vars types.Mapping) *loader.Options {
	o := loader.ToOptions(&types.ConfigDetails{WorkingDir: m.dir, Environment: vars}, nil)
	o.Interpolate.Substitute = bounded()
	return o
}
