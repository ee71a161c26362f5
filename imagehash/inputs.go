package imagehash

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
)

// Inputs is what a Dockerfile reads from its build context.
type Inputs struct {
	Dockerfile string   // path in the context
	Args       []Arg    // passed build arguments that the Dockerfile declares, sorted by name
	Remote     []Remote // what it reads from elsewhere: no hash covers its content

	fsys       fs.FS
	dockerfile []byte
	paths      []string // sorted bytewise
}

// Arg is a build argument.
type Arg struct{ Name, Value string }

// Remote is a URL or git reference that an ADD fetches.
type Remote struct {
	Line   int
	Source string
}

// Read finds what the Dockerfile at the path dockerfile inside fsys reads from
// fsys, given the build arguments args. Ignored is what <dockerfile>.dockerignore
// says, or .dockerignore if that does not exist.
//
// Its errors are *[SyntaxError], *[MissingInputError], *[NameError], or those of
// reading fsys.
func Read(fsys fs.FS, dockerfile string, args map[string]string) (*Inputs, error) {
	dockerfile = path.Clean(dockerfile)
	if !fs.ValidPath(dockerfile) {
		return nil, fmt.Errorf("dockerfile %q is not inside the build context; give a path relative to it", dockerfile)
	}
	if err := noLinks(fsys, dockerfile); err != nil {
		return nil, err
	}
	data, err := fs.ReadFile(fsys, dockerfile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("no Dockerfile at %q in the build context; name one that is there: %w", dockerfile, err)
	}
	if err != nil {
		return nil, fmt.Errorf("read Dockerfile %q: %w", dockerfile, err)
	}
	sc, err := scan(dockerfile, data, args)
	if err != nil {
		return nil, err
	}
	ig, err := readIgnore(fsys, dockerfile)
	if err != nil {
		return nil, err
	}
	t := &tree{fsys: fsys, ignore: ig, found: map[string]struct{}{}}
	for _, s := range sc.sources {
		if err := t.collect(dockerfile, s); err != nil {
			return nil, err
		}
	}
	in := &Inputs{
		Dockerfile: dockerfile,
		Remote:     sc.remote,
		fsys:       fsys,
		dockerfile: data,
		paths:      slices.Sorted(maps.Keys(t.found)),
	}
	for _, name := range slices.Sorted(maps.Keys(sc.declared)) {
		if v, ok := args[name]; ok {
			in.Args = append(in.Args, Arg{name, v})
		}
	}
	return in, nil
}

// noLinks refuses a Dockerfile that is reached through a link: what is built would
// be named by another path than what is copied.
func noLinks(fsys fs.FS, dockerfile string) error {
	for p := dockerfile; p != "."; p = path.Dir(p) {
		if fi, err := fs.Lstat(fsys, p); err == nil && fi.Mode().Type() == fs.ModeSymlink {
			return fmt.Errorf("dockerfile %q: %q is a symbolic link; name the file it leads to", dockerfile, p)
		}
	}
	return nil
}
