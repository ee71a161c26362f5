package journal

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/linuxarena/ctis/server/api"
)

// TestAnEndThatIsMissingIsTold takes whole lines off the end of a journal, which leaves a
// chain without a fault.
func TestAnEndThatIsMissingIsTold(t *testing.T) {
	for name, c := range map[string]struct {
		segment int64
		take    func(t *testing.T, dir string)
		lost    uint64
	}{
		"three lines":            {1 << 20, func(t *testing.T, dir string) { dropLines(t, filepath.Join(dir, firstSegment), 3) }, 3},
		"all lines":              {1 << 20, func(t *testing.T, dir string) { dropLines(t, filepath.Join(dir, firstSegment), 10) }, 10},
		"the file":               {1 << 20, func(t *testing.T, dir string) { remove(t, filepath.Join(dir, firstSegment)) }, 10},
		"the last segment":       {1, func(t *testing.T, dir string) { remove(t, filepath.Join(dir, segment{n: 10}.name())) }, 1},
		"nothing":                {1 << 20, func(*testing.T, string) {}, 0},
		"what was flushed, also": {1 << 20, func(t *testing.T, dir string) { remove(t, filepath.Join(dir, "flushed")) }, 0},
	} {
		dir := t.TempDir()
		s := openStore(t, Options{Dir: dir, Segment: c.segment})
		j := journalOf(t, s, "t1")
		for range 10 {
			mustAppend(t, j, exchange("/"))
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		c.take(t, j.dir)
		for again := range 2 {
			s = openStore(t, Options{Dir: dir, Segment: c.segment})
			j, _ = s.Lookup("t1")
			if p := strings.Join(s.Problems(), "\n"); (again == 0 && c.lost > 0) != strings.Contains(p, "its end is missing") {
				t.Errorf("%s, opening %d: problems %q", name, again, p)
			}
			lines := read(t, j, api.JournalQuery{})
			checkChain(t, lines)
			told, _ := gaps(t, j)
			if told != c.lost || j.Status().Dropped != c.lost || len(lines) != 10-int(c.lost)+map[bool]int{true: 1}[c.lost > 0] {
				t.Errorf("%s, opening %d: gaps tell %d, status %+v, %d records", name, again, told, j.Status(), len(lines))
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func dropLines(t *testing.T, path string, n int) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfter(b, []byte("\n"))
	if err := os.WriteFile(path, bytes.Join(lines[:len(lines)-1-n], nil), 0o600); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}
