package journal

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/linuxarena/ctis/server/api"
)

// segmentFiles are the segments of a journal as they lie on the disk, in their order.
func segmentFiles(t *testing.T, dir string) (names []string, contents [][]byte) {
	t.Helper()
	segments, _, _, err := findSegments(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range segments {
		b, err := os.ReadFile(filepath.Join(dir, s.name()))
		if err != nil {
			t.Fatal(err)
		}
		names, contents = append(names, s.name()), append(contents, b)
	}
	return names, contents
}

// inSegments writes a hundred records, every fifth of them in two lines with three
// others between, to segments of at most limit bytes.
func inSegments(t *testing.T, dir string, limit int64) *Journal {
	t.Helper()
	s := openStore(t, Options{Dir: dir, Segment: limit})
	j := journalOf(t, s, "t1")
	fillRecords(t, j, 1, 100)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return j
}

func fillRecords(t *testing.T, j *Journal, from, to int) {
	t.Helper()
	var open []*api.Record
	for i := from; i <= to; i++ {
		r := exchange(fmt.Sprintf("/%d", i))
		if i%5 == 0 {
			r.Response = nil
			open = append(open, r)
		}
		mustAppend(t, j, r)
		for len(open) > 0 && (open[0].Seq+3 <= r.Seq || i == to) {
			if err := j.Finish(open[0].Seq, &api.Outcome{Response: &api.Response{Status: 204}}); err != nil {
				t.Fatal(err)
			}
			open = open[1:]
		}
	}
}

func TestAJournalInSegmentsIsOneJournal(t *testing.T) {
	const limit = 2000
	dir := t.TempDir()
	j := inSegments(t, dir, limit)
	names, contents := segmentFiles(t, j.dir)
	if len(names) < 15 || names[0] != "journal.jsonl" || names[1] != "journal-000002.jsonl" {
		t.Fatalf("segments are %q", names)
	}
	for i, b := range contents {
		if len(b) > limit || len(b) == 0 || b[len(b)-1] != '\n' {
			t.Errorf("segment %s has %d bytes", names[i], len(b))
		}
	}
	before := j.Status()
	if before.Records != 100 || before.Bytes != int64(len(bytes.Join(contents, nil))) {
		t.Errorf("status is %+v", before)
	}

	s := openStore(t, Options{Dir: dir, Segment: limit})
	j, _ = s.Lookup("t1")
	if got := j.Status(); got != before || len(s.Problems()) > 0 {
		t.Errorf("opened again: %+v, problems %q", got, s.Problems())
	}
	j.Live()
	next, stop := following(t, j, api.JournalQuery{Raw: true})
	for range 100 + 20 {
		next()
	}
	fillRecords(t, j, 101, 150)
	for range 50 + 10 {
		next()
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	_, contents = segmentFiles(t, j.dir)
	whole := bytes.Join(contents, nil)
	checkChain(t, bytes.Split(bytes.TrimSuffix(whole, []byte("\n")), []byte("\n")))
	if raw := bytes.Join(read(t, j, api.JournalQuery{Raw: true}), []byte("\n")); !bytes.Equal(append(raw, '\n'), whole) {
		t.Error("the stored lines are not those of the segments one after another")
	}
	var want []string
	for i := range 150 {
		want = append(want, fmt.Sprintf("/%d", i+1))
	}
	joined := read(t, j, api.JournalQuery{})
	if got := targets(t, joined); got != strings.Join(want, " ") {
		t.Errorf("records are of %s", got)
	}
	for _, line := range joined {
		if r := parse(t, line); r.Response == nil || r.Response.Status != map[bool]int{true: 204, false: 200}[r.Seq%5 == 0] {
			t.Errorf("record %d has response %+v", r.Seq, r.Response)
		}
	}
	if got := targets(t, read(t, j, api.JournalQuery{Limit: 42})); got != strings.Join(want[150-42:], " ") {
		t.Errorf("the newest are of %s", got)
	}
	if got := targets(t, read(t, j, api.JournalQuery{First: 60, Last: 90})); got != strings.Join(want[59:90], " ") {
		t.Errorf("60 to 90 are of %s", got)
	}
}

func TestALineLongerThanASegmentHasOneOfItsOwn(t *testing.T) {
	s := openStore(t, Options{Segment: 1000})
	j := journalOf(t, s, "t1")
	for _, target := range []string{"/" + strings.Repeat("x", 5000), "/1", "/" + strings.Repeat("y", 5000), "/2"} {
		mustAppend(t, j, exchange(target))
	}
	names, contents := segmentFiles(t, j.dir)
	if len(names) != 4 {
		t.Errorf("segments are %q", names)
	}
	for i, b := range contents {
		if n := bytes.Count(b, []byte("\n")); n != 1 {
			t.Errorf("%s has %d lines", names[i], n)
		}
	}
}

// TestACrashAtAnyByteOfTheLastSegment: whatever is left of it, what is complete stays, the
// rest is set aside, and the journal goes on.
func TestACrashAtAnyByteOfTheLastSegment(t *testing.T) {
	dir := t.TempDir()
	j := inSegments(t, dir, 2000)
	names, contents := segmentFiles(t, j.dir)
	last := names[len(names)-1]
	end := contents[len(contents)-1]
	before := bytes.Count(bytes.Join(contents[:len(contents)-1], nil), []byte("\n"))
	for cut := 0; cut <= len(end); cut++ {
		if cut < len(end)-60 && cut%17 > 0 {
			continue // byte by byte at the end only
		}
		state := t.TempDir()
		if err := os.CopyFS(filepath.Join(state, "t1"), os.DirFS(j.dir)); err != nil {
			t.Fatal(err)
		}
		remove(t, filepath.Join(state, "t1", "flushed")) // as if nothing was yet
		if err := os.WriteFile(filepath.Join(state, "t1", last), end[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		s := openStore(t, Options{Dir: state, Segment: 2000})
		again, _ := s.Lookup("t1")
		complete := before + bytes.Count(end[:cut], []byte("\n"))
		torn := cut > 0 && end[cut-1] != '\n'
		if got := len(read(t, again, api.JournalQuery{Raw: true})); got != complete {
			t.Fatalf("cut at %d: %d lines, want %d", cut, got, complete)
		}
		if p := s.Problems(); len(p) != map[bool]int{true: 1}[torn] || torn && !strings.Contains(p[0], last+".cut-1") {
			t.Fatalf("cut at %d: problems %q", cut, p)
		}
		mustAppend(t, again, exchange("/after"))
		checkChain(t, read(t, again, api.JournalQuery{Raw: true}))
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestDamageToSegmentsIsTold(t *testing.T) {
	dir := t.TempDir()
	j := inSegments(t, dir, 2000)
	names, contents := segmentFiles(t, j.dir)
	at := func(i int) string { return names[i] }
	n := len(names)
	for name, c := range map[string]struct {
		damage func(dir string) error
		says   string
		lines  int // that are gone
	}{
		"one is missing":       {func(d string) error { return os.Remove(filepath.Join(d, at(3))) }, `segment "journal-000004.jsonl" is missing`, bytes.Count(contents[3], []byte("\n"))},
		"the first is missing": {func(d string) error { return os.Remove(filepath.Join(d, at(0))) }, `segment "journal.jsonl" is missing`, bytes.Count(contents[0], []byte("\n"))},
		"one is cut short":     {func(d string) error { return os.Truncate(filepath.Join(d, at(3)), int64(len(contents[3])-10)) }, "is damaged", 0},
		"one is empty":         {func(d string) error { return os.Truncate(filepath.Join(d, at(3)), 0) }, "does not link", bytes.Count(contents[3], []byte("\n"))},
		"two changed places": {func(d string) error {
			return errors.Join(os.WriteFile(filepath.Join(d, at(3)), contents[4], 0o600), os.WriteFile(filepath.Join(d, at(4)), contents[3], 0o600))
		}, "does not link", 0},
		"the last two are junk": {func(d string) error {
			return errors.Join(os.WriteFile(filepath.Join(d, at(n-2)), []byte("junk\n"), 0o600), os.WriteFile(filepath.Join(d, at(n-1)), []byte("junk"), 0o600))
		}, at(n-1) + ".cut-1", bytes.Count(bytes.Join(contents[n-2:], nil), []byte("\n"))},
	} {
		state := t.TempDir()
		if err := os.CopyFS(filepath.Join(state, "t1"), os.DirFS(j.dir)); err != nil {
			t.Fatal(err)
		}
		remove(t, filepath.Join(state, "t1", "flushed")) // as if nothing was yet
		if err := c.damage(filepath.Join(state, "t1")); err != nil {
			t.Fatal(err)
		}
		s := openStore(t, Options{Dir: state, Segment: 2000})
		again, _ := s.Lookup("t1")
		if p := strings.Join(s.Problems(), "\n"); !strings.Contains(p, c.says) {
			t.Errorf("%s: problems\n%s", name, p)
		}
		if got := len(read(t, again, api.JournalQuery{Raw: true})); got != 120-c.lines {
			t.Errorf("%s: %d lines, want %d", name, got, 120-c.lines)
		}
		mustAppend(t, again, exchange("/after"))
		lines := read(t, again, api.JournalQuery{Raw: true})
		if r := parse(t, lines[len(lines)-1]); r.Request == nil || r.Request.Target != "/after" || r.Prev != string(digest(lines[len(lines)-2])) {
			t.Errorf("%s: the next record is %+v", name, r)
		}
	}
}

// TestAReaderStaysWithItsJournal: the trajectory's next run has files of the same names.
func TestAReaderStaysWithItsJournal(t *testing.T) {
	s := openStore(t, Options{Segment: 2000})
	j, err := s.Begin("t1")
	if err != nil {
		t.Fatal(err)
	}
	fillRecords(t, j, 1, 100)
	n := 0
	err = j.Read(t.Context(), api.JournalQuery{}, func(line []byte) error {
		if n++; n == 1 {
			next, err := s.Begin("t1")
			if err != nil {
				return err
			}
			for range 100 {
				mustAppend(t, next, exchange("/next"))
			}
		}
		if r := parse(t, line); r.Request.Target != fmt.Sprintf("/%d", n) {
			return fmt.Errorf("record %d is of %s", n, r.Request.Target)
		}
		return nil
	})
	if err != nil || n != 100 {
		t.Errorf("%d records, %v", n, err)
	}
	if err := j.Read(t.Context(), api.JournalQuery{}, func([]byte) error { return io.EOF }); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("a journal that was set aside is read as if it were not: %v", err)
	}
}

// order is a disk that notes what is flushed when, and may refuse further files.
type order struct {
	mu      sync.Mutex
	flushed []string
	refuses bool
}

type orderFile struct {
	*os.File
	order *order
}

func (o *order) open(path string) (file, error) {
	o.mu.Lock()
	refuses := o.refuses
	o.mu.Unlock()
	if refuses {
		return nil, syscall.EMFILE
	}
	f, err := openJournalFile(path)
	if err != nil {
		return nil, err
	}
	return orderFile{f.(*os.File), o}, nil
}

func (f orderFile) Sync() error {
	f.order.mu.Lock()
	defer f.order.mu.Unlock()
	f.order.flushed = append(f.order.flushed, filepath.Base(f.Name()))
	return nil
}

func TestSegmentsAreFlushedInTheirOrder(t *testing.T) {
	o := &order{}
	s, err := open(Options{Dir: filepath.Join(t.TempDir(), "journal"), Segment: 1000, SyncEvery: 1 << 40}, o.open)
	if err != nil {
		t.Fatal(err)
	}
	j := journalOf(t, s, "t1")
	for range 10 {
		mustAppend(t, j, exchange("/"))
	}
	names, _ := segmentFiles(t, j.dir)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if len(names) < 4 || !slices.Equal(o.flushed, names) {
		t.Errorf("flushed %q of %q", o.flushed, names)
	}
}

func TestASegmentGoesOnWhereNoFurtherOneCanBeMade(t *testing.T) {
	o := &order{}
	s, err := open(Options{Dir: filepath.Join(t.TempDir(), "journal"), Segment: 1000}, o.open)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	j := journalOf(t, s, "t1")
	mustAppend(t, j, exchange("/"))
	o.mu.Lock()
	o.refuses = true
	o.mu.Unlock()
	for range 10 {
		mustAppend(t, j, exchange("/"))
	}
	if names, _ := segmentFiles(t, j.dir); len(names) != 1 {
		t.Errorf("segments are %q", names)
	}
	if p := s.Problems(); len(p) != 1 || !strings.Contains(p[0], "segment 1 goes on") {
		t.Errorf("problems %q", p)
	}
	o.mu.Lock()
	o.refuses = false
	o.mu.Unlock()
	for range 10 {
		mustAppend(t, j, exchange("/"))
	}
	if names, _ := segmentFiles(t, j.dir); len(names) < 3 {
		t.Errorf("segments are %q", names)
	}
	checkChain(t, read(t, j, api.JournalQuery{Raw: true}))
}
