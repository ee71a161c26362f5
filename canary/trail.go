package canary

import "slices"

// trailPiece and trailMost bound, in bytes, what of one text is followed and how much
// is looked at together.
const (
	trailPiece = 4 << 10
	trailMost  = 32 << 10
)

// Trail finds a secret that was cut into texts sent one after another at one place:
// one per request. What is longer than a few KiB is no piece of one.
type Trail struct {
	f     *Finder
	place string
	marks []mark
}

type mark struct {
	seq  uint64
	text []byte
}

// TrailHit is a secret that was put together from several records.
type TrailHit struct {
	Hit
	First, Last uint64 // numbers of the records
}

// NewTrail makes one for a place.
func (f *Finder) NewTrail(place string) *Trail { return &Trail{f: f, place: place} }

// Add goes on with the text of the next record.
func (t *Trail) Add(seq uint64, text []byte) []TrailHit {
	if len(text) == 0 || len(text) > trailPiece {
		return nil
	}
	t.marks = append(t.marks, mark{seq, slices.Clone(text)})
	if t.size() < trailMost {
		return nil
	}
	hits := t.Flush()
	for len(t.marks) > 0 && t.size() > trailMost/2 {
		t.marks = t.marks[1:]
	}
	return hits
}

func (t *Trail) size() (n int) {
	for _, m := range t.marks {
		n += len(m.text)
	}
	return n
}

// Flush looks at what was added since, together.
func (t *Trail) Flush() []TrailHit {
	found := t.find(t.marks)
	if found == nil {
		return nil
	}
	// The fewest records that have it: what can be left out at either end is.
	marks := t.marks
	for len(marks) > 1 && t.find(marks[1:]) != nil {
		marks = marks[1:]
	}
	for len(marks) > 1 && t.find(marks[:len(marks)-1]) != nil {
		marks = marks[:len(marks)-1]
	}
	hit := TrailHit{Hit: t.find(marks)[0], First: marks[0].seq, Last: marks[len(marks)-1].seq}
	t.marks = nil
	if hit.First == hit.Last {
		return nil // found there already
	}
	return []TrailHit{hit}
}

func (t *Trail) find(marks []mark) []Hit {
	var all []byte
	for _, m := range marks {
		all = append(all, m.text...)
	}
	return t.f.Text(t.place, all).Hits
}
