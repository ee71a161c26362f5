package commands

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"charm.land/lipgloss/v2"

	"github.com/linuxarena/ctis/evidence"
	"github.com/linuxarena/ctis/server/api"
)

// The columns of the table of records. Rows come one by one, so their widths, in cells,
// are fixed beforehand. Below the width of from, a terminal does not have the column.
// The URL has what is left. It is evidence: whole where the table is no terminal's, and
// shortened only where a terminal would break its row.
var recordColumns = []struct {
	name  string
	width int
	from  int
}{{"SEQ", 5, 0}, {"TIME", 12, 70}, {"SERVICE", 10, 90}, {"METHOD", 7, 0}, {"STATUS", 6, 0}, {"KIND", 9, 90}, {"SIZE", 8, 90}, {"URL", 0, 0}}

// recordTable returns what prints a record's row on a terminal of that width in cells
// (0: no terminal); the first call prints the header too.
func (a *app) recordTable(width int) func([]byte) error {
	begun := false
	return func(line []byte) error {
		var r api.Record
		if err := json.Unmarshal(line, &r); err != nil {
			return fmt.Errorf("a record cannot be read: %w", err)
		}
		if !begun {
			begun = true
			var header recordCells
			for i := range header.cells {
				header.cells[i] = recordColumns[i].name
			}
			header.url = recordColumns[len(recordColumns)-1].name
			if _, err := fmt.Fprintln(a.streams.Out, header.row(width)); err != nil {
				return err
			}
		}
		_, err := fmt.Fprintln(a.streams.Out, cellsOf(&r).row(width))
		return err
	}
}

// recordCells is one record as people see it.
type recordCells struct {
	cells  [7]string // in the order of [recordColumns], the last of which is made of the rest:
	url    string
	remark string // what has to be known besides
}

func cellsOf(r *api.Record) (c recordCells) {
	c.cells = [7]string{strconv.FormatUint(r.Seq, 10), r.Time.Local().Format("15:04:05.000"), r.Client.Service, "", "", r.Kind, ""}
	if c.cells[2] == "" {
		c.cells[2] = r.Client.IP
	}
	switch {
	case r.Response != nil:
		c.cells[4] = strconv.Itoa(r.Response.Status)
	case r.OutcomeUnknown:
		c.cells[4] = "?"
	}
	switch {
	case r.Request != nil:
		c.cells[3], c.cells[6] = r.Request.Method, size(r.Request.Body.Size)
		c.url, c.remark = evidence.URL(r), strings.Join(recordRemarks(r), "; ")
	case r.Kind == api.KindRulesSet:
		c.remark = "rules of " + r.Persona + " replaced"
	default:
		c.remark = r.Error
	}
	for i := range c.cells {
		c.cells[i] = harmless(c.cells[i]) // no record makes two rows
	}
	c.url, c.remark = harmless(c.url), harmless(c.remark)
	return c
}

// row is the record's row on a terminal of that width; 0: no terminal.
func (c recordCells) row(width int) string {
	var shown []string
	var widths []int
	used := 0
	for i, cell := range c.cells {
		if width > 0 && width < recordColumns[i].from {
			continue
		}
		w := recordColumns[i].width
		if width == 0 {
			w = max(w, lipgloss.Width(cell)) // nothing is cut
		}
		shown, widths = append(shown, cell), append(widths, w)
		used += w + 2
	}
	room := 0
	if width > 0 {
		room = max(width-used, 8)
	}
	return formatRow(append(shown, c.last(room)), append(widths, 0))
}

// shortest is how many cells of a URL are left for a remark's sake.
const shortest = 16

// last is URL and remark in that many cells; 0: in any number. The URL is shortened in
// its middle: its host and its end say most.
func (c recordCells) last(room int) string {
	remark := c.remark
	if c.url == "" {
		return truncate(remark, room)
	}
	if remark != "" {
		remark = "  (" + remark + ")"
	}
	whole := c.url + remark
	if room == 0 || lipgloss.Width(whole) <= room {
		return whole
	}
	url := c.url
	if left := room - lipgloss.Width(remark); left < lipgloss.Width(url) {
		url = shorten(url, max(left, min(shortest, room)))
	}
	return truncate(url+remark, room)
}

// shorten takes the middle out of a URL so that it fits into a width in cells, and its
// scheme before that.
func shorten(url string, width int) string {
	if lipgloss.Width(url) <= width {
		return url
	}
	if _, bare, ok := strings.Cut(url, "://"); ok {
		url = bare
	}
	total := lipgloss.Width(url)
	if total <= width {
		return url
	}
	head := (width - 1) * 2 / 3
	tail := width - 1 - head
	var front, back strings.Builder
	at := 0
	for _, r := range url {
		w := lipgloss.Width(string(r))
		if at+w <= head {
			front.WriteRune(r)
		} else if at >= total-tail {
			back.WriteRune(r)
		}
		at += w
	}
	return front.String() + "…" + back.String()
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
	if r.Response != nil && r.Response.Body.Truncated {
		remarks = append(remarks, "response not kept whole")
	}
	if r.Tunnel != nil && r.Tunnel.Sent.Truncated {
		remarks = append(remarks, "what was sent over the WebSocket not kept whole")
	}
	if r.Tunnel != nil && r.Tunnel.Received.Truncated {
		remarks = append(remarks, "what was received over the WebSocket not kept whole")
	}
	if r.OutcomeUnknown {
		remarks = append(remarks, "outcome unknown")
	}
	return remarks
}
