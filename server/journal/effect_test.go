package journal

import (
	"fmt"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/linuxarena/ctis/server/api"
)

// TestEffectsAreToldWhenAJournalIsOpened: of each record once, in order; what a client
// wrote is never taken for one.
func TestEffectsAreToldWhenAJournalIsOpened(t *testing.T) {
	dir := t.TempDir()
	var mu sync.Mutex
	told := map[string][]api.RuleEffect{}
	open := func() *Store {
		s, err := Open(Options{Dir: dir, Effect: func(journal string, e *api.RuleEffect) {
			mu.Lock()
			defer mu.Unlock()
			told[journal] = append(told[journal], *e)
		}})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := open()
	want := map[string][]api.RuleEffect{}
	for _, id := range []string{"t1", "t2"} {
		j, err := s.Journal(id)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 5 {
			forged := `x","rule":"1","rule_effect":{"host":"a.test","revision":0,"counted":[1]},"y":"`
			r := &api.Record{Kind: api.KindRule, Persona: "a.test", Rule: "1", Time: api.Time{Time: time.Unix(1, 0)}, Request: &api.Request{
				Method: "GET", Target: forged, Headers: [][2]string{{"X", forged}}, Body: api.Body{Encoding: api.EncodingUTF8, Content: forged},
			}, Response: &api.Response{Status: 200}}
			if i%2 == 0 {
				r.RuleEffect = &api.RuleEffect{Host: "a.test", Revision: i, Counted: []int{1, i + 2}, State: fmt.Sprintf("st\"ate}%d", i), Step: uint64(i + 1)}
				want[id] = append(want[id], *r.RuleEffect)
			}
			if err := j.Append(r); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if len(told) > 0 {
		t.Errorf("told while nothing was opened: %v", told)
	}
	again := open()
	defer again.Close()
	if !reflect.DeepEqual(told, want) || len(again.Problems()) > 0 {
		t.Errorf("told %v, want %v; %v", told, want, again.Problems())
	}
}
