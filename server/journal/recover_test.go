package journal

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/linuxarena/ctis/server/api"
)

// sample writes a few records of both sorts and returns the file's bytes.
func sample(t *testing.T) []byte {
	t.Helper()
	s := openStore(t, Options{})
	j := journalOf(t, s, "t1")
	mustAppend(t, j, exchange("/1"))
	r := running("/2")
	mustAppend(t, j, r)
	mustAppend(t, j, exchange("/3"))
	if err := j.Finish(r.Seq, &api.Outcome{Response: &api.Response{Status: 200}}); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, j, exchange("/4"))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(j.path())
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// reopen opens a store over one journal file with the given bytes.
func reopen(t *testing.T, content []byte) (*Store, *Journal) {
	t.Helper()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "journal", "t1"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "journal", "t1", "journal.jsonl"), content, 0o600); err != nil {
		t.Fatal(err)
	}
	s := openStore(t, Options{Dir: filepath.Join(dir, "journal")})
	j, ok := s.Lookup("t1")
	if !ok {
		t.Fatal("the journal was not found again")
	}
	return s, j
}

func TestACrashAtAnyByteKeepsEveryCompleteLine(t *testing.T) {
	whole := sample(t)
	start := len(whole)
	for range 3 { // the last record and the outcome before it
		start = bytes.LastIndexByte(whole[:start], '\n')
	}
	for n := start; n <= len(whole); n++ {
		content := whole[:n]
		complete := content[:bytes.LastIndexByte(content, '\n')+1]
		s, j := reopen(t, content)

		mustAppend(t, j, exchange("/after"))
		lines := stored(t, j)
		checkChain(t, lines)
		kept := bytes.Join(lines[:len(lines)-1], []byte("\n"))
		if !bytes.Equal(kept, bytes.TrimSuffix(complete, []byte("\n"))) {
			t.Fatalf("cut at byte %d: complete lines were lost or changed", n)
		}
		cut, err := os.ReadFile(j.path() + ".cut-1")
		if torn := content[len(complete):]; len(torn) == 0 {
			if err == nil || len(s.Problems()) != 0 {
				t.Fatalf("cut at byte %d: problems %q without a torn line", n, s.Problems())
			}
		} else if !bytes.Equal(cut, torn) || len(s.Problems()) != 1 {
			t.Fatalf("cut at byte %d: %d torn bytes, %d set aside, problems %q", n, len(torn), len(cut), s.Problems())
		}
		s.Close()
	}
}

func TestTailDamageIsSetAside(t *testing.T) {
	whole := sample(t)
	lines := bytes.SplitAfter(bytes.TrimSuffix(whole, []byte("\n")), []byte("\n"))
	last := lines[len(lines)-1]
	before := whole[:len(whole)-len(last)-1]
	relinked := bytes.Replace(last, []byte(`"prev":"`), []byte(`"prev":"0`), 1)
	tests := map[string][]byte{
		"zeros":                    make([]byte, 5000),
		"zeros with newlines":      []byte("\x00\x00\n\x00\x00\x00\n"),
		"not JSON":                 []byte("{\"seq\":6,\n"),
		"JSON of another sort":     []byte("{\"a\":1}\n"),
		"a line with a wrong link": append(bytes.Replace(relinked, []byte(`","id"`), []byte(`"id"`), 1), '\n'),
	}
	wrong := bytes.Clone(last)
	i := bytes.Index(wrong, []byte(`"prev":"`)) + len(`"prev":"`)
	copy(wrong[i:], zeroPrev)
	tests["a line that links elsewhere"] = append(wrong, '\n')

	for name, tail := range tests {
		t.Run(name, func(t *testing.T) {
			s, j := reopen(t, append(bytes.Clone(before), tail...))
			got, err := os.ReadFile(j.path())
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, before) {
				t.Errorf("%d bytes remain, want the %d before the damage", len(got), len(before))
			}
			if cut, _ := os.ReadFile(j.path() + ".cut-1"); !bytes.Equal(cut, tail) {
				t.Errorf("%d bytes were set aside, want %d", len(cut), len(tail))
			}
			if p := s.Problems(); len(p) != 1 || !strings.Contains(p[0], "cut-1") {
				t.Errorf("problems %q", p)
			}
			mustAppend(t, j, exchange("/after"))
			checkChain(t, stored(t, j))
		})
	}
}

func TestSettingAsideNeverOverwrites(t *testing.T) {
	whole := sample(t)
	s, j := reopen(t, whole[:len(whole)-3])
	s.Close()
	if err := os.WriteFile(j.path(), whole[:len(whole)-2], 0o600); err != nil {
		t.Fatal(err)
	}
	s = openStore(t, Options{Dir: filepath.Dir(j.dir)})
	first, err1 := os.ReadFile(j.path() + ".cut-1")
	second, err2 := os.ReadFile(j.path() + ".cut-2")
	if err1 != nil || err2 != nil || len(second) != len(first)+1 {
		t.Errorf("set aside %d (%v) and %d bytes (%v); problems %q", len(first), err1, len(second), err2, s.Problems())
	}
}

func TestDamageInTheMiddleIsReportedAndNothingDeleted(t *testing.T) {
	whole := sample(t)
	second := bytes.IndexByte(whole, '\n') + 1
	tests := map[string]func(b []byte){
		"a changed byte that stays JSON": func(b []byte) {
			copy(b[bytes.Index(b, []byte("filebin.net")):], "fileb1n.net")
		},
		"a line of zeros": func(b []byte) { clear(b[second : second+40]) },
	}
	for name, damage := range tests {
		t.Run(name, func(t *testing.T) {
			content := bytes.Clone(whole)
			damage(content)
			s, j := reopen(t, content)
			if got, _ := os.ReadFile(j.path()); !bytes.Equal(got, content) {
				t.Error("the file was changed")
			}
			if p := s.Problems(); len(p) == 0 || !strings.Contains(p[0], "t1") {
				t.Errorf("problems %q", p)
			}
			r := exchange("/after")
			mustAppend(t, j, r)
			if r.Seq != 5 {
				t.Errorf("the next record has number %d, want 5", r.Seq)
			}
			lines := stored(t, j)
			if r.Prev != string(digest(lines[len(lines)-2])) {
				t.Error("the next record does not link to the last one")
			}
			if got := read(t, j, api.JournalQuery{}); len(got) < 4 || !strings.HasSuffix(targets(t, got), "/3 /4 /after") {
				t.Errorf("reading gives %d records", len(got))
			}
		})
	}
}

func TestReopeningRestoresEveryCount(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "journal")
	s := openStore(t, Options{Dir: dir, BodyLimit: 100 << 10})
	j := journalOf(t, s, "t1")
	for i := range 5 {
		sp := j.NewSpool()
		fmt.Fprint(sp, strings.Repeat("x", 40<<10*(i+1)))
		sp.Close()
		r := exchange("/")
		r.Request.Body = j.Keep(sp)
		mustAppend(t, j, r)
		sp.Discard()
	}
	want := j.Status()
	if want.Truncated != 3 || want.Records != 5 {
		t.Fatalf("status %+v before reopening", want)
	}
	s.Close()
	s = openStore(t, Options{Dir: dir})
	j, _ = s.Lookup("t1")
	if got := j.Status(); got != want {
		t.Errorf("status %+v after reopening, want %+v", got, want)
	}
}

func TestSpoolsOfADeadProcessAreSwept(t *testing.T) {
	dir := t.TempDir()
	temp := filepath.Join(dir, "tmp")
	s := openStore(t, Options{Dir: filepath.Join(dir, "journal"), Temp: temp})
	sp := journalOf(t, s, "t1").NewSpool()
	io.CopyN(sp, zeros{}, 100<<10)
	if err := os.WriteFile(filepath.Join(temp, "other"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	openStore(t, Options{Dir: filepath.Join(dir, "journal2"), Temp: temp})
	left, err := os.ReadDir(temp)
	if err != nil || len(left) != 1 || left[0].Name() != "other" {
		t.Errorf("left behind: %v (%v)", left, err)
	}
}

func TestAJournalThatCannotBeReadHoldsUpNoOther(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "journal")
	if err := os.MkdirAll(filepath.Join(dir, "bad", "journal.jsonl"), 0o700); err != nil { // a directory where the file belongs
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "lost+found"), 0o700); err != nil {
		t.Fatal(err)
	}
	s := openStore(t, Options{Dir: dir})
	mustAppend(t, journalOf(t, s, "good"), exchange("/"))
	if err := journalOf(t, s, "bad").Append(exchange("/")); !errors.Is(err, ErrStorage) {
		t.Errorf("appending to the unreadable one: %v, want ErrStorage", err)
	}
	if p := s.Problems(); len(p) != 1 || !strings.Contains(p[0], `"bad"`) {
		t.Errorf("problems %q", p)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }
