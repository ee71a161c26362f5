package journal

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/linuxarena/ctis/server/api"
)

func parse(t *testing.T, line []byte) api.Record {
	t.Helper()
	var r api.Record
	if err := json.Unmarshal(line, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRecordsInOneLineComeByteForByte(t *testing.T) {
	s := openStore(t, Options{})
	j := journalOf(t, s, "t1")
	for i := range 5 {
		mustAppend(t, j, exchange(fmt.Sprintf("/%d?<&>", i)))
	}
	want, got := stored(t, j), read(t, j, api.JournalQuery{})
	for i := range want {
		if !bytes.Equal(got[i], want[i]) {
			t.Errorf("line %d came as %s, stored is %s", i, got[i], want[i])
		}
	}
}

func TestRecordsInTwoLinesAreJoinedInOrder(t *testing.T) {
	s := openStore(t, Options{})
	j := journalOf(t, s, "t1")
	var open []*api.Record
	for i := range 6 {
		r := running(fmt.Sprintf("/%d", i))
		if i%3 == 2 {
			r = exchange(fmt.Sprintf("/%d", i))
		} else {
			open = append(open, r)
		}
		mustAppend(t, j, r)
	}
	for i := len(open) - 1; i >= 1; i-- { // in the opposite order; the first goes on running
		o := &api.Outcome{Response: &api.Response{Status: 200 + int(open[i].Seq)}, DurationMS: 7, Error: "cut short"}
		if err := j.Finish(open[i].Seq, o); err != nil {
			t.Fatal(err)
		}
	}
	got := read(t, j, api.JournalQuery{})
	if names := targets(t, got); names != "/0 /1 /2 /3 /4 /5" {
		t.Fatalf("order %s", names)
	}
	for _, line := range got {
		r := parse(t, line)
		switch {
		case r.OutcomeUnknown:
			t.Errorf("record %d: outcome unknown, though this process still runs", r.Seq)
		case r.Seq == 1 && r.Response != nil:
			t.Error("record 1 is still running and has a response")
		case r.Seq == 1 || r.Seq%3 == 0:
		case r.Response == nil || r.Response.Status != 200+int(r.Seq) || r.DurationMS != 7 || r.Error != "cut short":
			t.Errorf("record %d joined as %+v", r.Seq, r)
		}
	}
	if got := read(t, j, api.JournalQuery{Limit: 3}); targets(t, got) != "/3 /4 /5" || parse(t, got[0]).Response == nil {
		t.Errorf("the newest three: %s", bytes.Join(got, []byte("\n")))
	}
}

func TestAnOutcomeLostWithTheProcessIsUnknown(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "journal")
	s := openStore(t, Options{Dir: dir})
	j := journalOf(t, s, "t1")
	lost, kept := running("/lost"), running("/kept")
	mustAppend(t, j, lost)
	mustAppend(t, j, kept)
	for _, kind := range []string{api.KindRefused, api.KindMalformed} {
		mustAppend(t, j, &api.Record{Kind: kind})
	}
	if err := j.Finish(kept.Seq, &api.Outcome{Response: &api.Response{Status: 200}}); err != nil {
		t.Fatal(err)
	}
	s.Close()
	s = openStore(t, Options{Dir: dir})
	j = journalOf(t, s, "t1")
	mustAppend(t, j, running("/now"))
	for i, line := range read(t, j, api.JournalQuery{}) {
		if r := parse(t, line); r.OutcomeUnknown != (i == 0) {
			t.Errorf("record %d: outcome unknown is %v", r.Seq, r.OutcomeUnknown)
		}
	}
	if err := j.Finish(lost.Seq, &api.Outcome{}); err == nil {
		t.Error("an exchange of a dead process was finished")
	}
}

func TestFiltersSelectRecords(t *testing.T) {
	clock := time.Date(2026, 11, 29, 17, 0, 0, 0, time.UTC)
	s := openStore(t, Options{Now: func() time.Time { clock = clock.Add(time.Second); return clock }})
	j := journalOf(t, s, "t1")
	add := func(target, kind, host string, twoLines bool) {
		r := exchange(target)
		r.Kind, r.Request.Host = kind, host
		if twoLines {
			r.Response = nil
		}
		mustAppend(t, j, r)
		if twoLines {
			if err := j.Finish(r.Seq, &api.Outcome{Response: &api.Response{Status: 200}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	add("/1", api.KindWebhook, "filebin.net", false)
	add("/2", api.KindData, "FileBin.NET:80", true)
	add("/3", api.KindWebhook, "other.example.", false)
	add("/4", api.KindRoot, "filebin.network", true)
	add("/5", api.KindWebhook, "filebin.net:8443", true)
	mustAppend(t, j, &api.Record{Kind: api.KindRefused})

	tests := []struct {
		name string
		q    api.JournalQuery
		want string
	}{
		{"kind", api.JournalQuery{Kinds: []string{"webhook"}}, "/1 /3 /5"},
		{"several kinds", api.JournalQuery{Kinds: []string{"data", "root"}}, "/2 /4"},
		{"host without port and case", api.JournalQuery{Hosts: []string{"FILEBIN.net"}}, "/1 /2 /5"},
		{"several hosts", api.JournalQuery{Hosts: []string{"other.example", "filebin.network"}}, "/3 /4"},
		{"kind and host", api.JournalQuery{Kinds: []string{"webhook"}, Hosts: []string{"filebin.net"}}, "/1 /5"},
		{"since, inclusive", api.JournalQuery{Kinds: []string{"webhook"}, Since: clock.Add(-3 * time.Second)}, "/3 /5"},
		{"since in another zone", api.JournalQuery{Kinds: []string{"webhook"}, Since: clock.Add(-3 * time.Second).In(time.FixedZone("x", 3600))}, "/3 /5"},
		{"newest after filters", api.JournalQuery{Kinds: []string{"webhook"}, Limit: 2}, "/3 /5"},
		{"limit beyond what is there", api.JournalQuery{Kinds: []string{"webhook"}, Limit: 9}, "/1 /3 /5"},
		{"until, exclusive", api.JournalQuery{Until: clock.Add(-3 * time.Second)}, "/1 /2"},
		{"method", api.JournalQuery{Methods: []string{exchange("/").Request.Method}, Last: 3}, "/1 /2 /3"},
		{"no such method", api.JournalQuery{Methods: []string{"BREW"}}, ""},
		{"path", api.JournalQuery{Paths: []string{"/1", "/[5]", "/5"}}, "/1 /5"},
		{"path by stars", api.JournalQuery{Paths: []string{"/*"}, First: 2}, "/2 /3 /4 /5"},
		{"numbers", api.JournalQuery{First: 2, Last: 4}, "/2 /3 /4"},
		{"one number", api.JournalQuery{First: 5, Last: 5}, "/5"},
		{"newest of numbers", api.JournalQuery{Last: 4, Limit: 1}, "/4"},
		{"nothing", api.JournalQuery{Kinds: []string{"upstream"}}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := read(t, j, tt.q)
			if names := targets(t, got); names != tt.want {
				t.Errorf("selected %q, want %q", names, tt.want)
			}
			for _, line := range got {
				if parse(t, line).Response == nil {
					t.Errorf("not joined: %s", line)
				}
			}
		})
	}
	t.Run("raw, an outcome line goes with its record", func(t *testing.T) {
		var got []string
		for _, line := range read(t, j, api.JournalQuery{Raw: true, Hosts: []string{"filebin.net"}}) {
			h, _ := parseHead(line)
			got = append(got, fmt.Sprint(h.seq, h.outcome))
		}
		if want := "1 false,2 false,2 true,5 false,5 true"; strings.Join(got, ",") != want {
			t.Errorf("lines %v, want %s", got, want)
		}
	})
	t.Run("raw, all lines as stored", func(t *testing.T) {
		if got, want := read(t, j, api.JournalQuery{Raw: true}), stored(t, j); !bytes.Equal(bytes.Join(got, nil), bytes.Join(want, nil)) {
			t.Error("raw lines are not those stored")
		}
		if got, want := read(t, j, api.JournalQuery{Raw: true, Limit: 2}), stored(t, j); !bytes.Equal(bytes.Join(got, nil), bytes.Join(want[len(want)-2:], nil)) {
			t.Error("the newest two raw lines are not those stored")
		}
	})
}

func TestYieldsErrorEndsReading(t *testing.T) {
	s := openStore(t, Options{})
	j := journalOf(t, s, "t1")
	mustAppend(t, j, exchange("/1"))
	mustAppend(t, j, exchange("/2"))
	stop := errors.New("stop")
	for _, follow := range []bool{false, true} {
		n := 0
		err := j.Read(t.Context(), api.JournalQuery{Follow: follow}, func([]byte) error { n++; return stop })
		if !errors.Is(err, stop) || n != 1 {
			t.Errorf("follow %v: %d calls, error %v", follow, n, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := j.Read(ctx, api.JournalQuery{}, func([]byte) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("reading with an ended context: %v", err)
	}
}

// following reads in the background and hands over one line at a time.
func following(t *testing.T, j *Journal, q api.JournalQuery) (next func() api.Record, stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	lines, ended := make(chan []byte), make(chan error, 1)
	q.Follow = true
	go func() {
		ended <- j.Read(ctx, q, func(line []byte) error {
			select {
			case lines <- bytes.Clone(line):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	t.Cleanup(cancel)
	return func() api.Record {
			t.Helper()
			select {
			case line := <-lines:
				return parse(t, line)
			case err := <-ended:
				t.Fatalf("following ended: %v", err)
			case <-time.After(10 * time.Second):
				t.Fatal("nothing came")
			}
			panic("unreachable")
		}, func() error {
			cancel()
			return <-ended
		}
}

func TestFollowingDeliversWhatIsThereThenWhatIsCompleted(t *testing.T) {
	s := openStore(t, Options{})
	j := journalOf(t, s, "t1")
	mustAppend(t, j, exchange("/1"))
	before := running("/2")
	mustAppend(t, j, before)
	mustAppend(t, j, exchange("/3"))

	next, stop := following(t, j, api.JournalQuery{})
	for _, want := range []string{"/1", "/3"} {
		if r := next(); r.Request.Target != want {
			t.Errorf("got %s, want %s", r.Request.Target, want)
		}
	}
	during := running("/4")
	mustAppend(t, j, during)
	mustAppend(t, j, exchange("/5"))
	if r := next(); r.Request.Target != "/5" {
		t.Errorf("got %s, want the complete /5", r.Request.Target)
	}
	for _, r := range []*api.Record{during, before} {
		if err := j.Finish(r.Seq, &api.Outcome{Response: &api.Response{Status: 204}}); err != nil {
			t.Fatal(err)
		}
		if got := next(); got.Seq != r.Seq || got.Response == nil || got.Response.Status != 204 {
			t.Errorf("got %+v, want the completed record %d", got, r.Seq)
		}
	}
	if err := stop(); err != nil {
		t.Errorf("following ended with %v", err)
	}
}

func TestFollowingAnEmptyJournalWaitsForItsFirstRecord(t *testing.T) {
	s := openStore(t, Options{})
	j := journalOf(t, s, "t1")
	next, stop := following(t, j, api.JournalQuery{Kinds: []string{api.KindWebhook}, Limit: 1})
	mustAppend(t, j, &api.Record{Kind: api.KindRefused})
	mustAppend(t, j, exchange("/1"))
	mustAppend(t, j, exchange("/2"))
	first := next()
	if first.Request.Target == "/1" { // else both were there before following began, and one is the limit
		first = next()
	}
	if first.Request.Target != "/2" {
		t.Errorf("got %s, want /2", first.Request.Target)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

func TestAReaderThatStandsStillHoldsUpNoWriter(t *testing.T) {
	s := openStore(t, Options{})
	j := journalOf(t, s, "t1")
	mustAppend(t, j, exchange("/0"))
	entered, release := make(chan struct{}), make(chan struct{})
	ended := make(chan error, 1)
	n := 0
	go func() {
		ended <- j.Read(context.Background(), api.JournalQuery{Follow: true}, func([]byte) error {
			if n++; n == 1 {
				close(entered)
				<-release
			}
			if n == 1001 {
				return errFound
			}
			return nil
		})
	}()
	<-entered
	for i := range 1000 { // would hang here
		mustAppend(t, j, exchange(fmt.Sprintf("/%d", i+1)))
	}
	close(release)
	if err := <-ended; !errors.Is(err, errFound) {
		t.Errorf("the reader saw %d records and ended with %v", n, err)
	}
}

func TestAnExchangeThatOutlastsManyIsStillJoined(t *testing.T) {
	s := openStore(t, Options{})
	s.maxAhead = 100
	j := journalOf(t, s, "t1")
	first := running("/first")
	mustAppend(t, j, first)
	second := running("/second")
	mustAppend(t, j, second)
	for range s.maxAhead + 10 {
		r := running("/")
		mustAppend(t, j, r)
		if err := j.Finish(r.Seq, &api.Outcome{Response: &api.Response{Status: 200}}); err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range []*api.Record{second, first} {
		if err := j.Finish(r.Seq, &api.Outcome{Response: &api.Response{Status: 200}}); err != nil {
			t.Fatal(err)
		}
	}
	var n uint64
	err := j.Read(t.Context(), api.JournalQuery{}, func(line []byte) error {
		if n++; !bytes.Contains(line, []byte(`"status":200`)) {
			return fmt.Errorf("record %d is not joined: %s", n, line)
		}
		return nil
	})
	if err != nil || n != j.Status().Records {
		t.Errorf("%d records, %v", n, err)
	}
}
