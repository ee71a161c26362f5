package compose

import (
	"crypto/sha256"
	"path/filepath"

	"github.com/compose-spec/compose-go/v2/types"
)

// inputs are the files that a model was read from, by absolute path, with the
// SHA-256 of what was in each. The zero value stands for a file that was not
// there, but would have been read: an optional env file, for example.
type inputs map[string][sha256.Size]byte

// record remembers what a file holds now, unless it is remembered already.
func (in inputs) record(path string) {
	if _, known := in[path]; !known {
		in[path] = digest(path)
	}
}

func digest(path string) (sum [sha256.Size]byte) {
	if content, err := readFile(path); err == nil {
		sum = sha256.Sum256(content)
	}
	return sum
}

// recordServices remembers the files that variables and labels of services come from.
func (in inputs) recordServices(p *types.Project) {
	for _, s := range p.Services {
		specs := []types.ContainerSpec{s.ContainerSpec}
		for _, hook := range s.PreStart {
			specs = append(specs, hook.ContainerSpec)
		}
		for _, spec := range specs {
			for _, f := range spec.EnvFiles {
				in.record(f.Path)
			}
			for _, f := range spec.LabelFiles {
				in.record(f)
			}
		}
	}
}

// Changed lists the files of the environment that no longer hold what [Load]
// read: as paths relative to its directory where they are in it, sorted. Each
// call of docker compose reads them anew, so a trajectory whose files change
// between two calls is made of two different environments: a container
// made anew lacks what was put into the first.
func (e *Environment) Changed() []string {
	var changed []string
	for _, path := range sortedKeys(e.inputs) {
		if digest(path) == e.inputs[path] {
			continue
		}
		if rel, err := filepath.Rel(e.Dir, path); err == nil && filepath.IsLocal(rel) {
			path = rel
		}
		changed = append(changed, path)
	}
	return changed
}
