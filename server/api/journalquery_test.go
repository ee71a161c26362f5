package api

import (
	"reflect"
	"testing"
	"time"
)

// TestAJournalQuerySurvivesTheWire fills every field, so that one which is added to
// the type and not sent is missed here.
func TestAJournalQuerySurvivesTheWire(t *testing.T) {
	q := JournalQuery{
		Follow: true, Raw: true, Kinds: []string{"data", "root"}, Hosts: []string{"a.example"},
		Methods: []string{"PUT", "x&y=z"}, Paths: []string{"/a/**", "/b"},
		Since: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC), Until: time.Date(2026, 1, 2, 3, 4, 6, 0, time.UTC),
		First: 2, Last: 1<<64 - 1, Limit: 7,
	}
	for v, i := reflect.ValueOf(q), 0; i < v.NumField(); i++ {
		if v.Field(i).IsZero() {
			t.Errorf("the test leaves %s out", v.Type().Field(i).Name)
		}
	}
	if got, err := ParseJournalQuery(q.values()); err != nil || !reflect.DeepEqual(got, q) {
		t.Errorf("came as %+v, %v", got, err)
	}
	for _, bad := range []string{"follow", "raw", "since", "until", "first", "last", "limit", "path", "colour"} {
		if q, err := ParseJournalQuery(map[string][]string{bad: {"?"}}); err == nil {
			t.Errorf("%s=? is taken for %+v", bad, q)
		}
	}
}

func TestTheTargetsPathIsTakenAsSent(t *testing.T) {
	for target, want := range map[string]string{
		"/": "/", "/a?b=/c": "/a", "/a//../b%2Fc": "/a//../b%2Fc", "/a#f": "/a", "//h/p": "//h/p",
		"http://h/p?q": "/p", "http://h": "/", "http://h?q": "/", "https://h:1//x": "//x",
		"*": "", "h:443": "", "": "", "?x": "", "://": "/",
	} {
		if got := TargetPath(target); got != want {
			t.Errorf("%q: %q, want %q", target, got, want)
		}
	}
}

func TestHostsCompareWithoutCasePortAndFinalDot(t *testing.T) {
	for host, want := range map[string]string{
		"A.Example.": "a.example", "a.example:8443": "a.example", "a.example.:80": "a.example",
		"[::1]": "[::1]", "[::1]:80": "[::1]", "": "", ".": "", ":": "",
	} {
		if got := HostName(host); got != want {
			t.Errorf("%q: %q, want %q", host, got, want)
		}
	}
}
