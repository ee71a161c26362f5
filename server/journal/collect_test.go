package journal

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/linuxarena/ctis/server/api"
)

func refusedOnce(t *testing.T, s *Store, name string) {
	t.Helper()
	j, err := s.Begin(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Append(&api.Record{Kind: api.KindRefused}); err != nil {
		t.Fatal(err)
	}
}

func names(t *testing.T, s *Store) []string {
	t.Helper()
	list, err := s.List()
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, i := range list {
		all = append(all, i.Name)
	}
	return all
}

func TestRemovedJournalIsGoneAndTheOthersStay(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, Options{Dir: dir})
	for _, name := range []string{"t1", "t1", "t1", "t2"} {
		refusedOnce(t, s, name)
	}
	if _, err := s.Journal(api.Unattributed); err != nil {
		t.Fatal(err)
	}
	if got := names(t, s); !slices.Equal(got, []string{"t1", "t1~1", "t1~2", "t2"}) {
		t.Fatalf("listed are %q", got)
	}
	list, _ := s.List()
	if i := list[1]; i.Trajectory != "t1" || i.Records != 1 || i.Bytes == 0 || time.Since(i.Last) > time.Minute {
		t.Errorf("described as %+v", i)
	}
	soon := time.Now().Add(time.Minute)
	for name, known := range map[string]bool{"t1~1": true, "t9": false, api.Unattributed: false, "../x": false} {
		if got, err := s.Remove(name, soon); got != known || err != nil {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	if known, err := s.Remove("t2", time.Now().Add(-time.Minute)); !known || !errors.Is(err, ErrNewer) {
		t.Errorf("one that is newer: %v, %v", known, err)
	}
	// The next one to be set aside does not take the place of the removed one.
	refusedOnce(t, s, "t1")
	want := []string{"t1", "t1~2", "t1~3", "t2"}
	if got := names(t, s); !slices.Equal(got, want) {
		t.Errorf("listed are %q", got)
	}
	if _, err := os.Stat(filepath.Join(dir, "t1~1")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("its directory: %v", err)
	}
	if p := s.Problems(); len(p) != 0 {
		t.Errorf("problems: %q", p)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if got := names(t, openStore(t, Options{Dir: dir})); !slices.Equal(got, want) {
		t.Errorf("after a restart listed are %q", got)
	}
}

func TestWhatIsRemovedTakesNoMore(t *testing.T) {
	s := openStore(t, Options{})
	refusedOnce(t, s, "t1")
	j, _ := s.Lookup("t1")
	if _, err := s.Remove("t1", time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if err := j.Append(&api.Record{Kind: api.KindRefused}); !errors.Is(err, ErrStorage) {
		t.Errorf("a removed journal takes a record: %v", err)
	}
	refusedOnce(t, s, "t1") // and the id can be used again
}

func TestRemovalThatWasBrokenOffIsFinishedAtTheStart(t *testing.T) {
	dir := t.TempDir()
	left := filepath.Join(dir, removing+"t1~1", "bodies")
	if err := os.MkdirAll(left, 0o700); err != nil {
		t.Fatal(err)
	}
	s := openStore(t, Options{Dir: dir})
	if _, err := os.Stat(filepath.Dir(left)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it is still there: %v", err)
	}
	if got := names(t, s); len(got) != 0 {
		t.Errorf("listed are %q", got)
	}
}
