package imagehash

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"unicode/utf8"
)

// tree collects inputs from a build context.
type tree struct {
	fsys       fs.FS
	ignore     ignore
	dockerfile string
	found      map[string]struct{}
	links      map[string]bool // those of found that are links
	notes      []string
}

// tally says what one source came to.
type tally struct {
	kept    int // files and links the build gets
	ignored int // those an ignore file keeps out
}

// collectAll adds everything the sources name. Each must match something. A glob
// beside sources that do may match nothing yet, as in COPY package.json *.lock:
// builders take that, and a file that comes to match it moves the hash.
func (t *tree) collectAll(sources []source) error {
	for len(sources) > 0 {
		end := 1
		for end < len(sources) && !sources[end].first {
			end++
		}
		var missing []*MissingInputError
		for _, s := range sources[:end] {
			err := t.collect(s)
			var m *MissingInputError
			if errors.As(err, &m) && m.Ignored == 0 && s.wild() && !s.alone {
				missing = append(missing, m)
				continue
			}
			if err != nil {
				return err
			}
		}
		if len(missing) == end {
			return missing[0]
		}
		for _, m := range missing {
			t.notes = append(t.notes, fmt.Sprintf("%s:%d: %q matches nothing; the hash changes when a file does", m.Dockerfile, m.Line, m.Path))
		}
		sources = sources[end:]
	}
	return nil
}

// collect adds everything that s names. Like the builders it takes the context
// as what the ignore file leaves, follows links that a source path goes through,
// and copies links below it as they are.
func (t *tree) collect(s source) error {
	root, include := s.split()
	f, err := newFilter(include, s.exclude)
	if err != nil {
		return &SyntaxError{Dockerfile: t.dockerfile, Line: s.line, Message: err.Error(), Err: err}
	}
	var n tally
	roots := []string{clean(root)}
	if !s.literal && wild(root) {
		if roots, err = t.glob(clean(root), &n); err != nil {
			if errors.Is(err, path.ErrBadPattern) {
				return &SyntaxError{Dockerfile: t.dockerfile, Line: s.line, Message: fmt.Sprintf("source %q is no valid pattern", s.pattern), Err: err}
			}
			return err
		}
	}
	for _, r := range roots {
		at, err := t.resolve(r, &n)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if err := t.walk(at, f, &n); err != nil {
			return err
		}
	}
	if n.kept == 0 {
		e := &MissingInputError{Dockerfile: t.dockerfile, Line: s.line, Path: s.pattern}
		if n.ignored > 0 {
			e.Ignored, e.IgnoreFile = n.ignored, t.ignore.file
		}
		return e
	}
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
		if p == base {
			return nil
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
				n.kept++ // the source is there, though nothing of it may be copied
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
