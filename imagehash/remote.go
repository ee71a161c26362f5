package imagehash

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
)

// RemoteKind says what a Dockerfile reads that is not in its build context.
type RemoteKind string

// The kinds of remote sources. To a Dockerfile, an image and a named build
// context are the same thing: a name that no stage has. Nothing here passes named
// contexts to a builder, so a builder takes it for an image.
const (
	RemoteURL   RemoteKind = "url"
	RemoteGit   RemoteKind = "git"
	RemoteImage RemoteKind = "image"
)

// Remote is something a build reads from elsewhere. The hash covers its name, as
// part of the Dockerfile, and not its content.
type Remote struct {
	Line   int
	Kind   RemoteKind
	Source string   // expanded
	Pinned bool     // by a checksum or digest, so that its content cannot change
	Paths  []string // what is copied out of an image or named context
}

var (
	// scp matches the short form of a git remote over ssh.
	scp = regexp.MustCompile(`^[A-Za-z0-9._-]+@[A-Za-z0-9.-]+:`)
	// commit matches a full commit in a git reference.
	commit = regexp.MustCompile(`(#|[?&](ref|checksum|commit)=)[0-9a-f]{40}([0-9a-f]{24})?($|[:&#])`)
	// gitPath matches an HTTP URL that is fetched by git.
	gitPath = regexp.MustCompile(`\.git($|[?#])`)
)

// fetched tells what ADD fetches from a path of the context.
func fetched(p string) (RemoteKind, bool) {
	lower := strings.ToLower(p)
	has := func(prefix string) bool { return strings.HasPrefix(lower, prefix) }
	switch {
	case has("http://"), has("https://"):
		if gitPath.MatchString(p) {
			return RemoteGit, true
		}
		return RemoteURL, true
	case has("git://"), has("ssh://"), scp.MatchString(p):
		return RemoteGit, true
	}
	return "", false
}

func pinnedImage(name string) bool { return strings.Contains(name, "@sha256:") }

// outside notes what a command takes from a name that is no stage.
func (s *scanner) outside(cmd instructions.Command, from string) {
	if from == emptyImage {
		return
	}
	r := Remote{Line: line(cmd), Kind: RemoteImage, Source: from, Pinned: pinnedImage(from)}
	if c, ok := cmd.(*instructions.CopyCommand); ok {
		r.Paths = slices.Clone(c.SourcePaths)
	}
	s.remote = append(s.remote, r)
}

// frontends are the programs that read Dockerfiles as described here. They may
// come from any registry.
var frontends = []string{"docker/dockerfile", "docker/dockerfile-upstream"}

// frontendArg names the build argument by which BuildKit takes another frontend.
const frontendArg = "BUILDKIT_SYNTAX"

// checkFrontend refuses a Dockerfile that has itself read by another program:
// what that makes of it, nobody knows.
func (s *scanner) checkFrontend(data []byte) error {
	// The build argument wins over the Dockerfile's own line.
	if name := s.args[frontendArg]; name != "" {
		if !known(name) {
			return s.at(nil, fmt.Errorf("build argument %s=%q has it read by another program, and what that makes of it cannot be told; leave the argument out", frontendArg, name))
		}
		return nil
	}
	name, _, at, ok := parser.DetectSyntax(data)
	if !ok || known(name) {
		return nil
	}
	return s.at(at, fmt.Errorf("syntax %q is another language; its inputs cannot be told", name))
}

// known tells whether a frontend is one of those.
func known(name string) bool {
	repository, _, _ := strings.Cut(name, "@")
	if i := strings.LastIndexByte(repository, ':'); i > strings.LastIndexByte(repository, '/') {
		repository = repository[:i]
	}
	return slices.ContainsFunc(frontends, func(f string) bool {
		return repository == f || strings.HasSuffix(repository, "/"+f)
	})
}
