package commands

import (
	"fmt"
	"strings"

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
			name := i.Tag
			if name == "" {
				name = "untagged " + strings.TrimPrefix(i.ID, "sha256:")[:min(12, len(strings.TrimPrefix(i.ID, "sha256:")))]
			}
			rows = append(rows, []string{actionWords[i.Action], name, size(i.Size), i.Reason})
		}
		if err := a.table([]string{"", "IMAGE", "SIZE", "WHY"}, rows, 3); err != nil {
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
		if err := a.table([]string{"", "WHAT", "TRAJECTORY", "WHY"}, rows, 3); err != nil {
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
