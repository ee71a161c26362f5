package commands

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/linuxarena/ctis/compose"
	"github.com/linuxarena/ctis/server/api"
)

// rulesUses are what `ctis rules` does, with their arguments.
var rulesUses = []struct{ name, args string }{
	{"set", "ID HOST FILE"},
	{"ls", "ID"},
	{"test", "FILE --request 'METHOD URL'"},
}

func (a *app) rulesCommand() *cli.Command {
	var o tryOptions
	return verb(&cli.Command{
		Name:      "rules",
		Usage:     "replace, list and try response rules",
		ArgsUsage: "set ID HOST FILE | ls ID | test FILE --request 'METHOD URL'",
		Description: "set replaces all rules of persona HOST of trajectory ID, in one step and at once; what the old ones\n" +
			"remembered (counts, the state) is gone. FILE has a [[rules]] for each rule, or is a ctis.toml, whose\n" +
			"rules for HOST are taken. \"rules = []\" takes all rules away.\n\n" +
			"ls shows the rules in force, how often each fired, and each host's state.\n\n" +
			"test needs no engine: it says which rule of FILE would take a request, and why the others would not.\n" +
			"--header, --data and --state say what of it, --repeat how often it comes.\n\n" +
			"What rules are is told in docs/rules.md.\n\n" +
			"Exit status: 0 done, 1 failed (the old rules are in force), 2 usage or invalid rules, 4 no engine.",
		Flags: append(o.flags(), a.jsonFlag()),
		Action: func(c *cli.Context) error {
			args := c.Args().Slice()
			if len(args) == 0 {
				return rulesUsage("too few arguments", "")
			}
			use, args := args[0], args[1:]
			wanted := map[string]int{"set": 3, "ls": 1, "test": 1}
			n, known := wanted[use]
			switch {
			case !known:
				return rulesUsage("there is no "+quoted(use), "")
			case len(args) < n:
				return rulesUsage(use+": too few arguments", use)
			case len(args) > n:
				return rulesUsage(use+": unexpected argument "+quoted(args[n]), use)
			case use == "test":
				return a.runRulesTest(o, args[0])
			case o.given():
				return rulesUsage(use+": --request, --header, --data, --state and --repeat belong to test", use)
			case use == "ls":
				return a.runRulesLs(c.Context, args[0])
			}
			return a.runRulesSet(c.Context, args[0], args[1], args[2])
		},
	})
}

func rulesUsage(msg, use string) error {
	var lines []string
	for _, u := range rulesUses {
		if use == "" || use == u.name {
			lines = append(lines, "ctis rules "+u.name+" "+u.args)
		}
	}
	return &usageError{msg: "ctis rules: " + msg, hint: "usage: " + strings.Join(lines, ", ")}
}

// loadRules reads a file with rules; problems that are errors end it.
func (a *app) loadRules(file string) (*compose.RuleFile, error) {
	path := file
	if !filepath.IsAbs(path) {
		wd, err := workingDir()
		if err != nil {
			return nil, err
		}
		path = filepath.Join(wd, file)
	}
	rules, problems := compose.LoadRules(path, file)
	if problems.HasErrors() {
		return nil, &invalidError{problems: problems, what: "the rules are invalid"}
	}
	for _, p := range problems {
		a.ui.lines(printable(problemText(p)))
	}
	return rules, nil
}

// rulesOf are the rules of a file for a host.
func (a *app) rulesOf(file string, host compose.Hostname) ([]api.Rule, error) {
	f, err := a.loadRules(file)
	if err != nil {
		return nil, err
	}
	rules, ok := f.For(host)
	if !ok {
		e := &usageError{msg: fmt.Sprintf("%s has no host %q", quoted(file), host), hint: "it has no hosts"}
		if hosts := f.Hosts(); len(hosts) > 0 {
			e.hint = "its hosts are " + strings.Join(hosts, ", ")
		}
		return nil, e
	}
	return rules, nil
}

func (a *app) runRulesSet(ctx context.Context, id, name, file string) error {
	if err := compose.ValidateID(id); err != nil {
		return err
	}
	host, err := compose.ParseHostname(name)
	if err != nil {
		return &usageError{msg: err.Error(), hint: rulesUsage("", "set").(*usageError).hint}
	}
	rules, err := a.rulesOf(file, host)
	if err != nil {
		return err
	}
	admin, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer admin.Close()
	now, err := admin.SetRules(ctx, id, string(host), api.RuleSet{Rules: rules})
	if err != nil {
		return explainRules(ctx, admin, id, err)
	}
	if a.json {
		return a.printJSON(now)
	}
	if a.quiet {
		return nil
	}
	a.ui.lines(fmt.Sprintf("%s has %s now (revision %d)", now.Host, plural(len(now.Rules), "rule"), now.Revision))
	return nil
}

// explainRules adds to a refusal what there is instead.
func explainRules(ctx context.Context, admin *api.Client, id string, err error) error {
	var refused *api.Error
	if !errors.As(err, &refused) || refused.Status != http.StatusNotFound {
		return err
	}
	status, statusErr := admin.Status(ctx)
	if statusErr != nil {
		return err // the first error is the one that tells
	}
	for _, t := range status.Trajectories {
		if t.Trajectory == id {
			return &hintedError{err: err, hint: "its personas are " + strings.Join(t.Personas, ", ")}
		}
	}
	return &hintedError{err: err, hint: "ctis status lists the trajectories that are up"}
}

func (a *app) runRulesLs(ctx context.Context, id string) error {
	if err := compose.ValidateID(id); err != nil {
		return err
	}
	admin, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer admin.Close()
	list, err := admin.Rules(ctx, id)
	if err != nil {
		return explainRules(ctx, admin, id, err)
	}
	if a.json {
		return a.printJSON(list.Hosts)
	}
	var rows [][]string
	for _, h := range list.Hosts {
		state := h.State
		if h.Revision > 0 {
			state += fmt.Sprintf(" (revision %d)", h.Revision)
		}
		if len(h.Rules) == 0 {
			rows = append(rows, []string{h.Host, state, "", "", "no rules", ""})
		}
		for _, r := range h.Rules {
			fired := strconv.FormatInt(r.Fired, 10)
			if r.Rule.Times > 0 {
				fired += " of " + strconv.Itoa(r.Rule.Times)
			}
			rows = append(rows, []string{h.Host, state, r.Ref, fired, ruleDoes(&r.Rule), ruleWhen(&r.Rule)})
		}
	}
	if len(rows) == 0 {
		a.ui.lines("no host of trajectory " + quoted(id) + " has rules")
		return nil
	}
	return a.table([]string{"HOST", "STATE", "RULE", "FIRED", "DOES", "WHEN"}, rows, 5)
}

// ruleDoes is what a rule does, in a few words.
func ruleDoes(r *api.Rule) string {
	var parts []string
	if r.Delay+r.Jitter > 0 {
		wait := "wait " + r.Delay.String()
		if r.Jitter > 0 {
			wait += "+" + r.Jitter.String()
		}
		parts = append(parts, wait)
	}
	switch {
	case r.Respond != nil:
		parts = append(parts, strconv.Itoa(r.Respond.Status))
	case r.Pass && r.Edit != nil:
		parts = append(parts, "pass, edited")
	case r.Pass:
		parts = append(parts, "pass")
	}
	if r.Fault != "" {
		parts = append(parts, r.Fault)
	}
	if r.SetState != "" {
		parts = append(parts, "→ "+r.SetState)
	}
	return strings.Join(parts, ", ")
}

// ruleWhen is when a rule fires, in the words of ctis.toml.
func ruleWhen(r *api.Rule) string {
	var parts []string
	add := func(key, value string) {
		if value != "" {
			parts = append(parts, strings.TrimSpace(key+" "+value))
		}
	}
	add("", strings.Join(r.Methods, "|"))
	add("", r.Path)
	add("path_regex", r.PathRegex)
	for _, c := range r.Query {
		add("query", c.Name)
	}
	for _, c := range r.Headers {
		add("header", c.Name)
	}
	add("body_contains", r.BodyContains)
	add("body_regex", r.BodyRegex)
	for _, v := range r.BodyJSON {
		add("body_json", v.Pointer)
	}
	add("state", r.State)
	if r.After > 0 {
		add("after", strconv.Itoa(r.After))
	}
	if len(parts) == 0 {
		return "always"
	}
	return strings.Join(parts, ", ")
}

// rulesWords are what may stand in the place of the last of words.
func (a *app) rulesWords(ctx context.Context, words []string) []string {
	at := slices.Index(words, "rules")
	switch before := words[at+1 : len(words)-1]; {
	case len(before) == 0:
		return []string{"set", "ls", "test"}
	case len(before) == 1 && before[0] != "test":
		return a.knownIDs(ctx)
	}
	return nil
}
