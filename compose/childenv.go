package compose

import (
	"regexp"
	"slices"
	"strings"

	"github.com/compose-spec/compose-go/v2/types"
)

// What Compose itself, the docker command and the builder read of a process's
// environment must not make one machine's trajectory another than the next
// one's. Every other variable is the environment's own matter: its Compose files
// may use it.

// neverInherited are variables that only ctis sets.
const neverInherited = "COMPOSE_"

// toolNames is how variables begin that are meant for the tools, not for Compose
// files, though some files use one.
var toolNames = []string{"DOCKER_", "BUILDX_", "BUILDKIT_", "OTEL_"}

// whereOnly are variables of the tools that say where the engine and the builder
// are and how to be let in, not what they are to make.
var whereOnly = []string{
	"DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "DOCKER_TLS", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH", "DOCKER_API_VERSION",
	"DOCKER_AUTH_CONFIG", "DOCKER_BUILDKIT", "BUILDX_BUILDER", "BUILDX_CONFIG",
}

// steersCompose says whether a variable would change what Compose makes of an
// environment that does not mention it.
func steersCompose(name string) bool {
	if strings.HasPrefix(name, neverInherited) {
		return true
	}
	return !slices.Contains(whereOnly, name) && slices.ContainsFunc(toolNames, func(p string) bool { return strings.HasPrefix(name, p) })
}

// inherited is the environment of docker compose: the caller's, without what
// would steer Compose and is not in mentioned.
func inherited(environ, mentioned []string) []string {
	return slices.DeleteFunc(withoutCompose(environ), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return steersCompose(name) && !slices.Contains(mentioned, name)
	})
}

// mentioned are the caller's variables that would steer Compose and that the
// environment's own files have in them: then they are among its inputs. Any
// mention counts, since there are many ways to use one.
func (m *model) mentioned(files sources, p *types.Project) []string {
	var names []string
	for _, kv := range m.environ {
		if name, _, _ := strings.Cut(kv, "="); steersCompose(name) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	paths := slices.Clone(m.envFiles)
	for _, x := range files {
		paths = append(paths, x.path)
	}
	for _, name := range p.ServiceNames() {
		for _, f := range p.Services[name].EnvFiles {
			paths = append(paths, f.Path)
		}
	}
	var found []string
	for _, path := range paths {
		content, err := readFile(path)
		if err != nil {
			continue // an optional one that is not there
		}
		for _, name := range names {
			if !slices.Contains(found, name) && regexp.MustCompile(`\b`+regexp.QuoteMeta(name)+`\b`).Match(content) {
				found = append(found, name)
			}
		}
	}
	slices.Sort(found)
	return found
}
