package commands

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/linuxarena/ctis/evidence"
)

func (a *app) verifyCommand() *cli.Command {
	var seal string
	return verb(&cli.Command{
		Name:      "verify",
		Usage:     "check that a journal, or an export of one, is unchanged and complete",
		ArgsUsage: "DIR | ID",
		Description: "Checks an export, or the journal of trajectory ID where it is: the chain of lines, every digest, and\n" +
			"whether numbers are missing; and tells what the journal itself says it lacks: requests that were not\n" +
			"recorded, bodies that were not kept whole, outcomes that are not there. What is a directory, or has a\n" +
			"slash in it, is an export.\n\n" +
			"Exit status: 0 unchanged and complete, 1 not (or it cannot be read), 2 usage, 4 no engine.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "seal", Usage: "`HEX` is the seal that ctis export told; an export made anew has another", Destination: &seal},
			a.jsonFlag(),
		},
		Action: func(c *cli.Context) error {
			if err := exactArgs(c, 1, 1, "DIR | ID"); err != nil {
				return err
			}
			return a.runVerify(c.Context, c.Args().First(), seal)
		},
	})
}

// verifyResult is what ctis verify says in JSON.
type verifyResult struct {
	Seal string `json:"seal,omitempty"` // of an export
	*evidence.Report
}

func (a *app) runVerify(ctx context.Context, what, seal string) error {
	if b, err := hex.DecodeString(seal); err != nil || len(b) != 32 && seal != "" {
		return &usageError{msg: "--seal " + quoted(seal) + " is no seal", hint: "ctis export told it: 64 hexadecimal digits"}
	}
	fi, statErr := os.Stat(what)
	isDir := statErr == nil && fi.IsDir()
	r := verifyResult{}
	var err error
	switch {
	case isDir || strings.ContainsAny(what, `/\`):
		if r.Seal, r.Report, err = evidence.VerifyExport(what, seal); errors.Is(err, evidence.ErrNoExport) {
			err = &hintedError{err: err, hint: "ctis export ID DIR makes one"}
		}
	case seal != "":
		err = &usageError{msg: "--seal is about an export, and there is no directory " + quoted(what), hint: "give the directory of the export"}
	default:
		if err := checkJournal(what); err != nil {
			return err
		}
		src := &journalSource{journalBodies{a: a, id: what}}
		defer src.close()
		stale, staleErr := a.stale(ctx, what)
		if staleErr != nil {
			return staleErr
		}
		if r.Report, err = evidence.VerifyJournal(ctx, src); err == nil && stale != "" {
			r.Missing, r.Complete = append(r.Missing, stale), false
		}
		err = noJournal(what, err)
	}
	if err != nil {
		return err
	}
	if err := a.printVerify(what, r); err != nil {
		return err
	}
	if !r.Complete {
		return &exitError{exitFailed}
	}
	return nil
}

func (a *app) printVerify(what string, r verifyResult) error {
	if a.json {
		return a.printJSON(r)
	}
	var b strings.Builder
	switch {
	case r.Complete:
		fmt.Fprintf(&b, "%s is unchanged and complete: %s, %s kept as files\n", what, plural(int(r.Records), "record"), plural(r.Bodies, "body"))
	case r.Sound:
		fmt.Fprintf(&b, "%s is unchanged and not complete:\n", what)
	default:
		fmt.Fprintf(&b, "%s is not as it was written:\n", what)
	}
	for _, p := range append(r.Problems, r.Missing...) {
		fmt.Fprintf(&b, "  %s\n", printable(p))
	}
	if r.Complete && r.Seal != "" {
		fmt.Fprintf(&b, "seal %s\n", r.Seal)
	}
	_, err := a.streams.Out.Write([]byte(b.String()))
	return err
}
