package compose

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/compose-spec/compose-go/v2/template"
	"github.com/compose-spec/compose-go/v2/types"
)

// maxText is how many bytes variables may grow to, within one env file or one
// value of a Compose file and over one load: a variable of two others, each of
// two others, and so on, is larger than any memory.
const maxText = 4 << 20

// envFiles are read one after the other; later ones refer to earlier ones.
type envFiles struct {
	vars  types.Mapping
	limit int            // on total
	total int            // bytes that the values have, with what they refer to
	sizes map[string]int // by name
}

func newEnvFiles(vars types.Mapping) *envFiles {
	return &envFiles{vars: vars, limit: maxText, sizes: map[string]int{}}
}

// check says whether an env file may be read: a *[refusedError] or nil. That
// it is missing is for others to report.
func (e *envFiles) check(path string) error {
	content, err := readFile(path)
	var refused *refusedError
	if err != nil {
		if errors.As(err, &refused) {
			return refused
		}
		return nil
	}
	if line := e.add(string(content)); line > 0 {
		return &refusedError{
			path: path, line: line, column: 1,
			message: fmt.Sprintf("has variables that grow to more than %d MiB", e.limit>>20),
			hint:    "variables that refer to variables double with each line",
		}
	}
	return nil
}

var (
	assignment = regexp.MustCompile(`^\s*(?:export\s+)?([A-Za-z0-9_.\-\[\]]+)\s*[=:]`)
	reference  = regexp.MustCompile(`\$\{?([A-Za-z_][A-Za-z0-9_]*)`)
)

// add returns the line at which the values have come to more than the limit, or
// 0. It takes every reference for one, quoted or not: that can only be too much
// where no sensible file comes near the limit.
func (e *envFiles) add(content string) int {
	name, line := "", 0
	for text := range strings.Lines(content) {
		line++
		if m := assignment.FindStringSubmatch(text); m != nil {
			name = m[1]
		}
		size := len(text)
		for _, m := range reference.FindAllStringSubmatch(text, -1) {
			size += max(e.sizes[m[1]], len(e.vars[m[1]]))
		}
		e.sizes[name] += size // a value may go on in further lines
		if e.total += size; e.total > e.limit {
			return line
		}
	}
	return 0
}

// bounded is compose-go's substitution, up to a size over all its calls.
func bounded() func(string, template.Mapping) (string, error) {
	left := maxText
	return func(text string, mapping template.Mapping) (string, error) {
		over := false
		out, err := template.SubstituteWithOptions(text, func(name string) (string, bool) {
			value, ok := mapping(name)
			if left -= len(value); left < 0 {
				over = true
				return "", ok
			}
			return value, ok
		}, template.WithoutLogging)
		if over {
			return "", fmt.Errorf("variables make this project larger than %d MiB", maxText>>20)
		}
		return out, err
	}
}

// readableServices returns the first file of a service that must not be read.
func readableServices(p *types.Project) error {
	total := 0
	for _, name := range p.ServiceNames() {
		if _, err := readableService(p, name, &total); err != nil {
			return fmt.Errorf("service %q: %w", name, err)
		}
	}
	return nil
}

// readableService looks at the files that a service's variables and labels come
// from. It returns the one that must not be read, with the reason. total is
// what the services before it have read.
func readableService(p *types.Project, name string, total *int) (path string, err error) {
	s := p.Services[name]
	specs := []types.ContainerSpec{s.ContainerSpec}
	for _, hook := range s.PreStart {
		specs = append(specs, hook.ContainerSpec)
	}
	for _, spec := range specs {
		e := newEnvFiles(p.Environment)
		e.limit, e.total = 16*maxText, *total
		for key, value := range spec.Environment {
			if value != nil {
				e.sizes[key] = len(*value)
			}
		}
		for _, f := range spec.EnvFiles {
			if err := e.check(f.Path); err != nil {
				return f.Path, err
			}
		}
		for _, f := range spec.LabelFiles {
			if err := e.check(f); err != nil {
				return f, err
			}
		}
		*total = e.total
	}
	return "", nil
}
