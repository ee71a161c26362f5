package compose

import (
	"cmp"
	"fmt"
	"slices"
)

// Severity says whether a problem stops an environment from being set up.
type Severity string

const (
	SeverityError   Severity = "error"   // nothing is set up
	SeverityWarning Severity = "warning" // set up, but the author should know
)

// Problem is one finding about an environment, with its place in the file that
// has to be changed. Line and Column start at 1 and count characters; both are
// 0 where a whole file is meant, because it is missing or unreadable.
type Problem struct {
	Severity Severity `json:"severity"`
	File     string   `json:"file"`
	Line     int      `json:"line"`
	Column   int      `json:"column"`
	Message  string   `json:"message"`
	Hint     string   `json:"hint"` // what to do about it; may be empty
}

// String renders the problem as one line without its hint, in the form that
// editors and terminals recognise as a link.
func (p Problem) String() string {
	place := p.File
	if p.Line > 0 {
		place = fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
	}
	return fmt.Sprintf("%s: %s: %s", place, p.Severity, p.Message)
}

// Problems is everything found about one environment.
type Problems []Problem

// HasErrors says whether any of the problems is more than a warning.
func (p Problems) HasErrors() bool {
	return slices.ContainsFunc(p, func(q Problem) bool { return q.Severity == SeverityError })
}

// place is a position in a file, the part of a Problem that says where.
type place struct {
	File         string
	Line, Column int
}

func (p *Problems) errorf(at place, format string, args ...any) *Problem {
	return p.add(SeverityError, at, fmt.Sprintf(format, args...))
}

func (p *Problems) warnf(at place, format string, args ...any) *Problem {
	return p.add(SeverityWarning, at, fmt.Sprintf(format, args...))
}

func (p *Problems) add(s Severity, at place, message string) *Problem {
	*p = append(*p, Problem{Severity: s, File: at.File, Line: at.Line, Column: at.Column, Message: message})
	return &(*p)[len(*p)-1]
}

// hint adds what to do about the problem just reported.
func (p *Problem) hint(format string, args ...any) { p.Hint = fmt.Sprintf(format, args...) }

// didYouMean hints at the nearest of the known names, if one is near enough to
// be what was meant.
func (p *Problem) didYouMean(name string, known []string) {
	if near, ok := Nearest(name, known); ok {
		p.hint("did you mean %q?", near)
	}
}

// sorted orders the problems by file in the order of files, then by position,
// and drops repetitions: two checks may come upon the same mistake.
func (p Problems) sorted(files []string) Problems {
	rank := map[string]int{}
	for i, f := range files {
		if _, ok := rank[f]; !ok {
			rank[f] = i - len(files) // files not listed come after, by name
		}
	}
	slices.SortStableFunc(p, func(a, b Problem) int {
		return cmp.Or(
			cmp.Compare(rank[a.File], rank[b.File]),
			cmp.Compare(a.File, b.File),
			cmp.Compare(a.Line, b.Line),
			cmp.Compare(a.Column, b.Column),
			cmp.Compare(a.Severity, b.Severity),
			cmp.Compare(a.Message, b.Message),
		)
	})
	return slices.Compact(p)
}
