package rule

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"text/template"
	"text/template/parse"
	"time"
)

// The bounds of one answer's templates. Within them a template always ends: one
// template cannot use another, so only range repeats anything, and each round of a
// range and each call of a function takes from what there is.
const (
	maxTemplate = 256 << 10   // bytes of one template's text
	maxOutput   = 1 << 20     // bytes of what all templates of an answer give
	maxWork     = 8 << 20     // bytes that functions make or read
	maxNodes    = 100_000     // actions in all rounds of all ranges
	maxTime     = time.Second // by the clock, should the others not do
)

// program is a compiled template.
type program struct {
	t      *template.Template // nil for an empty text
	groups []int              // of path_regex, that it asks for by number
}

// CheckTemplate says what is wrong with a template, without the name that
// text/template makes up for it. Line numbers are those of the text.
func CheckTemplate(text string) error {
	_, err := compileTemplate(text)
	return err
}

func compileTemplate(text string) (*program, error) {
	if len(text) > maxTemplate {
		return nil, fmt.Errorf("it has %d bytes, and a template may have %d", len(text), maxTemplate)
	}
	names := template.FuncMap{}
	for name := range new(execution).funcs() {
		names[name] = func(...any) string { return "" }
	}
	delete(names, tick)
	t, err := template.New("").Funcs(names).Parse(text)
	if err != nil {
		return nil, templateError(err, text)
	}
	for _, other := range t.Templates() {
		if other.Name() != "" {
			return nil, errors.New("define and block are not known here: a template stands for itself")
		}
	}
	if t.Tree == nil { // an empty text
		return &program{}, nil
	}
	u, err := usesOf(t.Root) // before prepare, which adds to it
	if err != nil {
		return nil, err
	}
	if _, err := prepare(t.Root); err != nil {
		return nil, err
	}
	return &program{t, u.groups}, nil
}

// templateError says what text/template found, with the line where there are several.
func templateError(err error, text string) error {
	message := strings.TrimPrefix(err.Error(), "template: :")
	if line, rest, ok := strings.Cut(message, ": "); ok {
		if _, err := strconv.Atoi(line); err == nil {
			message = rest
			if strings.Contains(text, "\n") {
				message += " (its line " + line + ")"
			}
		}
	}
	return errors.New(message)
}

// tick is the function that rounds of a range call. Texts cannot name it.
const tick = "__tick"

// prepare refuses uses of other templates, and has each round of a range take its
// number of actions from what there is.
func prepare(node parse.Node) (nodes int, err error) {
	list := func(lists ...*parse.ListNode) {
		for _, l := range lists {
			if l == nil {
				continue
			}
			for _, n := range l.Nodes {
				k, e := prepare(n)
				nodes += k
				err = errors.Join(err, e)
			}
		}
	}
	switch n := node.(type) {
	case *parse.ListNode:
		list(n)
	case *parse.TemplateNode:
		return 0, errors.New("template is not known here: a template stands for itself")
	case *parse.IfNode:
		list(n.List, n.ElseList)
	case *parse.WithNode:
		list(n.List, n.ElseList)
	case *parse.RangeNode:
		list(n.List, n.ElseList)
		if err == nil {
			counting, e := template.New("").Funcs(template.FuncMap{tick: func(int) string { return "" }}).Parse("{{" + tick + " " + strconv.Itoa(nodes+1) + "}}")
			if e != nil {
				return 0, e
			}
			if n.List == nil {
				n.List = counting.Root
			} else {
				n.List.Nodes = append(counting.Root.Nodes, n.List.Nodes...)
			}
		}
	}
	return nodes + 1, err
}

// execution is the making of one answer.
type execution struct {
	firing  *Firing
	request *Request

	output, work, nodes int
	began               time.Time
}

var (
	errOutput = fmt.Errorf("it gives more than %d bytes", maxOutput)
	errWork   = errors.New("it takes more work than a template may")
)

// run gives what a template makes of the request.
func (x *execution) run(p *program) (out []byte, err error) {
	if p.t == nil {
		return nil, nil
	}
	if x.began.IsZero() {
		x.began = time.Now()
	}
	t, err := p.t.Clone()
	if err != nil {
		return nil, err
	}
	w := &bounded{x: x}
	if err := t.Funcs(x.funcs()).Execute(w, view{x}); err != nil {
		return nil, plainError(err)
	}
	return w.b, nil
}

func (p *program) run(x *execution) ([]byte, error) { return x.run(p) }

// plainError takes off what text/template puts before the errors of functions.
func plainError(err error) error {
	var exec template.ExecError
	if errors.As(err, &exec) {
		for _, known := range []error{errOutput, errWork} {
			if errors.Is(exec.Err, known) {
				return known
			}
		}
	}
	message := err.Error() // template: :1:2: executing "" at <ACTION>: …
	if _, after, ok := strings.Cut(message, `executing "" at `); ok {
		message = after
	}
	return errors.New(strings.ToValidUTF8(message[:min(len(message), 300)], ""))
}

// spend takes n bytes of work.
func (x *execution) spend(n int) error {
	if x.work += n + 16; x.work > maxWork || time.Since(x.began) > maxTime {
		return errWork
	}
	return nil
}

// round is one round of a range with so many actions in it.
func (x *execution) round(nodes int) (string, error) {
	if x.nodes += nodes; x.nodes > maxNodes || time.Since(x.began) > maxTime {
		return "", errWork
	}
	return "", nil
}

// bounded takes what templates write.
type bounded struct {
	x *execution
	b []byte
}

func (w *bounded) Write(p []byte) (int, error) {
	if w.x.output += len(p); w.x.output > maxOutput {
		return 0, errOutput
	}
	w.b = append(w.b, p...)
	return len(p), nil
}
