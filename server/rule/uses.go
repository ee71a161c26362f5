package rule

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"text/template/parse"

	"github.com/linuxarena/ctis/server/api"
)

// What a template asks of the request is known before any request comes, so a name
// that is none is refused with the rule, and does not wait for the first firing.

// viewUse is what can stand behind the dot: how many arguments it takes, and whether
// what it gives has parts of its own.
type viewUse struct {
	arguments int
	parts     bool
}

var viewUses = func() map[string]viewUse {
	uses := map[string]viewUse{}
	for m := range reflect.TypeFor[view]().Methods() {
		if m.Name != "String" { // for {{.}}
			uses[m.Name] = viewUse{m.Type.NumIn() - 1, m.Type.Out(0).Kind() == reflect.Interface}
		}
	}
	return uses
}()

// uses walks a template for what it asks of the request.
type uses struct {
	groups []int // that .Match is asked for by number
	errs   []error
}

func (u *uses) wrong(format string, args ...any) {
	u.errs = append(u.errs, fmt.Errorf(format, args...))
}

// walk looks at a node. isView says whether the dot is the request there: within
// range and with it is what they are about.
func (u *uses) walk(node parse.Node, isView bool) {
	branch := func(pipe *parse.PipeNode, list, other *parse.ListNode, inside bool) {
		u.pipe(pipe, isView)
		if list != nil {
			u.walk(list, inside)
		}
		if other != nil {
			u.walk(other, isView)
		}
	}
	switch n := node.(type) {
	case *parse.ListNode:
		for _, m := range n.Nodes {
			u.walk(m, isView)
		}
	case *parse.ActionNode:
		u.pipe(n.Pipe, isView)
	case *parse.IfNode:
		branch(n.Pipe, n.List, n.ElseList, isView)
	case *parse.WithNode:
		branch(n.Pipe, n.List, n.ElseList, false)
	case *parse.RangeNode:
		branch(n.Pipe, n.List, n.ElseList, false)
	}
}

func (u *uses) pipe(pipe *parse.PipeNode, isView bool) {
	if pipe == nil {
		return
	}
	for i, c := range pipe.Cmds {
		for k, arg := range c.Args {
			given := 0
			var rest []parse.Node
			if k == 0 { // the first word of a command takes the others, and what is piped in
				rest = c.Args[1:]
				given = len(rest) + min(i, 1)
			}
			u.word(arg, isView, given, rest)
		}
	}
}

func (u *uses) word(node parse.Node, isView bool, given int, arguments []parse.Node) {
	switch n := node.(type) {
	case *parse.FieldNode:
		if isView {
			u.named(n.Ident, given, arguments)
		}
	case *parse.VariableNode:
		if n.Ident[0] == "$" && len(n.Ident) > 1 {
			u.named(n.Ident[1:], given, arguments)
		}
	case *parse.PipeNode:
		u.pipe(n, isView)
	case *parse.ChainNode: // (…).part
		u.word(n.Node, isView, 0, nil)
	}
}

// named judges .First.second… with its arguments.
func (u *uses) named(ident []string, given int, arguments []parse.Node) {
	name := ident[0]
	use, ok := viewUses[name]
	switch {
	case !ok:
		for known := range viewUses {
			if strings.EqualFold(known, name) {
				u.wrong(".%s is not known; names are spelled with their capitals: .%s", name, known)
				return
			}
		}
		u.wrong(".%s is not known; what a request has is %s", name, "."+strings.Join(slices.Sorted(maps.Keys(viewUses)), " ."))
	case len(ident) > 1 && use.arguments > 0:
		u.wrong(`.%s takes a name: write (.%[1]s %q)`, name, strings.Join(ident[1:], "."))
	case len(ident) > 1 && !use.parts:
		u.wrong(".%s is a text and has no .%s", name, ident[1])
	case len(ident) == 1 && given != use.arguments:
		u.wrong(".%s takes %s, not %d", name, []string{"no argument", "one argument"}[use.arguments], given)
	case name == "Match" && len(arguments) == 1:
		if n, ok := arguments[0].(*parse.NumberNode); ok && n.IsInt {
			u.groups = append(u.groups, int(n.Int64))
		}
	}
}

// usesOf walks a whole template.
func usesOf(root parse.Node) (*uses, error) {
	u := &uses{}
	u.walk(root, true)
	if len(u.errs) > 0 {
		return u, u.errs[0]
	}
	return u, nil
}

// CheckGroups says whether the templates of a rule ask .Match for groups that its
// path_regex does not have. What is no template or no expression at all is judged
// elsewhere.
func CheckGroups(r *api.Rule) error {
	if r.Respond == nil || !r.Respond.Template {
		return nil
	}
	a, err := compileAnswer(r.Respond)
	if err != nil {
		return nil
	}
	return a.checkGroups(r.PathRegex)
}

func (a *answer) checkGroups(pathRegex string) error {
	var groups []int
	look := func(p part) {
		if p.template != nil {
			groups = append(groups, p.template.groups...)
		}
	}
	for _, h := range a.headers {
		look(h.value)
	}
	for _, p := range a.body {
		look(p)
	}
	if len(groups) == 0 {
		return nil
	}
	if pathRegex == "" {
		return errors.New("a template asks for .Match, and the rule has no path_regex")
	}
	re, err := regexp.Compile(pathRegex)
	if err != nil {
		return nil
	}
	for _, n := range groups {
		if n < 0 || n > re.NumSubexp() {
			return fmt.Errorf("a template asks for .Match %d, which path_regex does not have: its groups end with %d", n, re.NumSubexp())
		}
	}
	return nil
}
