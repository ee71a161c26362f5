package commands

import (
	"testing"
	"time"

	"github.com/linuxarena/ctis/server/api"
)

func TestRulesAreTold(t *testing.T) {
	for _, c := range []struct {
		rule       api.Rule
		does, when string
	}{
		{api.Rule{Pass: true}, "pass", "always"},
		{api.Rule{Methods: []string{"GET", "PUT"}, Path: "/a/*", Respond: &api.RuleResponse{Status: 429}, Times: 2}, "429", "GET|PUT, /a/*"},
		{api.Rule{PathRegex: "^/x", State: "in", SetState: "out", Delay: time.Second, Jitter: time.Second / 2, Fault: api.FaultTruncate, Respond: &api.RuleResponse{Status: 200}}, "wait 1s+500ms, 200, truncate, → out", "path_regex ^/x, state in"},
		{api.Rule{Query: []api.Condition{{Name: "q"}}, Headers: []api.Condition{{Name: "H"}}, BodyContains: "b", BodyRegex: "r", BodyJSON: []api.JSONValue{{Pointer: "/p"}}, After: 3, Fault: api.FaultReset}, "reset", "query q, header H, body_contains b, body_regex r, body_json /p, after 3"},
		{api.Rule{Pass: true, Edit: &api.ResponseEdit{Status: 201}}, "pass, edited", "always"},
	} {
		if does, when := ruleDoes(&c.rule), ruleWhen(&c.rule); does != c.does || when != c.when {
			t.Errorf("%q when %q, want %q when %q", does, when, c.does, c.when)
		}
	}
}
