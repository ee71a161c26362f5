package commands

import (
	"slices"
	"testing"
)

func TestReasonsGoOnBelowInsteadOfBeingCut(t *testing.T) {
	rows := [][]string{
		{"kept", "untagged 0123456789ab", "9.1 MB", "untagged, and not known to be left by a build; docker rmi removes it"},
		{"would remove", "src-0000000000000001", "9.1 MB", "superseded and unused"},
	}
	got := wrapLast(rows, 80)
	for _, row := range got {
		if n := len("would remove  untagged 0123456789ab  9.1 MB  ") + len(row[3]); n > 80 {
			t.Errorf("%q takes %d columns", row[3], n)
		}
	}
	if len(got) != 3 || !slices.Equal(got[1][:3], []string{"", "", ""}) || !slices.Equal(got[2], rows[1]) {
		t.Errorf("rows are %q", got)
	}
	if said := got[0][3] + " " + got[1][3]; said != rows[0][3] {
		t.Errorf("the reason is %q", said)
	}
	for _, width := range []int{0, 50} { // no terminal; no room
		if got := wrapLast(rows, width); len(got) != 2 {
			t.Errorf("%d columns: %q", width, got)
		}
	}
}
