package journal

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/linuxarena/ctis/server/api"
)

// bulky is a record of about 32 KiB, which tight holds seven times at most.
func bulky() *api.Record {
	return exchange("/" + strings.Repeat("x", 32<<10))
}

// tight opens a store without room for more than 256 KiB of lines.
func tight(t *testing.T, dir string) *Store {
	t.Helper()
	s := openStore(t, Options{Dir: dir, Temp: filepath.Join(t.TempDir(), "tmp"), Quota: 1})
	s.slack = 256 << 10
	return s
}

// gaps adds up what gap records tell.
func gaps(t *testing.T, j *Journal) (told uint64, lines int) {
	t.Helper()
	for _, line := range read(t, j, api.JournalQuery{Kinds: []string{api.KindGap}}) {
		r := parse(t, line)
		told += r.Dropped
		lines++
		if r.Error == "" || r.Trajectory != "t1" || r.Time.IsZero() || r.ID == "" {
			t.Errorf("gap record %+v", r)
		}
	}
	return told, lines
}

func TestBeyondTheQuotaBodiesAreLeftOutAndRequestsRecorded(t *testing.T) {
	s := openStore(t, Options{Quota: 4 << 10})
	j := journalOf(t, s, "t1")
	var truncated uint64
	for range 20 {
		sp := spool(t, j, bytes.Repeat([]byte("b"), 500))
		r := exchange("/")
		r.Request.Body = j.Keep(sp)
		if r.Request.Body.Truncated {
			truncated++
			if b := r.Request.Body; b.Size != 500 || b.Content != "" || b.Encoding != api.EncodingNone || b.SHA256 != hexSum(bytes.Repeat([]byte("b"), 500)) {
				t.Errorf("left out as %+v", b)
			}
			if sp.Whole() {
				t.Error("a body that was left out is said to be whole")
			}
		}
		mustAppend(t, j, r)
	}
	if st := j.Status(); truncated == 0 || truncated == 20 || st.Truncated != truncated || st.Records != 20 || st.Dropped != 0 {
		t.Errorf("%d truncated, status %+v", truncated, st)
	}
}

func TestBeyondTheSlackRequestsAreDroppedOnRecord(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "journal")
	s := tight(t, dir)
	j := journalOf(t, s, "t1")
	const n = 200
	for range n {
		r := bulky()
		mustAppend(t, j, r)
		if r.Seq == 0 {
			r.Response = nil
			if err := j.Finish(r.Seq, &api.Outcome{}); err != nil {
				t.Errorf("finishing a dropped exchange: %v", err)
			}
		}
	}
	dropped := j.Status().Dropped
	recorded := uint64(n) - dropped
	if recorded == 0 || recorded > 8 {
		t.Fatalf("%d of %d recorded", recorded, n)
	}
	told, lines := gaps(t, j)
	if told == 0 || told > dropped || told < dropped-dropped/8 || lines > 60 {
		t.Errorf("%d gap records tell %d of %d drops", lines, told, dropped)
	}
	small := exchange("/small") // fits again: the gap before it must be complete
	mustAppend(t, j, small)
	if told, _ := gaps(t, j); told != dropped {
		t.Errorf("gap records tell %d of %d drops before a record that fits", told, dropped)
	}
	if got := read(t, j, api.JournalQuery{Limit: 1}); targets(t, got) != "/small" {
		t.Error("the small record is not the last")
	}
	checkChain(t, stored(t, j))
	mustAppend(t, j, bulky())
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	s = tight(t, dir)
	j, _ = s.Lookup("t1")
	if told, _ := gaps(t, j); told != dropped+1 || j.Status().Dropped != dropped+1 {
		t.Errorf("after reopening gaps tell %d, status %d, want %d", told, j.Status().Dropped, dropped+1)
	}
	checkChain(t, stored(t, j))
}

func TestAKilledProcessLosesNoCountOfDrops(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "journal")
	s := tight(t, dir)
	j := journalOf(t, s, "t1")
	for range 60 {
		mustAppend(t, j, bulky())
	}
	want := j.Status().Dropped
	if told, _ := gaps(t, j); told == want {
		t.Fatal("every drop is told already; the test shows nothing")
	}
	// Not closed: as after kill -9. The second store finds what is on the disk.
	again := tight(t, dir)
	k, _ := again.Lookup("t1")
	if told, _ := gaps(t, k); told != want || k.Status().Dropped != want {
		t.Errorf("gaps tell %d, status %d, want %d", told, k.Status().Dropped, want)
	}
	j.drops.told = j.drops.total // the first store must not write at Close
}

func TestADropThatCannotBeCountedIsNotAcknowledged(t *testing.T) {
	s := tight(t, filepath.Join(t.TempDir(), "journal"))
	j := journalOf(t, s, "t1")
	for range 8 {
		mustAppend(t, j, bulky())
	}
	j.mu.Lock()
	j.dir = filepath.Join(j.dir, "gone")
	before := j.drops.total
	j.mu.Unlock()
	if err := j.Append(bulky()); !errors.Is(err, ErrStorage) {
		t.Errorf("Append: %v, want ErrStorage", err)
	}
	if got := j.Status().Dropped; got != before {
		t.Errorf("%d drops counted, want %d", got, before)
	}
}

func TestADamagedCountOfDropsIsSetAside(t *testing.T) {
	for name, content := range map[string]string{
		"nothing":         "",
		"garbage":         "\x00\x00\x00garbage",
		"half of it":      "0000000",
		"too large":       "99999999999999999999\n",
		"beyond counting": "18446744073709551615\n",
	} {
		dir := filepath.Join(t.TempDir(), "journal")
		s := tight(t, dir)
		j := journalOf(t, s, "t1")
		for range 60 {
			mustAppend(t, j, bulky())
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		want := j.Status()
		path := filepath.Join(dir, "t1", "dropped")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		again := tight(t, dir)
		k := journalOf(t, again, "t1")
		if got := k.Status(); got != want {
			t.Errorf("%s: status %+v, want %+v", name, got, want)
		}
		if p := again.Problems(); len(p) != 1 || !strings.Contains(p[0], "dropped.damaged-1") {
			t.Errorf("%s: problems %q", name, p)
		}
		if b, err := os.ReadFile(path + ".damaged-1"); err != nil || string(b) != content {
			t.Errorf("%s: set aside: %q, %v", name, b, err)
		}
		mustAppend(t, k, bulky()) // one more drop, counted again
		if got := k.Status().Dropped; got != want.Dropped+1 {
			t.Errorf("%s: %d dropped, want %d", name, got, want.Dropped+1)
		}
		if err := again.Close(); err != nil {
			t.Fatal(err)
		}
		if third := tight(t, dir); len(third.Problems()) > 0 {
			t.Errorf("%s: still reported: %q", name, third.Problems())
		}
	}
}

// TestWhatAFullDiskHadNoRoomForIsOnRecordOnce counts while nothing can be written, also
// over the end of the process, and looks for the number once there is room.
func TestWhatAFullDiskHadNoRoomForIsOnRecordOnce(t *testing.T) {
	for _, killed := range []bool{false, true} {
		d := &disk{room: 1 << 20}
		s, j := openOn(t, d)
		mustAppend(t, j, exchange("/1"))
		if err := j.sync(); err != nil {
			t.Fatal(err)
		}
		d.set(func(d *disk) { d.room = j.Status().Bytes })
		for range 7 {
			if err := j.Append(exchange("/lost")); !errors.Is(err, ErrStorage) {
				t.Fatal(err)
			}
			j.Missed()
		}
		if err := j.TellMissed(); !errors.Is(err, ErrStorage) {
			t.Errorf("told of on a full disk: %v", err)
		}
		if st := j.Status(); st.Dropped != 7 || st.Records != 1 {
			t.Errorf("status %+v", st)
		}
		if killed {
			// Not closed: as after kill -9. The second store finds what is on the disk.
			s = openStore(t, Options{Dir: filepath.Dir(j.dir)})
			j.closed = true // the first must not write any more
			j, _ = s.Lookup("t1")
		} else {
			d.set(func(d *disk) { d.room = 1 << 20 })
			if err := errors.Join(j.TellMissed(), j.TellMissed()); err != nil {
				t.Fatal(err)
			}
		}
		mustAppend(t, j, exchange("/2"))
		checkTold := func(j *Journal) {
			t.Helper()
			lines := read(t, j, api.JournalQuery{})
			checkChain(t, lines)
			if len(lines) != 3 {
				t.Fatalf("%d records", len(lines))
			}
			if r := parse(t, lines[1]); r.Kind != api.KindGap || r.Dropped != 7 || !strings.Contains(r.Error, "7 requests have no record and were not acknowledged") {
				t.Errorf("killed %v: %+v", killed, r)
			}
			if st := j.Status(); st.Dropped != 7 || st.Records != 3 {
				t.Errorf("status %+v", st)
			}
		}
		checkTold(j)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		again := openStore(t, Options{Dir: filepath.Dir(j.dir)})
		j, _ = again.Lookup("t1")
		checkTold(j)
		if err := again.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestBothCausesOfGapsAreCountedApart: what one of them is told of is not taken for the
// other's, also after another start.
func TestBothCausesOfGapsAreCountedApart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "journal")
	s := tight(t, dir)
	j := journalOf(t, s, "t1")
	for range 20 {
		mustAppend(t, j, bulky())
	}
	j.Missed()
	want := j.Status()
	if want.Dropped < 10 {
		t.Fatalf("status %+v", want)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		s = tight(t, dir)
		j, _ = s.Lookup("t1")
		var quota, disk uint64
		for _, line := range read(t, j, api.JournalQuery{Kinds: []string{api.KindGap}}) {
			if r := parse(t, line); strings.Contains(r.Error, "quota") {
				quota += r.Dropped
			} else {
				disk += r.Dropped
			}
		}
		if disk != 1 || quota != want.Dropped-1 || j.Status().Dropped != want.Dropped {
			t.Errorf("told are %d for quota and %d for the disk, status %+v, want %d in all", quota, disk, j.Status(), want.Dropped)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
