package api

import (
	"fmt"
	"regexp"
	"strings"
)

// PathGlob compiles the pattern of a rule's path: "*" stands for any characters
// but slashes, "**" for any characters, and a backslash takes the meaning from
// the character behind it. Everything else stands for itself, and the pattern
// is always about the whole path. Matching takes a time linear in the path.
func PathGlob(glob string) (*regexp.Regexp, error) {
	if len(glob) > MaxRegex {
		return nil, fmt.Errorf("has %d bytes, and %d are allowed", len(glob), MaxRegex)
	}
	if !strings.HasPrefix(glob, "/") && !strings.HasPrefix(glob, "**") {
		return nil, fmt.Errorf("does not start with a slash")
	}
	if strings.Contains(glob, "***") {
		return nil, fmt.Errorf("has three stars in a row; ** already stands for everything")
	}
	var b strings.Builder
	b.WriteString(`(?s)\A`)
	for i := 0; i < len(glob); i++ {
		switch {
		case strings.HasPrefix(glob[i:], "**"):
			b.WriteString(".*")
			i++
		case glob[i] == '*':
			b.WriteString("[^/]*")
		case glob[i] == '\\' && i+1 == len(glob):
			return nil, fmt.Errorf("ends in a backslash")
		case glob[i] == '?', glob[i] == '#':
			return nil, fmt.Errorf("has a %q, and a path ends there; write \\%c if the path itself has one", glob[i:i+1], glob[i])
		default:
			if glob[i] == '\\' {
				i++
			}
			end := i + 1
			for end < len(glob) && glob[end] >= 0x80 { // the rest of one character
				end++
			}
			b.WriteString(regexp.QuoteMeta(glob[i:end]))
			i = end - 1
		}
	}
	b.WriteString(`\z`)
	return regexp.Compile(b.String())
}
