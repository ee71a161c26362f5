package rule

import (
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode/utf8"

	"github.com/linuxarena/ctis/server/api"
)

// expression is a regular expression with texts that every match has in it. Looking
// for those first spares most texts the expression.
type expression struct {
	*regexp.Regexp
	must []string
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
	return &expression{re, required(tree.Simplify(), nil)}, nil
}

func (e *expression) matchString(s string) bool {
	for _, m := range e.must {
		if !strings.Contains(s, m) {
			return false
		}
	}
	return e.MatchString(s)
}

func (e *expression) matchBytes(b []byte) bool {
	for _, m := range e.must {
		if !containsText(b, m) {
			return false
		}
	}
	return e.Match(b)
}

// maxMust bounds the texts that are looked for.
const maxMust = 4

// required appends texts that are part of every match.
func required(re *syntax.Regexp, found []string) []string {
	switch re.Op {
	case syntax.OpLiteral:
		if re.Flags&syntax.FoldCase != 0 || len(found) == maxMust {
			return found
		}
		for _, r := range re.Rune {
			if r == utf8.RuneError { // stands for bytes that are no text, too
				return found
			}
		}
		return append(found, string(re.Rune))
	case syntax.OpCapture, syntax.OpPlus:
		return required(re.Sub[0], found)
	case syntax.OpRepeat:
		if re.Min > 0 {
			return required(re.Sub[0], found)
		}
	case syntax.OpConcat:
		for _, sub := range re.Sub {
			found = required(sub, found)
		}
	}
	return found
}
