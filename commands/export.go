package commands

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/linuxarena/ctis/evidence"
	"github.com/linuxarena/ctis/server/api"
)

type exportOptions struct {
	id, dir string
	format  string
}

// harFile is the name of the archive in the directory of an export as HAR.
const harFile = "journal.har"

func (a *app) exportCommand() *cli.Command {
	var o exportOptions
	return verb(&cli.Command{
		Name:      "export",
		Usage:     "copy a journal with its bodies into a directory, sealed",
		ArgsUsage: "ID DIR",
		Description: "Writes the journal of trajectory ID into DIR, which is made and must not exist, or be empty. It works\n" +
			"while the trajectory is up, after ctis down, and for earlier journals (ID~1). DIR is there only once it\n" +
			"is whole.\n\n" +
			"--format dir: the lines as stored, bodies by digest, a manifest and its seal, which ctis verify checks.\n" +
			"Note the seal elsewhere: with it any later change is found, whoever made it.\n" +
			"--format har: DIR/" + harFile + ", an HTTP archive (HAR 1.2) for browsers' tools and proxies.\n\n" +
			"Exit status: 0 exported (also a journal that lacks something, which is said), 1 failed, 2 usage,\n" +
			"4 no engine.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "format", Usage: "`F` is dir or har", Value: "dir", Destination: &o.format},
			a.jsonFlag(),
		},
		Action: func(c *cli.Context) error {
			if err := exactArgs(c, 2, 2, "ID DIR"); err != nil {
				return err
			}
			o.id, o.dir = c.Args().Get(0), c.Args().Get(1)
			return a.runExport(c.Context, o)
		},
	})
}

// exportResult is what ctis export says in JSON.
type exportResult struct {
	Dir     string   `json:"dir"`
	Format  string   `json:"format"`
	Records uint64   `json:"records"`
	Bodies  int      `json:"bodies"` // kept as files
	Bytes   int64    `json:"bytes"`  // of all files
	Seal    string   `json:"seal,omitempty"`
	Entries *uint64  `json:"entries,omitempty"` // of the HAR
	Missing []string `json:"missing"`
	// Problems are what is wrong with the journal itself.
	Problems []string `json:"problems"`
}

func (a *app) runExport(ctx context.Context, o exportOptions) error {
	if err := checkJournal(o.id); err != nil {
		return err
	}
	if o.format != "dir" && o.format != "har" {
		return &usageError{msg: "there is no format " + quoted(o.format), hint: "the formats are dir and har"}
	}
	dir, err := filepath.Abs(o.dir)
	if err != nil {
		return err
	}
	if err := freeForExport(dir); err != nil {
		return err
	}
	src := &journalSource{journalBodies{a: a, id: o.id}}
	defer src.close()
	stale, err := a.stale(ctx, o.id)
	if err != nil {
		return err
	}
	if _, err := src.client(ctx); err != nil {
		return err
	}
	// Beside it and then renamed, so that nobody takes half an export for one.
	temp, err := os.MkdirTemp(filepath.Dir(dir), "."+filepath.Base(dir)+".ctis-export-")
	if err != nil {
		return fmt.Errorf("%q cannot be made: %w", o.dir, err)
	}
	done := false
	defer func() {
		if !done {
			_ = os.RemoveAll(temp) // the error that counts is the one before
		}
	}()
	result := &exportResult{Dir: dir, Format: o.format, Missing: []string{}, Problems: []string{}}
	var known []string
	if stale != "" {
		known = append(known, stale)
	}
	if o.format == "har" {
		result.Missing = append(result.Missing, known...)
		err = a.exportHAR(ctx, temp, o.id, src, result)
	} else {
		var report *evidence.Report
		if result.Seal, report, err = evidence.Export(ctx, temp, o.id, src, time.Now(), known...); err == nil {
			result.Records, result.Bodies = report.Records, report.Bodies
			result.Missing, result.Problems = report.Missing, report.Problems
		}
	}
	if err != nil {
		return noJournal(o.id, err)
	}
	if result.Bytes, err = bytesBelow(temp); err != nil {
		return err
	}
	if err := putInPlace(temp, dir); err != nil {
		return err
	}
	done = true
	return a.printExport(o, result)
}

// freeForExport makes sure that nothing is at path but at most an empty directory.
func freeForExport(path string) error {
	entries, err := os.ReadDir(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if fi, err := os.Stat(filepath.Dir(path)); err != nil || !fi.IsDir() {
			return &usageError{msg: "there is no directory " + quoted(filepath.Dir(path)), hint: "make it first"}
		}
		return nil
	case err != nil:
		return &usageError{msg: fmt.Sprintf("%q is no directory to export to: %v", path, err), hint: "give a directory that does not exist yet"}
	case len(entries) > 0:
		return &usageError{msg: "directory " + quoted(path) + " is not empty", hint: "give one that does not exist yet"}
	}
	return nil
}

// putInPlace gives the finished export its name, in one step, unless something took it
// meanwhile.
func putInPlace(temp, dir string) error {
	if err := freeForExport(dir); err != nil {
		return err
	}
	if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) { // an empty one
		return err
	}
	if err := os.Rename(temp, dir); err != nil {
		return err
	}
	parent, err := os.Open(filepath.Dir(dir))
	if err != nil {
		return err
	}
	return errors.Join(parent.Sync(), parent.Close())
}

func bytesBelow(dir string) (total int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		fi, err := d.Info()
		if err == nil {
			total += fi.Size()
		}
		return err
	})
	return total, err
}

func (a *app) exportHAR(ctx context.Context, dir, id string, src *journalSource, result *exportResult) error {
	f, err := os.OpenFile(filepath.Join(dir, harFile), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	har, err := evidence.NewHAR(f, src)
	if err != nil {
		return err
	}
	err = a.readRecords(ctx, id, api.JournalQuery{}, func(r *api.Record) error {
		result.Records++
		return har.Add(ctx, r)
	})
	if err != nil {
		return err
	}
	result.Entries = &har.Entries
	if har.Left > 0 {
		result.Missing = append(result.Missing, plural(int(har.Left), "record")+" in no HAR, being no HTTP exchange")
	}
	return errors.Join(har.Close(), f.Sync())
}

func (a *app) printExport(o exportOptions, r *exportResult) error {
	if a.json {
		return a.printJSON(r)
	}
	for _, p := range r.Problems {
		a.ui.warn("the journal is not sound: " + p)
	}
	for _, m := range r.Missing {
		a.ui.warn(m)
	}
	if r.Entries != nil {
		_, err := fmt.Fprintf(a.streams.Out, "%s exported: %s, %s\n", filepath.Join(o.dir, harFile), plural(int(*r.Entries), "entry"), size(r.Bytes))
		return err
	}
	_, err := fmt.Fprintf(a.streams.Out, "%s exported to %s: %s, %s kept as files, %s\nseal %s\n", o.id, o.dir, plural(int(r.Records), "record"), plural(r.Bodies, "body"), size(r.Bytes), r.Seal)
	return err
}

// journalSource is a journal of the simulator as evidence is read from it.
type journalSource struct{ journalBodies }

// Lines: see [evidence.Source].
func (s *journalSource) Lines(ctx context.Context, yield func([]byte) error) error {
	return s.a.readJournal(ctx, s.id, api.JournalQuery{Raw: true}, yield)
}

// Status: see [evidence.Source].
func (s *journalSource) Status(ctx context.Context) (*api.JournalStatus, error) {
	admin, err := s.client(ctx)
	if err != nil {
		return nil, err
	}
	list, err := admin.Journals(ctx)
	if err != nil {
		return nil, err
	}
	for _, j := range list.Journals {
		if j.Name == s.id {
			return &j.JournalStatus, nil
		}
	}
	return nil, nil
}
