package simulator

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/linuxarena/ctis/imagehash"
)

// ImageRow is one tag of the simulator's repository, or an untagged image that was
// built for it.
type ImageRow struct {
	ID     string
	Tag    string    // whole reference; "" for an untagged image
	Size   int64     // bytes, as the engine tells it: layers that other images share included
	Since  time.Time // when it was built or tagged, whichever was later, by the engine's clock
	UsedBy []string  // containers, in any state; sorted
	// Foreign is an untagged image of which nothing says that a build of ctis left it:
	// who builds on an image inherits its labels.
	Foreign bool
}

// GCRule says what of the images stays.
type GCRule struct {
	Current map[string]string // tag as the engine lists it, or id → why it is needed
	Keep    int               // so many of the newest superseded tags stay as well
	Grace   time.Duration     // what is younger stays: somebody may be about to use it
	Now     time.Time         // by the engine's clock
}

// ImageVerdict is what is to become of an image.
type ImageVerdict struct {
	ImageRow
	Remove bool
	Reason string
}

// PlanGC decides about every row, the newest first (SPEC §4: superseded src-* tags
// that nobody uses). It touches nothing.
func PlanGC(rule GCRule, rows []ImageRow) []ImageVerdict {
	rows = slices.Clone(rows)
	slices.SortFunc(rows, func(a, b ImageRow) int {
		return cmp.Or(b.Since.Compare(a.Since), cmp.Compare(a.Tag, b.Tag), cmp.Compare(a.ID, b.ID))
	})
	kept := 0
	plan := make([]ImageVerdict, 0, len(rows))
	for _, row := range rows {
		v := ImageVerdict{ImageRow: row}
		age := rule.Now.Sub(row.Since)
		why, current := rule.Current[row.ID]
		if row.Tag != "" && !current {
			why, current = rule.Current[row.Tag]
		}
		switch {
		case current:
			v.Reason = why
		case row.Tag != "" && !imagehash.FromSourceTag(row.Tag):
			v.Reason = "not a tag that ctis makes"
		case len(row.UsedBy) > 0:
			v.Reason = "used by " + listed(row.UsedBy, "container")
		case row.Foreign:
			v.Reason = "untagged, and not known to be left by a build; docker rmi removes it"
		case age < rule.Grace:
			v.Reason = fmt.Sprintf("younger than %s", short(rule.Grace))
		case row.Tag != "" && kept < rule.Keep:
			kept++
			v.Reason = fmt.Sprintf("one of the newest %d (--keep)", rule.Keep)
		case row.Tag == "":
			v.Remove, v.Reason = true, "untagged: left by a build"
		default:
			v.Remove, v.Reason = true, "superseded and unused"
		}
		plan = append(plan, v)
	}
	return plan
}

// listed names a few of several things.
func listed(names []string, noun string) string {
	const most = 3
	switch n := len(names); {
	case n == 1:
		return noun + " " + names[0]
	case n > most:
		return fmt.Sprintf("%ss %s and %d more", noun, strings.Join(names[:most], ", "), n-most)
	}
	return noun + "s " + strings.Join(names, ", ")
}

// short is a duration without units that are nought: 10m, not 10m0s.
func short(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
