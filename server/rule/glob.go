package rule

import (
	"regexp"
	"strings"

	"github.com/linuxarena/ctis/server/api"
)

// glob is a pattern as [api.PathGlob] defines it, in a form that is quick to
// compare: most rules that are looked at are about another path.
type glob struct {
	prefix   string         // what every path it matches begins with
	literals []string       // what follows each star, one after the other; none: prefix is all
	slashes  bool           // whether the stars take slashes
	slow     *regexp.Regexp // in place of literals where stars of both kinds are in it
}

func compileGlob(pattern string) (*glob, error) {
	re, err := api.PathGlob(pattern)
	if err != nil {
		return nil, err
	}
	var texts []string // before, between and behind the stars
	var text strings.Builder
	stars, deeps := 0, 0
	for i := 0; i < len(pattern); i++ {
		switch {
		case strings.HasPrefix(pattern[i:], "**"):
			deeps++
			i++
		case pattern[i] == '*':
			stars++
		default:
			if pattern[i] == '\\' {
				i++
			}
			text.WriteByte(pattern[i])
			continue
		}
		texts = append(texts, text.String())
		text.Reset()
	}
	texts = append(texts, text.String())
	g := &glob{prefix: texts[0], literals: texts[1:], slashes: deeps > 0}
	if stars > 0 && deeps > 0 {
		g.slow = re
	}
	return g, nil
}

// match takes a time linear in the length of path: each literal is found where it
// comes first, since what is left to the stars behind it is the most then.
func (g *glob) match(path string) bool {
	rest, ok := strings.CutPrefix(path, g.prefix)
	if !ok {
		return false
	}
	if g.slow != nil {
		return g.slow.MatchString(path)
	}
	if len(g.literals) == 0 {
		return rest == ""
	}
	last := len(g.literals) - 1
	for _, literal := range g.literals[:last] {
		at := strings.Index(rest, literal)
		if at < 0 || !g.slashes && strings.Contains(rest[:at], "/") {
			return false
		}
		rest = rest[at+len(literal):]
	}
	rest, ok = strings.CutSuffix(rest, g.literals[last])
	return ok && (g.slashes || !strings.Contains(rest, "/"))
}
