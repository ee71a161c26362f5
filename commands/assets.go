package commands

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/linuxarena/ctis/compose"
	"github.com/linuxarena/ctis/compose/assets"
	"github.com/linuxarena/ctis/server/api"
)

// assetRow is one asset as `ctis assets` shows it.
type assetRow struct {
	Path     string    `json:"path"`
	Size     int64     `json:"size"`
	SHA256   string    `json:"sha256"`
	Type     string    `json:"type"`
	Modified time.Time `json:"modified"`
	Seed     bool      `json:"seed"`               // copied out of the default container
	Replaced *bool     `json:"replaced,omitempty"` // of what was put: there was another file before
}

const assetsUsage = "put ID SRC… DEST | ls ID"

func (a *app) assetsCommand() *cli.Command {
	return verb(&cli.Command{
		Name:      "assets",
		Usage:     "list the files a trajectory is served under /assets, or add to them",
		ArgsUsage: assetsUsage,
		Description: "put adds files and whole directories while the trajectory runs, all of them in one step; a file of\n" +
			"the same path is replaced, and said to be. DEST is a path below /assets: what a single SRC is called,\n" +
			"or, ending in a slash or with several SRC, the directory they go into (./ is the top). A SRC that ends\n" +
			"in /. means the contents of that directory. Links are refused. Files have the times they have here.\n\n" +
			"ls lists what is served, the seed directory's files too.\n\n" +
			"Exit status: 0 done, 1 failed (nothing was added), 2 usage, 3 a file is in the way of a directory,\n" +
			"4 no engine.",
		Flags: []cli.Flag{a.jsonFlag()},
		Action: func(c *cli.Context) error {
			args := c.Args().Slice()
			if len(args) == 0 || args[0] != "put" && args[0] != "ls" {
				e := &usageError{msg: "ctis assets: too few arguments", hint: "usage: ctis assets " + assetsUsage}
				if len(args) > 0 {
					e.msg = "ctis assets: there is no " + quoted(args[0])
				}
				return e
			}
			verb, args := args[0], args[1:]
			if verb == "ls" && len(args) != 1 || verb == "put" && len(args) < 3 {
				e := &usageError{msg: "ctis assets " + verb + ": too few arguments", hint: "usage: ctis assets put ID SRC… DEST"}
				if verb == "ls" {
					e.hint = "usage: ctis assets ls ID"
					if len(args) > 1 {
						e.msg = "ctis assets ls: unexpected argument " + quoted(args[1])
					}
				}
				return e
			}
			if err := compose.ValidateID(args[0]); err != nil {
				return err
			}
			if verb == "ls" {
				return a.runAssetsLs(c.Context, args[0])
			}
			return a.runAssetsPut(c.Context, args[0], args[1:len(args)-1], args[len(args)-1])
		},
	})
}

func (a *app) runAssetsLs(ctx context.Context, id string) error {
	admin, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer admin.Close()
	list, err := admin.Assets(ctx, id)
	if err != nil {
		return explainAssets(id, err)
	}
	rows := []assetRow{}
	for _, x := range list.Assets {
		rows = append(rows, rowOf(x))
	}
	if a.json {
		return a.printJSON(rows)
	}
	cells := make([][]string, len(rows))
	for i, r := range rows {
		cells[i] = []string{shownSize(r.Size), r.Modified.Local().Format(time.DateTime), r.SHA256[:min(12, len(r.SHA256))], r.Type, oneLine(r.Path)}
	}
	return a.table([]string{"SIZE", "MODIFIED", "SHA256", "TYPE", "PATH"}, cells, 4)
}

func rowOf(x api.Asset) assetRow {
	return assetRow{Path: x.Path, Size: x.Size, SHA256: x.SHA256, Type: x.Type, Modified: x.Modified, Seed: x.Seed}
}

// oneLine shows a path with a line break in it on its line.
func oneLine(path string) string { return strings.ReplaceAll(path, "\n", `\x0a`) }

func shownSize(n int64) string { return size(n) }

func (a *app) runAssetsPut(ctx context.Context, id string, paths []string, dest string) error {
	sources, err := assets.Place(paths, dest)
	if err != nil {
		return asUsage(err)
	}
	admin, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer admin.Close()
	var done *api.AssetsCommitted
	s := steps{ui: a.ui}
	err = s.do(ctx, "Putting assets", func(ctx context.Context, line *uiStep) (string, error) {
		staged, sent, err := admin.StageAssets(ctx, id, func(w *api.AssetWriter) error {
			return assets.Send(w, sources, copying(line))
		})
		if err != nil {
			return "", err
		}
		if staged.AssetSum != sent {
			err = fmt.Errorf("the simulator has %d files of %d bytes, digest %s; sent were %d of %d, %s", staged.Files, staged.Bytes, staged.Digest, sent.Files, sent.Bytes, sent.Digest)
		}
		if err == nil {
			done, err = admin.CommitAssets(ctx, id, staged.Stage, api.AssetCommit{AssetSum: sent})
		}
		if err != nil {
			_ = admin.DropAssets(context.WithoutCancel(ctx), id, staged.Stage) // else it expires
			return "", err
		}
		return plural(sent.Files, "file") + ", " + size(sent.Bytes), nil
	})
	if err != nil {
		return explainAssets(id, err)
	}
	rows := []assetRow{}
	for _, x := range done.Assets {
		r := rowOf(x)
		_, replaced := slices.BinarySearch(done.Replaced, x.Path)
		r.Replaced = &replaced
		rows = append(rows, r)
	}
	if a.json {
		return a.printJSON(rows)
	}
	for _, r := range rows {
		did := "added"
		if *r.Replaced {
			did = "replaced"
		}
		if _, err := fmt.Fprintf(a.streams.Out, "%-8s  /assets/%s  %s\n", did, printable(oneLine(r.Path)), size(r.Size)); err != nil {
			return err
		}
	}
	return nil
}

// assetsWords are what can come next on its command line: of SRC and DEST the shell
// knows more.
func (a *app) assetsWords(ctx context.Context, words []string) []string {
	switch i := slices.Index(words, "assets"); len(words) - i {
	case 2:
		return []string{"ls", "put"}
	case 3:
		return a.knownIDs(ctx)
	}
	return nil
}

// copying shows how far a copy is, no more often than anybody can read it.
func copying(line *uiStep) assets.Progress {
	var last time.Time
	return func(files int, bytes int64) {
		if now := time.Now(); now.Sub(last) >= 100*time.Millisecond {
			last = now
			line.detail(fmt.Sprintf("%s, %s", plural(files, "file"), size(bytes)))
		}
	}
}

// asUsage makes of what is wrong with files a mistake of the command line.
func asUsage(err error) error {
	var e *assets.Error
	if errors.As(err, &e) {
		return &usageError{msg: e.Msg, hint: e.Do}
	}
	return err
}

func explainAssets(id string, err error) error {
	var refused *api.Error
	if errors.As(err, &refused) && refused.Code == api.CodeNotFound {
		return &hintedError{err: fmt.Errorf("trajectory %q is not up", id), hint: "ctis status lists the trajectories that are up"}
	}
	if errors.As(err, &refused) && refused.Code == api.CodeConflict {
		return &hintedError{err: err, hint: fmt.Sprintf("ctis assets ls %s lists what is served; a DEST that ends in a slash is the directory to put into", id)}
	}
	return asUsage(err)
}
