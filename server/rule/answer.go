package rule

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/linuxarena/ctis/server/api"
)

// answer is a response to be made: parts that stand as they are, and templates.
type answer struct {
	headers []headerPart
	body    []part
}

type headerPart struct {
	name  string
	value part
}

// part is a piece of a text: a template, or bytes.
type part struct {
	text     []byte
	template *program
	quoted   bool // what the template gives becomes a JSON string
}

func compileAnswer(r *api.RuleResponse) (*answer, error) {
	if err := checkStatus(r.Status); err != nil {
		return nil, err
	}
	if err := checkHeaders(r.Headers); err != nil {
		return nil, err
	}
	a := &answer{}
	for _, h := range r.Headers {
		p := part{text: []byte(h[1])}
		if r.Template {
			var err error
			if p, err = templatePart(h[1], false); err != nil {
				return nil, fmt.Errorf("header %q: %w", h[0], err)
			}
		}
		a.headers = append(a.headers, headerPart{h[0], p})
	}
	switch {
	case r.JSON && !json.Valid(r.Body):
		return nil, fmt.Errorf("the json body is no JSON")
	case r.JSON && r.Template:
		return a, a.compileJSON(r.Body)
	case r.Template:
		p, err := templatePart(string(r.Body), false)
		if err != nil {
			return nil, fmt.Errorf("body: %w", err)
		}
		a.body = []part{p}
	default:
		a.body = []part{{text: r.Body}}
	}
	return a, nil
}

// compileJSON makes a template of each string of a JSON document but the names.
func (a *answer) compileJSON(doc []byte) error {
	from := 0
	for i := 0; i < len(doc); i++ {
		if doc[i] != '"' {
			continue
		}
		end := skipString(doc, i)
		if next := skipSpace(doc, end); next < len(doc) && doc[next] == ':' {
			i = end - 1
			continue
		}
		var text string
		if err := json.Unmarshal(doc[i:end], &text); err != nil {
			return err
		}
		p, err := templatePart(text, true)
		if err != nil {
			return fmt.Errorf("%q: %w", clip(text), err)
		}
		if p.template != nil {
			a.body = append(a.body, part{text: doc[from:i]}, p)
			from = end
		}
		i = end - 1
	}
	a.body = append(a.body, part{text: doc[from:]})
	return nil
}

// templatePart is a text that may have actions in it.
func templatePart(text string, quoted bool) (part, error) {
	if !strings.Contains(text, "{{") {
		return part{text: []byte(text)}, nil
	}
	t, err := compileTemplate(text)
	return part{template: t, quoted: quoted}, err
}

// Static is the answer's body where no part of it is a template.
func (r *Rule) Static() (body []byte, ok bool) {
	if r.answer == nil {
		return nil, true
	}
	if len(r.answer.body) == 1 && r.answer.body[0].template == nil {
		return r.answer.body[0].text, true
	}
	return nil, false
}

// Answer makes the header and the body that the rule answers a request with. They
// are bounded, and so is the time it takes; where a template goes beyond that or
// fails, it is an error. The body must not be changed.
func (f *Firing) Answer(q *Request) (headers [][2]string, body []byte, err error) {
	a := f.Rule.answer
	run := &execution{firing: f, request: q}
	for _, h := range a.headers {
		v, err := run.part(nil, &h.value)
		if err != nil {
			return nil, nil, fmt.Errorf("header %q: %w", h.name, err)
		}
		headers = append(headers, [2]string{h.name, headerText(v)})
	}
	if text, ok := f.Rule.Static(); ok {
		return headers, text, nil
	}
	for i := range a.body {
		if body, err = run.part(body, &a.body[i]); err != nil {
			return nil, nil, fmt.Errorf("body: %w", err)
		}
	}
	return headers, body, nil
}

// part appends a part.
func (x *execution) part(b []byte, p *part) ([]byte, error) {
	if p.template == nil {
		return append(b, p.text...), nil
	}
	out, err := p.template.run(x)
	if err != nil {
		return nil, err
	}
	if !p.quoted {
		return append(b, out...), nil
	}
	var quoted bytes.Buffer
	e := json.NewEncoder(&quoted)
	e.SetEscapeHTML(false)
	if err := e.Encode(string(out)); err != nil {
		return nil, err
	}
	return append(b, bytes.TrimSuffix(quoted.Bytes(), []byte("\n"))...), nil
}

// headerText makes of what a template gave one line: what a client sent must not
// become a header of its own.
func headerText(b []byte) string {
	for i, c := range b {
		if c < ' ' && c != '\t' || c == 0x7f {
			b[i] = ' '
		}
	}
	return string(bytes.TrimSpace(b))
}
