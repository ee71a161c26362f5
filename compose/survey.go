package compose

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/compose-spec/compose-go/v2/cli"
)

// A directory that has Compose files and no ctis.toml is surveyed: its Compose
// project is held against everything that needs no ctis.toml, and what one would
// have to say is guessed.

// Survey is what a Compose project offers to a ctis.toml.
type Survey struct {
	Guess
	ComposeFiles []string // as compose_files has to have them; nil: Compose's own discovery finds them
	Found        []string // the Compose files, relative to the directory where they are in it

	examples examples
}

// undeclared says whether dir is a directory without ctis.toml in or below which
// Compose files are found.
func undeclared(dir, file string) bool {
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		return false
	}
	return len(discover(dir)) > 0 || len(discoverBelow(dir)) > 0
}

// discoverBelow lists the directories in dir that Compose would find files in, with them.
func discoverBelow(dir string) [][]string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil // then nothing is found in it
	}
	var found [][]string
	for _, e := range entries { // sorted by name
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		if files := discover(filepath.Join(dir, e.Name())); len(files) > 0 {
			found = append(found, files)
		}
	}
	return found
}

// surveyProblems are those of a directory that has no ctis.toml yet.
func surveyProblems(ctx context.Context, o Options, dir, file string) Problems {
	s, ps := survey(ctx, o, dir, file, nil)
	var missing Problems
	p := missing.errorf(place{File: file}, "there is no %s, so this directory is no environment yet", ConfigFile)
	switch {
	case s != nil && s.DefaultService != "" && s.Network != "":
		p.hint("ctis init %s writes one: %s", o.Dir, s.summary())
	case !ps.HasErrors():
		p.hint("ctis init %s writes one", o.Dir)
	default:
		p.hint("ctis init %s writes one once the errors below are gone", o.Dir)
	}
	return append(missing, ps...)
}

// summary says in one line what the ctis.toml would be, and why.
func (s *Survey) summary() string {
	var parts []string
	if len(s.ComposeFiles) > 0 {
		parts = append(parts, "compose_files = ["+quoted(s.ComposeFiles, ", ")+"]")
	}
	parts = append(parts, fmt.Sprintf("network = %q (%s)", s.Network, s.NetworkReason))
	service := fmt.Sprintf("the default service %q (%s)", s.DefaultService, s.ServiceReason)
	if s.explicit {
		service = fmt.Sprintf("default_service = %q (%s)", s.DefaultService, s.ServiceReason)
	}
	return strings.Join(append(parts, service), ", ")
}

// survey reads the Compose files named, or those that are found. The Survey is
// nil where the project cannot be read; its guesses are empty where there is no
// good one. The problems then say why.
func survey(ctx context.Context, o Options, dir, file string, files []string) (*Survey, Problems) {
	s := &Survey{}
	var ps Problems
	if files == nil {
		if s.ComposeFiles, ps = findFiles(dir, file); ps.HasErrors() {
			return nil, ps
		}
	} else if s.ComposeFiles, ps = namedFiles(dir, files); ps.HasErrors() {
		return nil, ps
	}
	found, ps := surveyOf(ctx, o, dir, file, &Config{ComposeFiles: s.ComposeFiles, index: indexTOML(file, "")})
	if found != nil {
		found.ComposeFiles = s.ComposeFiles
	}
	return found, ps
}

// surveyOf is survey of the Compose files that config names. What it says of the
// network and the default service besides is not guessed.
func surveyOf(ctx context.Context, o Options, dir, file string, config *Config) (*Survey, Problems) {
	s := &Survey{}
	l := &environmentLoad{o: o, dir: dir, config: config, shownFiles: []string{file}}
	p := l.compose(ctx)
	if p == nil || l.problems.HasErrors() { // nothing is guessed from what Compose refuses
		return nil, l.sure().sorted(l.shownFiles)
	}
	for _, f := range p.model.files {
		s.Found = append(s.Found, fromDir(dir, f))
	}
	s.Guess = guess(p.project, p.sources, &l.problems)
	config.DefaultService, config.Network = cmp.Or(config.DefaultService, s.DefaultService), cmp.Or(config.Network, s.Network)
	c := checker{config: config, dir: dir, id: p.id, project: p.project, other: l.other(ctx, p.model), sources: p.sources, model: p.model, vars: p.vars, problems: &l.problems}
	l.check(&c, p.affected)
	// There is no ctis.toml to be wrong.
	l.problems = slices.DeleteFunc(l.problems, func(q Problem) bool { return q.File == file })
	s.examples = examplesOf(p.project, s.Guess, references(p.sources), p.vars)
	return s, l.sure().sorted(l.shownFiles)
}

// findFiles looks for Compose files as Compose does, and where there are none
// beside, one level down. names is nil where they are beside.
func findFiles(dir, file string) (names []string, ps Problems) {
	if len(discover(dir)) > 0 {
		return nil, nil
	}
	found := discoverBelow(dir)
	switch len(found) {
	case 0:
		ps.errorf(place{File: dir}, "there is no Compose file in this directory nor one level down").
			hint("add one (%s), or say where it is with --file", strings.Join(cli.DefaultFileNames, ", "))
		return nil, ps
	case 1:
		for _, f := range found[0] {
			names = append(names, fromDir(dir, f))
		}
		return names, nil
	}
	for _, files := range found {
		names = append(names, fromDir(dir, files[0]))
	}
	ps.errorf(place{File: dir}, "there are Compose files in several directories: %s", strings.Join(names, ", ")).
		hint("say which one is meant: ctis init %s --file %s", dir, filepath.Join(dir, names[0]))
	return nil, ps
}

// namedFiles are the files, absolute, as compose_files has to name them.
func namedFiles(dir string, files []string) (names []string, ps Problems) {
	seen := map[string]bool{}
	for _, f := range files {
		name := fromDir(dir, f)
		if err := present(f); err != nil {
			p := ps.errorf(place{File: f}, "this Compose file %s", err)
			if wd, err := os.Getwd(); err == nil {
				if rel, err := filepath.Rel(wd, f); err == nil && present(filepath.Join(dir, rel)) == nil {
					p.hint("paths are relative to the current directory; did you mean %s?", filepath.Join(dir, rel))
				}
			}
		} else if seen[name] {
			ps.errorf(place{File: f}, "this Compose file is named twice")
		}
		seen[name] = true
		names = append(names, name)
	}
	return names, ps
}

// fromDir is path as ctis.toml in dir would name it.
func fromDir(dir, path string) string {
	if rel, err := filepath.Rel(dir, path); err == nil {
		return filepath.ToSlash(rel)
	}
	return path
}
