package compose

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/linuxarena/ctis/server/api"
	"github.com/linuxarena/ctis/server/rule"
)

// maxBodies is the most that all bodies of an environment's rules have together,
// in bytes: they are registered with the simulator in one piece.
const maxBodies = 4 << 20

// bodyFiles reads the files that rules answer with.
func (l *environmentLoad) bodyFiles() {
	total := 0
	each := func(rules []Rule) {
		for i := range rules {
			one := &rules[i]
			if one.bodyFile != "" && one.Respond != nil {
				l.bodyFile(one)
			}
			if one.Respond == nil {
				continue
			}
			before := total
			if total += len(one.Respond.Body); total > maxBodies && before <= maxBodies {
				l.problems.errorf(l.config.index.value(below(one.path, "respond")...), "the bodies of all rules have more than %d MiB", maxBodies>>20).
					hint("serve large files as assets, or by a backend")
			}
		}
	}
	for _, u := range l.config.Upstreams {
		each(u.Rules)
	}
	for _, p := range l.config.Personas {
		each(p.Rules)
	}
}

func (l *environmentLoad) bodyFile(of *Rule) {
	at := l.config.index.value(below(of.path, "respond", "body_file")...)
	name := of.bodyFile
	content, ok := l.fileBeside(at, "body_file", name)
	if !ok {
		return
	}
	of.Respond.Body, of.Respond.File = content, filepath.Base(name)
	if !of.Respond.Template {
		return
	}
	if err := rule.CheckTemplate(string(content)); err != nil {
		l.problems.errorf(at, "body_file %q is no template: %s", name, err).
			hint("template = false sends the file as it is")
		return
	}
	if err := rule.CheckGroups(&of.Rule); err != nil {
		l.problems.errorf(at, "body_file %q: %v", name, err).hint(groupHint)
	}
}

// fileBeside reads a file of the environment's own directory that key names. What is
// wrong with it is reported at its place.
func (l *environmentLoad) fileBeside(at place, key, name string) ([]byte, bool) {
	if filepath.IsAbs(name) || !filepath.IsLocal(name) {
		l.problems.errorf(at, "%s %q leaves the environment's directory", key, name).
			hint("copy it there, and name it relative to %s", ConfigFile)
		return nil, false
	}
	path := filepath.Join(l.dir, name)
	fi, err := os.Stat(path)
	switch {
	case os.IsNotExist(err):
		l.problems.errorf(at, "%s %q does not exist", key, name).didYouMean(name, siblings(l.dir, name))
		return nil, false
	case err == nil && fi.IsDir():
		l.problems.errorf(at, "%s %q is a directory", key, name)
		return nil, false
	}
	// A link is followed, but not to somebody else's files.
	real, err := filepath.EvalSymlinks(path)
	root, rootErr := filepath.EvalSymlinks(l.dir)
	if err == nil && rootErr == nil {
		if rel, relErr := filepath.Rel(root, real); relErr != nil || !filepath.IsLocal(rel) {
			l.problems.errorf(at, "%s %q is a link that leaves the environment's directory", key, name).
				hint("put a copy in its place")
			return nil, false
		}
	}
	content, err := readFile(path)
	var refused *refusedError
	switch {
	case errors.As(err, &refused):
		p := l.problems.errorf(at, "%s %q %s", key, name, refused.message)
		p.Hint = refused.hint
		return nil, false
	case err != nil:
		l.problems.errorf(at, "%s %q cannot be read: %s", key, name, reason(err))
		return nil, false
	}
	return content, true
}

// siblings are the files beside name, written as name is.
func siblings(dir, name string) []string {
	entries, err := os.ReadDir(filepath.Join(dir, filepath.Dir(name)))
	if err != nil {
		return nil
	}
	var names []string
	for _, e := range entries {
		names = append(names, filepath.Join(filepath.Dir(name), e.Name()))
	}
	return names
}

// wire are the rules as the simulator gets them.
func wire(rules []Rule) []api.Rule {
	var out []api.Rule
	for _, r := range rules {
		out = append(out, r.Rule)
	}
	return out
}
