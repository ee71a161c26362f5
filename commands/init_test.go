package commands

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func TestOneOfManyWritesTheWholeFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ctis.toml")
	var wg sync.WaitGroup
	errs := make([]error, 16)
	for i := range errs {
		wg.Go(func() { errs[i] = writeWhole(path, []byte(strings.Repeat(string(rune('a'+i)), 1<<16)), false) })
	}
	wg.Wait()
	winner := -1
	for i, err := range errs {
		var usage *usageError
		switch {
		case err == nil && winner < 0:
			winner = i
		case err == nil:
			t.Errorf("%d and %d both wrote it", winner, i)
		case !errors.As(err, &usage):
			t.Error(err)
		}
	}
	if winner < 0 {
		t.Fatal("nobody wrote it")
	}
	content, err := os.ReadFile(path)
	if want := strings.Repeat(string(rune('a'+winner)), 1<<16); err != nil || string(content) != want {
		t.Errorf("%d bytes, %v; they should be those of %d", len(content), err, winner)
	}
	if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 1 {
		t.Errorf("left are %v, %v", entries, err)
	}
}

func TestForceReplacesAndAFailureLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "ctis.toml")
	for _, content := range []string{"one", "two"} {
		if err := writeWhole(path, []byte(content), true); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != content {
			t.Errorf("%q, %v", got, err)
		}
	}
	blocked := filepath.Join(dir, "blocked")
	if err := os.MkdirAll(filepath.Join(blocked, "ctis.toml", "full"), 0o755); err != nil {
		t.Fatal(err)
	}
	var hinted *hintedError
	if err := writeWhole(filepath.Join(blocked, "ctis.toml"), []byte("x"), true); !errors.As(err, &hinted) {
		t.Errorf("a directory in its place: %v", err)
	}
	if entries, err := os.ReadDir(blocked); err != nil || len(entries) != 1 {
		t.Errorf("left are %v, %v", entries, err)
	}
	if err := writeWhole(filepath.Join(dir, "nowhere", "ctis.toml"), []byte("x"), false); !errors.As(err, &hinted) {
		t.Errorf("no directory: %v", err)
	}
}
