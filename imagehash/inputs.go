package imagehash

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/moby/buildkit/util/suggest"
)

// Options says what is built of a build context.
type Options struct {
	Dockerfile string            // path in the context
	Args       map[string]string // build arguments that are passed
	Target     string            // the stage to build; "" is the last, with every stage's inputs
	Platform   string            // OS/ARCH[/VARIANT] to build for; "" leaves it to the builder
}

// Inputs is what a Dockerfile reads from its build context.
type Inputs struct {
	Dockerfile string   // path in the context
	Target     string   // as given
	Platform   string   // as builders name it
	Args       []Arg    // passed build arguments that the Dockerfile declares, sorted by name
	Proxy      []Arg    // passed build arguments that name a proxy and that it does not declare, sorted by name
	Remote     []Remote // what it reads from elsewhere: no hash covers its content

	Bases []*Base // images it builds on, once each, by line

	fsys       fs.FS
	dockerfile []byte
	paths      []string        // sorted bytewise
	links      map[string]bool // those of paths that are links
	dirs       []string        // that have to be there although nothing in them is an input, sorted
	notes      []string        // what will surprise
	needs      []Need          // what the classic builder does otherwise
	ends       int             // the last line that one reads for the target; 0 is the file's
	ignoreFile *ignoreFile     // for a context made of the inputs alone
}

// Arg is a build argument.
type Arg struct{ Name, Value string }

// Read finds what the Dockerfile inside fsys reads from fsys. Ignored is what
// <Dockerfile>.dockerignore says, or .dockerignore if that does not exist.
//
// Its errors are *[SyntaxError], *[MissingInputError], *[NameError], those of
// reading fsys, or the context's.
func Read(ctx context.Context, fsys fs.FS, o Options) (*Inputs, error) {
	o.Dockerfile = path.Clean(o.Dockerfile)
	dockerfile := o.Dockerfile
	if !fs.ValidPath(dockerfile) {
		return nil, fmt.Errorf("dockerfile %q is not inside the build context; give a path relative to it", dockerfile)
	}
	if err := noLinks(fsys, dockerfile); err != nil {
		return nil, err
	}
	data, err := readRegular(fsys, dockerfile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("no Dockerfile at %q in the build context; name one that is there: %w", dockerfile, err)
	}
	if err != nil {
		return nil, fmt.Errorf("read Dockerfile %q: %w", dockerfile, err)
	}
	sc, err := scan(o, data)
	if err != nil {
		return nil, err
	}
	ig, err := readIgnore(fsys, dockerfile)
	if err != nil {
		return nil, err
	}
	t := &tree{ctx: ctx, fsys: fsys, ignore: ig, dockerfile: dockerfile, links: map[string]bool{}, found: map[string]struct{}{}, dirs: map[string]struct{}{}}
	if err := t.collectAll(sc.sources); err != nil {
		return nil, err
	}
	in := &Inputs{
		Dockerfile: dockerfile,
		Target:     o.Target,
		Remote:     sc.remote,
		Bases:      sc.bases,
		needs:      sc.needs,
		ends:       sc.ends,
		fsys:       fsys,
		dockerfile: data,
		paths:      slices.Sorted(maps.Keys(t.found)),
		links:      t.links,
		dirs:       slices.Sorted(maps.Keys(t.dirs)),
		notes:      t.notes,
	}
	if o.Platform != "" {
		p, err := parsePlatform(o.Platform)
		if err != nil {
			return nil, err
		}
		in.Platform = p.String()
	}
	for _, name := range slices.Sorted(maps.Keys(o.Args)) {
		switch arg := (Arg{name, o.Args[name]}); {
		case sc.declared[name] || builderReads(name):
			in.Args = append(in.Args, arg)
		case slices.Contains(proxyArgs, strings.ToUpper(name)):
			in.Proxy = append(in.Proxy, arg)
		default:
			in.notes = append(in.notes, undeclared(dockerfile, name, slices.Sorted(maps.Keys(sc.declared))))
		}
	}
	in.ignoreFile, err = in.contextIgnore(ig)
	return in, err
}

// proxyArgs are the build arguments that every builder hands to what it runs without
// an ARG, and keeps out of the image. They say how to reach what is fetched, so they
// are no part of the hash unless an ARG declares them.
var proxyArgs = []string{"HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "NO_PROXY", "ALL_PROXY"}

// undeclared says that a build argument has no effect.
func undeclared(dockerfile, name string, declared []string) string {
	s := fmt.Sprintf("%s: no ARG declares build argument %q, so it has no effect", dockerfile, name)
	if meant, ok := suggest.Search(name, declared, false); ok {
		s += fmt.Sprintf("; did you mean %s?", meant)
	}
	return s
}

// builderReads names the build arguments that change an image although no ARG
// declares them.
func builderReads(name string) bool {
	return name == "SOURCE_DATE_EPOCH" || strings.HasPrefix(name, "BUILDKIT_")
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
