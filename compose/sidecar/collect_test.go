package sidecar

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/pkg/stdcopy"

	"github.com/linuxarena/ctis/server/api"
)

// fakeLog is an engine with the log of one container. since is what it was asked for last.
type fakeLog struct {
	Engine
	lines []string
	skew  bool // its clock is far behind: nothing is found near a time
	reads int
}

func (f *fakeLog) ContainerLogs(_ context.Context, _ string, o container.LogsOptions) (io.ReadCloser, error) {
	f.reads++
	var b bytes.Buffer
	out, errs := stdcopy.NewStdWriter(&b, stdcopy.Stdout), stdcopy.NewStdWriter(&b, stdcopy.Stderr)
	if o.Since != "" && f.skew {
		return io.NopCloser(&b), nil
	}
	for _, l := range f.lines {
		_, _ = out.Write([]byte(l)) // to memory
		_, _ = errs.Write([]byte("nginx: noise\n"))
	}
	return io.NopCloser(&b), nil
}

// fakeJournal keeps what it is given. rival is called before each batch.
type fakeJournal struct {
	at      api.ExposedCursor
	have    []string
	gaps    int
	batches int
	rival   func()
}

func (f *fakeJournal) ExposedCursor(context.Context, string) (*api.ExposedCursor, error) {
	at := f.at
	return &at, nil
}

func (f *fakeJournal) RecordExposed(_ context.Context, _ string, b *api.ExposedBatch) (*api.ExposedCursor, error) {
	if rival := f.rival; rival != nil {
		f.rival = nil
		rival()
	}
	if b.After.RequestID != f.at.RequestID || b.After.Container != f.at.Container {
		return nil, api.Errorf(http.StatusConflict, api.CodeConflict, "faster")
	}
	if b.Lost {
		f.gaps++
	}
	f.batches++
	for _, q := range b.Requests {
		f.have = append(f.have, strings.TrimLeft(q.ID, "0"))
		f.at = api.ExposedCursor{Container: b.Container, RequestID: q.ID, Ended: q.Ended}
	}
	f.at.Container, f.at.Final = b.Container, b.Final
	at := f.at
	return &at, nil
}

// line is what nginx logs of the n-th request.
func line(n int) string {
	return fmt.Sprintf(`{"id":"%032d","end":"1796004600.%03d","took":"0.250","ip":"198.18.0.5","port":"4021","tls":"","sni":"","server":"api.example","proto":"HTTP/1.1","method":"GET","host":"api.example","uri":"/%d","length":"","received":"79","sent":"500","body":"400","status":"200","upstream":"198.18.0.7:80"}`+"\n", n, n%1000, n)
}

func log(from, to int) []string {
	var all []string
	for n := from; n <= to; n++ {
		all = append(all, line(n))
	}
	return all
}

func collected(t *testing.T, eng *fakeLog, j *fakeJournal, final bool) int {
	t.Helper()
	n, err := Collect(t.Context(), eng, j, "t1", "c1", final)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func numbers(from, to int) []string {
	var all []string
	for n := from; n <= to; n++ {
		all = append(all, fmt.Sprint(n))
	}
	return all
}

func TestEachRequestIsCollectedOnceAndInOrder(t *testing.T) {
	eng, j := &fakeLog{lines: log(1, 3)}, &fakeJournal{}
	for _, step := range []struct {
		change func()
		want   int // new ones
		upTo   int
		gaps   int
	}{
		{func() {}, 3, 3, 0},
		{func() {}, 0, 3, 0},
		{func() { eng.lines = append(eng.lines, log(4, 4)...) }, 1, 4, 0},
		{func() { eng.lines, eng.skew = append(eng.lines, log(5, 5)...), true }, 1, 5, 0},
		// Rotated, and the last that was read is still there.
		{func() { eng.lines, eng.skew = log(5, 7), false }, 2, 7, 0},
		// Many at once.
		{func() { eng.lines = append(eng.lines, log(8, 8+3*batchRequests)...) }, 3*batchRequests + 1, 8 + 3*batchRequests, 0},
	} {
		step.change()
		if got := collected(t, eng, j, false); got != step.want || j.gaps != step.gaps || !slices.Equal(j.have, numbers(1, step.upTo)) {
			t.Fatalf("%d new, %d gaps, %d in all; want %d, %d, %d", got, j.gaps, len(j.have), step.want, step.gaps, step.upTo)
		}
	}
}

func TestWhatIsWrittenOffUnreadIsAGap(t *testing.T) {
	eng, j := &fakeLog{lines: log(1, 3)}, &fakeJournal{}
	collected(t, eng, j, false)
	eng.lines = log(10, 12)
	if got := collected(t, eng, j, false); got != 3 || j.gaps != 1 || !slices.Equal(j.have, append(numbers(1, 3), numbers(10, 12)...)) {
		t.Errorf("%d new, %d gaps, %v", got, j.gaps, j.have)
	}
	eng.lines = append(eng.lines, "something else\n", line(13))
	if got := collected(t, eng, j, false); got != 1 || j.gaps != 2 {
		t.Errorf("%d new, %d gaps, %v", got, j.gaps, j.have)
	}
	// Told when it is known what follows, and once.
	for range 2 {
		eng.lines = []string{"something else\n"}
		if got := collected(t, eng, j, false); got != 0 || j.gaps != 2 {
			t.Errorf("%d new, %d gaps, %v", got, j.gaps, j.have)
		}
	}
	eng.lines = append(eng.lines, line(20))
	for want := range []int{1, 0} {
		if got := collected(t, eng, j, false); got != 1-want || j.gaps != 3 {
			t.Errorf("%d new, %d gaps, %v", got, j.gaps, j.have)
		}
	}
	eng.lines = nil
	for range 2 {
		if got := collected(t, eng, j, true); got != 0 || j.gaps != 4 {
			t.Errorf("%d new, %d gaps, %v", got, j.gaps, j.have)
		}
	}
}

func TestLinesThatTheEngineMangledAreRead(t *testing.T) {
	cut := strings.TrimSuffix(line(2), "\n")
	eng, j := &fakeLog{lines: []string{line(1), cut, line(3), cut[:50]}}, &fakeJournal{}
	eng.lines[1] = strings.Replace(cut, "/2", "/"+strings.Repeat("u", 40000), 1)
	if got := collected(t, eng, j, false); got != 3 || j.gaps != 0 {
		t.Errorf("%d new, %d gaps", got, j.gaps)
	}
	// The one that was being written is whole now, without an end.
	eng.lines[3] = strings.TrimSuffix(line(4), "\n")
	if got := collected(t, eng, j, false); got != 1 || j.gaps != 0 || !slices.Equal(j.have, numbers(1, 4)) {
		t.Errorf("%d new, %d gaps, %v", got, j.gaps, j.have)
	}
	eng.lines = append(eng.lines, "\n", strings.Repeat("x", 3*maxLine)+"\n", line(5))
	if got := collected(t, eng, j, false); got != 1 || j.gaps != 1 || !slices.Equal(j.have, numbers(1, 5)) {
		t.Errorf("%d new, %d gaps, %v", got, j.gaps, j.have)
	}
}

func TestTwoWhoCollectAtOnceRecordNothingTwice(t *testing.T) {
	eng, j := &fakeLog{lines: log(1, 4)}, &fakeJournal{}
	j.rival = func() {
		other := &fakeLog{lines: log(1, 2)}
		collected(t, other, j, false)
	}
	if got := collected(t, eng, j, false); got != 2 || !slices.Equal(j.have, numbers(1, 4)) || j.gaps != 0 {
		t.Errorf("%d new, %v, %d gaps", got, j.have, j.gaps)
	}
}

func TestTheEndOfASidecarIsSaidOnce(t *testing.T) {
	eng, j := &fakeLog{}, &fakeJournal{}
	collected(t, eng, j, true)
	if !j.at.Final || j.at.Container != "c1" || j.batches != 1 {
		t.Errorf("%+v after %d batches", j.at, j.batches)
	}
}

func FuzzParseLine(f *testing.F) {
	f.Add([]byte(strings.TrimSuffix(line(1), "\n")))
	f.Add([]byte(`{"id":"","uri":"/` + "\xff\\u0000" + `","end":"9e99","took":"-1","status":"abc","port":"99999","received":"-7"}`))
	f.Add([]byte(`{"end":"1.5","took":"NaN"}{"end":"1.5","took":"Inf"}{`))
	f.Fuzz(func(t *testing.T, b []byte) {
		all, _ := parseLine(b)
		for _, q := range all {
			if q.DurationMS < 0 || q.Status < 0 || q.Status > 999 || q.Received < 0 || q.Sent < 0 || q.Body < 0 || q.Length < -1 {
				t.Errorf("%+v of %q", q, b)
			}
			if _, err := json.Marshal(q); err != nil {
				t.Errorf("%v of %q", err, b)
			}
		}
	})
}

func TestALineIsReadForWhatItSays(t *testing.T) {
	all, err := parseLine([]byte(`{"id":"fa60841561789a0a5e2864c67ce3aba3","end":"1796004600.662","took":"0.019","ip":"198.19.250.4","port":"35116","tls":"TLSv1.3","sni":"Api.example.com","server":"api.example.com","proto":"HTTP/1.1","method":"PUT","host":"api.example.com:443","uri":"/\"` + "\xff" + `","length":"12","received":"79","sent":"1056","body":"877","status":"200","upstream":"198.19.250.3:3000, 198.19.250.4:3000"}`))
	want := api.ExposedRequest{
		ID: "fa60841561789a0a5e2864c67ce3aba3", Ended: api.Time{Time: time.Unix(1796004600, 662e6).UTC()}, DurationMS: 19,
		IP: "198.19.250.4", Port: 35116, TLS: "TLSv1.3", SNI: "Api.example.com", Host: "api.example.com", Method: "PUT", Asked: "api.example.com:443",
		Target: "/\"ÿ", Proto: "HTTP/1.1", Latin1: true, Length: 12, Received: 79, Sent: 1056, Body: 877, Status: 200, Upstream: "198.19.250.4:3000",
	}
	if err != nil || len(all) != 1 || all[0] != want {
		t.Errorf("%+v\nwant %+v, %v", all, want, err)
	}
	for in, want := range map[string]string{"": "", "x0123456789abcdef": "", "198.18.0.1:80": "198.18.0.1:80", "x01, 198.18.0.1:80": "198.18.0.1:80", "[fd00::1]:80": "[fd00::1]:80"} {
		if got := lastUpstream(in); got != want {
			t.Errorf("upstream %q is %q, not %q", in, got, want)
		}
	}
}
