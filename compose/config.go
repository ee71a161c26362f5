package compose

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/BurntSushi/toml"
)

// ConfigFile is the name of the file that makes a directory an environment.
const ConfigFile = "ctis.toml"

// Config is an environment's declaration as its ctis.toml has it (SPEC §2).
type Config struct {
	Network         string   // Compose network key, without the project prefix
	ComposeFiles    []string // as written; empty: Compose's own discovery
	DefaultService  string   // "": found by validation
	SeedAssetsFrom  string   // absolute path in the default service's container; "": none
	RequiredEnvVars []string
	Upstreams       []Upstream       // in the order of the file
	ExposedServices []ExposedService // in the order of the file
	Personas        []Persona        // in the order of the file

	index *tomlIndex
}

var configKeys = []string{
	"network", "compose_files", "default_service", "required_env_vars", "seed_assets_from",
	"upstream_proxies", "exposed_services", "personas",
}

// ParseConfig reads a ctis.toml. file names it in the problems. One syntax
// error ends the reading; otherwise every problem is reported, and the Config
// holds what could be understood.
func ParseConfig(file string, content []byte) (*Config, Problems) {
	var ps Problems
	r, doc := readTOML(file, content, &ps)
	if r == nil {
		return nil, ps
	}
	return r.config(doc), ps
}

// readTOML decodes a file; r is nil where that cannot be done.
func readTOML(file string, content []byte, ps *Problems) (r *configReader, doc map[string]any) {
	src := strings.TrimPrefix(string(content), "\ufeff") // an editor's mark, not a character of line 1
	if at, refused := deepTOML(src); refused != nil {
		ps.refused(file, placeIn(file, src, at), refused)
		return nil, nil
	}
	doc, err := decodeTOML(src)
	if err != nil {
		var syntax *tomlError
		if !errors.As(err, &syntax) {
			ps.errorf(place{File: file, Line: 1, Column: 1}, "%s", err)
			return nil, nil
		}
		ps.errorf(placeIn(file, src, syntax.offset), "%s", syntax)
		return nil, nil
	}
	return &configReader{index: indexTOML(file, src), problems: ps}, doc
}

// tomlError is where a document is no TOML.
type tomlError struct {
	offset  int // in bytes
	message string
}

func (e *tomlError) Error() string { return e.message }

// decodeTOML reads a document. What is no TOML is a *[tomlError], in the library's
// words as part of a line.
func decodeTOML(src string) (doc map[string]any, err error) {
	_, err = toml.Decode(src, &doc)
	var syntax toml.ParseError
	if !errors.As(err, &syntax) {
		return doc, err
	}
	message := strings.TrimSuffix(syntax.Message, ".")
	if len(message) > 1 && strings.ToLower(message[1:2]) == message[1:2] { // the first word is no abbreviation
		message = strings.ToLower(message[:1]) + message[1:]
	}
	return nil, &tomlError{syntax.Position.Start, message}
}

// configReader reads a decoded document and notes what is wrong with it.
type configReader struct {
	index    *tomlIndex
	problems *Problems
}

func (r *configReader) config(doc map[string]any) *Config {
	c := &Config{index: r.index}
	r.keys(doc, nil, configKeys)
	c.Network, _ = r.text(doc, "network")
	if _, ok := doc["network"]; !ok {
		r.problems.errorf(r.index.place(0), "network is required").
			hint("name the Compose network that the agent is on: network = \"default\" if its services list no networks")
	}
	c.DefaultService, _ = r.text(doc, "default_service")
	c.ComposeFiles = r.texts(doc, "compose_files")
	if v, ok := doc["compose_files"].([]any); ok && len(v) == 0 {
		r.problems.errorf(r.index.value("compose_files"), "compose_files is empty").
			hint("leave it out to use Compose's own discovery beside %s", ConfigFile)
	}
	c.RequiredEnvVars = r.texts(doc, "required_env_vars")
	for i, name := range c.RequiredEnvVars {
		if name != "" && !envName.MatchString(name) {
			r.problems.errorf(r.index.value("required_env_vars", elem(i)), "%q is not the name of an environment variable", name)
		}
	}
	c.SeedAssetsFrom = r.seedAssetsFrom(doc)
	c.Upstreams = r.upstreams(doc)
	c.ExposedServices = r.exposedServices(doc)
	c.Personas = r.personas(doc)
	r.repeatedHosts(c)
	r.assetsEndpoint(c)
	return c
}

var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// keys reports the keys of a table that do not belong there.
func (r *configReader) keys(table map[string]any, path []string, known []string) {
	for key := range table {
		if slices.Contains(known, key) {
			continue
		}
		message := fmt.Sprintf("unknown key %q", key)
		if len(path) > 0 {
			message += " in " + keyName(path)
		}
		r.problems.errorf(r.index.key(below(path, key)...), "%s", message).didYouMean(key, known)
	}
}

// below is the path of something below path, in memory of its own.
func below(path []string, parts ...string) []string {
	return slices.Concat(path, parts)
}

// ordered are the keys of a table in the order of the file.
func (r *configReader) ordered(table map[string]any, path []string) []string {
	return slices.SortedFunc(maps.Keys(table), func(a, b string) int {
		return cmp.Or(cmp.Compare(r.index.order(below(path, a)...), r.index.order(below(path, b)...)), cmp.Compare(a, b))
	})
}

// table, text and texts read the last part of path from parent, and report a
// value of another type. An empty string is never a useful value, so it is
// reported too.

func (r *configReader) table(parent map[string]any, path ...string) (map[string]any, bool) {
	v, ok := parent[path[len(path)-1]]
	if !ok {
		return nil, false
	}
	t, ok := v.(map[string]any)
	if !ok {
		r.wrongType(v, "a table", path)
	}
	return t, ok
}

func (r *configReader) text(parent map[string]any, path ...string) (string, bool) {
	v, ok := parent[path[len(path)-1]]
	if !ok {
		return "", false
	}
	return r.asText(v, path)
}

func (r *configReader) asText(v any, path []string) (string, bool) {
	s, ok := v.(string)
	switch {
	case !ok:
		r.wrongType(v, "a string", path)
	case s == "":
		r.problems.errorf(r.index.value(path...), "%s is empty", keyName(path))
	}
	return s, ok
}

// texts keeps a place for each element, also for one that is not a string, so
// that positions in the list stay positions in the file.
func (r *configReader) texts(parent map[string]any, path ...string) []string {
	v, ok := parent[path[len(path)-1]]
	if !ok {
		return nil
	}
	list, ok := v.([]any)
	if !ok {
		r.wrongType(v, "an array of strings", path)
		return nil
	}
	texts, seen := make([]string, len(list)), map[string]bool{}
	for i, v := range list {
		element := below(path, elem(i))
		texts[i], _ = r.asText(v, element)
		if seen[texts[i]] && texts[i] != "" {
			r.problems.errorf(r.index.value(element...), "%q stands twice in %s", texts[i], keyName(path))
		}
		seen[texts[i]] = true
	}
	return texts
}

func (r *configReader) wrongType(v any, want string, path []string) {
	p := r.problems.errorf(r.index.value(path...), "%s must be %s, not %s", keyName(path), want, tomlType(v))
	if s, ok := v.(string); ok && want == "an array of strings" {
		p.hint("write [%q]", s)
	}
}

// keyName renders a path as the file would, with elements as [index].
func keyName(path []string) string {
	var b strings.Builder
	for i, part := range path {
		if n, ok := strings.CutPrefix(part, "\x01"); ok {
			b.WriteString("[" + n + "]")
			continue
		}
		if i > 0 {
			b.WriteByte('.')
		}
		b.WriteString(toml.Key{part}.String())
	}
	return b.String()
}

func tomlType(v any) string {
	switch v.(type) {
	case string:
		return "a string"
	case int64:
		return "an integer"
	case float64:
		return "a float"
	case bool:
		return "a boolean"
	case time.Time:
		return "a date or time"
	case []any, []map[string]any:
		return "an array"
	case map[string]any:
		return "a table"
	}
	return "a " + strconv.Quote(fmt.Sprintf("%T", v))
}
