package rule

import (
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode/utf8"

	"github.com/linuxarena/ctis/server/api"
)

// expression is a regular expression with a text that every match has in it.
// Looking for that first spares most texts the expression.
type expression struct {
	*regexp.Regexp
	must string
}

func compileExpression(s string) (*expression, error) {
	if err := api.CheckRegex(s); err != nil {
		return nil, err
	}
	re, err := regexp.Compile(s)
	if err != nil {
		return nil, err
	}
	tree, err := syntax.Parse(s, syntax.Perl)
	if err != nil {
		return nil, err
	}
	return &expression{re, required(tree.Simplify())}, nil
}

func (e *expression) matchString(s string) bool {
	return (e.must == "" || strings.Contains(s, e.must)) && e.MatchString(s)
}

// required is the longest text found that is part of every match, "" for none.
func required(re *syntax.Regexp) string {
	switch re.Op {
	case syntax.OpLiteral:
		if re.Flags&syntax.FoldCase != 0 {
			return ""
		}
		for _, r := range re.Rune {
			if r == utf8.RuneError { // stands for bytes that are no text, too
				return ""
			}
		}
		return string(re.Rune)
	case syntax.OpCapture, syntax.OpPlus:
		return required(re.Sub[0])
	case syntax.OpRepeat:
		if re.Min > 0 {
			return required(re.Sub[0])
		}
	case syntax.OpConcat:
		longest := ""
		for _, sub := range re.Sub {
			if s := required(sub); len(s) > len(longest) {
				longest = s
			}
		}
		return longest
	}
	return ""
}
