package imagehash

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"unicode/utf8"
)

// maxLinks is how many symbolic links a source path may go through.
const maxLinks = 40

// tree collects inputs from a build context.
type tree struct {
	fsys   fs.FS
	ignore ignore
	found  map[string]struct{}
}

// tally says what one source came to.
type tally struct {
	kept    int // files and links the build gets
	ignored int // those an ignore file keeps out
}

// collect adds everything that s names. Like the builders it takes the context
// as what the ignore file leaves, follows links that a source path goes through,
// and copies links below it as they are.
func (t *tree) collect(dockerfile string, s source) error {
	root, include := s.pattern, ""
	if s.parents {
		// Without a pivot the whole path is kept, so it is matched from the root.
		if before, after, ok := strings.Cut(s.pattern, "/./"); ok {
			root, include = before, after
		} else {
			root, include = "/", s.pattern
		}
		include = clean(include)
	}
	f, err := newFilter(include, s.exclude)
	if err != nil {
		return &SyntaxError{Dockerfile: dockerfile, Line: s.line, Message: err.Error(), Err: err}
	}

	var n tally
	roots := []string{clean(root)}
	if !s.literal && wild(root) {
		if roots, err = t.glob(clean(root), &n); err != nil {
			if errors.Is(err, path.ErrBadPattern) {
				return &SyntaxError{Dockerfile: dockerfile, Line: s.line, Message: fmt.Sprintf("source %q is no valid pattern", s.pattern), Err: err}
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
		e := &MissingInputError{Dockerfile: dockerfile, Line: s.line, Path: s.pattern}
		if n.ignored > 0 {
			e.Ignored, e.IgnoreFile = n.ignored, t.ignore.file
		}
		return e
	}
	return nil
}

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

// resolve follows the links p goes through, itself included, and adds each as an
// input. Nothing leaves the context: it is the root of absolute targets and of
// "..". A path that is not there, or ignored, is [fs.ErrNotExist].
func (t *tree) resolve(p string, n *tally) (string, error) {
	todo, at := strings.Split(p, "/"), "."
	for links := 0; len(todo) > 0; {
		part := todo[0]
		todo = todo[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			at = path.Dir(at)
			continue
		}
		next := path.Join(at, part)
		if err := checkName(next, next); err != nil {
			return "", err
		}
		fi, err := fs.Lstat(t.fsys, next)
		if err != nil {
			if fi, e := fs.Lstat(t.fsys, at); e == nil && !fi.IsDir() {
				return "", fs.ErrNotExist // a path below a file is as absent as any other
			}
			return "", fmt.Errorf("read build context at %q: %w", next, err)
		}
		if fi.Mode().Type() != fs.ModeSymlink {
			at = next
			continue
		}
		if links++; links > maxLinks {
			return "", &NameError{Path: p, Why: "goes through too many symbolic links"}
		}
		if kept, err := t.add(next, n); err != nil {
			return "", err
		} else if !kept {
			return "", fs.ErrNotExist
		}
		n.kept-- // what it points at decides whether the source matches anything
		target, err := fs.ReadLink(t.fsys, next)
		if err != nil {
			return "", fmt.Errorf("read build input %q: %w", next, err)
		}
		if path.IsAbs(target) {
			at = "."
		}
		todo = append(strings.Split(target, "/"), todo...)
	}
	return at, nil
}

// walk adds what is at root or below it and passes the filter.
func (t *tree) walk(root string, f *filter, n *tally) error {
	return fs.WalkDir(t.fsys, root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			if pruned, _ := t.ignore.prunes(p); pruned {
				return fs.SkipDir
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
			if err := checkName(p, p); err != nil {
				return err
			}
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
		_, err = t.add(p, n)
		return err
	})
}

// add makes the file or link p an input, unless it is ignored.
func (t *tree) add(p string, n *tally) (kept bool, err error) {
	ignored, err := t.ignore.match(p)
	if err != nil {
		return false, err
	}
	if ignored {
		n.ignored++
		return false, nil
	}
	fi, err := fs.Lstat(t.fsys, p)
	if err != nil {
		return false, changed(p, err)
	}
	if typ := fi.Mode().Type(); typ != 0 && typ != fs.ModeSymlink {
		return false, &NameError{Path: p, Why: "is neither a file, a directory nor a symbolic link"}
	}
	n.kept++
	t.found[p] = struct{}{}
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
