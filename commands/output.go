package commands

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"charm.land/lipgloss/v2"
	"golang.org/x/term"
)

// printJSON writes a result as one line of JSON.
func (a *app) printJSON(v any) error {
	enc := json.NewEncoder(a.streams.Out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("the result cannot be written: %w", err)
	}
	return nil
}

// outWidth is the width of the terminal results go to; 0 when they go elsewhere
// and need not be cut.
func (a *app) outWidth() int {
	f, ok := a.streams.Out.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return 0
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil || width < 20 {
		return 80
	}
	return width
}

// table prints rows under a header in columns as wide as their content. On a
// terminal too narrow for that, the column named by flexible is cut, then the widest
// ones; where that would leave too little of them, rows are stacked.
func (a *app) table(header []string, rows [][]string, flexible int) error {
	widths := make([]int, len(header))
	for _, row := range append([][]string{header}, rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], lipgloss.Width(printable(cell)))
		}
	}
	if limit := a.outWidth(); limit > 0 && !squeeze(widths, flexible, limit) {
		return a.stacked(header, rows)
	}
	for i, row := range append([][]string{header}, rows...) {
		line := formatRow(row, widths)
		if i == 0 && a.outWidth() > 0 && a.ui.color {
			line = lipgloss.NewStyle().Bold(true).Render(line)
		}
		if _, err := fmt.Fprintln(a.streams.Out, line); err != nil {
			return err
		}
	}
	return nil
}

// leastCut is how many cells are left of a column that is cut.
const leastCut = 8

// squeeze makes columns fit into limit cells; false where they cannot. What a row is
// called, which comes first, is never cut.
func squeeze(widths []int, flexible, limit int) bool {
	over := 2*(len(widths)-1) - limit
	for _, w := range widths {
		over += w
	}
	if cut := min(over, widths[flexible]-leastCut); cut > 0 {
		widths[flexible] -= cut
		over -= cut
	}
	for over > 0 {
		widest := 0
		for i := 1; i < len(widths); i++ {
			if i != flexible && widths[i] > leastCut && (widest == 0 || widths[i] > widths[widest]) {
				widest = i
			}
		}
		if widest == 0 {
			return false
		}
		widths[widest]-- // one cell at a time, so that those that are cut become alike
		over--
	}
	return true
}

// stacked prints a table that is too wide for the terminal row by row, one cell a
// line: a place that is cut off is of no use.
func (a *app) stacked(header []string, rows [][]string) error {
	wide := 0
	for _, h := range header[1:] {
		wide = max(wide, lipgloss.Width(h))
	}
	for _, row := range rows {
		if err := a.hang("", row[0]); err != nil {
			return err
		}
		for i := 1; i < len(row); i++ {
			if row[i] == "" {
				continue
			}
			if err := a.hang(fmt.Sprintf("  %-*s", wide+2, strings.ToLower(header[i])), row[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// hang prints text behind first. On a terminal it is broken between words, and its further
// lines begin below it.
func (a *app) hang(first, text string) error {
	_, err := fmt.Fprintln(a.streams.Out, hanging(first, text, a.outWidth()))
	return err
}

// hanging is such text on a terminal of that width in cells; 0: no terminal.
func hanging(first, text string, width int) string {
	text = printable(text)
	indent := lipgloss.Width(first)
	if width == 0 || indent+lipgloss.Width(text) <= width {
		return first + text
	}
	if width-indent < 20 { // too little is left beside it
		first, indent = strings.TrimRight(first, " ")+"\n  ", 2
	}
	var b strings.Builder
	b.WriteString(first)
	used := indent
	for i, word := range strings.Fields(text) {
		switch w := lipgloss.Width(word); {
		case i == 0:
		case used+1+w <= width:
			b.WriteByte(' ')
			used++
		default:
			b.WriteString("\n" + strings.Repeat(" ", indent))
			used = indent
		}
		for _, r := range word { // one that is longer than a line is broken too
			w := lipgloss.Width(string(r))
			if used+w > width {
				b.WriteString("\n" + strings.Repeat(" ", indent))
				used = indent
			}
			b.WriteRune(r)
			used += w
		}
	}
	return b.String()
}

// formatRow pads and cuts cells to widths; one of no width is left as it is.
func formatRow(row []string, widths []int) string {
	var b strings.Builder
	for i, cell := range row {
		cell = printable(cell)
		if widths[i] > 0 {
			if strings.Contains(cell, "://") {
				cell = shorten(cell, widths[i]) // URLs of one host differ at their ends
			}
			cell = truncate(cell, widths[i])
		}
		b.WriteString(cell)
		if i < len(row)-1 {
			b.WriteString(strings.Repeat(" ", max(0, widths[i]-lipgloss.Width(cell))+2))
		}
	}
	return strings.TrimRight(b.String(), " ")
}

// size is a number of bytes for people.
func size(n int64) string {
	switch {
	case n < 1000:
		return fmt.Sprintf("%d B", n)
	case n < 1000_000:
		return fmt.Sprintf("%.1f kB", float64(n)/1e3)
	case n < 1000_000_000:
		return fmt.Sprintf("%.1f MB", float64(n)/1e6)
	default:
		return fmt.Sprintf("%.1f GB", float64(n)/1e9)
	}
}
