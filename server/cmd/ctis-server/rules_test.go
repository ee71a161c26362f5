package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/linuxarena/ctis/server/api"
)

// TestWhatRulesRememberIsWhatIsOnRecordAfterKills: 64 clients use rules that count and
// rules that make a circle of states, and the server is killed while they do. In the
// end no more was taken than rules allow and no step of the circle was taken twice;
// what clients got is on record, and what is on record was counted.
func TestWhatRulesRememberIsWhatIsOnRecordAfterKills(t *testing.T) {
	const after, times = 300, 1500
	status := func(n int) *api.RuleResponse { return &api.RuleResponse{Status: n} }
	p := build(t)
	p.start()
	if _, err := p.admin.Register(t.Context(), &api.Registration{
		Trajectory: "t1", Settings: "s",
		Networks: []api.Network{{Name: "external", ID: "n", Subnets: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Addresses: []netip.Addr{netip.MustParseAddr("127.0.0.2")}}},
		Personas: []api.Persona{{Host: "a.example", Endpoints: api.BuiltinEndpoints, Rules: []api.Rule{
			{Path: "/limit", After: after, Times: times, Respond: status(201)},
			{Path: "/circle", State: "start", SetState: "second", Respond: status(202)},
			{Path: "/circle", State: "second", SetState: "third", Respond: status(203)},
			{Path: "/circle", State: "third", SetState: "start", Respond: status(206)},
		}}},
	}); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	got := map[int]int{}
	var sent atomic.Int64
	round := func(requests int, killAt int64) {
		var clients sync.WaitGroup
		reached, once := make(chan struct{}), sync.Once{}
		goal := sent.Load() + killAt
		for range 64 {
			clients.Go(func() {
				client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
					var d net.Dialer
					return d.DialContext(ctx, "tcp", p.plain)
				}}, Timeout: 20 * time.Second}
				defer client.CloseIdleConnections()
				for i := range requests {
					r, err := client.Get("http://a.example/" + []string{"limit", "circle"}[i%2])
					if err != nil {
						return
					}
					_, _ = io.Copy(io.Discard, r.Body)
					_ = r.Body.Close()
					mu.Lock()
					got[r.StatusCode]++
					mu.Unlock()
					if sent.Add(1) >= goal {
						once.Do(func() { close(reached) })
					}
				}
			})
		}
		if killAt > 0 {
			<-reached
			p.kill()
		}
		clients.Wait()
	}
	for range 3 {
		round(1<<20, 700)
		p.start()
	}
	round(2*(after+times)/64+2, 0) // the rest, whatever came before

	fired, met, steps := map[string]int{}, 0, map[uint64]string{}
	err := p.admin.Journal(t.Context(), "t1", api.JournalQuery{Raw: true}, func(line []byte) error {
		var r api.Record
		if err := json.Unmarshal(line, &r); err != nil {
			return err
		}
		fired[r.Rule]++
		if e := r.RuleEffect; e != nil {
			if e.Counted[0] == 1 {
				met++
			}
			if e.Step > 0 {
				if by := steps[e.Step]; by != "" {
					return fmt.Errorf("step %d was taken twice, by rules %s and %s", e.Step, by, r.Rule)
				}
				steps[e.Step] = r.Rule
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if fired["1"] != times || met != after+times {
		t.Errorf("rule 1 fired %d times of %d, and was met %d times of %d", fired["1"], times, met, after+times)
	}
	for step, by := range steps {
		if want := []string{"2", "3", "4"}[(step-1)%3]; by != want {
			t.Errorf("step %d was taken by rule %s, not %s", step, by, want)
		}
	}
	for status, ref := range map[int]string{201: "1", 202: "2", 203: "3", 206: "4"} {
		if got[status] > fired[ref] || got[status] == 0 {
			t.Errorf("clients got %d answers %d, and on record are %d", got[status], status, fired[ref])
		}
	}
	list, err := p.admin.Rules(t.Context(), "t1")
	if err != nil || len(list.Hosts) != 1 {
		t.Fatalf("%+v, %v", list, err)
	}
	for i, r := range list.Hosts[0].Rules {
		if r.Fired != int64(fired[fmt.Sprint(i+1)]) {
			t.Errorf("rule %d is said to have fired %d times, and on record are %d", i+1, r.Fired, fired[fmt.Sprint(i+1)])
		}
	}
}
