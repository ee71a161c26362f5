package compose

import (
	"slices"
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
	file  string
	src   string
	root  *tomlNode
	lines []int // byte offset of each line

	asked  int // offset whose column was asked for last,
	column int // and that column: the next is mostly near it
}

// tomlNode is one key, table or element. The document is a tree of them, so
// that its index takes no more room than itself: a table's name stands once.
type tomlNode struct {
	key, value int // byte offsets; -1: it has none
	elements   int // of an array of tables, so far
	parts      map[string]*tomlNode
}

// part returns what name stands for below n, made if need be. An element of an
// array has a name too, made by elem.
func (n *tomlNode) part(name string) *tomlNode {
	sub, ok := n.parts[name]
	if !ok {
		sub = &tomlNode{key: -1, value: -1}
		if n.parts == nil {
			n.parts = map[string]*tomlNode{}
		}
		n.parts[name] = sub
	}
	return sub
}

// named is part for a key that stands at offset at; its first place counts.
func (n *tomlNode) named(name string, at int) *tomlNode {
	sub := n.part(name)
	if sub.key < 0 {
		sub.key = at
	}
	return sub
}

// newest is the element that a name below an array of tables belongs to.
func (n *tomlNode) newest() *tomlNode {
	if n.elements > 0 {
		return n.part(elem(n.elements - 1))
	}
	return n
}

func elem(i int) string { return "\x01" + strconv.Itoa(i) }

func indexTOML(file, src string) *tomlIndex {
	x := &tomlIndex{file: file, src: src, root: &tomlNode{key: -1, value: -1}, lines: []int{0}, column: 1}
	for i := range len(src) {
		if src[i] == '\n' {
			x.lines = append(x.lines, i+1)
		}
	}
	s := tomlScanner{tomlIndex: x}
	s.document()
	return x
}

// find follows path as far as the document has it, and says whether that is all.
// The nodes on the way come in order, without the root.
func (x *tomlIndex) find(path []string) (way []*tomlNode, all bool) {
	n := x.root
	for _, part := range path {
		if n = n.parts[part]; n == nil {
			return way, false
		}
		way = append(way, n)
	}
	return way, true
}

// order is where a key stands among others: -1 where the document has none.
func (x *tomlIndex) order(path ...string) int {
	if way, all := x.find(path); all && len(way) > 0 {
		return way[len(way)-1].key
	}
	return -1
}

// key is the place of a key, or of the nearest enclosing one that is known.
func (x *tomlIndex) key(path ...string) place {
	way, _ := x.find(path)
	for _, n := range slices.Backward(way) {
		if n.key >= 0 {
			return x.place(n.key)
		}
		if n.value >= 0 { // an element has no key
			return x.place(n.value)
		}
	}
	return x.place(0)
}

// value is the place of a key's value, or of the key where it has none of its own.
func (x *tomlIndex) value(path ...string) place {
	if way, all := x.find(path); all && len(way) > 0 && way[len(way)-1].value >= 0 {
		return x.place(way[len(way)-1].value)
	}
	return x.key(path...)
}

// place turns a byte offset into a line and a column, counted in characters.
func (x *tomlIndex) place(offset int) place {
	offset = min(max(offset, 0), len(x.src))
	line, found := slices.BinarySearch(x.lines, offset)
	if !found {
		line--
	}
	// Lines can be long and are asked about here and there, so the way from the
	// last answer is gone if that is shorter than the one from the line's start.
	start, next := x.lines[line], len(x.src)+1
	if line+1 < len(x.lines) {
		next = x.lines[line+1]
	}
	if back := x.asked - offset; x.asked < start || x.asked >= next || back > offset-start {
		x.asked, x.column = start, 1
	} else if back > 0 {
		x.column -= utf8.RuneCountInString(x.src[offset:x.asked])
		x.asked = offset
	}
	x.column += utf8.RuneCountInString(x.src[x.asked:offset])
	x.asked = offset
	return place{File: x.file, Line: line + 1, Column: x.column}
}

// placeIn is the place of one offset in a document that has no index.
func placeIn(file, src string, offset int) place {
	before := src[:min(max(offset, 0), len(src))]
	line := strings.Count(before, "\n") + 1
	column := utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:]) + 1
	return place{File: file, Line: line, Column: column}
}

// tomlScanner walks a document once and fills the index.
type tomlScanner struct {
	*tomlIndex
	i int
}

func (s *tomlScanner) document() {
	table := s.root
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

// header reads the rest of a table header and returns the table.
func (s *tomlScanner) header(array bool) *tomlNode {
	n, last := s.root, -1
	s.parts(func(part string, at int) { n, last = n.newest().named(part, at), at })
	if array {
		n.elements++
		n.newest().value = last // each element has a header of its own
	}
	n = n.newest()
	for s.take("]") {
	}
	return n
}

// pair reads one key = value below table.
func (s *tomlScanner) pair(table *tomlNode) {
	n := table
	s.parts(func(part string, at int) { n = n.named(part, at) })
	if s.take("=") {
		s.scanValue(n)
	}
}

func (s *tomlScanner) scanValue(n *tomlNode) {
	s.skip(" \t")
	n.value = s.i
	switch {
	case s.i >= len(s.src):
	case s.take("["):
		for i := 0; s.more("]"); i++ {
			s.scanValue(n.part(elem(i)))
		}
	case s.take("{"):
		for s.more("}") {
			s.pair(n)
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
