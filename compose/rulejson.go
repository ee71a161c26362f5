package compose

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"strings"

	"github.com/linuxarena/ctis/server/api"
)

// bodyJSON reads what is asked of a JSON body: a path, written with dots or as a
// JSON Pointer, and the value there. A table asks for each of its members, so
// user.name = "x" and "user.name" = "x" are the same.
func (r *configReader) bodyJSON(parent map[string]any, path []string) []api.JSONValue {
	table, ok := r.table(parent, path...)
	if !ok {
		return nil
	}
	if len(table) == 0 {
		r.problems.errorf(r.index.value(path...), "%s is empty", keyName(path)).
			hint("leave it out, or write what the body must have: { \"user.name\" = \"x\" }")
	}
	var values []api.JSONValue
	seen := map[string]bool{}
	var walk func(table map[string]any, path []string, pointer string)
	top := path
	walk = func(table map[string]any, path []string, pointer string) {
		for _, name := range r.ordered(table, path) {
			at := below(path, name)
			p, problem := jsonPointer(name)
			if problem != "" {
				r.problems.errorf(r.index.key(at...), "%q is no path into a JSON body: %s", name, problem).
					hint("write names with dots between them, or a JSON Pointer such as \"/user/name\"")
				continue
			}
			p = pointer + p
			if sub, ok := table[name].(map[string]any); ok && len(sub) > 0 {
				walk(sub, at, p)
				continue
			}
			value, ok := r.json(table[name], at)
			if !ok {
				continue
			}
			if seen[p] {
				r.problems.errorf(r.index.key(at...), "%q stands twice in %s", p, keyName(top))
			}
			seen[p] = true
			values = append(values, api.JSONValue{Pointer: p, Value: value})
		}
	}
	walk(table, path, "")
	return values
}

// jsonPointer turns a path into a JSON Pointer (RFC 6901).
func jsonPointer(name string) (pointer, problem string) {
	if strings.HasPrefix(name, "/") {
		for i := range len(name) {
			if name[i] == '~' && (i+1 == len(name) || name[i+1] != '0' && name[i+1] != '1') {
				return "", "~ is not followed by 0 or 1"
			}
		}
		return name, ""
	}
	var b strings.Builder
	for part := range strings.SplitSeq(name, ".") {
		if part == "" {
			return "", "a name in it is empty"
		}
		b.WriteString("/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(part))
	}
	return b.String(), ""
}

// json turns a TOML value into JSON, and reports what JSON does not have.
func (r *configReader) json(v any, path []string) (json.RawMessage, bool) {
	if !r.jsonable(v, path) {
		return nil, false
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // it is no HTML, and agents would see the difference
	if err := e.Encode(v); err != nil {
		r.problems.errorf(r.index.value(path...), "%s is no JSON: %s", keyName(path), err)
		return nil, false
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), true
}

func (r *configReader) jsonable(v any, path []string) bool {
	ok := true
	switch v := v.(type) {
	case map[string]any:
		for _, name := range r.ordered(v, path) {
			ok = r.jsonable(v[name], below(path, name)) && ok
		}
	case []any, []map[string]any:
		list, _ := elements(v)
		for i, e := range list {
			ok = r.jsonable(e, below(path, elem(i))) && ok
		}
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			r.problems.errorf(r.index.value(path...), "%s is %s, which JSON does not have", keyName(path), strconv.FormatFloat(v, 'g', -1, 64))
			ok = false
		}
	case string, int64, bool:
	default:
		r.problems.errorf(r.index.value(path...), "%s is %s, which JSON does not have", keyName(path), tomlType(v)).hint("write it as a string")
		ok = false
	}
	return ok
}
