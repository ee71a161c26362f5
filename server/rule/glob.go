package rule

import (
	"regexp"
	"strings"

	"github.com/linuxarena/ctis/server/api"
)

// glob is a pattern as [api.PathGlob] defines it, in a form that is quick to
// compare: most rules that are looked at are about another path.
type glob struct {
	prefix string         // what every path it matches begins with
	rest   []uint16       // what follows: bytes, star and deep
	slow   *regexp.Regexp // in place of rest where both kinds of stars are in it
}

const (
	star uint16 = 256 + iota // any bytes but slashes
	deep                     // any bytes
)

func compileGlob(pattern string) (*glob, error) {
	re, err := api.PathGlob(pattern)
	if err != nil {
		return nil, err
	}
	g := &glob{}
	var prefix strings.Builder
	stars, deeps := 0, 0
	for i := 0; i < len(pattern); i++ {
		op := uint16(pattern[i])
		switch {
		case strings.HasPrefix(pattern[i:], "**"):
			op = deep
			deeps++
			i++
		case pattern[i] == '*':
			op = star
			stars++
		case pattern[i] == '\\':
			i++
			op = uint16(pattern[i])
		}
		if op < star && stars+deeps == 0 {
			prefix.WriteByte(byte(op))
		} else {
			g.rest = append(g.rest, op)
		}
	}
	g.prefix = prefix.String()
	if stars > 0 && deeps > 0 {
		// Going back over two kinds of stars takes a time that is no longer linear.
		g.slow = re
	}
	return g, nil
}

func (g *glob) match(path string) bool {
	if !strings.HasPrefix(path, g.prefix) {
		return false
	}
	if g.slow != nil {
		return g.slow.MatchString(path)
	}
	rest := path[len(g.prefix):]
	p, i := 0, 0
	last, from := -1, 0 // the star passed last, and where what follows it is tried
	for {
		if p < len(g.rest) {
			op := g.rest[p]
			if op >= star {
				last, from = p, i
				p++
				continue
			}
			if i < len(rest) && rest[i] == byte(op) {
				p++
				i++
				continue
			}
		} else if i == len(rest) {
			return true
		}
		if last < 0 || from == len(rest) || g.rest[last] == star && rest[from] == '/' {
			return false
		}
		from++
		p, i = last+1, from
	}
}
