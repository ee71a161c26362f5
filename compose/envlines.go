package compose

import (
	"regexp"
	"strings"
)

// assigned is one assignment of an env file. The parser that reads the values
// (compose-go's dotenv) tells no lines.
type assigned struct {
	name    string
	text    string // as written, quotes and all; over several lines where a quote is
	line    int
	literal bool // in single quotes: nothing in it is replaced
}

// assignedName is how a statement of an env file begins; with no = it takes the
// variable over from outside.
var assignedName = regexp.MustCompile(`^\s*(?:export\s+)?([\pL\pN_.\-\[\]]+)[ \t]*([=:]?)[ \t]*`)

// assignments finds the statements of an env file. On what is no env file it
// finds what it can.
func assignments(content string) []assigned {
	content = strings.TrimPrefix(content, "\ufeff")
	var all []assigned
	lines := strings.SplitAfter(content, "\n")
	for i := 0; i < len(lines); i++ {
		m := assignedName.FindStringSubmatch(lines[i])
		if m == nil {
			continue
		}
		rest := lines[i][len(m[0]):]
		if m[2] == "" {
			if strings.TrimSpace(rest) != "" {
				continue // not a name alone
			}
			rest = ""
		}
		a := assigned{name: m[1], line: i + 1}
		if rest != "" && (rest[0] == '"' || rest[0] == '\'') {
			a.literal = rest[0] == '\''
			for !closed(rest) && i+1 < len(lines) {
				i++
				rest += lines[i]
			}
		} else {
			rest, _, _ = strings.Cut(rest, " #")
		}
		a.text = strings.TrimSpace(rest)
		all = append(all, a)
	}
	return all
}

// closed says whether the quote that s begins with ends in it.
func closed(s string) bool {
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case s[0]:
			return true
		}
	}
	return false
}
