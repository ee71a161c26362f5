package journal

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/linuxarena/ctis/server/api"
)

func openStore(t *testing.T, o Options) *Store {
	t.Helper()
	if o.Dir == "" {
		o.Dir = filepath.Join(t.TempDir(), "journal")
	}
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func journalOf(t *testing.T, s *Store, name string) *Journal {
	t.Helper()
	j, err := s.Journal(name)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// exchange is a record with its response, so in one line.
func exchange(target string) *api.Record {
	return &api.Record{
		Kind: api.KindWebhook,
		Request: &api.Request{
			Method: "POST", Host: "filebin.net", Target: target, Proto: "HTTP/1.1",
			Headers: [][2]string{{"Content-Type", "text/plain"}},
			Body:    api.Body{Encoding: api.EncodingUTF8},
		},
		Response: &api.Response{Status: 200},
	}
}

// running is a record whose outcome follows.
func running(target string) *api.Record {
	r := exchange(target)
	r.Response = nil
	return r
}

func mustAppend(t *testing.T, j *Journal, r *api.Record) {
	t.Helper()
	if err := j.Append(r); err != nil {
		t.Fatal(err)
	}
}

// stored returns the lines of a journal's file.
func stored(t *testing.T, j *Journal) [][]byte {
	t.Helper()
	b, err := os.ReadFile(j.path())
	if err != nil {
		t.Fatal(err)
	}
	if len(b) == 0 {
		return nil
	}
	return bytes.Split(bytes.TrimSuffix(b, []byte("\n")), []byte("\n"))
}

// checkChain fails the test unless lines link to each other and their records
// are numbered without gaps.
func checkChain(t *testing.T, lines [][]byte) {
	t.Helper()
	prev, seq := string(zeroPrev), uint64(0)
	for i, line := range lines {
		var l struct {
			Seq     uint64
			Prev    string
			Outcome bool
		}
		if err := json.Unmarshal(line, &l); err != nil {
			t.Fatalf("line %d is not JSON: %v", i, err)
		}
		if l.Prev != prev {
			t.Fatalf("line %d links to %s, the line before it is %s", i, l.Prev, prev)
		}
		prev = string(digest(line))
		if l.Outcome {
			continue
		}
		if seq++; l.Seq != seq {
			t.Fatalf("line %d has number %d, want %d", i, l.Seq, seq)
		}
	}
}

// read collects what Read yields.
func read(t *testing.T, j *Journal, q api.JournalQuery) [][]byte {
	t.Helper()
	var lines [][]byte
	err := j.Read(t.Context(), q, func(line []byte) error {
		lines = append(lines, bytes.Clone(line))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

func targets(t *testing.T, lines [][]byte) string {
	t.Helper()
	var all []string
	for _, l := range lines {
		var r api.Record
		if err := json.Unmarshal(l, &r); err != nil {
			t.Fatal(err)
		}
		all = append(all, r.Request.Target)
	}
	return strings.Join(all, " ")
}

func TestConcurrentAppendsAreGaplessLinkedAndAllPresent(t *testing.T) {
	s := openStore(t, Options{})
	j := journalOf(t, s, "t1")
	const writers, each = 16, 60
	var wg sync.WaitGroup
	acked := make([][]*api.Record, writers)
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				r := exchange(fmt.Sprintf("/webhook/%d/%d", w, i))
				if i%3 == 0 {
					r.Response = nil
				}
				if err := j.Append(r); err != nil {
					t.Error(err)
					return
				}
				if r.Response == nil {
					if err := j.Finish(r.Seq, &api.Outcome{Response: &api.Response{Status: 201}}); err != nil {
						t.Error(err)
					}
				}
				acked[w] = append(acked[w], r)
			}
		})
	}
	wg.Wait()
	lines := stored(t, j)
	checkChain(t, lines)

	byNumber := make(map[uint64]api.Record)
	for _, line := range read(t, j, api.JournalQuery{}) {
		var r api.Record
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatal(err)
		}
		byNumber[r.Seq] = r
	}
	for _, records := range acked {
		for _, r := range records {
			got := byNumber[r.Seq]
			if got.Request == nil || got.Request.Target != r.Request.Target || got.ID != r.ID || got.Prev != r.Prev {
				t.Fatalf("acknowledged record %d is not in the journal", r.Seq)
			}
			want := 200
			if r.Response == nil {
				want = 201
			}
			if got.Response == nil || got.Response.Status != want {
				t.Fatalf("record %d has response %v, want status %d", r.Seq, got.Response, want)
			}
		}
	}
	if st := j.Status(); st.Records != writers*each || st.Dropped != 0 {
		t.Errorf("status %+v, want %d records", st, writers*each)
	}
}

func TestAppendFillsInWhatIsMissing(t *testing.T) {
	s := openStore(t, Options{})
	r := exchange("/")
	mustAppend(t, journalOf(t, s, "t1"), r)
	if r.Seq != 1 || r.Prev != string(zeroPrev) || len(r.ID) != 26 || r.Time.IsZero() || r.Trajectory != "t1" {
		t.Errorf("record after Append: %+v", r)
	}
}

func TestAppendRefusesAnUnknownKind(t *testing.T) {
	s := openStore(t, Options{})
	j := journalOf(t, s, "t1")
	if err := j.Append(&api.Record{Kind: `x","y`}); err == nil || errors.Is(err, ErrStorage) {
		t.Errorf("error %v, want one that is not about storage", err)
	}
}

func TestFinishRefusesARecordThatAwaitsNothing(t *testing.T) {
	s := openStore(t, Options{})
	j := journalOf(t, s, "t1")
	r := running("/")
	mustAppend(t, j, r)
	if err := j.Finish(r.Seq, &api.Outcome{}); err != nil {
		t.Fatal(err)
	}
	for _, seq := range []uint64{r.Seq, 7} {
		if err := j.Finish(seq, &api.Outcome{}); err == nil {
			t.Errorf("Finish(%d) succeeded", seq)
		}
	}
}

func TestNamesThatAreNoIDAreRefused(t *testing.T) {
	s := openStore(t, Options{})
	for _, name := range []string{"", ".", "..", "a/b", "../x", "A", "_x", "-x", "a b", "a\x00", strings.Repeat("a", 64)} {
		if _, err := s.Journal(name); err == nil {
			t.Errorf("Journal(%q) succeeded", name)
		}
	}
	for _, name := range []string{"a", "0", "a_b-c", strings.Repeat("a", 63), api.Unattributed} {
		if _, err := s.Journal(name); err != nil {
			t.Errorf("Journal(%q): %v", name, err)
		}
		if _, ok := s.Lookup(name); !ok {
			t.Errorf("Lookup(%q) finds nothing after its creation", name)
		}
	}
	if _, ok := s.Lookup("absent"); ok {
		t.Error("Lookup creates journals")
	}
}

func TestBytesThatAreNotUTF8SurviveInTheHead(t *testing.T) {
	s := openStore(t, Options{})
	j := journalOf(t, s, "t1")
	r := exchange("/a\xff\xfe")
	r.Request.Headers = [][2]string{{"X-Odd", "caf\xe9 ü"}}
	r.Response.Headers = [][2]string{{"X-Back", "\x80"}}
	mustAppend(t, j, r)
	if r.Request.Target != "/a\xff\xfe" {
		t.Error("Append changed the caller's request")
	}
	var got api.Record
	if err := json.Unmarshal(read(t, j, api.JournalQuery{})[0], &got); err != nil {
		t.Fatal(err)
	}
	bytesOf := func(s string) string {
		var b []byte
		for _, c := range s {
			b = append(b, byte(c))
		}
		return string(b)
	}
	if got.Request.Charset != api.CharsetLatin1 || bytesOf(got.Request.Target) != "/a\xff\xfe" || bytesOf(got.Request.Headers[0][1]) != "caf\xe9 ü" {
		t.Errorf("request came back as %+v", got.Request)
	}
	if got.Response.Charset != api.CharsetLatin1 || bytesOf(got.Response.Headers[0][1]) != "\x80" {
		t.Errorf("response came back as %+v", got.Response)
	}
}

func TestHTMLStaysReadable(t *testing.T) {
	s := openStore(t, Options{})
	j := journalOf(t, s, "t1")
	r := exchange("/?a=<b>&c")
	mustAppend(t, j, r)
	if !bytes.Contains(stored(t, j)[0], []byte("/?a=<b>&c")) {
		t.Error("the line escapes <, > or &")
	}
}

func TestAClosedStoreAcknowledgesNothing(t *testing.T) {
	s := openStore(t, Options{})
	j := journalOf(t, s, "t1")
	mustAppend(t, j, exchange("/"))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := j.Append(exchange("/late")); !errors.Is(err, ErrStorage) {
		t.Errorf("Append after Close: %v, want ErrStorage", err)
	}
	if _, err := s.Journal("t2"); !errors.Is(err, ErrStorage) {
		t.Errorf("Journal after Close: %v, want ErrStorage", err)
	}
	if err := j.Read(context.Background(), api.JournalQuery{Follow: true}, func([]byte) error { return nil }); err != nil {
		t.Errorf("following a closed store: %v", err)
	}
}

// TestHeadsOfAllLinesAreRecognised guards the layout that scanning relies on.
func TestHeadsOfAllLinesAreRecognised(t *testing.T) {
	hostile := "\",\"kind\":\"x\",\"response\":null,\"truncated\":true},\"dropped\":9 \x00\x7f é \u2028 \\"
	for _, kind := range api.Kinds {
		for _, response := range []*api.Response{nil, {Status: 200}} {
			r := exchange(hostile)
			r.Kind, r.Response, r.Request.Method, r.Persona, r.Error = kind, response, hostile, hostile, hostile
			r.Request.Body.Content = hostile
			r.ID, r.Trajectory = NewID(r.Time.Time), "t1"
			l, err := encode(r)
			if err != nil {
				t.Fatal(err)
			}
			line := bytes.TrimSuffix(l.seal(18446744073709551615, zeroPrev), []byte("\n"))
			if !json.Valid(line) {
				t.Fatalf("%s: not JSON: %s", kind, line)
			}
			h, ok := parseHead(line)
			if !ok || h.outcome || h.seq != 18446744073709551615 || string(h.kind) != kind || string(h.prev) != string(zeroPrev) {
				t.Errorf("%s: head %+v %v", kind, h, ok)
			}
			if want := response == nil && api.OutcomeFollows(kind); h.awaitsOutcome(line) != want {
				t.Errorf("%s with response %v: awaits an outcome: %v", kind, response, !want)
			}
			if bytes.Contains(line, fieldTruncated) || bytes.Contains(line, fieldDropped) {
				t.Errorf("%s: text in a string is taken for a field", kind)
			}
		}
	}
	l, err := encode(&api.Outcome{Outcome: true})
	if err != nil {
		t.Fatal(err)
	}
	if h, ok := parseHead(bytes.TrimSuffix(l.seal(3, zeroPrev), []byte("\n"))); !ok || !h.outcome || h.seq != 3 {
		t.Errorf("outcome: head %+v %v", h, ok)
	}
}

func TestIDsAreULIDs(t *testing.T) {
	at := time.UnixMilli(1469918176385) // the example of the reference implementation
	if id := NewID(at); len(id) != 26 || id[:10] != "01ARYZ6S41" {
		t.Errorf("id %q, want 26 characters beginning with 01ARYZ6S41", id)
	}
	seen := make(map[string]bool)
	for range 10000 {
		id := NewID(at)
		if seen[id] {
			t.Fatalf("id %q came twice", id)
		}
		seen[id] = true
		if strings.Trim(id, crockford) != "" {
			t.Fatalf("id %q has foreign characters", id)
		}
	}
}
