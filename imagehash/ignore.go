package imagehash

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/moby/patternmatcher"
	"github.com/moby/patternmatcher/ignorefile"
)

// ignore decides which paths of the context the build does not get. Like
// BuildKit it asks path by path: a file matches if the last pattern that matches
// it or a directory above it is not an exception. The zero value keeps all.
type ignore struct {
	file    string // where the patterns are from
	matcher *patternmatcher.PatternMatcher
}

// readIgnore reads the ignore file that belongs to a Dockerfile. The one named
// after it wins over the context's own; the two do not add up.
func readIgnore(fsys fs.FS, dockerfile string) (ignore, error) {
	for _, name := range []string{dockerfile + ".dockerignore", ".dockerignore"} {
		data, err := fs.ReadFile(fsys, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return ignore{}, fmt.Errorf("read ignore file %q: %w", name, err)
		}
		patterns, err := ignorefile.ReadAll(bytes.NewReader(data))
		if err != nil {
			return ignore{}, fmt.Errorf("read ignore file %q: %w", name, err)
		}
		m, err := patternmatcher.New(patterns)
		if err != nil {
			return ignore{}, fmt.Errorf("ignore file %q has a pattern that cannot be read; correct it: %w", name, err)
		}
		return ignore{file: name, matcher: m}, nil
	}
	return ignore{}, nil
}

func (ig ignore) match(p string) (bool, error) {
	if ig.matcher == nil || p == "." {
		return false, nil
	}
	ok, err := ig.matcher.MatchesOrParentMatches(p)
	if err != nil {
		return false, fmt.Errorf("match %q against ignore file %q: %w", p, ig.file, err)
	}
	return ok, nil
}

// prunes reports whether dir and everything below it is ignored, whatever is
// there. It may say no where that is so: it only saves walking.
func (ig ignore) prunes(dir string) (bool, error) {
	ok, err := ig.match(dir)
	if !ok || err != nil {
		return false, err
	}
	for _, p := range ig.matcher.Patterns() {
		if !p.Exclusion() {
			continue
		}
		s := p.String()
		if strings.ContainsAny(s, `*?[\^`) || s == dir || strings.HasPrefix(s, dir+"/") || strings.HasPrefix(dir+"/", s+"/") {
			return false, nil
		}
	}
	return true, nil
}
