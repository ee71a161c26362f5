package commands

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/linuxarena/ctis/evidence"
	"github.com/linuxarena/ctis/server/api"
)

// narrow is the width in cells below which a terminal gets fewer columns.
const narrow = 90

// The columns of the table of records. Rows come one by one, so their widths are fixed
// beforehand. The URL comes last and is never cut: it is evidence.
var recordColumns = []struct {
	name  string
	width int
	wide  bool // left out on narrow terminals
}{{"SEQ", 5, false}, {"TIME", 12, false}, {"SERVICE", 10, true}, {"METHOD", 7, false}, {"STATUS", 6, false}, {"KIND", 9, true}, {"SIZE", 8, true}, {"URL", 0, false}}

// recordTable returns what prints a record's row on a terminal of that width in cells
// (0: no terminal); the first call prints the header too.
func (a *app) recordTable(width int) func([]byte) error {
	var widths []int
	row := func(cells []string) error {
		var shown []string
		widths = widths[:0]
		for i, c := range recordColumns {
			if c.wide && width > 0 && width < narrow {
				continue
			}
			shown, widths = append(shown, cells[i]), append(widths, c.width)
		}
		_, err := fmt.Fprintln(a.streams.Out, formatRow(shown, widths))
		return err
	}
	begun := false
	return func(line []byte) error {
		var r api.Record
		if err := json.Unmarshal(line, &r); err != nil {
			return fmt.Errorf("a record cannot be read: %w", err)
		}
		if !begun {
			begun = true
			var header []string
			for _, c := range recordColumns {
				header = append(header, c.name)
			}
			if err := row(header); err != nil {
				return err
			}
		}
		return row(recordRow(&r))
	}
}

// recordRow is one record as people see it, in [recordColumns].
func recordRow(r *api.Record) []string {
	row := []string{strconv.FormatUint(r.Seq, 10), r.Time.Local().Format("15:04:05.000"), r.Client.Service, "", "", r.Kind, "", r.Error}
	if row[2] == "" {
		row[2] = r.Client.IP
	}
	switch {
	case r.Response != nil:
		row[4] = strconv.Itoa(r.Response.Status)
	case r.OutcomeUnknown:
		row[4] = "?"
	}
	if r.Request != nil {
		row[3], row[6] = r.Request.Method, size(r.Request.Body.Size)
		row[7] = evidence.URL(r)
		if remarks := recordRemarks(r); len(remarks) > 0 {
			row[7] += "  (" + strings.Join(remarks, "; ") + ")"
		}
	}
	if r.Kind == api.KindRulesSet {
		row[7] = "rules of " + r.Persona + " replaced"
	}
	for i, cell := range row {
		row[i] = strings.ReplaceAll(cell, "\n", `\x0a`) // no record makes two rows
	}
	return row
}

// recordRemarks is what has to be known about an exchange besides its row.
func recordRemarks(r *api.Record) (remarks []string) {
	if r.Rule != "" {
		remarks = append(remarks, "rule "+r.Rule)
	}
	if r.Error != "" {
		remarks = append(remarks, r.Error)
	}
	if r.Request != nil && r.Request.Body.Truncated {
		remarks = append(remarks, "body not kept whole")
	}
	if r.Tunnel != nil && r.Tunnel.Sent.Truncated {
		remarks = append(remarks, "what was sent over the WebSocket not kept whole")
	}
	if r.OutcomeUnknown {
		remarks = append(remarks, "outcome unknown")
	}
	return remarks
}
