package imagehash

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"unicode/utf8"
)

// tree collects inputs from a build context.
type tree struct {
	ctx        context.Context // of the one call that collects
	fsys       fs.FS
	ignore     ignore
	dockerfile string
	found      map[string]struct{}
	links      map[string]bool     // those of found that are links
	dirs       map[string]struct{} // must be there, though nothing in them is
	notes      []string
}

// tally says what one source came to.
type tally struct {
	kept    int      // files and links the build gets
	dropped int      // those --exclude names
	ignored int      // those an ignore file keeps out
	links   int      // those on the way to what is not there
	dirs    []string // directories that are sources themselves
}

// collectAll adds everything the sources name. Each must match something. A glob
// beside sources that do may match nothing yet, as in COPY package.json *.lock:
// builders take that, and a file that comes to match it moves the hash. All that is
// missing is told: the error joins a *[MissingInputError] of each.
func (t *tree) collectAll(sources []source) error {
	var lacking []error
	for len(sources) > 0 {
		end := 1
		for end < len(sources) && !sources[end].first {
			end++
		}
		var missing *MissingInputError
		some := false // there is what the instruction copies
		for _, s := range sources[:end] {
			n, err := t.collect(s)
			if err != nil {
				return err
			}
			optional := s.wild() && !s.alone
			switch {
			case n.kept > 0:
				some = true
			case len(n.dirs) > 0 && !optional:
				// Nothing of it is copied, but it has to be there.
				some = true
				for _, dir := range n.dirs {
					t.dirs[dir] = struct{}{}
				}
			case n.dropped > 0:
				some = true
			case !optional:
				lacking = append(lacking, t.missing(s, n))
				some = true // and told
			default:
				if missing == nil {
					missing = t.missing(s, n)
				}
				t.notes = append(t.notes, fmt.Sprintf("%s:%d: %q %s; the hash changes when a file does", t.dockerfile, s.line, s.pattern, n.nothing(t.ignore.file)))
			}
		}
		if !some {
			lacking = append(lacking, missing)
		}
		sources = sources[end:]
	}
	return errors.Join(lacking...)
}

// nothing says in what way a source comes to nothing.
func (n tally) nothing(ignoreFile string) string {
	switch {
	case n.links > 0:
		return "matches only links that lead to nothing"
	case n.ignored > 0:
		return "matches only what " + ignoreFile + " keeps out"
	case len(n.dirs) > 0:
		return "matches only empty directories"
	}
	return "matches nothing"
}

func (t *tree) missing(s source, n tally) *MissingInputError {
	e := &MissingInputError{Dockerfile: t.dockerfile, Line: s.line, Path: s.pattern}
	if n.ignored > 0 {
		e.Ignored, e.IgnoreFile = n.ignored, t.ignore.file
	}
	return e
}

// collect adds everything that s names. Like the builders it takes the context
// as what the ignore file leaves, follows links that a source path goes through,
// and copies links below it as they are.
func (t *tree) collect(s source) (n tally, err error) {
	root, include := s.split()
	f, err := newFilter(include, s.exclude)
	if err != nil {
		return n, &SyntaxError{Dockerfile: t.dockerfile, Line: s.line, Message: err.Error(), Err: err}
	}
	roots := []string{clean(root)}
	if !s.literal && wild(root) {
		if roots, err = t.glob(clean(root), &n); err != nil {
			if errors.Is(err, path.ErrBadPattern) {
				err = &SyntaxError{Dockerfile: t.dockerfile, Line: s.line, Message: fmt.Sprintf("source %q is no valid pattern", s.pattern), Err: err}
			}
			return n, err
		}
	}
	for _, r := range roots {
		links := n.links
		at, err := t.resolve(r, &n)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return n, err
		}
		n.links = links // those lead somewhere
		if err := t.walk(at, f, &n); err != nil {
			return n, err
		}
		if f.include == nil {
			if err := t.named(at, &n); err != nil {
				return n, err
			}
		}
	}
	return n, nil
}

// named notes a directory that is a source itself. Its name is no part of what is
// copied, so it may be empty.
func (t *tree) named(at string, n *tally) error {
	fi, err := fs.Lstat(t.fsys, at)
	if err != nil {
		return changed(at, err)
	}
	if !fi.IsDir() {
		return nil
	}
	if ignored, err := t.ignore.match(at); ignored || err != nil {
		return err
	}
	if err := checkName(at, at); err != nil {
		return err
	}
	n.dirs = append(n.dirs, at)
	return nil
}

// split cuts a source of --parents at its pivot into the directory to look in and
// the pattern to look for there. Without a pivot the whole path is kept, so it is
// matched from the root.
func (s source) split() (root, include string) {
	if !s.parents {
		return s.pattern, ""
	}
	if before, after, ok := strings.Cut(s.pattern, "/./"); ok {
		return before, clean(after)
	}
	return "/", clean(s.pattern)
}

func (s source) wild() bool { return !s.literal && wild(s.pattern) }

// clean makes a source path relative to the context, which ".." cannot leave.
func clean(p string) string {
	if p = strings.TrimPrefix(path.Join("/", p), "/"); p == "" {
		return "."
	}
	return p
}

// wild reports whether a builder takes p for a pattern. A path that is none is
// taken literally, backslashes included.
func wild(p string) bool {
	for i := 0; i < len(p); i++ {
		switch p[i] {
		case '\\':
			i++
		case '*', '?', '[':
			return true
		}
	}
	return false
}

// glob finds the paths that match pattern, segment by segment: "*" matches no "/".
func (t *tree) glob(pattern string, n *tally) ([]string, error) {
	var prefix []string
	rest := strings.Split(pattern, "/")
	for len(rest) > 0 && !wild(rest[0]) {
		prefix, rest = append(prefix, rest[0]), rest[1:]
	}
	tail := strings.Join(rest, "/")
	if _, err := path.Match(tail, ""); err != nil {
		return nil, err
	}
	base, err := t.resolve(clean(strings.Join(prefix, "/")), n)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []string
	err = fs.WalkDir(t.fsys, base, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return fmt.Errorf("read build context at %q: %w", p, err)
		}
		if p == base || t.ctx.Err() != nil {
			return t.ctx.Err()
		}
		rel := relative(base, p)
		if ok, err := path.Match(tail, rel); err != nil {
			return err
		} else if ok {
			out = append(out, p)
		}
		if d.IsDir() && strings.Count(rel, "/")+1 >= len(rest) {
			return fs.SkipDir
		}
		return nil
	})
	return out, err
}

func relative(base, p string) string {
	if base == "." {
		return p
	}
	return strings.TrimPrefix(strings.TrimPrefix(p, base), "/")
}

// walk adds what is at root or below it and passes the filter.
func (t *tree) walk(root string, f *filter, n *tally) error {
	return fs.WalkDir(t.fsys, root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			if pruned, _ := t.ignore.prunes(p); pruned {
				return fs.SkipDir
			}
			if err := checkName(p, p); err != nil {
				return err
			}
			return fmt.Errorf("read build context at %q: %w", p, err)
		}
		if err := t.ctx.Err(); err != nil {
			return err
		}
		if d.IsDir() {
			pruned, err := t.ignore.prunes(p)
			if err != nil {
				return err
			}
			if pruned {
				if f.include == nil {
					n.ignored++
				}
				return fs.SkipDir
			}
			return nil
		}
		if p != root {
			switch verdict, err := f.judge(relative(root, p)); {
			case err != nil:
				return err
			case verdict == dropped:
				n.dropped++ // the source is there, though nothing of it may be copied
				return nil
			case verdict == outside:
				return nil
			}
		}
		_, err = t.add(p, d.Type(), n)
		return err
	})
}

// add makes the file or link p an input, unless it is ignored. A socket is passed
// over, as by the classic builder: what listens on it does not come along.
func (t *tree) add(p string, typ fs.FileMode, n *tally) (kept bool, err error) {
	ignored, err := t.ignore.match(p)
	if err != nil {
		return false, err
	}
	if ignored {
		n.ignored++
		return false, nil
	}
	switch typ {
	case 0, fs.ModeSymlink:
	case fs.ModeSocket:
		return false, nil
	default:
		return false, &NameError{Path: p, Why: "is neither a file, a directory nor a symbolic link"}
	}
	if err := checkName(p, p); err != nil {
		return false, err
	}
	n.kept++
	t.found[p] = struct{}{}
	if typ == fs.ModeSymlink {
		t.links[p] = true
	}
	return true, nil
}

// checkName refuses text that has no place in the canonical form.
func checkName(p, text string) error {
	switch {
	case strings.ContainsAny(text, "\n\x00"):
		return &NameError{Path: p, Why: "has a newline or NUL in its name or link target"}
	case !utf8.ValidString(text):
		return &NameError{Path: p, Why: "has a name or link target that is not UTF-8"}
	}
	return nil
}
