package rule

import "fmt"

// Verdict is what becomes of one rule for a request.
type Verdict struct {
	Ref   string
	Fires bool
	Why   string // it does not fire
}

// Explain says what each rule makes of a request, in order, and why those that do
// not take it do not. It changes nothing: [Host.Decide] would decide the same now.
func (h *Host) Explain(q *Request) []Verdict {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := make([]Verdict, h.set.Len())
	taken := ""
	for i := range h.set.rules {
		r := &h.set.rules[i]
		v := Verdict{Ref: r.Ref, Why: r.why(q)}
		after, times := int64(r.After), int64(r.Times)
		switch {
		case v.Why != "":
		case r.State != "" && r.State != h.state:
			v.Why = fmt.Sprintf("state: the host's is %q, not %q", h.state, r.State)
		case times > 0 && h.met[i] >= after+times:
			v.Why = fmt.Sprintf("times: it has taken its %d already", times)
		case taken != "":
			v.Why = fmt.Sprintf("order: it would, but rule %q comes before it", taken)
		case h.met[i] < after:
			v.Why = fmt.Sprintf("after: it leaves the first %d that match to later rules, and this is number %d", after, h.met[i]+1)
		default:
			v.Fires, taken = true, r.Ref
		}
		all[i] = v
	}
	return all
}

// SetState puts the host into a state, for trying rules out.
func (h *Host) SetState(state string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.state = state
}
