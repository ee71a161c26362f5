package commands

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/linuxarena/ctis/imagehash"
	"github.com/linuxarena/ctis/simulator"
)

type gcOptions struct {
	dryRun         bool
	keep           int
	olderThan      string
	grace          time.Duration
	journalAge     time.Duration
	removeJournals bool // journalAge was given
}

// gcResult is what `ctis gc` reports.
type gcResult struct {
	Images       []gcImage `json:"images"`
	Trajectories []gcThing `json:"trajectories"`
	// Reclaimed is the bytes of image layers that no other image has, and of
	// journals; in a dry run those that would go.
	Reclaimed int64 `json:"reclaimed_bytes"`
	DryRun    bool  `json:"dry_run"`
	// Unseen says what could not be looked at, and why.
	Unseen []string `json:"unseen"`

	images, journals int64 // bytes of each
}

type gcImage struct {
	Tag    string             `json:"tag"` // "" for an untagged image
	ID     string             `json:"id"`
	Size   int64              `json:"size"` // as the engine tells, shared layers included
	Action simulator.GCAction `json:"action"`
	Reason string             `json:"reason"`
}

func (a *app) gcCommand() *cli.Command {
	var o gcOptions
	return verb(&cli.Command{
		Name:  "gc",
		Usage: "remove superseded images and what dead trajectories left",
		Description: "Removes tags " + imagehash.Repository + ":src-* that nobody needs any more: not\n" +
			"the one ctis up would use now, none that a container in any state uses, none younger than --grace.\n" +
			"Goes by tag and never forces: an image with another name stays. Untagged images that builds of ctis\n" +
			"left go as well.\n\n" +
			"A trajectory is dead when its project has no container and no ctis is working on it. Of such, its\n" +
			"registration, the simulator's attachments and its networks go. Journals of trajectories that are over\n" +
			"stay, unless --older-than says how old the ones to remove are. Named volumes and the simulator itself\n" +
			"stay, whether it is idle or not.\n\n" +
			"Exit status: 0 done, 1 something could not be removed (it is named), 2 usage, 4 no engine.",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "dry-run", Usage: "say what would be removed, and remove nothing", Destination: &o.dryRun},
			&cli.IntFlag{Name: "keep", Usage: "keep the newest `N` superseded tags", Destination: &o.keep},
			&cli.StringFlag{Name: "older-than", Usage: "remove journals of trajectories that are over and wrote nothing for `D` (12h, 30d)", Destination: &o.olderThan},
			&cli.DurationFlag{Name: "grace", Usage: "keep images built or tagged less than `D` ago: another ctis may be about to use them", Value: 10 * time.Minute, Destination: &o.grace},
			a.jsonFlag(),
		},
		Action: func(c *cli.Context) error {
			if err := exactArgs(c, 0, 0, ""); err != nil {
				return err
			}
			o.removeJournals = c.IsSet("older-than")
			return a.runGC(c.Context, o)
		},
	})
}

// check lowers what was written, before anything is touched.
func (o *gcOptions) check() (err error) {
	switch {
	case o.keep < 0:
		return &usageError{msg: fmt.Sprintf("--keep %d is negative", o.keep), hint: "give the number of superseded tags to keep"}
	case o.grace < 0:
		return &usageError{msg: "--grace is negative", hint: "give a duration such as 10m, or 0s for none"}
	case o.removeJournals:
		o.journalAge, err = parseAge("older-than", o.olderThan)
	}
	return err
}

func (a *app) runGC(ctx context.Context, o gcOptions) error {
	if err := o.check(); err != nil {
		return err
	}
	current, err := a.currentImages(ctx)
	if err != nil {
		return err
	}
	if _, err := a.openEngine(ctx); err != nil {
		return err
	}
	result := &gcResult{Images: []gcImage{}, Trajectories: []gcThing{}, Unseen: []string{}, DryRun: o.dryRun}
	s := steps{ui: a.ui}
	// What dead trajectories hold goes first; each part goes on although another failed.
	failed := []error{
		s.do(ctx, "Trajectories", func(ctx context.Context, line *uiStep) (string, error) {
			return a.gcTrajectories(ctx, o, result, line)
		}),
		s.do(ctx, "Images", func(ctx context.Context, _ *uiStep) (string, error) {
			return a.gcImages(ctx, o, current, result)
		}),
	}
	result.Reclaimed = result.images + result.journals
	if ctx.Err() != nil {
		return errors.Join(failed...)
	}
	for _, what := range result.Unseen {
		a.ui.warn("not looked at: " + what)
	}
	if a.json {
		err = a.printJSON(result)
	} else {
		err = a.printGC(result)
	}
	if err != nil {
		return err
	}
	if err := errors.Join(failed...); err != nil {
		a.ui.failure(err.Error(), "the rest was done; run ctis gc again when that is mended")
		return &exitError{exitFailed} // the result, which names it, is what stands on stdout
	}
	return nil
}

// currentImages are the tags that are needed whoever uses them.
func (a *app) currentImages(ctx context.Context) (map[string]string, error) {
	current := map[string]string{}
	if ref := a.env["INTERNET_SIMULATOR_IMAGE"]; ref != "" {
		current[ref] = "named by INTERNET_SIMULATOR_IMAGE"
	}
	own, err := a.source(ctx, sourceOptions{embedded: true})
	if err != nil {
		return nil, err
	}
	current[imagehash.Tag(own.Hash)] = "the image of this ctis"
	if a.env["CTIS_BUILD_CONTEXT"] != "" {
		named, err := a.source(ctx, sourceOptions{})
		if err != nil {
			return nil, err
		}
		current[imagehash.Tag(named.Hash)] = "the image of CTIS_BUILD_CONTEXT"
	}
	return current, nil
}

func (a *app) gcImages(ctx context.Context, o gcOptions, current map[string]string, result *gcResult) (string, error) {
	collected, err := simulator.CollectImages(ctx, a.engine, simulator.GCOptions{Current: maps.Clone(current), Keep: o.keep, Grace: o.grace, DryRun: o.dryRun})
	removed := 0
	for _, i := range collected.Images {
		result.Images = append(result.Images, gcImage{Tag: i.Tag, ID: i.ID, Size: i.Size, Action: i.Action, Reason: i.Reason})
		if i.Action == simulator.GCRemoved || i.Action == simulator.GCWouldRemove {
			removed++
		}
	}
	result.images = collected.Freed
	verb := "removed"
	if o.dryRun {
		verb = "would remove"
	} else if n := simulator.SweepWork(); n > 0 {
		return fmt.Sprintf("%s %d of %s, and %s of killed builds", verb, removed, plural(len(collected.Images), "image"), plural(n, "temporary directory")), err
	}
	return fmt.Sprintf("%s %d of %s", verb, removed, plural(len(collected.Images), "image")), err
}
