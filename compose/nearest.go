package compose

import "unicode/utf8"

// Nearest returns the known name that is fewest edits away from name. It finds
// none when even the nearest would be a guess rather than a typing mistake:
// more than a third of the name's characters, or more than three.
func Nearest(name string, known []string) (string, bool) {
	limit := min(3, max(1, utf8.RuneCountInString(name)/3))
	best, at := "", limit+1
	for _, k := range known {
		if k == name {
			continue
		}
		if d := edits([]rune(name), []rune(k)); d < at || d == at && best != "" && k < best {
			best, at = k, d
		}
	}
	return best, at <= limit
}

// edits is the number of insertions, deletions, replacements and swaps of
// neighbours (the commonest typing mistake) that turn a into b.
func edits(a, b []rune) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
