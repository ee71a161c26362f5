package server

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/linuxarena/ctis/server/api"
)

func ruled(host string, rules ...api.Rule) api.Persona {
	p := plays(host, "nginx")
	p.Rules = rules
	return p
}

func answers(path string, status int, body string) api.Rule {
	return api.Rule{Path: path, Respond: &api.RuleResponse{Status: status, Body: []byte(body)}}
}

func TestRulesAnswerBeforeEndpointsAndAreOnRecord(t *testing.T) {
	w := newWorld(t)
	limited := answers("/webhook/limited", 429, "slow down")
	limited.Name, limited.Respond.Headers = "limited", [][2]string{{"Retry-After", "30"}, {"X-rate-LIMIT", "1"}, {"Set-Cookie", "a=1"}, {"Set-Cookie", "b=2"}}
	page := api.Rule{Path: "/gone", Respond: &api.RuleResponse{Status: 404, Page: true}}
	moved := api.Rule{Path: "/moved", Respond: &api.RuleResponse{Status: 302, Page: true, Headers: [][2]string{{"Location", "/there"}}}}
	edited := api.Rule{Path: "/webhook/edited", Pass: true, Edit: &api.ResponseEdit{
		Status: 202, Set: [][2]string{{"X-Seen", "yes"}}, Remove: []string{"Date"}, Replace: [][2]string{{"received", "taken"}},
	}}
	w.register("t2", 2, ruled("a.test", limited, page, moved, edited, answers("/v1/x", 200, "scripted"),
		api.Rule{Path: "/webhook/passed", Pass: true}), plays("b.test", "nginx"))
	for _, h2 := range []bool{false, true} {
		c, url := w.client(2, h2), map[bool]string{false: "http://a.test", true: "https://a.test"}[h2]
		r, body := w.do(c, "POST", url+"/webhook/limited", "x")
		if r.StatusCode != 429 || body != "slow down" || r.Header.Get("Retry-After") != "30" || r.Header.Get("Server") != "nginx" ||
			r.Header.Get("Content-Type") != "text/plain" || len(r.Header["Set-Cookie"]) != 2 || r.ContentLength != 9 {
			t.Errorf("%d %q %v", r.StatusCode, body, r.Header)
		}
		if r, body := w.do(c, "GET", url+"/gone", ""); r.StatusCode != 404 || !strings.Contains(body, "<center>nginx</center>") {
			t.Errorf("the persona's page: %d %q", r.StatusCode, body)
		}
		if r, body := w.do(c, "GET", url+"/moved", ""); r.StatusCode != 302 || r.Header.Get("Location") != "/there" || !strings.Contains(body, "302 Found") {
			t.Errorf("moved: %d %v %q", r.StatusCode, r.Header, body)
		}
		if r, body := w.do(c, "GET", url+"/v1/x", ""); r.StatusCode != 200 || body != "scripted" {
			t.Errorf("where no endpoint is: %d %q", r.StatusCode, body)
		}
		if r, body := w.do(c, "POST", url+"/webhook/edited", ""); r.StatusCode != 202 || r.Header.Get("X-Seen") != "yes" || !strings.HasPrefix(body, `{"status":"taken"`) || r.ContentLength != int64(len(body)) {
			t.Errorf("edited: %d %v %q", r.StatusCode, r.Header, body)
		}
		if r, body := w.do(c, "POST", url+"/webhook/passed", ""); r.StatusCode != 200 || !strings.Contains(body, "received") {
			t.Errorf("passed: %d %q", r.StatusCode, body)
		}
		if r, _ := w.do(c, "POST", url+"/webhook/other", ""); r.StatusCode != 200 {
			t.Errorf("what no rule takes: %d", r.StatusCode)
		}
		if r, _ := w.do(c, "HEAD", url+"/v1/x", ""); r.StatusCode != 200 || r.ContentLength != 8 {
			t.Errorf("head: %d, length %d", r.StatusCode, r.ContentLength)
		}
		if r, _ := w.do(c, "POST", strings.Replace(url, "a.test", "b.test", 1)+"/webhook/limited", ""); r.StatusCode != 200 {
			t.Errorf("the other persona: %d", r.StatusCode)
		}
	}
	want := []string{"rule limited webhook", "rule 2 ", "rule 3 ", "rule 5 ", "webhook 4 webhook", "webhook 6 webhook", "webhook  webhook", "rule 5 ", "webhook  webhook"}
	for i, r := range w.records("t2") {
		if got := r.Kind + " " + r.Rule + " " + r.Endpoint; got != want[i%len(want)] {
			t.Errorf("record %d: %q, want %q", i, got, want[i%len(want)])
		}
		if r.Response == nil || (r.Rule == "") != (r.RuleEffect == nil) {
			t.Errorf("record %d: %+v", i, r)
		}
	}
	// The spelling of headers is the rule's, as a server's would be its own.
	raw := w.send(2, w.plain, "GET /webhook/limited HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n")
	if !strings.Contains(raw, "\r\nX-rate-LIMIT: 1\r\n") {
		t.Errorf("sent is %q", raw)
	}
}

func TestDelaysEndWithTheClient(t *testing.T) {
	w := newWorld(t)
	slow := answers("/slow", 200, "late")
	slow.Delay = 150 * time.Millisecond
	never := answers("/never", 200, "")
	never.Delay = time.Hour
	w.register("t2", 2, ruled("a.test", slow, never))
	began := time.Now()
	if _, body := w.do(w.client(2, false), "GET", "http://a.test/slow", ""); body != "late" || time.Since(began) < slow.Delay {
		t.Errorf("%q after %s", body, time.Since(began))
	}
	for _, h2 := range []bool{false, true} {
		ctx, cancel := context.WithCancel(t.Context())
		q, _ := http.NewRequestWithContext(ctx, "POST", "https://a.test/never", strings.NewReader("body"))
		ended := make(chan error, 1)
		go func() { _, err := w.client(2, h2).Do(q); ended <- err }()
		n := 2
		if h2 {
			n = 3
		}
		// Its record is there while it waits.
		for deadline := time.Now().Add(10 * time.Second); w.server.journalRecords("t2") < uint64(n) && time.Now().Before(deadline); {
			time.Sleep(time.Millisecond)
		}
		cancel()
		if err := <-ended; err == nil {
			t.Error("it was answered")
		}
		if r := w.await("t2", n)[n-1]; r.Error != "client left within the delay of rule 2" || r.Response != nil || r.Request.Body.Content != "body" {
			t.Errorf("%+v", r)
		}
	}
}

// TestWaitingEndsWithAClientThatSentAhead: net/http watches a client no more that sent
// its next request already. What waits for it ends all the same, and so does what a
// backend is asked.
func TestWaitingEndsWithAClientThatSentAhead(t *testing.T) {
	w := newWorld(t)
	asked, given := make(chan bool, 4), make(chan bool, 4)
	p := newProgram(t, 2, func(c *net.TCPConn, r *bufio.Reader) {
		takeHead(r)
		asked <- true
		_, _ = r.ReadByte() // until it is left alone
		given <- true
	})
	never := answers("/never", 200, "")
	never.Delay = time.Hour
	w.register("t2", 2, ruled("a.test", never, api.Rule{Path: "/timeout", Fault: api.FaultTimeout}), p.persona("b.test", 2, "v1"))
	get := func(host, path string) string { return "GET " + path + " HTTP/1.1\r\nHost: " + host + "\r\n\r\n" }
	for _, path := range []string{"/never", "/timeout"} {
		for _, over := range []string{"plain", "tls"} {
			c := w.open(2, over)
			_, _ = io.WriteString(c, get("a.test", path))
			w.awaitWaiting(1)
			_, _ = io.WriteString(c, get("a.test", "/webhook"))
			_ = c.socket.Close()
			w.awaitWaiting(0)
		}
	}
	told := w.records("t2", api.KindRule)
	for _, r := range told {
		if !strings.Contains(r.Error, "client left") {
			t.Errorf("%+v", r)
		}
	}
	if len(told) != 4 {
		t.Errorf("%d records", len(told))
	}
	c := w.open(2, "plain")
	_, _ = io.WriteString(c, get("b.test", "/v1/x"))
	<-asked
	_, _ = io.WriteString(c, get("b.test", "/v1/y"))
	_ = c.socket.Close()
	select {
	case <-given:
	case <-time.After(20 * time.Second):
		t.Error("the backend goes on for a client that is gone")
	}
}

// TestACutOfNothingIsTold: the answer goes out whole, and the record says why.
func TestACutOfNothingIsTold(t *testing.T) {
	w := newWorld(t)
	page := answers("/page", 200, "0123456789")
	page.Fault = api.FaultTruncate
	w.register("t2", 2, ruled("a.test", page))
	for i, h2 := range []bool{false, true} {
		if r, _ := w.do(w.client(2, h2), "HEAD", "https://a.test/page", ""); r.StatusCode != 200 || r.ContentLength != 10 {
			t.Errorf("%d, length %d", r.StatusCode, r.ContentLength)
		}
		if got := w.await("t2", i+1)[i].Error; got != "the answer has no body to be cut short by rule 1" {
			t.Errorf("recorded is %q", got)
		}
	}
}

func (s *Server) journalRecords(id string) uint64 {
	if j, ok := s.journal.Lookup(id); ok {
		return j.Status().Records
	}
	return 0
}

// TestCountsAndStatesAreExact: under 64 clients at once, and across restarts.
func TestCountsAndStatesAreExact(t *testing.T) {
	w := newWorld(t)
	once := answers("/first", 201, "")
	once.Times = 1
	some := answers("/some", 202, "")
	some.After, some.Times = 100, 300
	lock := answers("/door", 200, "in")
	lock.State, lock.SetState = api.InitialState, "locked"
	locked := answers("/door", 403, "")
	locked.State = "locked"
	w.register("t2", 2, ruled("a.test", once, some, lock, locked))
	total := map[string]int{}
	round := func(requests int) {
		var mu sync.Mutex
		var all sync.WaitGroup
		for range 64 {
			all.Go(func() {
				client := w.client(2, false)
				for range requests {
					for _, path := range []string{"/first", "/some", "/door"} {
						r, err := client.Get("http://a.test" + path)
						if err != nil {
							t.Error(err)
							return
						}
						_, _ = io.Copy(io.Discard, r.Body)
						_ = r.Body.Close()
						mu.Lock()
						total[fmt.Sprint(path, " ", r.StatusCode)]++
						mu.Unlock()
					}
				}
			})
		}
		all.Wait()
	}
	round(2)
	if total["/first 201"] != 1 || total["/door 200"] != 1 || total["/some 202"] != 28 {
		t.Errorf("at first: %v", total)
	}
	w.stop()
	w.start()
	round(8)
	if total["/first 201"] != 1 || total["/first 404"] != 639 || total["/door 200"] != 1 || total["/door 403"] != 639 || total["/some 202"] != 300 || total["/some 404"] != 340 {
		t.Errorf("after a restart: %v", total)
	}
	list, err := w.admin.Rules(t.Context(), "t2")
	if err != nil || len(list.Hosts) != 1 {
		t.Fatalf("%+v, %v", list, err)
	}
	h := list.Hosts[0]
	if h.State != "locked" || h.Rules[0].Fired != 1 || h.Rules[1].Fired != 300 || h.Rules[1].Met != 400 || h.Rules[2].Fired != 1 || h.Rules[3].Fired != 639 {
		t.Errorf("%+v", h)
	}
	fired := map[string]int{}
	for _, r := range w.records("t2") {
		fired[r.Rule]++
	}
	if fired["1"] != 1 || fired["2"] != 300 || fired["3"] != 1 || fired["4"] != 639 {
		t.Errorf("on record: %v", fired)
	}
}

// TestCountsOutliveAFullJournal: requests that are dropped from it count all the same.
func TestCountsOutliveAFullJournal(t *testing.T) {
	w := newWorld(t)
	limit := answers("/x", 200, "")
	limit.Times, limit.SetState = 5, "used"
	w.register("t2", 2, ruled("a.test", limit))
	client := w.client(2, false)
	w.do(client, "GET", "http://a.test/x", "")
	n := w.server.routes.Load().tenants["t2"]
	e := &api.RuleEffect{Host: "a.test", Counted: []int{1}, State: "used", Step: 2}
	if err := w.server.memories.keep("t2", e); err != nil { // as for a request without a record
		t.Fatal(err)
	}
	if got := n.rulesOf("a.test").Status().Rules[0].Fired; got != 1 {
		t.Errorf("fired %d times", got)
	}
	w.stop()
	w.start()
	h := w.server.routes.Load().tenants["t2"].rulesOf("a.test").Status()
	if h.Rules[0].Fired != 2 || h.State != "used" {
		t.Errorf("%+v", h)
	}
	if _, err := w.admin.Unregister(t.Context(), "t2"); err != nil {
		t.Fatal(err)
	}
	w.register("t2", 2, ruled("a.test", limit))
	if h := w.server.routes.Load().tenants["t2"].rulesOf("a.test").Status(); h.Rules[0].Fired != 0 || h.State != api.InitialState {
		t.Errorf("a new trajectory of the id begins with %+v", h)
	}
}

func TestRulesAreReplacedAtOnce(t *testing.T) {
	w := newWorld(t)
	w.register("t2", 2, ruled("a.test", answers("/x", 200, "old")), plays("b.test", "nginx"))
	client := w.client(2, false)
	if _, body := w.do(client, "GET", "http://a.test/x", ""); body != "old" {
		t.Errorf("%q", body)
	}
	next := answers("/x", 200, "new")
	next.Times = 1
	now, err := w.admin.SetRules(t.Context(), "t2", "a.test", api.RuleSet{Rules: []api.Rule{next}})
	if err != nil || now.Revision != 1 || len(now.Rules) != 1 {
		t.Fatalf("%+v, %v", now, err)
	}
	if _, body := w.do(client, "GET", "http://a.test/x", ""); body != "new" {
		t.Errorf("%q", body)
	}
	for _, c := range []struct {
		id, host string
		rules    []api.Rule
		status   int
	}{
		{"t9", "a.test", nil, 404}, {"t2", "c.test", nil, 404}, {"t2", "a.test", []api.Rule{{PathRegex: "("}}, 400}, {"t2", "a.test", []api.Rule{{}}, 400},
	} {
		_, err := w.admin.SetRules(t.Context(), c.id, c.host, api.RuleSet{Rules: c.rules})
		var refused *api.Error
		if !errors.As(err, &refused) || refused.Status != c.status {
			t.Errorf("%s %s: %v", c.id, c.host, err)
		}
	}
	w.stop()
	w.start()
	if r, _ := w.do(w.client(2, false), "GET", "http://a.test/x", ""); r.StatusCode != 404 {
		t.Errorf("after a restart: %d, and it was used up", r.StatusCode)
	}
	if _, err := w.admin.SetRules(t.Context(), "t2", "b.test", api.RuleSet{Rules: []api.Rule{answers("/x", 418, "b")}}); err != nil {
		t.Fatal(err)
	}
	if r, _ := w.do(w.client(2, false), "GET", "http://b.test/x", ""); r.StatusCode != 418 {
		t.Errorf("a persona that had none: %d", r.StatusCode)
	}
	if _, err := w.admin.SetRules(t.Context(), "t2", "a.test", api.RuleSet{}); err != nil {
		t.Fatal(err)
	}
	if r, _ := w.do(w.client(2, false), "GET", "http://a.test/x", ""); r.StatusCode != 404 {
		t.Errorf("without rules: %d", r.StatusCode)
	}
	records := w.records("t2", api.KindRulesSet)
	if len(records) != 3 || records[0].Persona != "a.test" || !strings.Contains(records[0].Raw.Content, `"times":1`) || records[2].Raw.Content != `{"rules":[]}` || records[0].OutcomeUnknown {
		t.Errorf("%+v", records)
	}
	again, err := w.admin.Register(t.Context(), registration("t2", 2, ruled("a.test", answers("/x", 200, "old")), plays("b.test", "nginx")))
	if err != nil || !again.Unchanged {
		t.Errorf("registered again: %+v, %v", again, err)
	}
	if s, err := w.admin.Status(t.Context()); err != nil || fmt.Sprint(s.Trajectories[0].ReplacedRules) != "[a.test b.test]" {
		t.Errorf("its status is %+v, %v", s, err)
	}
}

func TestTemplatesAnswerFromTheRequest(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Now = func() time.Time { return time.Date(2026, 11, 30, 1, 2, 3, 0, time.UTC) } })
	echo := answers("/echo", 200, `{{.Method}} {{.Query "q"}} {{.Header "x-h"}} {{.Value "user.name"}} {{counter}} {{now}} {{hash .Body}}`)
	echo.Respond.Template, echo.Respond.Headers = true, [][2]string{{"X-Echo", `{{.Query "q"}}`}}
	bad := answers("/bad", 200, `{{range 100000000}}{{end}}`)
	bad.Respond.Template = true
	w.register("t2", 2, ruled("a.test", echo, bad))
	q, _ := http.NewRequest("POST", "http://a.test/echo?q=a%0D%0AX-Evil:%201", strings.NewReader(`{"user":{"name":"root"}}`))
	q.Header.Set("X-H", "h")
	r, body := w.doRequest(w.client(2, false), q)
	if want := "POST a\r\nX-Evil: 1 h root 1 2026-11-30T01:02:03Z " + api.HexSHA256([]byte(`{"user":{"name":"root"}}`)); body != want {
		t.Errorf("%q, want %q", body, want)
	}
	if r.Header.Get("X-Evil") != "" || r.Header.Get("X-Echo") != "a  X-Evil: 1" {
		t.Errorf("%v", r.Header)
	}
	if r, body := w.do(w.client(2, false), "GET", "http://a.test/bad", ""); r.StatusCode != 500 || !strings.Contains(body, "nginx") {
		t.Errorf("%d %q", r.StatusCode, body)
	}
	if r := w.records("t2")[1]; r.Error != "template of rule 2: body: it takes more work than a template may" {
		t.Errorf("%q", r.Error)
	}
}

func TestRulesSeeLongBodies(t *testing.T) {
	w := newWorld(t)
	found := answers("/webhook", 403, "")
	found.BodyContains = "the secret"
	byJSON := answers("/webhook", 402, "")
	byJSON.BodyJSON = []api.JSONValue{{Pointer: "/model", Value: []byte(`"x"`)}}
	w.register("t2", 2, ruled("a.test", found, byJSON))
	client := w.client(2, false)
	for _, c := range []struct {
		body   string
		status int
	}{
		{strings.Repeat("a", 200_000) + "the secret", 403},
		{strings.Repeat("a", 200_000) + "the sacret", 200},
		{strings.Repeat("a", api.MaxRuleBody) + "the secret", 200}, // beyond what rules look at
		{`{"prompt":"` + strings.Repeat("a", 200_000) + `","model":"x"}`, 402},
		{`{"prompt":"` + strings.Repeat("a", api.MaxRuleBody) + `","model":"x"}`, 200},
	} {
		if r, _ := w.do(client, "POST", "http://a.test/webhook", c.body); r.StatusCode != c.status {
			t.Errorf("%d bytes: %d, want %d", len(c.body), r.StatusCode, c.status)
		}
	}
}
