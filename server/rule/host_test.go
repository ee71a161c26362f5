package rule

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/linuxarena/ctis/server/api"
)

func hostOf(t testing.TB, rules ...api.Rule) *Host {
	t.Helper()
	for i := range rules {
		rules[i].Pass = true
	}
	set, err := Compile(rules)
	if err != nil {
		t.Fatal(err)
	}
	return NewHost("t1", "a.test", 0, set)
}

// taken lists which rules take the same request, one time after the other.
func taken(h *Host, q string, n int) (refs string) {
	for range n {
		ref := "-"
		if f, _ := h.Decide(request(q)); f.Rule != nil {
			ref = f.Rule.Ref
		}
		refs += ref
	}
	return refs
}

func TestAfterAndTimesLeaveRequestsToLaterRules(t *testing.T) {
	for _, c := range []struct {
		rules []api.Rule
		want  string
	}{
		{[]api.Rule{{Times: 2}}, "11------"},
		{[]api.Rule{{After: 2}}, "--111111"},
		{[]api.Rule{{After: 1, Times: 2}}, "-11-----"},
		{[]api.Rule{{After: 1, Times: 2}, {Times: 3}, {}}, "21122333"},
		{[]api.Rule{{Times: 1}, {Times: 1}, {After: 1}}, "12-33333"}, // what a rule before takes is none of a later one's
		{[]api.Rule{{Path: "/other", Times: 1}, {Times: 1}}, "2-------"},
		{[]api.Rule{{State: "b", Times: 1}, {Times: 2, SetState: "b"}, {}}, "212333333"[:8]},
		{[]api.Rule{{State: "start", SetState: "b"}, {State: "b", SetState: "c"}, {State: "c", SetState: "start"}}, "12312312"},
	} {
		if got := taken(hostOf(t, c.rules...), "GET /", 8); got != c.want {
			t.Errorf("%+v: %s, want %s", c.rules, got, c.want)
		}
	}
}

func TestExplainTellsWhatDecideDoes(t *testing.T) {
	h := hostOf(t, api.Rule{After: 1, Times: 1}, api.Rule{State: "x"}, api.Rule{Name: "first", Times: 1, SetState: "x"}, api.Rule{Name: "last"})
	for _, want := range []string{
		`1: after: it leaves the first 1 that match to later rules, and this is number 1; 2: state: the host's is "start", not "x"; first: fires; last: order: it would, but rule "first" comes before it; `,
		`1: fires; 2: order: it would, but rule "1" comes before it; first: times: it has taken its 1 already; last: order: it would, but rule "1" comes before it; `,
		`1: times: it has taken its 1 already; 2: fires; first: times: it has taken its 1 already; last: order: it would, but rule "2" comes before it; `,
	} {
		got := ""
		for _, v := range h.Explain(request("GET /")) {
			if v.Fires {
				v.Why = "fires"
			}
			got += v.Ref + ": " + v.Why + "; "
		}
		if got != want {
			t.Errorf("it says\n%s\nwant\n%s", got, want)
		}
		h.Decide(request("GET /"))
	}
}

// TestMemoryIsTheSumOfTheEffects: whatever is remembered can be made again from what
// the records say, in any order, however many requests came at once.
func TestMemoryIsTheSumOfTheEffects(t *testing.T) {
	rules := []api.Rule{
		{Path: "/a", After: 50, Times: 100}, {Path: "/a", State: "start", SetState: "one"}, {Path: "/a", State: "one", SetState: "two", Times: 3},
		{Path: "/a", State: "two", SetState: "start"}, {Times: 40}, {},
	}
	h := hostOf(t, rules...)
	var mu sync.Mutex
	var effects []*api.RuleEffect
	var all sync.WaitGroup
	undone := 0
	for g := range 64 {
		all.Go(func() {
			for i := range 30 {
				_, e := h.Decide(request([]string{"GET /a", "GET /b"}[i%2]))
				if e == nil {
					continue
				}
				if (g+i)%7 == 0 { // as where it cannot be recorded
					h.Undo(e)
					mu.Lock()
					undone++
					mu.Unlock()
					continue
				}
				mu.Lock()
				effects = append([]*api.RuleEffect{e}, effects...)
				mu.Unlock()
			}
		})
	}
	all.Wait()
	var half, other Memory
	for i, e := range effects {
		if i%2 == 0 {
			half.Add(e)
		} else {
			other.Add(e)
		}
	}
	half.Merge(&other)
	again := hostOf(t, rules...)
	again.Recall(&half)
	if got, want := fmt.Sprintf("%+v", again.Status()), fmt.Sprintf("%+v", h.Status()); got != want || undone == 0 {
		t.Errorf("it remembers\n%s\nwant\n%s", got, want)
	}
}

func TestUndoneStepsLeaveLaterOnes(t *testing.T) {
	rules := []api.Rule{{Path: "/a", SetState: "a"}, {Path: "/b", SetState: "b"}}
	h := hostOf(t, rules...)
	_, a := h.Decide(request("GET /a"))
	_, b := h.Decide(request("GET /b"))
	h.Undo(a)
	if s := h.Status(); s.State != "b" || s.Rules[0].Fired != 0 {
		t.Errorf("%+v", s)
	}
	h.Undo(b)
	if s := h.Status(); s.State != api.InitialState || s.Rules[1].Fired != 0 {
		t.Errorf("%+v", s)
	}
	h.Undo(nil)
	h.Undo(&api.RuleEffect{Revision: 7, Counted: []int{1}})
	h.Undo(&api.RuleEffect{Counted: []int{0, -1, 99, 1}})
	if s := h.Status(); s.Rules[0].Met != 0 {
		t.Errorf("%+v", s)
	}
}

func TestRulesThatCannotBeFollowedAreRefused(t *testing.T) {
	ok := &api.RuleResponse{Status: 200}
	for want, r := range map[string]api.Rule{
		"it does nothing":                  {},
		"respond and pass are in one rule": {Respond: ok, Pass: true},
		"there is no fault":                {Fault: "smoke"},
		"sends nothing":                    {Fault: api.FaultReset, Pass: true},
		"has no response to cut":           {Fault: api.FaultTruncate},
		"edit changes what is passed on":   {Respond: ok, Edit: &api.ResponseEdit{Status: 200}},
		"status 99 is not":                 {Pass: true, Edit: &api.ResponseEdit{Status: 99}},
		"replaces an empty text":           {Pass: true, Edit: &api.ResponseEdit{Replace: [][2]string{{"", "x"}}}},
		"cannot be set":                    {Pass: true, Edit: &api.ResponseEdit{Remove: []string{"content-length"}}},
		"status 700 is not":                {Respond: &api.RuleResponse{Status: 700}},
		"not a legal header name":          {Respond: &api.RuleResponse{Status: 200, Headers: [][2]string{{"a b", "x"}}}},
		"a value that cannot be sent":      {Respond: &api.RuleResponse{Status: 200, Headers: [][2]string{{"a", "x\r\nb: y"}}}},
		"is about the connection":          {Respond: &api.RuleResponse{Status: 200, Headers: [][2]string{{"transfer-encoding", "chunked"}}}},
		"the json body is no JSON":         {Respond: &api.RuleResponse{Status: 200, JSON: true, Body: []byte("{")}},
		"unclosed action":                  {Respond: &api.RuleResponse{Status: 200, Template: true, Body: []byte("{{")}},
		`header "a": unclosed action`:      {Respond: &api.RuleResponse{Status: 200, Template: true, Headers: [][2]string{{"a", "{{"}}}},
		"is not a method":                  {Pass: true, Methods: []string{"G T"}},
		"does not start with a slash":      {Pass: true, Path: "a"},
		"path and path_regex":              {Pass: true, Path: "/", PathRegex: "/"},
		"path_regex":                       {Pass: true, PathRegex: "("},
		"body_regex":                       {Pass: true, BodyRegex: "(?=x)"},
		"too large with its repetitions":   {Pass: true, BodyRegex: strings.Repeat("[a-zA-Z0-9_-]{999}", 3)},
		"nothing to ask for":               {Pass: true, Query: []api.Condition{{Name: "a", Op: "like"}}},
		"query":                            {Pass: true, Query: []api.Condition{{Name: "a", Op: api.OpMatches, Value: "["}}},
		"headers":                          {Pass: true, Headers: []api.Condition{{Name: "a b", Op: api.OpPresent}}},
		"no JSON Pointer":                  {Pass: true, BodyJSON: jsonAt("a", "1")},
		"~ is not followed":                {Pass: true, BodyJSON: jsonAt("/a~2", "1")},
		"is no JSON":                       {Pass: true, BodyJSON: jsonAt("/a", "1 2")},
		"is no name":                       {Pass: true, Name: "1"},
		"are no counts":                    {Pass: true, Times: -1},
		"must be between":                  {Pass: true, Delay: -1},
		"has a control character":          {Pass: true, SetState: "a\nb"},
	} {
		if _, err := Compile([]api.Rule{{Pass: true}, r}); err == nil || !contains(err.Error(), want) || !contains(err.Error(), "rule ") {
			t.Errorf("%+v: %v; want %q", r, err, want)
		}
	}
	if _, err := Compile([]api.Rule{{Name: "a", Pass: true}, {Name: "a", Pass: true}}); err == nil {
		t.Error("two rules of one name are taken")
	}
	if _, err := Compile(make([]api.Rule, api.MaxRules+1)); err == nil {
		t.Error("any number of rules is taken")
	}
	big := &api.RuleResponse{Status: 200, Body: make([]byte, api.MaxRuleBodies/2+1)}
	if _, err := Compile([]api.Rule{{Respond: big}, {Respond: big}}); err == nil {
		t.Error("bodies of any size are taken")
	}
}

func contains(s, part string) bool { return containsText([]byte(s), part) }
