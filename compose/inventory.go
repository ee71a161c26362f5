package compose

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/compose-spec/compose-go/v2/dotenv"
	"github.com/compose-spec/compose-go/v2/types"
	"go.yaml.in/yaml/v4"
)

// maxFiles is how many Compose files a model may be made of, counting one again
// where it is included again with other variables.
const maxFiles = 1000

// inventory finds every file that compose-go would read for a model, before it
// does: it would wait for a pipe for ever, read a device without end, and take
// time by the square of a file's depth. So this follows include and extends by
// compose-go's own rules. What is wrong with them otherwise is not said here.
type inventory struct {
	model    *model
	problems *Problems
	found    sources // what is included comes before what includes it
	visited  map[string]bool
	indexed  map[string]*yamlIndex // by path; nil: no YAML
	errs     map[string]error      // by path
	nodes    int
	work     int
	ports    int
	refused  bool
	visits   []composeFile // each reading of a file, in order
	lost     []lostFile
}

// lostFile is a file that another names and that Compose cannot use. That is for
// Compose to refuse; but it would name a first one only.
type lostFile struct {
	path    string // absolute
	at      place  // where it is named
	err     error
	in      *yamlIndex    // names it
	extends []string      // the path of an extends that names it; nil: it is included
	env     types.Mapping // of an env file: what its values are made of; nil: it is a Compose file
}

// composeFile is one file on the way of an inventory.
type composeFile struct {
	path     string        // absolute
	workDir  string        // what its env files are relative to
	base     string        // what its includes and extends are relative to
	vars     types.Mapping // for its interpolation
	envFiles string        // what tells vars from others
	levels   [][]string    // env files that vars come from: the includer's first, which win; of one level the last wins
	at       place         // where it is mentioned
	from     []string      // the files that lead to it
	extended bool          // its includes are not looked at
	in       *yamlIndex    // the file that mentions it
	extends  []string      // and the path there, of an extends
}

// takeInventory reports every file that must not be read, and every mistake in
// the form of the model's own files. The sources are only needed for positions.
// Where any is refused, safe is false, and nothing more may be done with them.
func (m *model) takeInventory(vars types.Mapping, ps *Problems) (files sources, safe bool) {
	v := newInventory(m, ps)
	return v.take(vars)
}

func newInventory(m *model, ps *Problems) *inventory {
	return &inventory{model: m, problems: ps, visited: map[string]bool{}, indexed: map[string]*yamlIndex{}, errs: map[string]error{}}
}

func (v *inventory) take(vars types.Mapping) (files sources, safe bool) {
	m := v.model
	for _, path := range m.files {
		v.visit(composeFile{path: path, workDir: m.dir, base: m.dir, vars: vars, levels: [][]string{m.envFiles}, at: place{File: m.shown(path)}})
	}
	// The model's own files come last, in their order: they win.
	var own sources
	for _, path := range m.files {
		if x := v.indexed[path]; x != nil {
			own = append(own, x)
		}
	}
	others := slices.DeleteFunc(v.found, func(x *yamlIndex) bool { return slices.Contains(m.files, x.path) })
	return append(others, own...), !v.refused
}

func (v *inventory) refuse(shown string, at place, e *refusedError) {
	v.refused = true
	v.problems.refused(shown, at, e)
}

func (v *inventory) visit(f composeFile) {
	key := fmt.Sprintf("%q %q %q %q %t", f.path, f.workDir, f.base, f.envFiles, f.extended)
	if v.visited[key] || slices.Contains(f.from, f.path) { // a circle is Compose's to explain
		return
	}
	v.visited[key] = true
	if v.full() {
		return
	}
	x := v.index(f)
	if x == nil && f.in != nil && v.errs[f.path] != nil {
		v.lost = append(v.lost, lostFile{path: f.path, at: f.at, err: v.errs[f.path], in: f.in, extends: f.extends})
	}
	if x == nil || v.full() {
		return
	}
	v.visits = append(v.visits, f)
	x.scopes = append(x.scopes, f.vars)
	f.from = append(f.from[:len(f.from):len(f.from)], f.path)
	for _, root := range x.roots {
		if !f.extended {
			if _, include := member(root, "include", mergeDepth); include != nil {
				for _, entry := range resolved(include).Content {
					v.include(f, x, resolved(entry))
				}
			}
		}
		for _, section := range []string{"services", "jobs"} {
			if _, services := member(root, section, mergeDepth); services != nil {
				each(resolved(services), func(name string, service *yaml.Node) {
					v.extends(f, x, resolved(service), []string{section, name, "extends"})
					v.ranges(f, x, resolved(service))
				})
			}
		}
	}
}

// full says, once, that there are too many files.
func (v *inventory) full() bool {
	switch {
	case len(v.visited) == maxFiles+1:
		v.problems.errorf(place{File: v.model.shown(v.model.files[0]), Line: 1, Column: 1}, "the project includes more than %d files", maxFiles).
			hint("no environment needs so many")
		v.refused = true
		return true
	case len(v.visited) > maxFiles:
		return true
	}
	return v.nodes > maxNodes || v.work > maxWork
}

// index reads a file, unless it must not be, and counts it.
func (v *inventory) index(f composeFile) *yamlIndex {
	x, known := v.indexed[f.path]
	if !known {
		x = v.read(f)
		v.indexed[f.path] = x
		if x != nil {
			v.found = append(v.found, x)
		}
	}
	if x == nil {
		return nil
	}
	if before := v.work; before <= maxWork && before+x.work > maxWork {
		at := x.place(x.hardest)
		v.refuse(x.file, at, &refusedError{
			line: at.Line, column: at.Column,
			message: "brings the project to more text with variables than is substituted in a sensible time",
			hint:    "put the text into a file of its own; a literal $ can be kept out of Compose files so, too",
		})
	}
	v.work += x.work
	before := v.nodes
	v.nodes += x.nodes
	if before <= maxNodes && v.nodes > maxNodes {
		v.refuse(x.file, place{File: x.file, Line: 1, Column: 1}, &refusedError{
			message: fmt.Sprintf("brings the project to more than %d values, counting what each alias stands for", maxNodes),
			hint:    "no environment needs so many",
		})
	}
	return x
}

func (v *inventory) read(f composeFile) *yamlIndex {
	own, shown := len(f.from) == 0, v.model.shown(f.path)
	v.model.read.record(f.path)
	content, err := readFile(f.path)
	if err != nil {
		v.errs[f.path] = err
	}
	var refused *refusedError
	if errors.As(err, &refused) {
		v.refuse(shown, f.at, refused)
		return nil
	}
	var x *yamlIndex
	if err == nil {
		x, err = indexYAML(f.path, shown, content)
		v.errs[f.path] = err
	}
	switch {
	case errors.As(err, &refused):
		v.refuse(shown, f.at, refused)
		return nil
	case err != nil && own:
		v.problems.yaml(shown, err)
		return nil
	case err != nil:
		return nil // noted by visit
	case own:
		x.repeated(v.problems)
	}
	return x
}

// include follows one entry of an include list.
func (v *inventory) include(f composeFile, x *yamlIndex, entry *yaml.Node) {
	paths, projectDir := v.texts(f, entry), ""
	var envFiles []*yaml.Node
	if entry.Kind == yaml.MappingNode {
		paths = nil
		if _, n := member(entry, "path", mergeDepth); n != nil {
			paths = v.texts(f, resolved(n))
		}
		if _, n := member(entry, "project_directory", mergeDepth); n != nil {
			projectDir = v.text(f, resolved(n))
		}
		if _, n := member(entry, "env_file", mergeDepth); n != nil {
			envFiles = listed(resolved(n))
		}
	}
	if len(paths) == 0 {
		return
	}
	inner := composeFile{from: f.from, vars: f.vars, envFiles: f.envFiles, levels: f.levels, at: x.place(entry), in: x}
	first := absolute(f.base, paths[0])
	switch {
	case projectDir == "":
		inner.workDir, inner.base = relative(f.base, filepath.Dir(first)), filepath.Dir(first)
	case filepath.IsAbs(projectDir):
		inner.workDir, inner.base = projectDir, projectDir
	default:
		dir := absolute(f.base, projectDir)
		if fi, err := os.Stat(dir); err != nil || !fi.IsDir() {
			dir = filepath.Dir(dir)
		}
		inner.workDir, inner.base = relative(f.base, dir), filepath.Join(f.workDir, projectDir)
	}
	v.includedVariables(f, &inner, x, entry, envFiles)
	for _, p := range paths {
		inner.path = absolute(f.base, p)
		v.visit(inner)
	}
}

// includedVariables are those of the includer and of the include's own files.
func (v *inventory) includedVariables(f composeFile, inner *composeFile, x *yamlIndex, entry *yaml.Node, nodes []*yaml.Node) {
	var files []string
	if len(nodes) == 0 {
		files = []string{filepath.Join(inner.base, ".env")}
	}
	at := x.place(entry)
	for _, n := range nodes {
		if p := v.text(f, n); p != "" && p != os.DevNull {
			files = append(files, absolute(f.workDir, p))
			at = x.place(n)
		}
	}
	check := newEnvFiles(f.vars)
	for _, file := range files {
		v.model.read.record(file)
		var refused *refusedError
		if errors.As(check.check(file), &refused) {
			v.refuse(v.model.shown(file), at, refused)
			return
		}
	}
	more, err := dotenv.GetEnvFromFile(f.vars, files)
	if err != nil {
		if len(nodes) > 0 || !absent(files[0]) { // one that Compose looks for need not be there
			for _, file := range files {
				_, err := os.Stat(file)
				v.lost = append(v.lost, lostFile{path: file, at: at, err: err, in: x, env: f.vars})
			}
		}
		return
	}
	inner.vars, inner.envFiles = f.vars.Clone().Merge(more), f.envFiles+strings.Join(files, "\x00")
	inner.levels = append(f.levels[:len(f.levels):len(f.levels)], files)
}

// extends follows the file that a service extends one of.
func (v *inventory) extends(f composeFile, x *yamlIndex, service *yaml.Node, at []string) {
	_, extends := member(service, "extends", mergeDepth)
	_, file := member(extends, "file", mergeDepth)
	if file == nil {
		return
	}
	if name := v.text(f, resolved(file)); name != "" {
		path := absolute(f.base, name)
		v.visit(composeFile{
			path: path, workDir: filepath.Dir(path), base: filepath.Dir(path),
			vars: f.vars, envFiles: f.envFiles, levels: f.levels, at: x.place(file), from: f.from, extended: true, in: x, extends: at,
		})
	}
}

var portRange = regexp.MustCompile(`\b(\d{1,5})-(\d{1,5})\b`)

// ranges counts the ports of ranges, of which compose-go makes one entry each.
func (v *inventory) ranges(f composeFile, x *yamlIndex, service *yaml.Node) {
	for _, attr := range []string{"ports", "expose"} {
		key, list := member(service, attr, mergeDepth)
		if list == nil {
			continue
		}
		before := v.ports
		for _, n := range listed(resolved(list)) {
			widest := 0 // both sides of a colon are of one length
			for _, m := range portRange.FindAllStringSubmatch(v.text(f, n), -1) {
				first, _ := strconv.Atoi(m[1]) // digits
				last, _ := strconv.Atoi(m[2])
				widest = max(widest, last-first+1)
			}
			v.ports += widest
		}
		if before <= maxWidth && v.ports > maxWidth {
			at := x.place(key)
			v.refuse(x.file, at, &refusedError{
				line: at.Line, column: at.Column,
				message: fmt.Sprintf("brings the project to more than %d ports", maxWidth),
				hint:    "publish the ports that are used",
			})
		}
	}
}

// text is what a value means to Compose; "" where that cannot be told.
func (v *inventory) text(f composeFile, n *yaml.Node) string {
	if n.Kind != yaml.ScalarNode {
		return ""
	}
	text, err := bounded()(n.Value, func(k string) (string, bool) { value, ok := f.vars[k]; return value, ok })
	if err != nil {
		return ""
	}
	return text
}

func (v *inventory) texts(f composeFile, n *yaml.Node) []string {
	var texts []string
	for _, e := range listed(n) {
		if s := v.text(f, e); s != "" {
			texts = append(texts, s)
		}
	}
	return texts
}

// listed are the elements of a list; a single value counts as one.
func listed(n *yaml.Node) []*yaml.Node {
	if n.Kind != yaml.SequenceNode {
		return []*yaml.Node{n}
	}
	var all []*yaml.Node
	for _, e := range n.Content {
		all = append(all, resolved(e))
	}
	return all
}

// resolved follows an alias to what it stands for.
func resolved(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode && n.Alias != nil {
		n = n.Alias
	}
	return n
}

func absolute(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// relative is how compose-go keeps a directory below another.
func relative(base, dir string) string {
	if rel, err := filepath.Rel(base, dir); err == nil {
		return rel
	}
	return dir
}
