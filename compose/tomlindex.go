package compose

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// tomlIndex knows where in a TOML document each key and value stands. The TOML
// library reports positions for syntax errors only, and most mistakes in an
// environment are of meaning, not of syntax.
//
// It is made for documents that the library has accepted, so it does not check
// anything; on other input it indexes what it can and stops.
type tomlIndex struct {
	file   string
	src    string
	keys   map[string]int // path → byte offset of the key's last part
	values map[string]int // path → byte offset of the value
}

// tomlPath joins the parts of a path. Elements of arrays are parts too, made by
// elem; NUL cannot stand in a TOML key.
func tomlPath(parts []string) string { return strings.Join(parts, "\x00") }

func elem(i int) string { return "\x01" + strconv.Itoa(i) }

func indexTOML(file, src string) *tomlIndex {
	x := &tomlIndex{file: file, src: src, keys: map[string]int{}, values: map[string]int{}}
	s := tomlScanner{tomlIndex: x, tables: map[string]int{}}
	s.document()
	return x
}

// key is the place of a key, or of the nearest enclosing one that is known.
func (x *tomlIndex) key(path ...string) place {
	for ; len(path) > 0; path = path[:len(path)-1] {
		if at, ok := x.keys[tomlPath(path)]; ok {
			return x.place(at)
		}
		if at, ok := x.values[tomlPath(path)]; ok { // an element has no key
			return x.place(at)
		}
	}
	return x.place(0)
}

// value is the place of a key's value, or of the key where it has none of its own.
func (x *tomlIndex) value(path ...string) place {
	if at, ok := x.values[tomlPath(path)]; ok {
		return x.place(at)
	}
	return x.key(path...)
}

func (x *tomlIndex) place(offset int) place { return placeIn(x.file, x.src, offset) }

// placeIn turns a byte offset into a line and a column, counted in characters.
func placeIn(file, src string, offset int) place {
	before := src[:min(max(offset, 0), len(src))]
	line := strings.Count(before, "\n") + 1
	column := utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:]) + 1
	return place{File: file, Line: line, Column: column}
}

// tomlScanner walks a document once and fills the index.
type tomlScanner struct {
	*tomlIndex
	i      int
	tables map[string]int // arrays of tables → how many elements so far
}

func (s *tomlScanner) document() {
	var table []string
	for s.skip(" \t\r\n"); s.i < len(s.src); s.skip(" \t\r\n") {
		start := s.i
		switch {
		case s.take("[["):
			table = s.header(true)
		case s.take("["):
			table = s.header(false)
		default:
			s.pair(table)
		}
		if s.i == start { // not TOML after all
			return
		}
	}
}

// header reads the rest of a table header and returns the path of the table.
func (s *tomlScanner) header(array bool) []string {
	var path []string
	s.parts(func(part string, at int) {
		// A name below an array of tables belongs to its newest element.
		if n := s.tables[tomlPath(path)]; n > 0 {
			path = append(path, elem(n-1))
		}
		path = append(path, part)
		s.record(path, at)
	})
	if array {
		n := s.tables[tomlPath(path)]
		s.tables[tomlPath(path)] = n + 1
		at := s.keys[tomlPath(path)]
		path = append(path, elem(n))
		s.values[tomlPath(path)] = at
	} else if n := s.tables[tomlPath(path)]; n > 0 {
		path = append(path, elem(n-1))
	}
	for s.take("]") {
	}
	return path
}

// pair reads one key = value below table.
func (s *tomlScanner) pair(table []string) {
	path := append([]string(nil), table...)
	s.parts(func(part string, at int) {
		path = append(path, part)
		s.record(path, at)
	})
	if s.take("=") {
		s.scanValue(path)
	}
}

func (s *tomlScanner) record(path []string, at int) {
	p := tomlPath(path)
	if _, ok := s.keys[p]; !ok {
		s.keys[p] = at
	}
}

func (s *tomlScanner) scanValue(path []string) {
	s.skip(" \t")
	s.values[tomlPath(path)] = s.i
	switch {
	case s.i >= len(s.src):
	case s.take("["):
		for n := 0; s.more("]"); n++ {
			s.scanValue(append(path[:len(path):len(path)], elem(n)))
		}
	case s.take("{"):
		for s.more("}") {
			s.pair(path)
		}
	case s.src[s.i] == '"' || s.src[s.i] == '\'':
		s.text()
	default: // a number, a boolean, a date
		for s.i < len(s.src) && !strings.ContainsRune(",]}#\n", rune(s.src[s.i])) {
			s.i++
		}
	}
}

// more steps over what may stand between the members of an array or inline
// table, and says whether there is a further one before the closing bracket.
func (s *tomlScanner) more(closing string) bool {
	start := s.i
	s.skip(" \t\r\n")
	for s.take(",") {
		s.skip(" \t\r\n")
	}
	if s.take(closing) || s.i >= len(s.src) {
		return false
	}
	// Without a step since the opening bracket or the previous member, the
	// document is not TOML and a further try would stand still.
	return s.i > start || s.src[start-1] == '[' || s.src[start-1] == '{'
}

// parts calls yield for each part of a dotted key, with its offset.
func (s *tomlScanner) parts(yield func(part string, at int)) {
	for {
		s.skip(" \t")
		at := s.i
		if s.i < len(s.src) && (s.src[s.i] == '"' || s.src[s.i] == '\'') {
			yield(s.text(), at)
		} else {
			for s.i < len(s.src) && isBareKey(s.src[s.i]) {
				s.i++
			}
			if s.i == at {
				return
			}
			yield(s.src[at:s.i], at)
		}
		s.skip(" \t")
		if !s.take(".") {
			return
		}
	}
}

func isBareKey(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-'
}

// text reads a string of any of the four kinds and returns what it means.
func (s *tomlScanner) text() string {
	quote := s.src[s.i : s.i+1]
	if triple := strings.Repeat(quote, 3); s.take(triple) {
		start := s.i
		for s.i < len(s.src) && !strings.HasPrefix(s.src[s.i:], triple) {
			s.step(quote)
		}
		end := min(s.i, len(s.src))
		for s.take(quote) { // up to two quotes may stand before the closing three
		}
		return s.src[start:end] // keys are never multi-line; the meaning is not asked for
	}
	s.i++
	start := s.i
	for s.i < len(s.src) && s.src[s.i] != quote[0] && s.src[s.i] != '\n' {
		s.step(quote)
	}
	raw := s.src[start:min(s.i, len(s.src))]
	s.take(quote)
	if quote == `"` {
		return unescapeTOML(raw)
	}
	return raw
}

// step moves over one character of a string, an escape being one.
func (s *tomlScanner) step(quote string) {
	if quote == `"` && s.src[s.i] == '\\' && s.i+1 < len(s.src) {
		s.i++
	}
	s.i++
}

// skip moves over characters of set, and over comments where newlines are in it.
func (s *tomlScanner) skip(set string) {
	for s.i < len(s.src) {
		switch c := s.src[s.i]; {
		case strings.IndexByte(set, c) >= 0:
			s.i++
		case c == '#' && strings.Contains(set, "\n"):
			end := strings.IndexByte(s.src[s.i:], '\n')
			if end < 0 {
				end = len(s.src) - s.i
			}
			s.i += end
		default:
			return
		}
	}
}

func (s *tomlScanner) take(token string) bool {
	if !strings.HasPrefix(s.src[min(s.i, len(s.src)):], token) {
		return false
	}
	s.i += len(token)
	return true
}

// unescapeTOML resolves the escapes of a basic string.
func unescapeTOML(raw string) string {
	if !strings.Contains(raw, `\`) {
		return raw
	}
	var b strings.Builder
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' || i+1 == len(raw) {
			b.WriteByte(raw[i])
			continue
		}
		i++
		if digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[raw[i]]; digits > 0 && i+digits < len(raw) {
			if n, err := strconv.ParseUint(raw[i+1:i+1+digits], 16, 32); err == nil {
				b.WriteRune(rune(n))
			}
			i += digits
			continue
		}
		switch raw[i] {
		case 'b':
			b.WriteByte('\b')
		case 't':
			b.WriteByte('\t')
		case 'n':
			b.WriteByte('\n')
		case 'f':
			b.WriteByte('\f')
		case 'r':
			b.WriteByte('\r')
		case 'e':
			b.WriteByte('\x1b')
		default: // \" and \\
			b.WriteByte(raw[i])
		}
	}
	return b.String()
}
