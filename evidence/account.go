package evidence

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/linuxarena/ctis/server/api"
)

// Account is what a journal holds and what it says it lacks.
type Account struct {
	Trajectory string `json:"trajectory"`
	Head       string `json:"head"` // SHA-256 of the last line without its newline, hex; 64 zeros for no line
	Lines      uint64 `json:"lines"`
	Records    uint64 `json:"records"`
	Bodies     int    `json:"bodies"`     // kept beside the journal
	BodyBytes  int64  `json:"body_bytes"` // of those
	Gaps       uint64 `json:"gaps"`       // records of kind gap
	Dropped    uint64 `json:"dropped"`    // requests those stand for
	Truncated  uint64 `json:"truncated"`  // bodies that were not kept whole
	Unresolved uint64 `json:"unresolved"` // exchanges whose outcome is not there
}

// zeroPrev is the link of a journal's first line.
var zeroPrev = strings.Repeat("0", 2*sha256.Size)

// maxProblems bounds how many problems are told of one journal.
const maxProblems = 20

// Auditor reads a journal's stored lines one after another, and checks each: that it
// links to the one before, that no number is missing, and that bodies in lines are what
// their digests say.
type Auditor struct {
	account  Account
	files    map[string]int64 // bodies beside the journal: size by digest
	waiting  map[uint64]bool  // records whose outcome has to come
	problems problems
}

// NewAuditor makes one that has seen no line.
func NewAuditor() *Auditor {
	return &Auditor{account: Account{Head: zeroPrev}, files: map[string]int64{}, waiting: map[uint64]bool{}}
}

// Account is that of the lines so far.
func (a *Auditor) Account() Account {
	acc := a.account
	acc.Unresolved = uint64(len(a.waiting))
	acc.Bodies = len(a.files)
	for _, n := range a.files {
		acc.BodyBytes += n
	}
	return acc
}

// Files lists the digests of bodies kept beside the journal, sorted.
func (a *Auditor) Files() []string { return slices.Sorted(maps.Keys(a.files)) }

// stored is a line of either kind.
type stored struct {
	api.Record
	Outcome bool `json:"outcome"`
}

// Line checks the next line, without its newline.
func (a *Auditor) Line(line []byte) {
	a.account.Lines++
	n := a.account.Lines
	var s stored
	err := json.Unmarshal(line, &s)
	prev := a.account.Head
	a.account.Head = sum(line)
	if err != nil {
		a.problems.add("line %d is damaged: %v", n, err)
		return
	}
	if s.Prev != prev {
		a.problems.add("line %d (record %d) does not link to the line before it: a line was changed, removed, added or moved here", n, s.Seq)
	}
	if s.Outcome {
		if !a.waiting[s.Seq] {
			a.problems.add("line %d completes record %d, which awaits nothing", n, s.Seq)
		}
		delete(a.waiting, s.Seq)
	} else {
		a.record(n, &s.Record)
	}
	for _, b := range bodiesOf(&s.Record) {
		a.body(n, s.Seq, b)
	}
}

func (a *Auditor) record(line uint64, r *api.Record) {
	if r.Seq != a.account.Records+1 {
		a.problems.add("line %d is record %d, where %d was to come", line, r.Seq, a.account.Records+1)
	}
	a.account.Records = r.Seq
	switch a.account.Trajectory {
	case "":
		a.account.Trajectory = r.Trajectory
	case r.Trajectory:
	default:
		a.problems.add("record %d is one of trajectory %q, the ones before are of %q", r.Seq, r.Trajectory, a.account.Trajectory)
	}
	if r.Kind == api.KindGap {
		a.account.Gaps++
		a.account.Dropped += r.Dropped
	}
	if r.Response == nil && api.OutcomeFollows(r.Kind) {
		a.waiting[r.Seq] = true
	}
}

func (a *Auditor) body(line, seq uint64, b *api.Body) {
	if b.Truncated {
		a.account.Truncated++
		return
	}
	if b.Encoding == api.EncodingFile {
		if digest, err := hex.DecodeString(b.SHA256); err != nil || len(digest) != sha256.Size || strings.ToLower(b.SHA256) != b.SHA256 {
			a.problems.add("line %d (record %d) names %q as a body, which is no SHA-256", line, seq, b.SHA256)
			return
		}
		if size, ok := a.files[b.SHA256]; ok && size != b.Size {
			a.problems.add("body %s has %d bytes in record %d and %d in one before", b.SHA256, b.Size, seq, size)
		}
		a.files[b.SHA256] = b.Size
		return
	}
	if b.Encoding == api.EncodingNone && b.SHA256 == "" {
		return // of an exposed service's request, which went past the simulator
	}
	content, err := Inline(b)
	switch {
	case err != nil:
		a.problems.add("line %d (record %d): %v", line, seq, err)
	case int64(len(content)) != b.Size || b.SHA256 != "" && api.HexSHA256(content) != b.SHA256:
		a.problems.add("line %d (record %d) has a body of another size or digest than it says", line, seq)
	}
}

// Body checks a body that is kept beside the journal, by reading all of it.
func (a *Auditor) Body(digest string, r io.Reader) error {
	h := newHash()
	n, err := io.Copy(h, r)
	if err != nil {
		return err
	}
	want, known := a.files[digest]
	switch got := h.sum(); {
	case !known:
		a.problems.add("body %s is named by no record", digest)
	case got != digest, n != want:
		a.problems.add("body %s was changed: it has %d bytes with SHA-256 %s, and was %d bytes", digest, n, got, want)
	}
	return nil
}

// NoBody notes that a body is not there.
func (a *Auditor) NoBody(digest string) { a.problems.add("body %s is missing", digest) }

// Told compares with what the simulator counted. before was asked for before the lines
// were read, and after after that: a journal may be written to meanwhile.
func (a *Auditor) Told(before, after api.JournalStatus) {
	if a.account.Records < before.Records {
		a.problems.add("the simulator counted %d records and the last one is %d: the end is missing", before.Records, a.account.Records)
	}
	if after.Dropped > a.account.Dropped && a.account.Records >= after.Records {
		a.problems.missing = append(a.problems.missing, fmt.Sprintf("%s not recorded: the journal's quota is used up (told by the simulator; no record says so yet)",
			count(after.Dropped-a.account.Dropped, "request is", "requests are")))
	}
}

// Lacks notes what the journal lacks and does not say itself.
func (a *Auditor) Lacks(what ...string) { a.problems.missing = append(a.problems.missing, what...) }

// Report is what came of checking a journal or an export.
type Report struct {
	// Complete: sound, and nothing is missing. Only then does "it is not in the
	// journal" mean "it did not happen".
	Complete bool     `json:"complete"`
	Sound    bool     `json:"sound"`    // nothing was changed, removed, added or moved
	Problems []string `json:"problems"` // why it is not sound
	Missing  []string `json:"missing"`  // what the journal itself says it lacks
	Account
}

// Report sums up.
func (a *Auditor) Report() *Report {
	acc := a.Account()
	r := &Report{Account: acc, Problems: append([]string{}, a.problems.told...), Missing: append([]string{}, a.problems.missing...)}
	if more := a.problems.more; more > 0 {
		r.Problems = append(r.Problems, fmt.Sprintf("and %d more", more))
	}
	if acc.Gaps > 0 {
		r.Missing = append(r.Missing, lost(acc.Dropped)+" no record of their own: "+count(acc.Gaps, "gap", "gaps"))
	}
	if acc.Truncated > 0 {
		r.Missing = append(r.Missing, count(acc.Truncated, "body was", "bodies were")+" not kept whole")
	}
	if acc.Unresolved > 0 {
		r.Missing = append(r.Missing, "the outcome of "+count(acc.Unresolved, "exchange is", "exchanges are")+" not there: still running, or the simulator was stopped in it")
	}
	r.Sound = len(r.Problems) == 0
	r.Complete = r.Sound && len(r.Missing) == 0
	return r
}

// lost is how many requests have no record; 0 where their number is not known.
func lost(n uint64) string {
	if n == 0 {
		return "requests, nobody knows how many, have"
	}
	return count(n, "request has", "requests have")
}

func count(n uint64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// problems are what was found, the first of them in words.
type problems struct {
	told    []string
	more    int
	missing []string
}

func (p *problems) add(format string, args ...any) {
	if len(p.told) == maxProblems {
		p.more++
		return
	}
	p.told = append(p.told, fmt.Sprintf(format, args...))
}
