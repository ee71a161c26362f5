package evidence

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/linuxarena/ctis/server/api"
)

// chain is a journal made by hand, byte for byte as the simulator writes one.
type chain struct {
	kept
	t      *testing.T
	lines  [][]byte
	seq    uint64
	status *api.JournalStatus
}

func newChain(t *testing.T) *chain { return &chain{kept: kept{}, t: t} }

func (c *chain) add(v any) {
	c.t.Helper()
	prev := zeroPrev
	if n := len(c.lines); n > 0 {
		prev = sum(c.lines[n-1])
	}
	switch v := v.(type) {
	case *api.Record:
		c.seq++
		v.Seq, v.Prev, v.Trajectory, v.Time = c.seq, prev, "t1", api.Time{Time: time.Unix(1e9+int64(c.seq), 0)}
	case *api.Outcome:
		v.Prev, v.Outcome = prev, true
	}
	line, err := json.Marshal(v)
	if err != nil {
		c.t.Fatal(err)
	}
	c.lines = append(c.lines, line)
}

func inline(s string) api.Body {
	return api.Body{Size: int64(len(s)), SHA256: sum([]byte(s)), Encoding: api.EncodingUTF8, Content: s}
}

func post(target string, b api.Body) *api.Record {
	return &api.Record{Kind: api.KindData, Request: &api.Request{Method: "POST", Host: "filebin.net", Target: target, Proto: "HTTP/1.1", Body: b}, Response: &api.Response{Status: 201}}
}

// file adds a body beside the journal.
func (c *chain) file(content []byte) api.Body {
	digest := sum(content)
	c.kept[digest] = content
	return api.Body{Size: int64(len(content)), SHA256: digest, Encoding: api.EncodingFile}
}

func (c *chain) Lines(_ context.Context, yield func([]byte) error) error {
	for _, l := range c.lines {
		if err := yield(l); err != nil {
			return err
		}
	}
	return nil
}

func (c *chain) Status(context.Context) (*api.JournalStatus, error) { return c.status, nil }

// sound is a journal of all kinds of lines that lacks nothing.
func sound(t *testing.T) *chain {
	c := newChain(t)
	c.add(post("/data", inline("hello")))
	c.add(&api.Record{Kind: api.KindRefused, Error: "unknown name"})
	two := post("/data/2", c.file(bytes.Repeat([]byte("big "), 30)))
	two.Response = nil
	c.add(two)
	c.add(post("/data/3", c.file([]byte("another"))))
	c.add(&api.Outcome{Seq: 3, Response: &api.Response{Status: 200}})
	c.add(post("/data/4", inline("bye")))
	over := post("/over", api.Body{Size: 12, Encoding: api.EncodingNone})
	over.Kind, over.Exposed, over.Response.Body = api.KindExposed, &api.ExposedFacts{Target: "web:80"}, api.Received{Size: 400}
	c.add(over)
	said := post("/v1", inline("q"))
	said.Response = nil
	c.add(said)
	c.add(&api.Outcome{Seq: said.Seq, Response: &api.Response{Status: 200, Body: api.Received(c.file([]byte("an answer")))}, Tunnel: &api.Tunnel{Sent: inline("up"), Received: api.Received(inline("down"))}})
	return c
}

func export(t *testing.T, c *chain) (dir, seal string) {
	t.Helper()
	dir = t.TempDir()
	seal, r, err := Export(t.Context(), dir, "t1", c, time.Unix(2e9, 0))
	if err != nil {
		t.Fatal(err)
	}
	live, err := VerifyJournal(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(live) != fmt.Sprint(r) {
		t.Errorf("exported with %+v, checked where it is with %+v", r, live)
	}
	return dir, seal
}

func verify(t *testing.T, dir, want string) *Report {
	t.Helper()
	_, r, err := VerifyExport(dir, want)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestAnExportVerifiesAndSaysWhatItHolds(t *testing.T) {
	c := sound(t)
	c.status = &api.JournalStatus{Records: 7}
	dir, seal := export(t, c)
	r := verify(t, dir, seal)
	if !r.Complete || r.Records != 7 || r.Lines != 9 || r.Bodies != 3 || r.BodyBytes != 136 || r.Head != sum(c.lines[8]) || r.Trajectory != "t1" {
		t.Errorf("%+v", r)
	}
	got, err := os.ReadFile(filepath.Join(dir, journalFile))
	if want := append(bytes.Join(c.lines, []byte("\n")), '\n'); err != nil || !bytes.Equal(got, want) {
		t.Errorf("the lines are not those stored: %v", err)
	}
	if r := verify(t, dir, strings.Repeat("0", 64)); r.Sound {
		t.Error("another seal is accepted")
	}
	if r := verify(t, dir, strings.ToUpper(seal)); !r.Complete {
		t.Errorf("the seal in capitals: %v", r.Problems)
	}
}

func TestAnEmptyJournalIsComplete(t *testing.T) {
	dir, seal := export(t, newChain(t))
	if r := verify(t, dir, seal); !r.Complete || r.Head != zeroPrev {
		t.Errorf("%+v", r)
	}
}

// TestWhatTheJournalLacksIsTold: such an export is as it was made, and not complete.
func TestWhatTheJournalLacksIsTold(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*chain)
		says   string
	}{
		"gap":             {func(c *chain) { c.add(&api.Record{Kind: api.KindGap, Dropped: 7}) }, "7 requests have no record of their own: 1 gap"},
		"truncated":       {func(c *chain) { c.add(post("/", api.Body{Size: 9, Encoding: "none", Truncated: true})) }, "1 body was not kept whole"},
		"raw truncated":   {func(c *chain) { c.add(&api.Record{Kind: api.KindMalformed, Raw: &api.Body{Truncated: true}}) }, "1 body was not"},
		"outcome missing": {func(c *chain) { r := post("/", inline("")); r.Response = nil; c.add(r) }, "the outcome of 1 exchange is not there"},
		"answer truncated": {func(c *chain) {
			r := post("/", inline(""))
			r.Response.Body = api.Received{Size: 9, Encoding: api.EncodingNone, Truncated: true}
			c.add(r)
		}, "1 body was not kept whole"},
		"tunnel truncated": {func(c *chain) {
			r := post("/", inline(""))
			r.Response = nil
			c.add(r)
			c.add(&api.Outcome{Seq: r.Seq, Tunnel: &api.Tunnel{Sent: api.Body{Truncated: true}}})
		}, "1 body was not kept whole"},
		"dropped and not yet told": {func(c *chain) { c.status = &api.JournalStatus{Records: 7, Dropped: 3} }, "3 requests are not recorded"},
	} {
		c0 := sound(t)
		c.change(c0)
		dir, seal := export(t, c0)
		r := verify(t, dir, seal)
		if r.Complete || !r.Sound || !strings.Contains(strings.Join(r.Missing, "\n"), c.says) {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// TestAnUnsoundJournalIsToldWhereverItIs: its export is sealed as it is.
func TestAnUnsoundJournalIsToldWhereverItIs(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*chain)
		says   string
	}{
		"line removed":   {func(c *chain) { c.lines = append(c.lines[:1:1], c.lines[2:]...) }, "line 2 (record 3) does not link"},
		"lines swapped":  {func(c *chain) { c.lines[0], c.lines[1] = c.lines[1], c.lines[0] }, "line 1 (record 2) does not link"},
		"line twice":     {func(c *chain) { c.lines = append(c.lines[:2:2], c.lines[1:]...) }, "is record 2, where 3 was to come"},
		"line changed":   {func(c *chain) { c.lines[3] = bytes.Replace(c.lines[3], []byte("/3"), []byte("/9"), 1) }, "line 5 (record 3) does not link"},
		"no JSON":        {func(c *chain) { c.lines[1] = []byte("{") }, "line 2 is damaged"},
		"end removed":    {func(c *chain) { c.lines = c.lines[:7]; c.status = &api.JournalStatus{Records: 7} }, "the end is missing"},
		"body missing":   {func(c *chain) { delete(c.kept, sum([]byte("another"))) }, "is missing"},
		"body changed":   {func(c *chain) { c.kept[sum([]byte("another"))] = []byte("Another") }, "was changed"},
		"body no digest": {func(c *chain) { c.add(post("/", api.Body{Encoding: "file", SHA256: "../x"})) }, "is no SHA-256"},
		"inline changed": {func(c *chain) { b := inline("a"); b.Content = "b"; c.add(post("/", b)) }, "of another size or digest"},
		"odd encoding":   {func(c *chain) { c.add(post("/", api.Body{Encoding: "rot13"})) }, "rot13"},
		"answer changed": {func(c *chain) {
			r := post("/", inline(""))
			r.Response.Body = api.Received{Size: 1, SHA256: sum([]byte("a")), Encoding: api.EncodingUTF8, Content: "b"}
			c.add(r)
		}, "of another size or digest"},
		"outcome of none":  {func(c *chain) { c.add(&api.Outcome{Seq: 4}) }, "record 4, which awaits nothing"},
		"other trajectory": {func(c *chain) { c.lines[5] = bytes.Replace(c.lines[5], []byte(`"t1"`), []byte(`"t2"`), 1) }, `trajectory "t2"`},
	} {
		c0 := sound(t)
		c.change(c0)
		dir, seal := export(t, c0)
		if r := verify(t, dir, seal); r.Sound || r.Complete || !strings.Contains(strings.Join(r.Problems, "\n"), c.says) {
			t.Errorf("%s: %q", name, r.Problems)
		}
	}
}

// TestNoChangeOfAnExportGoesUnnoticed changes each file in turn, at random places.
func TestNoChangeOfAnExportGoesUnnoticed(t *testing.T) {
	origin, seal := export(t, sound(t))
	var paths []string
	content := map[string][]byte{}
	err := filepath.Walk(origin, func(p string, fi os.FileInfo, err error) error {
		if err != nil || fi.IsDir() {
			return err
		}
		rel, _ := filepath.Rel(origin, p)
		paths = append(paths, rel)
		content[rel], err = os.ReadFile(p)
		return err
	})
	if err != nil || len(paths) != 6 {
		t.Fatal(paths, err)
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	for i := range 400 {
		p := paths[i%len(paths)]
		was := content[p]
		is := bytes.Clone(was)
		at := rnd.IntN(len(is))
		switch kind := rnd.IntN(4); {
		case kind == 0:
			is[at] ^= 1 << rnd.IntN(8)
		case kind == 1:
			is = is[:at]
		case kind == 2:
			is = append(is[:at:at], append([]byte{byte(rnd.IntN(256))}, is[at:]...)...)
		default:
			lines := bytes.SplitAfter(is, []byte("\n"))
			rnd.Shuffle(len(lines), func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })
			is = bytes.Join(lines, nil)
		}
		if bytes.Equal(is, was) {
			continue
		}
		if err := os.WriteFile(filepath.Join(origin, p), is, 0o600); err != nil {
			t.Fatal(err)
		}
		if r := verify(t, origin, ""); r.Sound || r.Complete || len(r.Problems) == 0 {
			t.Errorf("%s changed at %d: %+v", p, at, r)
		}
		if err := os.WriteFile(filepath.Join(origin, p), was, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range paths {
		if err := os.Remove(filepath.Join(origin, p)); err != nil {
			t.Fatal(err)
		}
		if r := verify(t, origin, ""); r.Sound {
			t.Errorf("%s removed: sound", p)
		}
		if err := os.Symlink("/dev/zero", filepath.Join(origin, p)); err != nil {
			t.Fatal(err)
		}
		if r := verify(t, origin, ""); r.Sound {
			t.Errorf("%s a link: sound", p)
		}
		os.Remove(filepath.Join(origin, p))
		if err := os.WriteFile(filepath.Join(origin, p), content[p], 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, extra := range []string{"note", "bodies/x", "more/"} {
		path := filepath.Join(origin, extra)
		if strings.HasSuffix(extra, "/") {
			err = os.Mkdir(path, 0o700)
		} else {
			err = os.WriteFile(path, nil, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		if r := verify(t, origin, ""); r.Sound {
			t.Errorf("%s added: sound", extra)
		}
		os.Remove(path)
	}
	if r := verify(t, origin, seal); !r.Complete {
		t.Errorf("put back as it was: %q", r.Problems)
	}
}

// TestEveryByteOfAnExportCounts: one that is flipped, a file that is cut off anywhere, and
// lines in another order are found, in every file of it.
func TestEveryByteOfAnExportCounts(t *testing.T) {
	dir, seal := export(t, sound(t))
	tried := map[string]int{}
	err := filepath.Walk(dir, func(path string, fi os.FileInfo, err error) error {
		if err != nil || fi.IsDir() {
			return err
		}
		was, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		refused := func(what string, is []byte) {
			t.Helper()
			tried[filepath.Base(path)]++
			f, err := os.OpenFile(path, os.O_WRONLY, 0) // not made anew each time, which is slow
			if err != nil {
				t.Fatal(err)
			}
			_, err = f.WriteAt(is, 0)
			if err := errors.Join(err, f.Truncate(int64(len(is))), f.Close()); err != nil {
				t.Fatal(err)
			}
			if r := verify(t, dir, ""); r.Sound || r.Complete || len(r.Problems) == 0 {
				t.Errorf("%s, %s: it is accepted", filepath.Base(path), what)
			}
		}
		for i := range was {
			is := bytes.Clone(was)
			is[i] ^= 1 << (i % 8)
			refused(fmt.Sprintf("byte %d flipped", i), is)
		}
		for i := 0; i < len(was); i += 1 + len(was)/50 {
			refused(fmt.Sprintf("cut off at %d", i), was[:i])
		}
		lines := bytes.SplitAfter(was, []byte("\n"))
		for i := 1; i < len(lines)-1; i++ {
			lines[i-1], lines[i] = lines[i], lines[i-1]
			if is := bytes.Join(lines, nil); !bytes.Equal(is, was) { // of two that are alike there is no order
				refused(fmt.Sprintf("lines %d and %d exchanged", i, i+1), is)
			}
			lines[i-1], lines[i] = lines[i], lines[i-1]
		}
		return os.WriteFile(path, was, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(tried) != 6 || tried[journalFile] < 1000 || tried[sealFile] < 64 {
		t.Errorf("tried %v", tried)
	}
	if r := verify(t, dir, seal); !r.Complete {
		t.Errorf("put back as it was: %q", r.Problems)
	}
}

// TestWhatCouldNotBeCollectedIsNamed in the manifest, under its seal, and such an export
// is not complete.
func TestWhatCouldNotBeCollectedIsNamed(t *testing.T) {
	dir := t.TempDir()
	const why = "the newest requests to its exposed services cannot be read: no such container"
	seal, r, err := Export(t.Context(), dir, "t1", sound(t), time.Unix(2e9, 0), why)
	if err != nil || r.Complete || !r.Sound {
		t.Fatalf("%+v, %v", r, err)
	}
	if r := verify(t, dir, seal); r.Complete || !r.Sound || len(r.Missing) != 1 || r.Missing[0] != why {
		t.Errorf("%+v", r)
	}
	raw, err := os.ReadFile(filepath.Join(dir, manifestFile))
	if err != nil || !bytes.Contains(raw, []byte(`"missing": [`)) || !bytes.Contains(raw, []byte(why)) {
		t.Errorf("%s, %v", raw, err)
	}
}

// TestANewSealForChangedEvidenceIsAnotherSeal: who makes everything anew is caught by
// the seal that was noted.
func TestANewSealForChangedEvidenceIsAnotherSeal(t *testing.T) {
	_, seal := export(t, sound(t))
	forged := newChain(t)
	forged.add(post("/harmless", inline("")))
	dir, other := export(t, forged)
	if other == seal {
		t.Fatal("two journals have one seal")
	}
	if r := verify(t, dir, seal); r.Sound || !strings.Contains(r.Problems[0], "not the export") {
		t.Errorf("%+v", r)
	}
}

func TestADirectoryOfSomethingElseIsNoExport(t *testing.T) {
	if _, _, err := VerifyExport(t.TempDir(), ""); err == nil {
		t.Error("an empty directory is an export")
	}
	if _, _, err := VerifyExport(filepath.Join(t.TempDir(), "none"), ""); err == nil {
		t.Error("no directory is an export")
	}
}
