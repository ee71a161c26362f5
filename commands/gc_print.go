package commands

import (
	"fmt"
	"strings"

	"charm.land/lipgloss/v2"

	"github.com/linuxarena/ctis/imagehash"
	"github.com/linuxarena/ctis/simulator"
)

// actionWords are the actions as people read them.
var actionWords = map[simulator.GCAction]string{
	simulator.GCRemoved:     "removed",
	simulator.GCWouldRemove: "would remove",
	simulator.GCKept:        "kept",
	simulator.GCSkipped:     "skipped",
}

// printGC shows every image, and of trajectories what was not simply kept: on an
// engine with hundreds of them the few that are dead are what matters.
func (a *app) printGC(r *gcResult) error {
	if len(r.Images) > 0 {
		rows := make([][]string, 0, len(r.Images))
		for _, i := range r.Images {
			name := strings.TrimPrefix(i.Tag, imagehash.Repository+":") // it is the same everywhere, and wide
			if name == "" {
				name = "untagged " + strings.TrimPrefix(i.ID, "sha256:")[:min(12, len(strings.TrimPrefix(i.ID, "sha256:")))]
			}
			rows = append(rows, []string{actionWords[i.Action], name, size(i.Size), i.Reason})
		}
		if err := a.table([]string{"", "TAG", "SIZE", "WHY"}, wrapLast(rows, a.outWidth()), 3); err != nil {
			return err
		}
	}
	var rows [][]string
	alive, journals := 0, 0
	for _, t := range r.Trajectories {
		switch {
		case t.Action == simulator.GCKept && t.Kind == thingTrajectory && !t.notable:
			alive++
			continue
		case t.Action == simulator.GCKept && t.Kind == thingJournal:
			journals++
			continue
		}
		rows = append(rows, []string{actionWords[t.Action], string(t.Kind) + " " + t.Name, t.Trajectory, t.Reason})
	}
	if len(rows) > 0 {
		if len(r.Images) > 0 {
			if _, err := fmt.Fprintln(a.streams.Out); err != nil {
				return err
			}
		}
		if err := a.table([]string{"", "WHAT", "TRAJECTORY", "WHY"}, wrapLast(rows, a.outWidth()), 3); err != nil {
			return err
		}
	}
	verb := "reclaimed"
	if r.DryRun {
		verb = "would reclaim"
	}
	line := fmt.Sprintf("%s %s", verb, size(r.images)+" of images")
	if r.journals > 0 {
		line += " and " + size(r.journals) + " of journals"
	}
	var stay []string
	if alive > 0 {
		stay = append(stay, plural(alive, "trajectory"))
	}
	if journals > 0 {
		stay = append(stay, plural(journals, "journal"))
	}
	if len(stay) > 0 {
		line += "; kept " + strings.Join(stay, " and ")
	}
	_, err := fmt.Fprintln(a.streams.Out, line)
	return err
}

// wrapLast goes on with the last cells that do not fit into a width on rows of their
// own: why something stays is what the table is read for. A width of nought has no end.
func wrapLast(rows [][]string, width int) [][]string {
	if width == 0 || len(rows) == 0 {
		return rows
	}
	last := len(rows[0]) - 1
	used := make([]int, last)
	for _, row := range rows {
		for i, cell := range row[:last] {
			used[i] = max(used[i], lipgloss.Width(printable(cell)))
		}
	}
	for _, w := range used {
		width -= w + 2
	}
	if width < 16 { // it would be one word a line
		return rows
	}
	var out [][]string
	for _, row := range rows {
		line, first := "", true
		put := func() {
			next := make([]string, last+1)
			if first {
				copy(next, row[:last])
			}
			next[last], line, first = line, "", false
			out = append(out, next)
		}
		for _, word := range strings.Fields(printable(row[last])) {
			if line != "" && lipgloss.Width(line)+1+lipgloss.Width(word) > width {
				put()
			}
			line = strings.TrimPrefix(line+" "+word, " ")
		}
		put()
	}
	return out
}
