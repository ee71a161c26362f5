package imagehash

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

// contextIgnoreFile is the ignore file every builder reads.
const contextIgnoreFile = ".dockerignore"

// contextIgnore makes the ignore file for a context made of the inputs alone; nil
// if it needs none of its own. The Dockerfile must be in that context, but where
// the rules keep it out of the image, "COPY ." must not find it there. So an
// ignore file names it, and itself.
//
// Where the context's own ignore file is an input, it has to do that, and must
// not hide any other input: it may not be the one that was asked for them.
func (in *Inputs) contextIgnore(asked ignore) ([]byte, error) {
	_, copied := slices.BinarySearch(in.paths, in.Dockerfile)
	if _, own := slices.BinarySearch(in.paths, contextIgnoreFile); !own {
		if copied {
			return nil, nil
		}
		return []byte(contextIgnoreFile + "\n" + escapePattern(in.Dockerfile) + "\n"), nil
	}
	if asked.file == contextIgnoreFile {
		return nil, nil // it has already been asked, for the Dockerfile too
	}
	data, err := fs.ReadFile(in.fsys, contextIgnoreFile)
	if err != nil {
		return nil, fmt.Errorf("read ignore file %q: %w", contextIgnoreFile, err)
	}
	ig, err := parseIgnore(contextIgnoreFile, data)
	if err != nil {
		return nil, err
	}
	for _, p := range append([]string{in.Dockerfile}, in.paths...) {
		hidden, err := ig.match(p)
		if err != nil {
			return nil, err
		}
		if wanted := p == in.Dockerfile && !copied; hidden != wanted {
			return nil, fmt.Errorf("%q is copied, and would be taken for the rules of the context it is in, which are those of %q; have that one ignore it", contextIgnoreFile, asked.file)
		}
	}
	return nil, nil
}

// escapePattern writes a path as an ignore pattern that matches it alone.
func escapePattern(p string) string {
	var b strings.Builder
	for i, r := range p {
		if strings.ContainsRune(`*?[]\^`, r) || i == 0 && strings.ContainsRune("!# ", r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}
