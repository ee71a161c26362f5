package journal

import (
	"errors"
	"testing"

	"github.com/linuxarena/ctis/server/api"
)

// TestTwoRunsOfOneIDNeverStandInOneJournal: the earlier journal is set aside,
// stays readable under its own name also after a restart, and takes nothing more.
func TestTwoRunsOfOneIDNeverStandInOneJournal(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, Options{Dir: dir})
	var kept []*Journal
	for run := range 3 {
		j, err := s.Begin("t1")
		if err != nil {
			t.Fatal(err)
		}
		if again, err := s.Begin("t1"); err != nil || again != j {
			t.Fatalf("an empty journal is not used on: %v", err)
		}
		for range run + 1 {
			if err := j.Append(&api.Record{Kind: api.KindRefused}); err != nil {
				t.Fatal(err)
			}
		}
		kept = append(kept, j)
	}
	check := func(s *Store) {
		t.Helper()
		for name, want := range map[string]uint64{"t1~1": 1, "t1~2": 2, "t1": 3} {
			j, ok := s.Lookup(name)
			if !ok || j.Status().Records != want {
				t.Errorf("%s: %v %+v", name, ok, j)
				continue
			}
			n := uint64(0)
			err := j.Read(t.Context(), api.JournalQuery{}, func([]byte) error { n++; return nil })
			if err != nil || n != want {
				t.Errorf("%s: %d records read, %v", name, n, err)
			}
		}
	}
	check(s)
	if err := kept[0].Append(&api.Record{Kind: api.KindRefused}); !errors.Is(err, ErrStorage) {
		t.Errorf("a journal that was set aside takes a record: %v", err)
	}
	if _, err := s.Journal("t1~1"); err != nil {
		t.Errorf("%v", err) // there already, so it is found
	}
	if _, err := s.Journal("t1~9"); err == nil {
		t.Error("an archived name is created")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	check(openStore(t, Options{Dir: dir}))
}

// TestFollowingEndsWithTheJournal: who follows a run is not left waiting when the
// next one begins.
func TestFollowingEndsWithTheJournal(t *testing.T) {
	s := openStore(t, Options{Dir: t.TempDir()})
	j, err := s.Begin("t1")
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Append(&api.Record{Kind: api.KindRefused}); err != nil {
		t.Fatal(err)
	}
	seen := make(chan struct{})
	ended := make(chan error)
	go func() {
		ended <- j.Read(t.Context(), api.JournalQuery{Follow: true}, func([]byte) error { close(seen); return nil })
	}()
	<-seen
	if _, err := s.Begin("t1"); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("following ended with %v", err)
	}
}
