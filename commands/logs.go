package commands

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/linuxarena/ctis/evidence"
	"github.com/linuxarena/ctis/server/api"
)

type logsOptions struct {
	id           string
	match        evidence.Match
	follow       bool
	since, until string
	seqs         string
	limit        int
	count        bool
	raw          bool
	unattributed bool
}

func (a *app) logsCommand() *cli.Command {
	var o logsOptions
	return verb(&cli.Command{
		Name:      "logs",
		Usage:     "show what a trajectory sent and what it got back",
		ArgsUsage: "ID",
		Description: "Reads the journal of trajectory ID; it stays readable after ctis down. Once the id is used again,\n" +
			"the journals of earlier trajectories are ID~1, ID~2, … A record is shown when it fits every condition;\n" +
			"of a repeated one, when it fits any. With --json each line is one complete record (docs/journal.md).\n" +
			"--raw gives the journal's lines as they are stored, whose digest chain can be checked with sha256sum\n" +
			"alone. --unattributed, instead of an ID, shows connections that belonged to no trajectory.\n\n" +
			"Exit status: 0 shown, 1 there is no such journal, 2 usage, 4 no engine.",
		Flags: append(conditionFlags(func() *evidence.Match { return &o.match }),
			&cli.StringFlag{Name: "since", Usage: "only records since `T`: a duration back (10m) or a time (2026-11-29T17:00:00Z)", Destination: &o.since},
			&cli.StringFlag{Name: "until", Usage: "only records before `T`, written likewise", Destination: &o.until},
			&cli.StringFlag{Name: "seq", Usage: "only records with these `NUMBERS`: 7, 7-9, 7- or -9", Destination: &o.seqs},
			&cli.IntFlag{Name: "limit", Usage: "only the newest `N` records", Destination: &o.limit},
			&cli.BoolFlag{Name: "count", Usage: "how many records there are, not the records", Destination: &o.count},
			&cli.BoolFlag{Name: "follow", Aliases: []string{"f"}, Usage: "go on with records as they are written", Destination: &o.follow},
			&cli.BoolFlag{Name: "raw", Usage: "the lines as stored", Destination: &o.raw},
			&cli.BoolFlag{Name: "unattributed", Usage: "connections that belonged to no trajectory", Destination: &o.unattributed},
			a.jsonFlag()),
		Action: func(c *cli.Context) error {
			least := 1
			if o.unattributed {
				least = 0
			}
			if err := exactArgs(c, least, least, "ID"); err != nil {
				return err
			}
			o.id = c.Args().First()
			return a.runLogs(c.Context, o)
		},
	})
}

// query checks the options and lowers them to a journal query and what is left to be
// matched here.
func (o logsOptions) query(now time.Time) (q api.JournalQuery, rest evidence.Match, err error) {
	q, rest = split(o.match)
	q.Follow, q.Raw, q.Limit = o.follow, o.raw, o.limit
	if o.limit < 0 {
		return q, rest, &usageError{msg: fmt.Sprintf("--limit %d is negative", o.limit), hint: "give the number of records, or leave it out for all"}
	}
	for _, t := range []struct {
		flag, text string
		to         *time.Time
	}{{"--since", o.since, &q.Since}, {"--until", o.until, &q.Until}} {
		if t.text == "" {
			continue
		}
		if *t.to, err = parseTime(t.flag, t.text, now); err != nil {
			return q, rest, err
		}
	}
	if o.seqs != "" {
		if q.First, q.Last, err = parseSeqs(o.seqs); err != nil {
			return q, rest, err
		}
	}
	switch {
	case o.raw && !rest.Empty():
		err = &usageError{msg: "--raw prints lines as they are stored, and --status and --body-… are about whole records", hint: "use --json instead of --raw"}
	case o.follow && (q.Last > 0 || o.until != ""):
		err = &usageError{msg: "--follow has no end, and --until or --seq sets one", hint: "leave one of them out"}
	case o.follow && o.count:
		err = &usageError{msg: "--follow has no end, and --count tells a number at the end", hint: "leave one of them out; ctis assert ID --wait waits for a number of records"}
	case o.raw && o.count:
		err = &usageError{msg: "--raw is about lines, and --count about records", hint: "leave one of them out"}
	}
	return q, rest, err
}

// parseTime reads a duration back from now, or a point in time.
func parseTime(flag, s string, now time.Time) (time.Time, error) {
	if d, err := time.ParseDuration(s); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02 15:04:05", time.DateOnly} {
		if t, err := time.ParseInLocation(layout, s, now.Location()); err == nil {
			return t, nil
		}
	}
	return time.Time{}, &usageError{msg: flag + " " + quoted(s) + " is neither a duration nor a time", hint: "write 10m, 2h, 2026-11-29 or 2026-11-29T17:00:00Z"}
}

func (a *app) runLogs(ctx context.Context, o logsOptions) error {
	if o.unattributed {
		o.id = api.Unattributed
	} else if err := checkJournal(o.id); err != nil {
		return err
	}
	q, rest, err := o.query(time.Now())
	if err != nil {
		return err
	}
	end, err := a.freshen(ctx, o.id, o.follow)
	if err != nil {
		return err
	}
	defer end()
	count := 0
	show := a.printLine
	switch {
	case o.count:
		show = func([]byte) error { count++; return nil }
	case !a.json && !o.raw:
		show = a.recordTable(a.outWidth())
	}
	if rest.Empty() {
		err = a.readJournal(ctx, o.id, q, show)
	} else {
		err = a.readMatching(ctx, o.id, q, rest, show)
	}
	var refused *api.Error
	if o.unattributed && errors.As(err, &refused) && refused.Code == api.CodeNotFound {
		err = nil // nothing of the kind has happened
	}
	switch {
	case o.follow && errors.Is(err, context.Canceled):
		return nil // how following ends
	case err != nil:
		return noJournal(o.id, err)
	case o.count && a.json:
		return a.printJSON(map[string]int{"count": count})
	case o.count:
		_, err = fmt.Fprintln(a.streams.Out, count)
	}
	return err
}

// readMatching shows those of the selected records that fit m. With a limit it goes
// over the journal twice, so that never more than numbers is held in memory.
func (a *app) readMatching(ctx context.Context, id string, q api.JournalQuery, m evidence.Match, show func([]byte) error) error {
	bodies := &journalBodies{a: a, id: id}
	defer bodies.close()
	limit := q.Limit
	q.Limit = 0
	undecided := 0
	each := func(q api.JournalQuery, f func(seq uint64, line []byte) error) error {
		return a.readJournal(ctx, id, q, func(line []byte) error {
			var r api.Record
			if err := json.Unmarshal(line, &r); err != nil {
				return fmt.Errorf("a record cannot be read: %w", err)
			}
			fits, _, err := m.Judge(ctx, &r, bodies)
			switch {
			case err != nil:
				return err
			case fits == evidence.Unknown:
				undecided++
			case fits == evidence.Yes:
				return f(r.Seq, line)
			}
			return nil
		})
	}
	if limit > 0 {
		newest := make([]uint64, 0, min(limit, 1<<16))
		first := q
		first.Follow = false
		err := each(first, func(seq uint64, _ []byte) error {
			if len(newest) == limit {
				newest = newest[1:]
			}
			newest = append(newest, seq)
			return nil
		})
		if err != nil {
			return err
		}
		undecided = 0
		if len(newest) == limit {
			q.First = max(q.First, newest[0])
		}
	}
	err := each(q, func(_ uint64, line []byte) error { return show(line) })
	if undecided > 0 {
		a.ui.warn(plural(undecided, "record") + " may fit or not: an outcome is not known, or a body was not kept whole")
	}
	return err
}

func (a *app) printLine(line []byte) error {
	_, err := a.streams.Out.Write(append(line, '\n'))
	return err
}
