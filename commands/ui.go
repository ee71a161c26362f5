package commands

// The rules here are:
//
//   - Results are printed by their verb on stdout. Everything else, from this
//     file, goes to stderr.
//   - Progress is a list of steps. On a terminal the running step is one live
//     line with a spinner, its latest detail and the elapsed time; it is
//     replaced by a plain line when it ends. Elsewhere only that plain line
//     appears, once, when the step has ended.
//   - Messages start with a lower-case word ("error:", "warning:", "hint:") and
//     end without a full stop. A hint says what to do next.
//   - Colour is never the only bearer of meaning. It is off for anything that is
//     no terminal, with NO_COLOR, with --no-color, and on TERM=dumb.
//   - Text that came from an environment or from an engine is shown with its
//     control characters escaped: a file must not drive the terminal.

import (
	"fmt"
	"image/color"
	"io"
	"os"
	"strings"
	"sync"
	"time"
	"unicode"

	"charm.land/lipgloss/v2"
	"golang.org/x/term"

	"github.com/linuxarena/ctis/compose"
)

// ui shows progress and messages. It is safe for concurrent use.
type ui struct {
	out   io.Writer
	live  bool // a terminal that can redraw a line
	color bool
	quiet bool
	fd    int

	mu      sync.Mutex
	current *uiStep
	ticker  *time.Ticker
	ended   chan struct{}
}

type uiOptions struct{ noColor, quiet bool }

func newUI(out io.Writer, env map[string]string, o uiOptions) *ui {
	u := &ui{out: out, quiet: o.quiet}
	if f, ok := out.(*os.File); ok && term.IsTerminal(int(f.Fd())) && env["TERM"] != "dumb" {
		u.live, u.fd = true, int(f.Fd())
		u.color = !o.noColor && env["NO_COLOR"] == ""
	}
	return u
}

// uiStep is one line of progress.
type uiStep struct {
	u      *ui
	title  string
	latest string
	begun  time.Time
}

// step begins a line. A step that is still running is ended without verdict.
func (u *ui) step(title string) *uiStep {
	u.mu.Lock()
	defer u.mu.Unlock()
	s := &uiStep{u: u, title: title, begun: time.Now()}
	u.current = s
	if u.live && !u.quiet && u.ticker == nil {
		u.ticker, u.ended = time.NewTicker(100*time.Millisecond), make(chan struct{})
		go u.spin(u.ticker, u.ended)
	}
	u.draw()
	return s
}

func (u *ui) spin(t *time.Ticker, ended <-chan struct{}) {
	for {
		select {
		case <-t.C:
			u.mu.Lock()
			u.draw()
			u.mu.Unlock()
		case <-ended:
			return
		}
	}
}

// stop ends redrawing and clears a live line that is left.
func (u *ui) stop() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.ticker != nil {
		u.ticker.Stop()
		close(u.ended)
		u.ticker = nil
	}
	u.clear()
	u.current = nil
}

// detail shows what the step is doing at the moment; only a terminal has room
// for it.
func (s *uiStep) detail(text string) {
	s.u.mu.Lock()
	defer s.u.mu.Unlock()
	s.latest = text
	if s.u.current == s {
		s.u.draw()
	}
}

func (s *uiStep) done(detail string) { s.end("✔", lipgloss.Green, detail) }
func (s *uiStep) fail()              { s.end("✘", lipgloss.Red, "") }

func (s *uiStep) end(mark string, c color.Color, detail string) {
	u := s.u
	u.mu.Lock()
	defer u.mu.Unlock()
	u.clear()
	if u.current == s {
		u.current = nil
	}
	if u.quiet {
		return
	}
	line := u.paint(mark, c) + " " + printable(s.title)
	if detail != "" {
		line += "  " + u.faint(printable(detail))
	}
	fmt.Fprintf(u.out, "%s  %s\n", line, u.faint(elapsed(time.Since(s.begun))))
}

var spinner = []rune("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏")

// draw repaints the live line. u.mu is held.
func (u *ui) draw() {
	s := u.current
	if s == nil || !u.live || u.quiet {
		return
	}
	width, _, err := term.GetSize(u.fd)
	if err != nil || width < 20 {
		width = 80
	}
	since := time.Since(s.begun)
	frame := string(spinner[int(since/(100*time.Millisecond))%len(spinner)])
	tail := "  " + elapsed(since)
	text := printable(s.title)
	if s.latest != "" {
		text += "  " + printable(s.latest)
	}
	text = truncate(text, width-3-lipgloss.Width(tail))
	fmt.Fprintf(u.out, "\r\x1b[2K%s %s%s", u.paint(frame, lipgloss.Cyan), text, u.faint(tail))
}

// clear removes the live line. u.mu is held.
func (u *ui) clear() {
	if u.live && !u.quiet && u.current != nil {
		fmt.Fprint(u.out, "\r\x1b[2K")
	}
}

// note tells something worth knowing; quiet leaves it out.
func (u *ui) note(text string) {
	if !u.quiet {
		u.message(u.faint("note:"), text)
	}
}

// warn tells something that will surprise.
func (u *ui) warn(text string) { u.message(u.paint("warning:", lipgloss.Yellow), text) }

// failure tells why the run failed and what to do next.
func (u *ui) failure(text, hint string) {
	u.message(u.paint("error:", lipgloss.Red), text)
	if hint != "" {
		u.message(u.paint("hint:", lipgloss.Cyan), hint)
	}
}

// problems lists what is wrong with an environment, one line each.
func (u *ui) problems(ps compose.Problems) {
	for _, p := range ps {
		u.lines(printable(problemText(p)))
	}
}

func problemText(p compose.Problem) string {
	if p.Hint == "" {
		return p.String()
	}
	return p.String() + "; " + p.Hint
}

func (u *ui) message(label, text string) {
	u.lines(label + " " + printable(text))
}

// lines prints whole lines above the live one.
func (u *ui) lines(text string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.clear()
	fmt.Fprintln(u.out, text)
	u.draw()
}

func (u *ui) paint(text string, c color.Color) string {
	if !u.color {
		return text
	}
	return lipgloss.NewStyle().Foreground(c).Render(text)
}

func (u *ui) faint(text string) string {
	if !u.color || text == "" {
		return text
	}
	return lipgloss.NewStyle().Faint(true).Render(text)
}

// elapsed is a duration to a tenth of a second.
func elapsed(d time.Duration) string { return fmt.Sprintf("%.1fs", d.Seconds()) }

// printable keeps text on its line and out of the terminal's controls; line
// breaks of multi-line messages stay.
func printable(s string) string {
	if strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case unicode.IsPrint(r), r == '\n':
			b.WriteRune(r)
		case r == '\t':
			b.WriteString("    ")
		default:
			fmt.Fprintf(&b, "\\x%02x", r)
		}
	}
	return b.String()
}

// truncate cuts s to a width in terminal cells.
func truncate(s string, width int) string {
	s, _, _ = strings.Cut(s, "\n")
	if width < 1 || lipgloss.Width(s) <= width {
		return s
	}
	w := 0
	for i, r := range s {
		rw := lipgloss.Width(string(r))
		if w+rw > width-1 {
			return s[:i] + "…"
		}
		w += rw
	}
	return s
}
