package imagehash

import (
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// maxLinks is how many symbolic links a source path may go through.
const maxLinks = 40

// resolve follows the links p goes through, itself included, and adds each as an
// input. A link that leads out of the context is refused: what it leads to is
// another thing on every machine, and no builder gets it. A path that is not
// there, or ignored, is [fs.ErrNotExist].
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
		fi, err := fs.Lstat(t.fsys, next)
		if err != nil {
			if fi, e := fs.Lstat(t.fsys, at); e == nil && !fi.IsDir() {
				return "", fs.ErrNotExist // a path below a file is as absent as any other
			}
			if err := checkName(next, next); err != nil {
				return "", err
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
		if kept, err := t.add(next, fs.ModeSymlink, n); err != nil {
			return "", err
		} else if !kept {
			return "", fs.ErrNotExist
		}
		n.kept-- // what it points at decides whether the source matches anything
		n.links++
		target, err := fs.ReadLink(t.fsys, next)
		if err != nil {
			return "", fmt.Errorf("read build input %q: %w", next, err)
		}
		if leaves(at, target) {
			return "", &NameError{Path: next, Why: fmt.Sprintf("is a symbolic link out of the build context, to %q", target)}
		}
		todo = append(strings.Split(target, "/"), todo...)
	}
	return at, nil
}

// leaves reports whether a link in dir to target leads out of the context on its
// way, even if it comes back.
func leaves(dir, target string) bool {
	if path.IsAbs(target) {
		return true
	}
	depth := 0
	if dir != "." {
		depth = strings.Count(dir, "/") + 1
	}
	for _, part := range strings.Split(target, "/") {
		switch part {
		case "", ".":
		case "..":
			if depth--; depth < 0 {
				return true
			}
		default:
			depth++
		}
	}
	return false
}
