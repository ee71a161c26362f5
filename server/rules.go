package server

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/linuxarena/ctis/server/api"
	"github.com/linuxarena/ctis/server/persona"
	"github.com/linuxarena/ctis/server/rule"
	"github.com/linuxarena/ctis/server/wire"
)

// The rules of response rules are:
//
//   - A request is decided once, after it came whole and before anything else is
//     made of it. What that changed in what rules remember stands in the request's
//     record, so a restart finds it there: exactly what was recorded was counted.
//   - Whatever waits (a delay, a fault that never answers) is recorded before it
//     waits, holds no thread and no body it does not need, and ends with the client.
//   - What a rule breaks is broken on the connection itself (breaks.go).

// hostRules is the rules of one host as a registration has them.
type hostRules struct {
	host     string
	revision int
	rules    []api.Rule
}

// rulesIn are those of all hosts that can have rules, in the order of the
// registration. It is the one place that knows which hosts these are.
func rulesIn(r *api.Registration) []hostRules {
	all := make([]hostRules, 0, len(r.Personas)+len(r.Upstreams))
	for _, p := range r.Personas {
		all = append(all, hostRules{p.Host, p.RulesRevision, p.Rules})
	}
	for _, u := range r.Upstreams {
		all = append(all, hostRules{u.Host, u.RulesRevision, u.Rules})
	}
	return all
}

// setRules puts rules in force. Those of a revision that is in force already stay,
// with what they remember; recall tells what others remember.
func (n *tenant) setRules(r *api.Registration, recall func(host string, revision int) *rule.Memory) error {
	old := map[string]*rule.Host{}
	if m := n.rules.Load(); m != nil {
		old = *m
	}
	now := make(map[string]*rule.Host, len(old))
	for _, s := range rulesIn(r) {
		if len(s.rules) == 0 && s.revision == 0 {
			continue
		}
		if h := old[s.host]; h != nil && h.Revision == s.revision {
			now[s.host] = h
			continue
		}
		set, err := rule.Compile(s.rules)
		if err != nil {
			return fmt.Errorf("host %q: %w", s.host, err)
		}
		h := rule.NewHost(r.Trajectory, s.host, s.revision, set)
		if m := recall(s.host, s.revision); m != nil {
			h.Recall(m)
		}
		now[s.host] = h
	}
	n.rules.Store(&now)
	return nil
}

// rulesOf are the rules of a host, nil without any.
func (n *tenant) rulesOf(host string) *rule.Host {
	all := n.rules.Load()
	if all == nil {
		return nil
	}
	h := (*all)[host]
	if h == nil || h.Set().Len() == 0 {
		return nil
	}
	return h
}

// scripted lets the rules of a host decide about a request, and does what the one
// says that takes it. answered is false where the request goes on to whatever
// answers it otherwise: that may be changed then on its way back (x.edit, x.cut).
//
// Whatever hosts come to be served takes its requests through here first: a request
// to an upstream is decided by the rules of that upstream, before it is forwarded.
func (s *Server) scripted(x *exchange, r *http.Request, h *rule.Host) (answered bool) {
	q := x.ruleRequest()
	light := x.body.Size() <= api.InlineBody
	var f rule.Firing
	if light || !h.Set().ReadsBodies() {
		f, x.record.RuleEffect = h.Decide(q)
	} else {
		x.heavily(func() { f, x.record.RuleEffect = h.Decide(q) })
		q.Release() // it may be long until it is needed again
	}
	x.rules = h
	if f.Rule == nil {
		return false
	}
	x.record.Rule = f.Rule.Ref
	if !f.Rule.Pass {
		x.record.Kind = api.KindRule
	}
	if !f.Rule.Pass && (f.Rule.Respond == nil || !f.Rule.Respond.Template) {
		x.body.Discard() // it is recorded, and nobody reads it any more
	}
	if wait := f.Rule.Wait(&f); wait > 0 && !x.waitOut(r, wait) {
		return true
	}
	x.cut = f.Rule.Fault == api.FaultTruncate
	if x.cut {
		x.cutNote = "cut short by rule " + f.Rule.Ref
	}
	switch {
	case f.Rule.Pass:
		x.edit = f.Rule.Edit
		return false
	case f.Rule.Respond != nil:
		s.respond(x, &f, q)
	default:
		x.breakOff(r, f.Rule)
	}
	return true
}

// ruleRequest is the request as rules see it.
func (x *exchange) ruleRequest() *rule.Request {
	m := x.message
	path, rawQuery := wire.SplitTarget(m.target)
	q := &x.own.scripted
	q.Method, q.Scheme, q.Host, q.Target, q.RawQuery, q.Headers = m.method, x.link.scheme(), m.host, m.target, rawQuery, m.fields
	q.Path = rule.DecodePath(path)
	if x.body.Size() > 0 {
		q.Body = (*ruleBody)(x)
	}
	return q
}

// ruleBody is the body of an exchange as rules read it.
type ruleBody exchange

// Head: see [rule.Body]. What cannot be read back is like a body that is not there;
// the note says so.
func (b *ruleBody) Head() (content []byte, whole bool) {
	content, whole, err := b.body.Head(api.MaxRuleBody)
	if err != nil {
		b.note = "rules did not see the body: " + clip(err.Error())
	}
	return content, whole
}

// heavily does what takes long for a long body. A trajectory does one thing of that
// kind at a time, so that it cannot keep others from being served.
func (x *exchange) heavily(do func()) {
	n := x.link.tenant
	n.heavy.Lock()
	defer n.heavy.Unlock()
	do()
}

// waitOut holds a request back. It is false where there is nobody to answer when
// that is over, or nothing could be recorded, and all is done.
func (x *exchange) waitOut(r *http.Request, d time.Duration) bool {
	n := x.link.tenant
	if n.waiting.Add(1) > int64(x.server.limits.Waiting) {
		n.waiting.Add(-1)
		x.turnAway(http.StatusServiceUnavailable, "more requests of this trajectory wait for their rules than may at once")
		return false
	}
	defer n.waiting.Add(-1)
	x.seat.yield()
	defer x.seat.take()
	if x.commit() != nil {
		x.unavailable()
		return false
	}
	x.recorded()
	r, stop := x.attend(r)
	defer stop()
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-r.Context().Done():
		x.abandon("client left within the delay of rule " + x.record.Rule)
	case <-x.server.stopping:
		x.abandon("simulator stopped within the delay of rule " + x.record.Rule)
	}
	return false // not reached: abandon panics
}

// recorded lets go of what only the record needed, while a request waits.
func (x *exchange) recorded() { x.record.Request.Body.Content = "" }

// respond answers as a rule says.
func (s *Server) respond(x *exchange, f *rule.Firing, q *rule.Request) {
	answer := f.Rule.Respond
	var headers [][2]string
	var body []byte
	var err error
	answered := func() {
		f.Now = s.now()
		headers, body, err = f.Answer(q)
	}
	if answer.Template && x.body.Size() > api.InlineBody {
		x.heavily(answered)
	} else {
		answered()
	}
	if err != nil {
		x.turnAway(http.StatusInternalServerError, "template of rule "+f.Rule.Ref+": "+clip(err.Error()))
		return
	}
	for _, h := range headers {
		x.header.Add(h[0], h[1])
	}
	x.spelled = wire.SpellingOf(headers)
	if answer.Page && answer.Status >= http.StatusMultipleChoices && answer.Status != http.StatusNotModified {
		facts := x.facts()
		facts.Location = x.header.Get("Location")
		persona.WriteError(x, x.persona, answer.Status, facts)
		return
	}
	if x.header.Get("Content-Type") == "" && len(body) > 0 {
		x.header.Set("Content-Type", contentType(answer))
	}
	x.WriteHeader(answer.Status)
	if hasBody(answer.Status) {
		x.header.Set("Content-Length", strconv.Itoa(len(body))) // also where it is too long to be held
	}
	_, _ = x.Write(body) // kept in failed; end tells
}

func contentType(r *api.RuleResponse) string {
	switch {
	case r.JSON:
		return "application/json"
	case r.File != "" && strings.Contains(r.File, "."):
		return persona.TypeOf(r.File)
	}
	return "text/plain"
}
