package commands

import (
	"slices"
	"strings"
	"testing"
	"time"

	"charm.land/lipgloss/v2"

	"github.com/linuxarena/ctis/server/api"
)

// TestARowSaysWhatTheRecordSays: what a reader has to know is never cut off, and
// a target is shown as it was sent.
func TestARowSaysWhatTheRecordSays(t *testing.T) {
	at := api.Time{Time: time.Date(2026, 11, 29, 17, 0, 0, 5e6, time.UTC)}
	request := func(target string, body api.Body) *api.Request {
		return &api.Request{Method: "POST", Host: "filebin.net", Target: target, Body: body}
	}
	for name, c := range map[string]struct {
		record api.Record
		want   []string
	}{
		"plain HTTP": {api.Record{Kind: "webhook", Client: api.Source{Service: "default"}, Request: request("/x?y=1", api.Body{Size: 5}), Response: &api.Response{Status: 200}},
			[]string{"default", "POST", "200", "webhook", "5 B", "http://filebin.net/x?y=1"}},
		"HTTPS from an unknown service": {api.Record{Kind: "root", Client: api.Source{IP: "198.18.0.9"}, TLS: &api.TLS{}, Request: request("/", api.Body{}), Response: &api.Response{Status: 200}},
			[]string{"198.18.0.9", "POST", "200", "root", "0 B", "https://filebin.net/"}},
		"body not kept": {api.Record{Kind: "data", Request: request("/data", api.Body{Size: 3e9, Truncated: true}), Response: &api.Response{Status: 201}},
			[]string{"201", "3.0 GB", "http://filebin.net/data  (body not kept whole)"}},
		"outcome unknown": {api.Record{Kind: "data", Request: request("/data/big", api.Body{}), OutcomeUnknown: true},
			[]string{"?", "(outcome unknown)"}},
		"client went away": {api.Record{Kind: "webhook", Request: request("/webhook", api.Body{}), Error: "client broke off"},
			[]string{"(client broke off)"}},
		"no path": {api.Record{Kind: "malformed", Request: request("*", api.Body{}), Response: &api.Response{Status: 400}},
			[]string{"400", "malformed", "*"}},
		"nothing parsed": {api.Record{Kind: "refused", Error: "unknown name \x1b[31m\n1"},
			[]string{"refused", `unknown name \x1b[31m\x0a1`}},
	} {
		c.record.Time = at
		cells := cellsOf(&c.record)
		row := cells.row(0)
		for _, want := range c.want {
			if !strings.Contains(row, want) {
				t.Errorf("%s: %q is not in %q", name, want, row)
			}
		}
		if strings.ContainsAny(row, "\x1b\n") {
			t.Errorf("%s: an escape gets through: %q", name, row)
		}
	}
}

// TestRowsFitTheirTerminal: they are as wide as it at most, tell method and status always,
// and of the URL its host and its end.
func TestRowsFitTheirTerminal(t *testing.T) {
	long := "/v1/" + strings.Repeat("part-of-a-long-path/", 12) + "file.json?page=2"
	record := func(target, failure string) *api.Record {
		return &api.Record{Seq: 12345, Kind: "not_found", Client: api.Source{Service: "default-service-with-a-long-name"}, TLS: &api.TLS{}, Error: failure,
			Request: &api.Request{Method: "PROPFIND", Host: "filebin.net", Target: target, Body: api.Body{Size: 123456}}, Response: &api.Response{Status: 404}}
	}
	for _, width := range []int{40, 60, 69, 70, 80, 89, 90, 120, 200} {
		for _, c := range []struct {
			r    *api.Record
			want []string
		}{
			{record("/x", ""), []string{"filebin.net/x"}},
			{record(long, ""), []string{"filebin", "…", "=2"}},
			{record("/"+strings.Repeat("日本語", 60), ""), []string{"filebin", "…", "本語"}},
			{record(long, "client left"), []string{"filebin", "…"}},
			{record(long, strings.Repeat("a long reason ", 30)), []string{"filebin", "…"}},
			{&api.Record{Seq: 1, Kind: "refused", Error: strings.Repeat("unknown name ", 30)}, []string{"unknown", "…"}},
			{&api.Record{Seq: 1, Kind: "refused", Error: "no name"}, []string{"no name"}},
		} {
			cells := cellsOf(c.r)
			row := cells.row(width)
			if w := lipgloss.Width(row); w > width {
				t.Errorf("%d cells on %d: %q", w, width, row)
			}
			for _, want := range c.want {
				if !strings.Contains(row, want) {
					t.Errorf("on %d cells %q is not in %q", width, want, row)
				}
			}
			if c.r.Request != nil && (!strings.Contains(row, "PROPFI") || !strings.Contains(row, "404")) {
				t.Errorf("on %d cells: %q", width, row)
			}
			if whole := cells.row(0); c.r.Request != nil && !strings.Contains(whole, "https://filebin.net"+c.r.Request.Target) || !strings.Contains(whole, strings.TrimSpace(c.r.Error)) || !strings.Contains(whole, c.r.Client.Service) {
				t.Errorf("off a terminal: %q", whole)
			}
		}
	}
}

func TestTextHangsBelowItsBeginning(t *testing.T) {
	text := "Docker 20.10.24, API 1.41, and a sentence about it that does not fit the line it began on"
	for _, width := range []int{40, 60, 80} {
		got := strings.Split(hanging("ok  engine  ", text, width), "\n")
		for i, line := range got {
			if lipgloss.Width(line) > width || i > 0 && !strings.HasPrefix(line, strings.Repeat(" ", 12)) {
				t.Errorf("on %d cells: %q", width, line)
			}
		}
		if joined := strings.Join(strings.Fields(strings.Join(got, " ")), " "); joined != "ok engine "+text || len(got) < 2 {
			t.Errorf("on %d cells: %q", width, got)
		}
	}
	long := hanging("simulator ctis-demo-kept-73eac3-simulator: ", "running, image linuxarena/env-internet-simulator:src-094d83791bc4f2d0 "+strings.Repeat("x", 200), 40)
	for i, line := range strings.Split(long, "\n") {
		if lipgloss.Width(line) > 40 && i > 0 { // a name is not broken
			t.Errorf("%q", line)
		}
	}
	if got := hanging("ok  engine  ", text, 0); got != "ok  engine  "+text {
		t.Errorf("off a terminal: %q", got)
	}
}

// TestColumnsAreSqueezedIntoATerminal, those that are cut alike, or not at all.
func TestColumnsAreSqueezedIntoATerminal(t *testing.T) {
	for _, c := range []struct {
		widths []int
		limit  int
		want   []int
	}{
		{[]int{10, 20, 8}, 42, []int{10, 20, 8}},
		{[]int{10, 20, 30}, 50, []int{10, 20, 16}},
		{[]int{10, 20, 30}, 40, []int{10, 18, 8}},
		{[]int{17, 21, 8, 13, 30, 8, 3, 1}, 80, []int{17, 10, 8, 11, 8, 8, 3, 1}},
		{[]int{10, 20, 30}, 29, nil},
	} {
		widths := slices.Clone(c.widths)
		flexible := len(widths) - 1
		if len(widths) == 8 {
			flexible = 4
		}
		if ok := squeeze(widths, flexible, c.limit); ok != (c.want != nil) || ok && !slices.Equal(widths, c.want) {
			t.Errorf("%v in %d cells: %v, %v", c.widths, c.limit, widths, ok)
		}
	}
}

func TestSinceIsADurationBackOrATime(t *testing.T) {
	now := time.Date(2026, 11, 29, 17, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"10m":                  now.Add(-10 * time.Minute),
		"0s":                   now,
		"2026-11-29":           time.Date(2026, 11, 29, 0, 0, 0, 0, time.UTC),
		"2026-11-29T16:00:00Z": now.Add(-time.Hour),
		"2026-11-29 16:30:00":  now.Add(-30 * time.Minute),
	} {
		if got, err := parseTime("--since", text, now); err != nil || !got.Equal(want) {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "-5m", "yesterday", "10"} {
		if got, err := parseTime("--since", text, now); err == nil {
			t.Errorf("%q is accepted as %v", text, got)
		}
	}
}

func TestEngineVersionsCompareAsNumbers(t *testing.T) {
	for _, c := range []struct {
		have, want string
		older      bool
	}{{"1.41", "1.41", false}, {"1.40", "1.41", true}, {"1.5", "1.41", true}, {"1.100", "1.41", false}, {"2.0", "1.41", false}, {"", "1.41", true}, {"1.41x", "1.41", true}, {"junk", "1.41", true}} {
		if got := olderAPI(c.have, c.want); got != c.older {
			t.Errorf("olderAPI(%q, %q) = %t", c.have, c.want, got)
		}
	}
}

func TestURLsOfOneHostAreToldApartInANarrowTable(t *testing.T) {
	for _, c := range []struct {
		cell  string
		width int
		want  string
	}{
		{"https://filebin.net/webhook/job-1", 40, "https://filebin.net/webhook/job-1"},
		{"https://filebin.net/webhook", 19, "filebin.net/webhook"},
		{"https://filebin.net/webhook", 13, "filebin.…hook"},
		{"https://filebin.net/data", 13, "filebin.…data"},
		{"store the secret", 8, "store t…"},
	} {
		if got := formatRow([]string{c.cell}, []int{c.width}); got != c.want {
			t.Errorf("%s in %d cells is %q, not %q", c.cell, c.width, got, c.want)
		}
	}
}
