package compose

import (
	"cmp"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v4"
)

// Decoders keep the way from the top of a file to each value in it, so a deep
// file costs them the square of its size. These are far beyond what anybody
// writes.
const (
	maxDepth = 200     // of values in each other
	maxKey   = 1 << 10 // bytes of the keys that lead to one value in ctis.toml
	maxNodes = 400_000 // values in all Compose files, aliases written out
	maxWidth = 5000    // members of one mapping or list in a Compose file, ports of a range included
	maxWork  = 8 << 20 // bytes of each value times its variables, over all Compose files: compose-go begins anew for each
)

// deepTOML finds where a TOML document is deeper than [maxDepth], or where the
// keys that lead to a value are longer than [maxKey]. It reads each byte once
// and asks only what is needed to tell brackets and dots from text.
func deepTOML(src string) (offset int, refused *refusedError) {
	type level struct {
		depth, bytes int
		array        bool // and not an inline table
	}
	var open []level // as it was before each bracket
	var table level  // of the header that keys are below
	var now level
	inKey, inHeader := true, false
	for i := 0; i < len(src); i++ {
		switch c := src[i]; c {
		case '#':
			for i+1 < len(src) && src[i+1] != '\n' {
				i++
			}
		case '"', '\'':
			end := skipTOMLText(src, i)
			if inKey {
				now.bytes += end - i
			}
			i = end - 1
		case '\n':
			if len(open) == 0 {
				if inHeader {
					table = now
				}
				now, inKey, inHeader = table, true, false
			}
		case '[', '{':
			if c == '[' && len(open) == 0 && inKey {
				if !inHeader {
					now, inHeader = level{}, true
				}
			} else {
				open = append(open, now)
				now.array = c == '['
				inKey = !now.array
			}
			now.depth++
		case ']', '}':
			if n := len(open); n > 0 {
				now, open = open[n-1], open[:n-1]
				inKey = false
			}
		case ',':
			if n := len(open); n > 0 {
				array := now.array
				now = open[n-1]
				now.array = array
				now.depth++
				inKey = !array
			}
		case '=':
			inKey = false
		case '.':
			now.depth++
			now.bytes++
		default:
			if inKey {
				now.bytes++
			}
		}
		if now.depth > maxDepth {
			return i, tooDeep("", 0, 0)
		}
		if now.bytes > maxKey {
			return i, &refusedError{
				message: fmt.Sprintf("has a key of more than %d bytes, with the keys that lead to it", maxKey),
				hint:    "a hostname has 253 characters at most",
			}
		}
	}
	return 0, nil
}

// skipTOMLText returns the offset behind the string that begins at i.
func skipTOMLText(src string, i int) int {
	quote := src[i : i+1]
	escapes := quote == `"`
	end, newlines := quote, false
	if triple := strings.Repeat(quote, 3); strings.HasPrefix(src[i:], triple) {
		end, newlines = triple, true
	}
	for i += len(end); i < len(src); i++ {
		switch {
		case escapes && src[i] == '\\':
			i++
		case strings.HasPrefix(src[i:], end):
			i += len(end)
			for newlines && i < len(src) && src[i] == quote[0] { // up to two may stand before the closing three
				i++
			}
			return i
		case src[i] == '\n' && !newlines:
			return i
		}
	}
	return min(i, len(src))
}

func tooDeep(path string, line, column int) *refusedError {
	return &refusedError{
		path: path, line: line, column: column,
		message: fmt.Sprintf("is nested more than %d levels deep", maxDepth),
		hint:    "no environment needs so many; put such data into a file of its own",
	}
}

// extent is the size of YAML as decoders see it: with aliases written out.
type extent struct {
	nodes, depth int
	deepest      *yaml.Node
	work         int        // bytes times variables
	hardest      *yaml.Node // has most of it
	wide         *yaml.Node // the first that is too wide
	circle       *yaml.Node // the first that is in itself
}

// measure returns the extent of a document, in a time that the file's own size
// bounds: what an alias stands for is measured once.
func measure(root *yaml.Node) extent {
	done := map[*yaml.Node]extent{}
	var walk func(n *yaml.Node) extent
	walk = func(n *yaml.Node) extent {
		if e, ok := done[n]; ok {
			return e
		}
		if n.Anchor != "" {
			done[n] = extent{nodes: 1, depth: 1, deepest: n, circle: n} // until it is known
		}
		e := extent{nodes: 1, deepest: n, work: work(n), hardest: n}
		below := n.Content
		if len(below) > 2*maxWidth || n.Kind == yaml.SequenceNode && len(below) > maxWidth {
			e.wide = n
		}
		if n.Kind == yaml.AliasNode && n.Alias != nil {
			below = []*yaml.Node{n.Alias}
		}
		for _, c := range below {
			sub := walk(c)
			e.nodes = min(e.nodes+sub.nodes, maxNodes+1)
			e.wide, e.circle = cmp.Or(e.wide, sub.wide), cmp.Or(e.circle, sub.circle)
			if e.hardest == nil || sub.hardest != nil && work(sub.hardest) > work(e.hardest) {
				e.hardest = sub.hardest
			}
			e.work = min(e.work+sub.work, maxWork+1)
			if sub.depth > e.depth {
				e.depth, e.deepest = sub.depth, sub.deepest
			}
		}
		e.depth++
		if n.Anchor != "" {
			done[n] = e
		}
		return e
	}
	return walk(root)
}

func work(n *yaml.Node) int {
	return min(len(n.Value)*strings.Count(n.Value, "$"), maxWork+1)
}

func inItself(path string, n *yaml.Node) *refusedError {
	return &refusedError{
		path: path, line: n.Line, column: n.Column,
		message: fmt.Sprintf("has an anchor %q that contains an alias of itself", n.Anchor),
		hint:    "such a value has no end; name another anchor, or write the value out",
	}
}

func tooWide(path string, n *yaml.Node) *refusedError {
	return &refusedError{
		path: path, line: n.Line, column: n.Column,
		message: fmt.Sprintf("has a mapping or list of more than %d members", maxWidth),
		hint:    "no environment needs so many",
	}
}
