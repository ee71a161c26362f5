package commands

import (
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/linuxarena/ctis/compose"
	"github.com/linuxarena/ctis/server/api"
	"github.com/linuxarena/ctis/server/rule"
)

// tryOptions are a request that is only thought of.
type tryOptions struct {
	request string
	headers cli.StringSlice
	data    string
	state   string
	repeat  int
}

func (o *tryOptions) flags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "request", Aliases: []string{"X"}, Usage: "test: the request, `'METHOD URL'`", Destination: &o.request},
		&cli.StringSliceFlag{Name: "header", Aliases: []string{"H"}, Usage: "test: a header of it, `'NAME: VALUE'` (repeatable)", Destination: &o.headers},
		&cli.StringFlag{Name: "data", Aliases: []string{"d"}, Usage: "test: its body, `TEXT`, or @FILE for what a file has", Destination: &o.data},
		&cli.StringFlag{Name: "state", Usage: "test: the host's state is `S` at first", Destination: &o.state},
		&cli.IntFlag{Name: "repeat", Usage: "test: it comes `N` times", Destination: &o.repeat},
	}
}

func (o *tryOptions) given() bool {
	return o.request != "" || len(o.headers.Value()) > 0 || o.data != "" || o.state != "" || o.repeat != 0
}

// maxRepeat bounds the rounds of a trial: what rules remember settles long before.
const maxRepeat = 1000

// attempt is what becomes of a request that is only thought of.
type attempt struct {
	Number int          `json:"number"`
	State  string       `json:"state"` // before it
	Rule   string       `json:"rule"`  // that takes it; "" for none
	Does   string       `json:"does"`
	Rules  []attemptRow `json:"rules"`
}

type attemptRow struct {
	Rule  string `json:"rule"`
	Fires bool   `json:"fires"`
	Why   string `json:"why"`
}

func (a *app) runRulesTest(o tryOptions, file string) error {
	q, host, err := o.build()
	if err != nil {
		return err
	}
	rules, err := a.rulesOf(file, host)
	if err != nil {
		return err
	}
	set, err := rule.Compile(rules)
	if err != nil {
		return err
	}
	h := rule.NewHost("test", string(host), 0, set)
	if o.state != "" {
		h.SetState(o.state)
	}
	attempts := []attempt{}
	for n := range max(1, o.repeat) {
		t := attempt{Number: n + 1, State: h.Status().State, Rules: []attemptRow{}}
		for _, v := range h.Explain(q) {
			t.Rules = append(t.Rules, attemptRow{v.Ref, v.Fires, v.Why})
		}
		if fired, _ := h.Decide(q); fired.Rule != nil {
			t.Rule, t.Does = fired.Rule.Ref, ruleDoes(&fired.Rule.Rule)
		}
		attempts = append(attempts, t)
	}
	if a.json {
		return a.printJSON(attempts)
	}
	return a.printAttempts(attempts, o.repeat > 1)
}

func (a *app) printAttempts(attempts []attempt, numbered bool) error {
	for _, t := range attempts {
		text := "no rule takes it: it is answered as without rules"
		if t.Rule != "" {
			text = fmt.Sprintf("rule %q takes it: %s", t.Rule, t.Does)
		}
		if numbered {
			text = fmt.Sprintf("request %d, state %q: %s", t.Number, t.State, text)
		}
		if _, err := fmt.Fprintln(a.streams.Out, printable(text)); err != nil {
			return err
		}
		for _, r := range t.Rules {
			mark, why := "-", r.Why
			if r.Fires {
				mark, why = "*", "fires"
			}
			if _, err := fmt.Fprintln(a.streams.Out, printable("  "+mark+" "+r.Rule+"  "+why)); err != nil {
				return err
			}
		}
	}
	return nil
}

// build checks the options and makes the request out of them.
func (o tryOptions) build() (*rule.Request, compose.Hostname, error) {
	wrong := func(msg, hint string) (*rule.Request, compose.Hostname, error) {
		return nil, "", &usageError{msg: msg, hint: hint}
	}
	const example = "write --request 'POST https://filebin.net/webhook?x=1'"
	method, target, ok := strings.Cut(strings.TrimSpace(o.request), " ")
	switch {
	case o.request == "":
		return wrong("ctis rules test: --request is missing", example)
	case !ok:
		return wrong("--request "+quoted(o.request)+" is not a method and a URL", example)
	case o.repeat < 0 || o.repeat > maxRepeat:
		return wrong(fmt.Sprintf("--repeat %d is not between 1 and %d", o.repeat, maxRepeat), "give the number of requests")
	}
	u, err := url.Parse(strings.TrimSpace(target))
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return wrong("--request: "+quoted(target)+" is not a URL with http:// or https://", example)
	}
	host, err := compose.ParseHostname(u.Hostname())
	if err != nil {
		return wrong("--request: "+err.Error(), example)
	}
	path := u.EscapedPath()
	if path == "" {
		path = "/"
	}
	q := &rule.Request{Method: method, Scheme: u.Scheme, Host: u.Host, Path: rule.DecodePath(path), RawQuery: u.RawQuery, Target: path}
	if u.RawQuery != "" || u.ForceQuery {
		q.Target += "?" + u.RawQuery
	}
	for _, h := range o.headers.Value() {
		name, value, ok := strings.Cut(h, ":")
		if !ok || name == "" {
			return wrong("--header "+quoted(h)+" is not a name and a value", "write --header 'Name: value'")
		}
		q.Headers = append(q.Headers, [2]string{name, strings.TrimSpace(value)})
	}
	switch name, isFile := strings.CutPrefix(o.data, "@"); {
	case isFile:
		b, err := os.ReadFile(name)
		if err != nil {
			return wrong("--data: "+err.Error(), "give the body itself, or @ and a file")
		}
		if len(b) > api.MaxRuleBody {
			return wrong(fmt.Sprintf("--data: the file has more than the %d bytes that rules look at", api.MaxRuleBody), "give a shorter one")
		}
		q.Body = rule.Text(b)
	case o.data != "":
		q.Body = rule.Text(o.data)
	}
	return q, host, nil
}
