package imagehash

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/moby/patternmatcher"
	"github.com/moby/patternmatcher/ignorefile"
)

// matcher asks patterns as BuildKit does: from the root downwards, each path with
// what its directory came to. That is not the same as asking each path alone, and
// much faster. It must not be used by several goroutines at once.
type matcher struct {
	pm   *patternmatcher.PatternMatcher
	dirs map[string]patternmatcher.MatchInfo
}

func newMatcher(patterns []string) (*matcher, error) {
	pm, err := patternmatcher.New(patterns)
	if err != nil {
		return nil, err
	}
	return &matcher{pm: pm, dirs: map[string]patternmatcher.MatchInfo{}}, nil
}

func (m *matcher) match(p string) (bool, error) {
	ok, _, err := m.ask(p)
	return ok, err
}

func (m *matcher) ask(p string) (bool, patternmatcher.MatchInfo, error) {
	var above patternmatcher.MatchInfo
	if dir := path.Dir(p); dir != "." && dir != "/" {
		known, ok := m.dirs[dir]
		if !ok {
			var err error
			if _, known, err = m.ask(dir); err != nil {
				return false, known, err
			}
			m.dirs[dir] = known
		}
		above = known
	}
	return m.pm.MatchesUsingParentResults(p, above)
}

// ignore decides which paths of the context the build does not get. The zero
// value keeps all.
type ignore struct {
	file string // where the patterns are from
	*matcher
}

// readIgnore reads the ignore file that belongs to a Dockerfile. The one named
// after it wins over the context's own; the two do not add up.
func readIgnore(fsys fs.FS, dockerfile string) (ignore, error) {
	for _, name := range []string{dockerfile + contextIgnoreFile, contextIgnoreFile} {
		if ig, err := readIgnoreFile(fsys, name); !errors.Is(err, fs.ErrNotExist) {
			return ig, err
		}
	}
	return ignore{}, nil
}

func readIgnoreFile(fsys fs.FS, name string) (ignore, error) {
	data, err := readRegular(fsys, name)
	if err != nil {
		return ignore{}, fmt.Errorf("read ignore file %q: %w", name, err)
	}
	return parseIgnore(name, data)
}

// maxText is how large a Dockerfile or ignore file may be, in bytes. Larger ones are
// something else by mistake, and reading millions of instructions takes minutes.
const maxText = 4 << 20

// readRegular reads a file of instructions or rules, and waits for no program to fill
// a pipe.
func readRegular(fsys fs.FS, name string) ([]byte, error) {
	fi, err := fs.Stat(fsys, name)
	if err != nil {
		return nil, err
	}
	if !fi.Mode().IsRegular() {
		return nil, errors.New("it is no regular file; put one there")
	}
	if fi.Size() > maxText {
		return nil, fmt.Errorf("it has %d bytes, and at most %d are read; shorten it", fi.Size(), maxText)
	}
	return fs.ReadFile(fsys, name)
}

func parseIgnore(name string, data []byte) (ignore, error) {
	patterns, err := ignorefile.ReadAll(bytes.NewReader(data))
	if err != nil {
		return ignore{}, fmt.Errorf("read ignore file %q: %w", name, err)
	}
	m, err := newMatcher(patterns)
	if err != nil {
		return ignore{}, fmt.Errorf("ignore file %q has a pattern that cannot be read; correct it: %w", name, err)
	}
	return ignore{file: name, matcher: m}, nil
}

func (ig ignore) match(p string) (bool, error) {
	if ig.matcher == nil || p == "." {
		return false, nil
	}
	ok, err := ig.matcher.match(p)
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
	for _, p := range ig.pm.Patterns() {
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
