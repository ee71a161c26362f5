package commands

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/linuxarena/ctis/evidence"
	"github.com/linuxarena/ctis/server/api"
)

// assertPoll is how long ctis assert --wait leaves the journal alone between looks.
const assertPoll = 200 * time.Millisecond

type assertOptions struct {
	id    string
	steps []*assertStep
	wait  time.Duration
}

// assertStep is one step as it is given.
type assertStep struct {
	evidence.Step
	counts []string // the flags about numbers that were given
	given  bool     // any flag was
}

// current is the step that flags are about now.
func (o *assertOptions) current() *assertStep {
	if len(o.steps) == 0 {
		o.steps = append(o.steps, &assertStep{Step: evidence.Step{Min: 1, Max: evidence.NoMax}})
	}
	s := o.steps[len(o.steps)-1]
	s.given = true
	return s
}

// number is a flag about how many records a step expects.
func (o *assertOptions) number(name, usage string, set func(*assertStep, uint64)) cli.Flag {
	return &cli.GenericFlag{Name: name, Usage: usage, Value: eachValue{func(v string) error {
		n, err := strconv.ParseUint(v, 10, 63)
		if err != nil {
			return fmt.Errorf("%q is no number of records", v)
		}
		s := o.current()
		s.counts = append(s.counts, "--"+name)
		set(s, n)
		return nil
	}}}
}

// switchValue is a flag without a value that may be repeated, at a place that counts.
type switchValue struct{ eachValue }

func (switchValue) IsBoolFlag() bool { return true }

func (o *assertOptions) mark(name, usage string, set func()) cli.Flag {
	return &cli.GenericFlag{Name: name, Usage: usage, Value: switchValue{eachValue{func(v string) error {
		if v != "true" {
			return fmt.Errorf("it takes no value")
		}
		set()
		return nil
	}}}}
}

func (a *app) assertCommand() *cli.Command {
	var o assertOptions
	flags := conditionFlags(func() *evidence.Match { return &o.current().Match })
	return verb(&cli.Command{
		Name:      "assert",
		Usage:     "check what a trajectory did, or did not do",
		ArgsUsage: "ID",
		Description: "Holds when at least one record of the journal fits every condition; --count, --min, --max and --none\n" +
			"ask for other numbers. After --then the next conditions begin: they are about the records behind the\n" +
			"one that fulfilled those before. --wait gives it time; \"at most\" and \"none\" are watched all that time.\n\n" +
			"Where the journal lacks something (a gap, a body that was not kept whole), \"none\" and \"at most\"\n" +
			"cannot be said, and are not.\n\n" +
			"Exit status: 0 holds, 1 does not hold or cannot be said (\"verdict\" in --json tells which), 2 usage,\n" +
			"4 no engine.",
		Flags: append(flags,
			o.number("count", "exactly `N` records", func(s *assertStep, n uint64) { s.Min, s.Max = n, n }),
			o.number("min", "at least `N` records", func(s *assertStep, n uint64) { s.Min = n }),
			o.number("max", "at most `N` records; with --min between the two", func(s *assertStep, n uint64) {
				if s.Max = n; len(s.counts) == 1 {
					s.Min = 0
				}
			}),
			o.mark("none", "no record", func() {
				s := o.current()
				s.counts = append(s.counts, "--none")
				s.Min, s.Max = 0, 0
			}),
			o.mark("then", "the next step: afterwards", func() {
				o.current()
				o.steps = append(o.steps, &assertStep{Step: evidence.Step{Min: 1, Max: evidence.NoMax}})
			}),
			&cli.DurationFlag{Name: "wait", Usage: "give it up to `D` to hold", Destination: &o.wait},
			a.jsonFlag()),
		Action: func(c *cli.Context) error {
			if err := exactArgs(c, 1, 1, "ID"); err != nil {
				return err
			}
			o.id = c.Args().First()
			return a.runAssert(c.Context, o)
		},
	})
}

func (o *assertOptions) check() ([]*evidence.Step, error) {
	if err := checkJournal(o.id); err != nil {
		return nil, err
	}
	if o.wait < 0 {
		return nil, &usageError{msg: fmt.Sprintf("--wait %s is negative", o.wait), hint: "give a duration such as 10s"}
	}
	var steps []*evidence.Step
	for i, s := range o.steps {
		if !s.given || i < len(o.steps)-1 && s.Empty() && len(s.counts) == 0 {
			return nil, &usageError{msg: "--then has no conditions on one of its sides", hint: "write ctis assert ID --host A --then --host B"}
		}
		// --min and --max go together; any other two say different things.
		if n := len(s.counts); n > 2 || n == 2 && strings.Join(s.counts, " ") != "--min --max" && strings.Join(s.counts, " ") != "--max --min" {
			return nil, &usageError{msg: strings.Join(s.counts, " and ") + " are about one number of records", hint: "give one of them, or --min and --max"}
		}
		if s.Min > s.Max {
			return nil, &usageError{msg: fmt.Sprintf("--min %d is more than --max %d", s.Min, s.Max), hint: "exchange them"}
		}
		steps = append(steps, &s.Step)
	}
	if len(steps) == 0 {
		return nil, &usageError{msg: "ctis assert: there are no conditions", hint: "write, for example, ctis assert " + o.id + " --host filebin.net --method POST"}
	}
	return steps, nil
}

func (a *app) runAssert(ctx context.Context, o assertOptions) error {
	steps, err := o.check()
	if err != nil {
		return err
	}
	src := &journalSource{journalBodies{a: a, id: o.id}}
	defer src.close()
	result, err := a.assert(ctx, steps, src, o.wait)
	if err != nil {
		return noJournal(o.id, err)
	}
	if err := a.printAssert(o.id, result); err != nil {
		return err
	}
	if result.Verdict != evidence.Holds {
		return &exitError{exitFailed}
	}
	return nil
}

// assert looks at the journal until the assertion is settled or wait is over. Each look
// begins behind the records whose outcome was known at the one before.
func (a *app) assert(ctx context.Context, steps []*evidence.Step, src *journalSource, wait time.Duration) (*evidence.AssertResult, error) {
	begun := time.Now()
	settled := evidence.NewAssertion(steps, src)
	for {
		over := time.Since(begun) >= wait
		stale, err := a.stale(ctx, src.id)
		if err != nil {
			return nil, err
		}
		now, running := settled.Clone(), false
		err = a.readRecords(ctx, src.id, api.JournalQuery{First: settled.Last() + 1}, func(r *api.Record) error {
			if evidence.Pending(r) && !running {
				running, settled = true, now.Clone()
			}
			return now.Add(ctx, r)
		})
		var refused *api.Error
		missing := errors.As(err, &refused) && refused.Code == api.CodeNotFound
		if err != nil && (!missing || over) {
			return nil, err
		}
		if !running {
			settled = now
		}
		if !missing && (over || now.Settled()) {
			status, err := src.Status(ctx)
			if err != nil {
				return nil, err
			}
			var dropped uint64
			if status != nil {
				dropped = status.Dropped
			}
			if stale != "" {
				now.Stale(stale)
			}
			result := now.Result(dropped)
			return &result, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(min(assertPoll, max(0, wait-time.Since(begun)))):
		}
	}
}

func (a *app) printAssert(id string, r *evidence.AssertResult) error {
	if a.json {
		return a.printJSON(r)
	}
	var b strings.Builder
	switch r.Verdict {
	case evidence.Holds:
		fmt.Fprintf(&b, "holds, in %s of %s\n", plural(int(r.Records), "record"), id)
	case evidence.Fails:
		fmt.Fprintf(&b, "does not hold, in %s of %s\n", plural(int(r.Records), "record"), id)
	default:
		fmt.Fprintf(&b, "cannot be said of %s, whose journal is not complete:\n", id)
		for _, why := range r.Reasons {
			fmt.Fprintf(&b, "  %s\n", why)
		}
	}
	for i, s := range r.Steps {
		mark := map[evidence.Verdict]string{evidence.Holds: "✔", evidence.Fails: "✘", evidence.Undecided: "?"}[s.Verdict]
		then := ""
		if i > 0 {
			then = "then "
		}
		fmt.Fprintf(&b, "%s %s%s: %s wanted, %d found", mark, then, harmless(s.Conditions), s.Wanted, s.Found)
		for j, seq := range s.Records {
			fmt.Fprintf(&b, "%s%d", map[bool]string{true: " (seq ", false: ", "}[j == 0], seq)
		}
		switch n := uint64(len(s.Records)); {
		case n > 0 && n < s.Found:
			b.WriteString(", …)")
		case n > 0:
			b.WriteString(")")
		}
		b.WriteString("\n")
		if s.Nearest == nil {
			continue
		}
		fmt.Fprintf(&b, "  nearest: seq %d  %s\n", s.Nearest.Seq, harmless(strings.TrimSpace(s.Nearest.Method+" "+s.Nearest.URL)))
		for _, m := range s.Nearest.Missed {
			fmt.Fprintf(&b, "    %s, but it was %s\n", harmless(m.Condition), harmless(orNothing(m.Was)))
		}
	}
	_, err := a.streams.Out.Write([]byte(b.String()))
	return err
}

func orNothing(s string) string {
	if s == "" {
		return "none"
	}
	return s
}
