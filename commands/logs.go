package commands

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/linuxarena/ctis/compose"
	"github.com/linuxarena/ctis/server/api"
)

type logsOptions struct {
	id           string
	follow       bool
	kinds, hosts cli.StringSlice
	since        string
	limit        int
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
			"the journals of earlier trajectories are ID~1, ID~2, … With --json each line is one\n" +
			"complete record (docs/journal.md). --raw gives the journal's lines as they are stored, whose digest\n" +
			"chain can be checked with sha256sum alone. --unattributed, instead of an ID, shows connections that\n" +
			"belonged to no trajectory.\n\n" +
			"Exit status: 0 shown, 1 there is no such journal, 2 usage, 4 no engine.",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "follow", Aliases: []string{"f"}, Usage: "go on with records as they are written", Destination: &o.follow},
			&cli.StringSliceFlag{Name: "kind", Usage: "only records of kind `K` (repeatable): " + strings.Join(api.Kinds, ", "), Destination: &o.kinds},
			&cli.StringSliceFlag{Name: "host", Usage: "only requests to host `H` (repeatable)", Destination: &o.hosts},
			&cli.StringFlag{Name: "since", Usage: "only records since `T`: a duration back (10m) or a time (2026-11-29T17:00:00Z)", Destination: &o.since},
			&cli.IntFlag{Name: "limit", Usage: "only the newest `N` records", Destination: &o.limit},
			&cli.BoolFlag{Name: "raw", Usage: "the lines as stored", Destination: &o.raw},
			&cli.BoolFlag{Name: "unattributed", Usage: "connections that belonged to no trajectory", Destination: &o.unattributed},
			a.jsonFlag(),
		},
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

// query checks the options and lowers them to a journal query.
func (o logsOptions) query(now time.Time) (api.JournalQuery, error) {
	q := api.JournalQuery{Follow: o.follow, Raw: o.raw, Kinds: o.kinds.Value(), Limit: o.limit}
	for _, k := range q.Kinds {
		if !slices.Contains(api.Kinds, k) {
			return q, &usageError{msg: "there is no kind " + quoted(k), hint: "the kinds are " + strings.Join(api.Kinds, ", ")}
		}
	}
	for _, h := range o.hosts.Value() {
		// Unicode and Punycode mean the same host; what is no hostname may still have been asked for.
		if host, err := compose.ParseHostname(h); err == nil {
			h = string(host)
		}
		q.Hosts = append(q.Hosts, strings.ToLower(strings.TrimSuffix(h, ".")))
	}
	if o.limit < 0 {
		return q, &usageError{msg: fmt.Sprintf("--limit %d is negative", o.limit), hint: "give the number of records, or leave it out for all"}
	}
	if o.since != "" {
		since, err := parseSince(o.since, now)
		if err != nil {
			return q, err
		}
		q.Since = since
	}
	return q, nil
}

// parseSince reads a duration back from now, or a point in time.
func parseSince(s string, now time.Time) (time.Time, error) {
	if d, err := time.ParseDuration(s); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02 15:04:05", time.DateOnly} {
		if t, err := time.ParseInLocation(layout, s, now.Location()); err == nil {
			return t, nil
		}
	}
	return time.Time{}, &usageError{msg: "--since " + quoted(s) + " is neither a duration nor a time", hint: "write 10m, 2h, 2026-11-29 or 2026-11-29T17:00:00Z"}
}

func (a *app) runLogs(ctx context.Context, o logsOptions) error {
	if o.unattributed {
		o.id = api.Unattributed
	} else if id, _ := api.SplitArchived(o.id); compose.ValidateID(id) != nil {
		return compose.ValidateID(o.id)
	}
	q, err := o.query(time.Now())
	if err != nil {
		return err
	}
	if _, archived := api.SplitArchived(o.id); !o.unattributed && archived == 0 {
		if err := a.readExposed(ctx, o.id); err != nil {
			return err
		}
		if o.follow {
			watched, end := context.WithCancel(ctx)
			defer end()
			go a.watchExposed(watched, o.id)
		}
	}
	show := a.printLine
	if !a.json && !o.raw {
		show = a.recordTable()
	}
	err = a.readJournal(ctx, o.id, q, show)
	var refused *api.Error
	if errors.As(err, &refused) && refused.Code == api.CodeNotFound {
		if o.unattributed {
			return nil // nothing of the kind has happened
		}
		return &hintedError{err: fmt.Errorf("there is no journal of a trajectory %q", o.id), hint: "ctis status lists the trajectories that are up"}
	}
	if o.follow && errors.Is(err, context.Canceled) {
		return nil // how following ends
	}
	return err
}

// comeBack is how long following waits for a simulator that was restarted.
const comeBack = time.Minute

// readJournal reads a journal. Following outlives a restart of the simulator: it
// goes on behind the last record that was shown.
func (a *app) readJournal(ctx context.Context, id string, q api.JournalQuery, show func([]byte) error) error {
	shown := map[uint64]bool{} // records come in the order in which they are complete
	var failed error           // of show
	lost := time.Time{}
	for {
		admin, err := a.connect(ctx)
		if err == nil {
			err = admin.Journal(ctx, id, q, func(line []byte) error {
				lost = time.Time{}
				var r struct{ Seq uint64 }
				if q.Follow && !q.Raw {
					if err := json.Unmarshal(line, &r); err == nil && shown[r.Seq] {
						return nil
					}
					shown[r.Seq] = true
				}
				failed = show(line)
				return failed
			})
			admin.Close()
		}
		var refused *api.Error
		switch {
		case err == nil, !q.Follow, q.Raw, failed != nil, ctx.Err() != nil, errors.As(err, &refused):
			return err
		case lost.IsZero():
			lost = time.Now()
		case time.Since(lost) > comeBack:
			return err
		}
		q.Limit = 0 // what was shown counts
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func (a *app) printLine(line []byte) error {
	_, err := a.streams.Out.Write(append(line, '\n'))
	return err
}

// recordTable returns what prints a record's row; the first call prints the header
// too. Rows come one by one, so the widths are fixed beforehand. The URL comes
// last and is never cut: it is evidence.
func (a *app) recordTable() func([]byte) error {
	header := []string{"TIME", "SERVICE", "METHOD", "STATUS", "KIND", "SIZE", "URL"}
	widths := []int{12, 10, 7, 6, 9, 8, 0}
	begun := false
	return func(line []byte) error {
		var r api.Record
		if err := json.Unmarshal(line, &r); err != nil {
			return fmt.Errorf("a record cannot be read: %w", err)
		}
		if !begun {
			begun = true
			if _, err := fmt.Fprintln(a.streams.Out, formatRow(header, widths)); err != nil {
				return err
			}
		}
		_, err := fmt.Fprintln(a.streams.Out, formatRow(recordRow(r), widths))
		return err
	}
}

// recordRow is one record as people see it.
func recordRow(r api.Record) []string {
	row := []string{r.Time.Local().Format("15:04:05.000"), r.Client.Service, "", "", r.Kind, "", ""}
	if row[1] == "" {
		row[1] = r.Client.IP
	}
	switch {
	case r.Response != nil:
		row[3] = strconv.Itoa(r.Response.Status)
	case r.OutcomeUnknown:
		row[3] = "?"
	}
	if r.Request == nil {
		row[6] = r.Error
		if r.Kind == api.KindRulesSet {
			row[6] = "rules of " + r.Persona + " replaced"
		}
		return row
	}
	row[2], row[5] = r.Request.Method, size(r.Request.Body.Size)
	row[6] = r.Request.Target
	if strings.HasPrefix(r.Request.Target, "/") {
		scheme := "http"
		if r.TLS != nil {
			scheme = "https"
		}
		row[6] = scheme + "://" + r.Request.Host + r.Request.Target
	}
	var remarks []string
	if r.Rule != "" {
		remarks = append(remarks, "rule "+r.Rule)
	}
	if r.Error != "" {
		remarks = append(remarks, r.Error)
	}
	if r.Request.Body.Truncated {
		remarks = append(remarks, "body not kept whole")
	}
	if r.OutcomeUnknown {
		remarks = append(remarks, "outcome unknown")
	}
	if len(remarks) > 0 {
		row[6] += "  (" + strings.Join(remarks, "; ") + ")"
	}
	return row
}
