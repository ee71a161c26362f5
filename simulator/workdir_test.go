package simulator

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

func TestOnlyWhatKilledProcessesLeftIsSwept(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	old := time.Now().Add(-time.Hour)
	for name, at := range map[string]time.Time{
		"ctis-build-1": old, "ctis-program-22": old, "ctis-build-3": time.Now(), "ctis-build-mine": old, "other-4": old, "ctis-build-": old,
	} {
		dir := filepath.Join(tmp, name)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "f"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(dir, at, at); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("other-4", filepath.Join(tmp, "ctis-build-5")); err != nil {
		t.Fatal(err)
	}
	held, done, err := makeWorkDir("ctis-build-") // sweeps, too
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(held, old, old); err != nil { // a build that takes an hour
		t.Fatal(err)
	}
	names := func() (out []string) {
		entries, err := os.ReadDir(tmp)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			out = append(out, e.Name())
		}
		slices.Sort(out)
		return out
	}
	rest := []string{"ctis-build-", "ctis-build-3", "ctis-build-5", "ctis-build-mine", "other-4"}
	want := slices.Sorted(slices.Values(append([]string{filepath.Base(held)}, rest...)))
	if n := SweepWork(); n != 0 || !slices.Equal(names(), want) {
		t.Errorf("%d more are removed, left are %q, not %q", n, names(), want)
	}
	if err := done(); err != nil || !slices.Equal(names(), rest) {
		t.Errorf("at the end: %v, left are %q", err, names())
	}
}
