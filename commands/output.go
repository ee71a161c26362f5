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
// terminal too narrow for that, the column named by flexible is cut.
func (a *app) table(header []string, rows [][]string, flexible int) error {
	widths := make([]int, len(header))
	for _, row := range append([][]string{header}, rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], lipgloss.Width(printable(cell)))
		}
	}
	if limit := a.outWidth(); limit > 0 {
		total := 2 * (len(widths) - 1)
		for _, w := range widths {
			total += w
		}
		if total > limit {
			widths[flexible] = max(8, widths[flexible]-(total-limit))
		}
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
	room := max(20, width-indent)
	return first + strings.ReplaceAll(lipgloss.Wrap(text, room, ""), "\n", "\n"+strings.Repeat(" ", indent))
}

// formatRow pads and cuts cells to widths; one of no width is left as it is.
func formatRow(row []string, widths []int) string {
	var b strings.Builder
	for i, cell := range row {
		cell = printable(cell)
		if widths[i] > 0 {
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
