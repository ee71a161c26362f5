package imagehash

import (
	"fmt"
	"slices"
	"strings"
)

// contextIgnoreFile is the ignore file every builder reads.
const contextIgnoreFile = ".dockerignore"

// ignoreFile is one that ctis adds to a context.
type ignoreFile struct {
	path string
	data []byte
}

// contextIgnore makes the ignore file for a context made of the inputs alone; nil
// if it needs none of its own. The Dockerfile must be in that context, but where
// the rules keep it out of the image, "COPY ." must not find it there. So an
// ignore file names it, and itself.
//
// Where the context's own ignore file is an input, it has to do that, and must not
// hide any other input. If it was not the one that was asked for them, it may: then
// the one named after the Dockerfile has to be there too, and only BuildKit reads
// that.
func (in *Inputs) contextIgnore(asked ignore) (*ignoreFile, error) {
	_, copied := slices.BinarySearch(in.paths, in.Dockerfile)
	hide := func(name string) *ignoreFile {
		text := escapePattern(name) + "\n"
		if !copied {
			text += escapePattern(in.Dockerfile) + "\n"
		}
		return &ignoreFile{name, []byte(text)}
	}
	if _, own := slices.BinarySearch(in.paths, contextIgnoreFile); !own {
		if copied {
			return nil, nil
		}
		return hide(contextIgnoreFile), nil
	}
	if asked.file == contextIgnoreFile {
		return nil, nil // it has already been asked, for the Dockerfile too
	}
	same, err := in.agrees(copied)
	if same || err != nil {
		return nil, err
	}
	named := in.Dockerfile + contextIgnoreFile
	in.needs = append(in.needs, Need{What: fmt.Sprintf("%s beside %s, which is copied and says something else", named, contextIgnoreFile)})
	if _, input := slices.BinarySearch(in.paths, named); input {
		return nil, nil // it has been asked
	}
	return hide(named), nil
}

// agrees tells whether the context's own ignore file leaves exactly the inputs.
func (in *Inputs) agrees(copied bool) (bool, error) {
	ig, err := readIgnoreFile(in.fsys, contextIgnoreFile)
	if err != nil {
		return false, err
	}
	for _, p := range append([]string{in.Dockerfile}, in.paths...) {
		hidden, err := ig.match(p)
		if err != nil {
			return false, err
		}
		if wanted := p == in.Dockerfile && !copied; hidden != wanted {
			return false, nil
		}
	}
	return true, nil
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
