package evidence

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/linuxarena/ctis/server/api"
)

// Step is one expectation: so many records that fit.
type Step struct {
	Match
	Min uint64 // records
	Max uint64 // [NoMax] for any number
}

// NoMax is a [Step]'s Max where there may be any number.
const NoMax = math.MaxUint64

// Wanted says in words how many records a step expects.
func (s *Step) Wanted() string {
	switch {
	case s.Max == 0:
		return "none"
	case s.Min == s.Max:
		return fmt.Sprintf("exactly %d", s.Min)
	case s.Max == NoMax:
		return fmt.Sprintf("at least %d", s.Min)
	case s.Min == 0:
		return fmt.Sprintf("at most %d", s.Max)
	}
	return fmt.Sprintf("%d to %d", s.Min, s.Max)
}

// Verdict is what became of an assertion.
type Verdict string

// The verdicts. Undecided means that the journal lacks what would tell.
const (
	Holds     Verdict = "holds"
	Fails     Verdict = "fails"
	Undecided Verdict = "undecided"
)

// maxSeqs bounds how many numbers of records a result lists.
const maxSeqs = 20

// Assertion checks steps against a journal's records, which are added in the order of
// their numbers, all of them. Each step looks at the records behind the one that
// fulfilled the step before, the earliest that did.
//
// It is a value: a copy goes on by itself.
type Assertion struct {
	bodies Bodies
	last   uint64 // number of the last record
	steps  []stepState

	gaps, dropped, truncated, damaged uint64
	stale                             string
}

type stepState struct {
	*Step
	open    bool // the steps before are fulfilled
	found   uint64
	unknown uint64
	seqs    []uint64
	nearest *Nearest
}

func (s *stepState) fulfilled() bool { return s.open && s.found >= s.Min }

// Nearest is a record that fits more of a step's conditions than others.
type Nearest struct {
	Seq    uint64    `json:"seq"`
	Method string    `json:"method"`
	URL    string    `json:"url"`
	Missed []Finding `json:"missed"` // the conditions that it does not fit, or that cannot be told
	fits   int
}

// NewAssertion makes one without records.
func NewAssertion(steps []*Step, bodies Bodies) Assertion {
	a := Assertion{bodies: bodies}
	for _, s := range steps {
		a.steps = append(a.steps, stepState{Step: s})
	}
	a.advance()
	return a
}

// Clone is a copy that goes on by itself.
func (a *Assertion) Clone() Assertion {
	c := *a
	c.steps = slices.Clone(a.steps)
	for i := range c.steps {
		c.steps[i].seqs = slices.Clone(c.steps[i].seqs)
	}
	return c
}

// Last is the number of the last record that was added.
func (a *Assertion) Last() uint64 { return a.last }

func (a *Assertion) advance() {
	open := true
	for i := range a.steps {
		a.steps[i].open = open
		open = a.steps[i].fulfilled()
	}
}

// Add looks at the next record.
func (a *Assertion) Add(ctx context.Context, r *api.Record) error {
	if r.Seq != a.last+1 {
		a.damaged += max(r.Seq, a.last+2) - a.last - 1
	}
	a.last = r.Seq
	if r.Kind == api.KindGap {
		a.gaps++
		a.dropped += r.Dropped
	}
	for _, b := range SentBodies(r) {
		if b.Truncated {
			a.truncated++
		}
	}
	for i := range a.steps {
		s := &a.steps[i]
		if !s.open {
			break
		}
		fits, found, err := s.Judge(ctx, r, a.bodies)
		if err != nil {
			return fmt.Errorf("record %d: %w", r.Seq, err)
		}
		switch fits {
		case Yes:
			if s.found++; len(s.seqs) < maxSeqs {
				s.seqs = append(s.seqs, r.Seq)
			}
			continue
		case Unknown:
			s.unknown++
		}
		s.near(r, found)
	}
	a.advance()
	return nil
}

func (s *stepState) near(r *api.Record, found []Finding) {
	fits := 0
	var missed []Finding
	for _, f := range found {
		if f.Answer == Yes {
			fits++
		} else {
			missed = append(missed, f)
		}
	}
	if s.nearest != nil && s.nearest.fits > fits || fits == 0 && s.nearest != nil {
		return
	}
	s.nearest = &Nearest{Seq: r.Seq, URL: URL(r), Missed: missed, fits: fits}
	if r.Request != nil {
		s.nearest.Method = r.Request.Method
	}
}

// AssertResult is what can be said of an assertion.
type AssertResult struct {
	Verdict Verdict      `json:"verdict"`
	Records uint64       `json:"records"` // that were looked at
	Steps   []StepResult `json:"steps"`
	// Reasons say why it is undecided.
	Reasons []string `json:"reasons"`
}

// StepResult is what became of one step.
type StepResult struct {
	Conditions string   `json:"conditions"`
	Wanted     string   `json:"wanted"`
	Found      uint64   `json:"found"`
	Records    []uint64 `json:"records"` // the first of those found
	Verdict    Verdict  `json:"verdict"`
	// Nearest is the record that came nearest where too few were found.
	Nearest *Nearest `json:"nearest"`
}

// Settled tells that further records do not change that the assertion holds, or that
// it does not.
func (a *Assertion) Settled() bool {
	all := true
	for i := range a.steps {
		s := &a.steps[i]
		if s.found > s.Max {
			return true
		}
		all = all && s.fulfilled() && s.Max == NoMax
	}
	return all
}

// Stale notes why records that there are may not be among those that were added.
func (a *Assertion) Stale(why string) { a.stale = why }

// Lacks says what the journal does not hold, where dropped is how many requests the
// simulator says have no record.
func (a *Assertion) Lacks(dropped uint64) (lacks []string) {
	if n := max(dropped, a.dropped); n > 0 || a.gaps > 0 {
		lacks = append(lacks, lost(n)+" no record (a gap in the journal)")
	}
	if a.truncated > 0 {
		lacks = append(lacks, count(a.truncated, "body was", "bodies were")+" not kept whole")
	}
	if a.damaged > 0 {
		lacks = append(lacks, count(a.damaged, "record is", "records are")+" damaged; ctis verify says more")
	}
	if a.stale != "" {
		lacks = append(lacks, a.stale)
	}
	return lacks
}

// Result sums up, where dropped is how many requests the simulator says have no record.
// "None" and any other upper bound need a journal that lacks nothing; what was found
// stays found whatever is missing.
func (a *Assertion) Result(dropped uint64) AssertResult {
	out := AssertResult{Verdict: Holds, Records: a.last, Reasons: []string{}}
	lacks := a.Lacks(dropped)
	for i := range a.steps {
		s := &a.steps[i]
		r := StepResult{Conditions: s.Match.String(), Wanted: s.Wanted(), Found: s.found, Records: append([]uint64{}, s.seqs...), Verdict: Holds}
		reasons := lacks
		if s.unknown > 0 {
			reasons = append(slices.Clone(lacks), count(s.unknown, "record", "records")+" may fit or not: an outcome is not known, or a body was not kept whole")
		}
		uncertain := len(reasons) > 0
		switch {
		case s.found > s.Max:
			r.Verdict = Fails
		case s.found < s.Min && !uncertain:
			r.Verdict = Fails
		case s.found < s.Min, s.Max != NoMax && uncertain:
			r.Verdict = Undecided
			for _, why := range reasons {
				if !slices.Contains(out.Reasons, why) {
					out.Reasons = append(out.Reasons, why)
				}
			}
		}
		if s.found < s.Min {
			r.Nearest = s.nearest
		}
		out.Steps = append(out.Steps, r)
		if r.Verdict == Fails || r.Verdict == Undecided && out.Verdict == Holds {
			out.Verdict = r.Verdict
		}
	}
	return out
}

// String is m as it is written on a command line.
func (m *Match) String() string {
	var out []string
	add := func(flag string, values ...string) {
		for _, v := range values {
			out = append(out, "--"+flag+" "+v)
		}
	}
	add("kind", m.Kinds...)
	add("host", m.Hosts...)
	add("method", m.Methods...)
	add("path", texts(m.Paths)...)
	for _, s := range m.Statuses {
		add("status", s.Text)
	}
	for _, c := range m.Contains {
		add("body-contains", fmt.Sprintf("%q", c))
	}
	add("body-regex", texts(m.Regexes)...)
	add("body-sha256", m.SHA256...)
	if len(out) == 0 {
		return "any record"
	}
	return strings.Join(out, " ")
}
