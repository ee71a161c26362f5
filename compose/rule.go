package compose

import (
	"errors"
	"fmt"
	"net/textproto"
	"slices"
	"strings"
	"time"

	"github.com/linuxarena/ctis/server/api"
	"github.com/linuxarena/ctis/server/rule"
)

// Rule is one scripted answer of a host (SPEC §11), with the places that
// reading it needed.
type Rule struct {
	api.Rule

	bodyFile string   // as written; read by [environmentLoad.bodyFiles]
	path     []string // in the file
}

// ruleHost is what a rule belongs to.
type ruleHost int

const (
	onPersona ruleHost = iota
	onUpstream
)

var ruleKeys = []string{
	"name", "methods", "path", "path_regex", "query", "headers", "body_contains", "body_regex", "body_json", "times", "after", "state",
	"respond", "delay", "jitter", "fault", "set_state", "pass", "edit",
}

const maxRules = api.MaxRules

// rules reads the rules of a host and what they are to each other.
func (r *configReader) rules(host map[string]any, path []string, on ruleHost) []Rule {
	path = below(path, "rules")
	v, ok := host["rules"]
	if !ok {
		return nil
	}
	list, ok := elements(v)
	if !ok {
		p := r.problems.errorf(r.index.value(path...), "%s must be an array of tables, not %s", keyName(path), tomlType(v))
		if _, table := v.(map[string]any); table && on == onPersona {
			p.hint("write [[%s]], with two brackets, before each rule", keyName(path))
		}
		return nil
	}
	if len(list) > maxRules {
		r.problems.errorf(r.index.value(below(path, elem(maxRules))...), "%s has %d rules; %d are allowed", keyName(path), len(list), maxRules)
		return nil
	}
	before := len(*r.problems)
	var rules []Rule
	for i, v := range list {
		at := below(path, elem(i))
		table, ok := v.(map[string]any)
		if !ok {
			r.wrongType(v, "a table", at)
			continue
		}
		rules = append(rules, r.rule(table, at, on))
	}
	r.repeatedNames(rules)
	if !(*r.problems)[before:].HasErrors() { // or it would not be known what they match
		r.neverFire(rules)
		r.compiled(rules)
	}
	return rules
}

// compiled makes sure that the simulator takes the rules. What it would not take has
// been reported in better words before.
func (r *configReader) compiled(rules []Rule) {
	var refused *rule.Error
	if _, err := rule.Compile(wire(rules)); errors.As(err, &refused) {
		r.problems.errorf(r.index.value(rules[refused.Index].path...), notTaken+"%s", refused.Err)
	} else if err != nil {
		r.problems.errorf(r.index.value(rules[0].path...), notTaken+"%s", err)
	}
}

const notTaken = "the simulator would not take this rule: "

func (r *configReader) repeatedNames(rules []Rule) {
	seen := map[string]bool{}
	for _, rule := range rules {
		if rule.Name != "" && seen[rule.Name] {
			r.problems.errorf(r.index.value(below(rule.path, "name")...), "another rule of this host is called %q", rule.Name).
				hint("records say by its name which rule took a request")
		}
		seen[rule.Name] = true
	}
}

func (r *configReader) rule(table map[string]any, path []string, on ruleHost) Rule {
	r.keys(table, path, ruleKeys)
	rule := Rule{path: path}
	rule.Name = r.ruleName(table, below(path, "name"))
	rule.Methods = r.methods(table, below(path, "methods"))
	r.rulePath(table, path, &rule)
	rule.Query = r.conditions(table, below(path, "query"), false)
	rule.Headers = r.conditions(table, below(path, "headers"), true)
	rule.BodyContains, _ = r.text(table, below(path, "body_contains")...)
	rule.BodyRegex = r.regex(table, below(path, "body_regex"))
	rule.BodyJSON = r.bodyJSON(table, below(path, "body_json"))
	rule.Times = r.count(table, below(path, "times"), 1)
	rule.After = r.count(table, below(path, "after"), 0)
	rule.State = r.state(table, below(path, "state"))
	rule.SetState = r.state(table, below(path, "set_state"))
	rule.Delay = r.duration(table, below(path, "delay"))
	rule.Jitter = r.duration(table, below(path, "jitter"))
	r.action(table, path, &rule, on)
	return rule
}

func (r *configReader) ruleName(table map[string]any, path []string) string {
	name, ok := r.text(table, path...)
	if ok && name != "" {
		if err := rule.CheckName(name); err != nil {
			r.problems.errorf(r.index.value(path...), "name %q %s", excerpt(name), err)
		}
	}
	return name
}

func (r *configReader) state(table map[string]any, path []string) string {
	s, _ := r.text(table, path...)
	if err := rule.CheckState(s); err != nil {
		r.problems.errorf(r.index.value(path...), "%s %q %s", path[len(path)-1], excerpt(s), err)
	}
	return s
}

func (r *configReader) methods(table map[string]any, path []string) []string {
	methods := r.texts(table, path...)
	for i, m := range methods {
		at := r.index.value(below(path, elem(i))...)
		switch {
		case m == "": // reported with its type
		case !headerToken(m): // the same characters are allowed
			r.problems.errorf(at, "%q is not a method", m)
		case m != strings.ToUpper(m):
			r.problems.errorf(at, "%q is not a method that clients send", m).hint("write %q: methods are compared as they are", strings.ToUpper(m))
		}
	}
	if v, ok := table["methods"].([]any); ok && len(v) == 0 {
		r.problems.errorf(r.index.value(path...), "%s is empty, so the rule never fires", keyName(path)).hint("leave it out for every method")
	}
	return methods
}

func (r *configReader) rulePath(table map[string]any, path []string, rule *Rule) {
	rule.Path, _ = r.text(table, below(path, "path")...)
	rule.PathRegex = r.regex(table, below(path, "path_regex"))
	if rule.Path != "" {
		if _, err := api.PathGlob(rule.Path); err != nil {
			p := r.problems.errorf(r.index.value(below(path, "path")...), "path %q %s", rule.Path, err)
			switch bare, query, _ := strings.Cut(rule.Path, "?"); {
			case strings.Contains(query, "=") && strings.HasPrefix(bare, "/"):
				p.hint("write path = %q and ask for parameters in query = { NAME = \"VALUE\" }", bare)
			case strings.Contains(rule.Path, "://"):
				p.hint("write the path alone: the host is the table's")
			case !strings.HasPrefix(rule.Path, "/") && !strings.HasPrefix(rule.Path, "*"):
				p.hint("write %q", "/"+rule.Path)
			}
		}
	}
	if _, both := table["path_regex"]; both && table["path"] != nil {
		r.problems.errorf(r.index.key(below(path, "path_regex")...), "path and path_regex are in one rule").
			hint("keep one of them; path takes * and **")
	}
}

// conditions reads what is asked of query parameters or header fields, in the
// order of the file.
func (r *configReader) conditions(parent map[string]any, path []string, header bool) []api.Condition {
	table, ok := r.table(parent, path...)
	if !ok {
		return nil
	}
	var all []api.Condition
	seen := map[string]string{}
	for _, name := range r.ordered(table, path) {
		at := below(path, name)
		c := api.Condition{Name: name}
		if header {
			if !headerToken(name) {
				r.problems.errorf(r.index.key(at...), "%q is not a legal header name", name)
			}
			c.Name = textproto.CanonicalMIMEHeaderKey(name)
			if first, twice := seen[c.Name]; twice {
				r.problems.errorf(r.index.key(at...), "header %q stands twice in %s, first as %q", name, keyName(path), first)
			}
			seen[c.Name] = name
		}
		switch v := table[name].(type) {
		case string:
			c.Op, c.Value = api.OpIs, v
		case bool:
			if c.Op = api.OpAbsent; v {
				c.Op = api.OpPresent
			}
		case map[string]any:
			r.keys(v, at, []string{"regex"})
			c.Op, c.Value = api.OpMatches, r.regex(v, below(at, "regex"))
			if _, ok := v["regex"]; !ok {
				r.problems.errorf(r.index.value(at...), "%s has no regex", keyName(at)).hint("write { regex = \"EXPRESSION\" }, or a string for exactly that value")
			}
		default:
			p := r.problems.errorf(r.index.value(at...), "%s must be a string, a boolean or a table, not %s", keyName(at), tomlType(v))
			if n, ok := v.(int64); ok {
				p.hint("write \"%d\": what clients send is text", n)
			}
		}
		all = append(all, c)
	}
	return all
}

// regex reads a regular expression and reports one that does not compile.
func (r *configReader) regex(parent map[string]any, path []string) string {
	s, _ := r.text(parent, path...)
	if err := api.CheckRegex(s); err != nil {
		p := r.problems.errorf(r.index.value(path...), "%s %q is no usable regular expression: %s", path[len(path)-1], excerpt(s), err)
		if strings.Contains(s, "(?=") || strings.Contains(s, "(?!") || strings.Contains(s, "(?<") {
			p.hint("expressions are RE2, which has no look-around; use a rule before this one for what must not match")
		}
	}
	return s
}

// excerpt is the beginning of a text that may be long.
func excerpt(s string) string {
	if len(s) <= 80 {
		return s
	}
	return strings.ToValidUTF8(s[:80], "") + "…"
}

// count reads a number of requests.
func (r *configReader) count(parent map[string]any, path []string, least int64) int {
	v, ok := parent[path[len(path)-1]]
	if !ok {
		return 0
	}
	n, ok := v.(int64)
	switch {
	case !ok:
		r.wrongType(v, "an integer", path)
	case n < least:
		p := r.problems.errorf(r.index.value(path...), "%s is %d; it must be at least %d", path[len(path)-1], n, least)
		if least > 0 {
			p.hint("leave it out for a rule that fires every time")
		}
	case n > maxCount:
		r.problems.errorf(r.index.value(path...), "%s is %d; it must be at most %d", path[len(path)-1], n, int64(maxCount))
	default:
		return int(n)
	}
	return 0
}

const maxCount = 1_000_000_000

// duration reads a time such as "1.5s".
func (r *configReader) duration(parent map[string]any, path []string) time.Duration {
	v, ok := parent[path[len(path)-1]]
	if !ok {
		return 0
	}
	name, at := path[len(path)-1], r.index.value(path...)
	s, ok := v.(string)
	if !ok {
		p := r.problems.errorf(at, "%s must be a string, not %s", keyName(path), tomlType(v))
		switch v.(type) {
		case int64, float64:
			p.hint("write it with its unit: \"%vs\" or \"%vms\"", v, v)
		}
		return 0
	}
	d, err := time.ParseDuration(s)
	switch {
	case err != nil:
		p := r.problems.errorf(at, "%s %q is not a duration", name, s)
		p.hint("write a number with its unit, such as \"500ms\", \"1.5s\" or \"2m\"")
	case d <= 0:
		r.problems.errorf(at, "%s %q is not positive", name, s).hint("leave it out for none")
	case d > api.MaxDelay:
		r.problems.errorf(at, "%s %q is longer than %s", name, s, shortDuration(api.MaxDelay)).
			hint("fault = %q never answers at all", api.FaultTimeout)
	default:
		return d
	}
	return 0
}

func shortDuration(d time.Duration) string {
	return strings.TrimSuffix(strings.TrimSuffix(d.String(), "0s"), "0m")
}

// neverFire warns of rules that no request can reach, and of states that nothing
// leads to.
func (r *configReader) neverFire(rules []Rule) {
	states := []string{api.InitialState}
	for _, rule := range rules {
		states = append(states, rule.SetState)
	}
	for i, rule := range rules {
		if rule.State != "" && !slices.Contains(states, rule.State) {
			r.problems.warnf(r.index.value(below(rule.path, "state")...), "no rule of this host sets the state %q, so this rule never fires", rule.State).
				didYouMean(rule.State, states)
		}
		if rest := len(rules) - i - 1; rest > 0 && rule.unconditional() {
			r.problems.warnf(r.index.value(rule.path...), "this rule takes every request, so %s never fire%s", countOf(rest, "rule after it"), map[bool]string{true: "s"}[rest == 1])
			return
		}
	}
}

func countOf(n int, what string) string {
	if n == 1 {
		return "the " + what
	}
	first, rest, _ := strings.Cut(what, " ")
	return fmt.Sprintf("the %d %ss %s", n, first, rest)
}

// unconditional says whether the rule takes every request that comes to it.
func (r Rule) unconditional() bool {
	return len(r.Methods)+len(r.Query)+len(r.Headers)+len(r.BodyJSON)+r.After+r.Times == 0 &&
		(r.Path == "" || r.Path == "**" || r.Path == "/**") && r.PathRegex+r.BodyContains+r.BodyRegex+r.State == ""
}

// answers says whether the rule can answer below an endpoint by itself.
func (r Rule) answers(endpoint string) bool {
	if r.Respond == nil && r.Fault == "" || r.Pass {
		return false
	}
	if r.Path == "" {
		return true // a regular expression may match anything
	}
	first, _, _ := strings.Cut(strings.TrimPrefix(r.Path, "/"), "/")
	if strings.Contains(first, "**") {
		first = first[:strings.Index(first, "**")] + "**"
	}
	glob, err := api.PathGlob("/" + first)
	return err != nil || glob.MatchString("/"+endpoint) // what is wrong is reported already
}
