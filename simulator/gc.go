package simulator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/distribution/reference"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/system"
	"github.com/docker/docker/client"

	"github.com/linuxarena/ctis/imagehash"
)

// GCEngine is what removing superseded images needs of an engine.
type GCEngine interface {
	ImageList(ctx context.Context, options image.ListOptions) ([]image.Summary, error)
	ImageInspect(ctx context.Context, ref string, opts ...client.ImageInspectOption) (image.InspectResponse, error)
	ImageHistory(ctx context.Context, ref string, opts ...client.ImageHistoryOption) ([]image.HistoryResponseItem, error)
	ImageRemove(ctx context.Context, ref string, options image.RemoveOptions) ([]image.DeleteResponse, error)
	ContainerList(ctx context.Context, options container.ListOptions) ([]container.Summary, error)
	Info(ctx context.Context) (system.Info, error)
}

var _ GCEngine = (*client.Client)(nil)

// GCOptions say which images go.
type GCOptions struct {
	Current map[string]string // reference in any form, or id → why it is needed, whoever uses it
	Keep    int               // so many of the newest superseded tags stay
	Grace   time.Duration     // what was built or tagged less long ago stays
	DryRun  bool              // say what would go, and touch nothing
}

// GCAction is what became of an image.
type GCAction string

// The actions.
const (
	GCRemoved     GCAction = "removed"
	GCWouldRemove GCAction = "would_remove" // without DryRun it would have been removed
	GCKept        GCAction = "kept"
	GCSkipped     GCAction = "skipped" // it was to be removed, and somebody needs it or was faster
)

// GCImage is an image with what became of it.
type GCImage struct {
	ImageRow
	Action GCAction
	Reason string
}

// GCResult is what a collection did to images.
type GCResult struct {
	Images []GCImage // the newest first
	// Freed is the bytes of the layers that went, or with DryRun would go: those
	// that no remaining image has.
	Freed int64
}

// CollectImages removes superseded tags of the simulator's repository that nobody
// uses, and untagged images that were built for it. A tag is removed by its name
// and never forced, so what has another name stays under that, and the engine
// refuses what has come into use meanwhile; that is skipped. The result says of
// every image what became of it, also beside an error.
func CollectImages(ctx context.Context, eng GCEngine, o GCOptions) (*GCResult, error) {
	res := &GCResult{Images: []GCImage{}}
	now, err := EngineTime(ctx, eng)
	if err != nil {
		return res, err
	}
	rows, err := imageRows(ctx, eng)
	if err != nil {
		return res, err
	}
	current, err := resolve(ctx, eng, o.Current)
	if err != nil {
		return res, err
	}
	var gone []*layered
	var errs []error
	looked, planned := map[string]bool{}, map[string]bool{}
	for _, v := range PlanGC(GCRule{Current: current, Keep: o.Keep, Grace: o.Grace, Now: now}, rows) {
		g := GCImage{ImageRow: v.ImageRow, Action: GCKept, Reason: v.Reason}
		if v.Remove {
			var layers *layered
			if !looked[v.ID] {
				if layers, err = lookAtLayers(ctx, eng, v.ID, true); err != nil {
					errs = append(errs, err)
				}
			}
			g.Action = GCWouldRemove
			if !o.DryRun {
				if g.Action, g.Reason, err = removeImage(ctx, eng, v); err != nil {
					errs = append(errs, err)
				}
			}
			if layers != nil && g.Action != GCSkipped {
				looked[v.ID] = true
				gone = append(gone, layers)
			}
			planned[v.Tag+"\x00"+v.ID] = true
		}
		res.Images = append(res.Images, g)
		if ctx.Err() != nil {
			break
		}
	}
	if len(gone) > 0 {
		if res.Freed, err = measure(ctx, eng, gone, planned, o.DryRun); err != nil {
			errs = append(errs, err)
		}
	}
	return res, errors.Join(errs...)
}

// resolve gives what is needed the names by which the engine lists it: tags in their
// shortest form, and of an image that is named by its id or digest the whole id.
func resolve(ctx context.Context, eng GCEngine, needed map[string]string) (map[string]string, error) {
	out := map[string]string{}
	for ref, why := range needed {
		name := familiar(ref)
		found, err := eng.ImageInspect(ctx, ref)
		switch {
		case err == nil && !slices.Contains(found.RepoTags, name):
			out[found.ID] = why
		case err == nil, cerrdefs.IsNotFound(err), cerrdefs.IsInvalidArgument(err):
			out[name] = why
		default:
			return nil, fmt.Errorf("look for image %q: %w", ref, err)
		}
	}
	return out, nil
}

// measure compares the layers of what went with those of what is there. In a dry
// run that is all there is, less what is planned to go: whole images, not such as
// keep another tag.
func measure(ctx context.Context, eng GCEngine, gone []*layered, planned map[string]bool, dryRun bool) (int64, error) {
	all, err := eng.ImageList(ctx, image.ListOptions{All: true})
	if err != nil {
		return 0, fmt.Errorf("list images: %w", err)
	}
	without := map[string]bool{}
	if dryRun {
		for _, i := range all {
			tags := tagsOf(i)
			if len(tags) == 0 {
				tags = []string{""}
			}
			if !slices.ContainsFunc(tags, func(t string) bool { return !planned[t+"\x00"+i.ID] }) {
				without[i.ID] = true
			}
		}
		without = doomed(all, without)
	}
	left := stack{}
	for _, i := range all {
		if without[i.ID] {
			continue
		}
		l, err := lookAtLayers(ctx, eng, i.ID, false)
		if err != nil {
			return 0, err
		}
		if l != nil {
			left.add(l.layers)
		}
	}
	return freed(gone, left), nil
}

// Why an image that was to go is left alone.
const (
	goneAlready = "somebody else removed it"
	changedAnew = "it was built or tagged anew"
)

// imageRemover is what removing one image needs of an engine.
type imageRemover interface {
	ImageList(ctx context.Context, options image.ListOptions) ([]image.Summary, error)
	ImageInspect(ctx context.Context, ref string, opts ...client.ImageInspectOption) (image.InspectResponse, error)
	ImageRemove(ctx context.Context, ref string, options image.RemoveOptions) ([]image.DeleteResponse, error)
}

// removeImage removes a tag by its name, or an untagged image, which has nothing
// but its id, after another look at it. What it alone was made from goes with it.
func removeImage(ctx context.Context, eng imageRemover, v ImageVerdict) (GCAction, string, error) {
	ref := v.Tag
	if ref == "" {
		ref = v.ID
	}
	found, err := eng.ImageInspect(ctx, ref)
	switch {
	case cerrdefs.IsNotFound(err):
		return GCSkipped, goneAlready, nil
	case err != nil:
		return GCSkipped, err.Error(), fmt.Errorf("look at image %q: %w", ref, err)
	case found.ID != v.ID || v.Tag == "" && len(found.RepoTags) > 0:
		return GCSkipped, changedAnew, nil
	}
	all, err := eng.ImageList(ctx, image.ListOptions{All: true})
	if err != nil {
		return GCSkipped, err.Error(), fmt.Errorf("list images: %w", err)
	}
	_, err = eng.ImageRemove(ctx, ref, image.RemoveOptions{PruneChildren: true})
	switch {
	case err == nil:
		return GCRemoved, v.Reason, clearBelow(ctx, eng, below(all, v.ID))
	case cerrdefs.IsNotFound(err):
		return GCSkipped, goneAlready, nil
	case cerrdefs.IsConflict(err):
		return GCSkipped, err.Error(), nil
	}
	// Two that remove one image at once get all kinds of errors from the engine.
	if _, e := eng.ImageInspect(ctx, ref); cerrdefs.IsNotFound(e) {
		return GCSkipped, goneAlready, nil
	}
	return GCSkipped, err.Error(), fmt.Errorf("remove image %q: %w", ref, err)
}

// imageRows lists the simulator's images with who uses them.
func imageRows(ctx context.Context, eng GCEngine) ([]ImageRow, error) {
	// The filter takes a pattern and the engine's idea of a name; what counts is the
	// exact one, compared below.
	tagged, err := eng.ImageList(ctx, image.ListOptions{Filters: filters.NewArgs(filters.Arg("reference", imagehash.Repository))})
	if err != nil {
		return nil, fmt.Errorf("list images of %q: %w", imagehash.Repository, err)
	}
	containers, err := eng.ContainerList(ctx, container.ListOptions{All: true})
	if err != nil {
		return nil, fmt.Errorf("list containers: %w", err)
	}
	var rows []ImageRow
	for _, i := range tagged {
		for _, tag := range tagsOf(i) {
			if repository, _ := cutTag(tag); repository == imagehash.Repository {
				rows = append(rows, ImageRow{ID: i.ID, Tag: tag, Size: i.Size})
			}
		}
	}
	seen := map[string]bool{}
	for _, label := range []string{LabelHash, LabelBuildStage, LabelProtocol} {
		untagged, err := eng.ImageList(ctx, image.ListOptions{Filters: filters.NewArgs(filters.Arg("dangling", "true"), filters.Arg("label", label))})
		if err != nil {
			return nil, fmt.Errorf("list untagged images: %w", err)
		}
		for _, i := range untagged {
			if len(tagsOf(i)) == 0 && !seen[i.ID] {
				seen[i.ID] = true
				rows = append(rows, ImageRow{ID: i.ID, Size: i.Size})
			}
		}
	}
	known := rows[:0]
	for _, r := range rows {
		found, err := eng.ImageInspect(ctx, r.ID)
		if cerrdefs.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("look at image %q: %w", r.ID, err)
		}
		r.Since = found.Metadata.LastTagTime
		if built, err := time.Parse(time.RFC3339Nano, found.Created); err == nil && built.After(r.Since) {
			r.Since = built
		}
		if r.Tag == "" {
			if r.Foreign, err = foreign(ctx, eng, found); err != nil {
				return nil, err
			}
			if r.Foreign && (found.Config == nil || found.Config.Labels[LabelHash]+found.Config.Labels[LabelBuildStage] == "") {
				continue // built without ctis, whatever it is
			}
		}
		for _, c := range containers {
			if uses(c, r, found.RepoTags) {
				r.UsedBy = append(r.UsedBy, containerNames(c))
			}
		}
		slices.Sort(r.UsedBy)
		known = append(known, r)
	}
	return known, nil
}

// foreign tells whether an untagged image with a label of ctis is somebody's own.
func foreign(ctx context.Context, eng GCEngine, found image.InspectResponse) (bool, error) {
	if found.Config == nil {
		return true, nil
	}
	history, err := steps(ctx, eng, found.ID)
	if err != nil {
		return false, err
	}
	var twin []string
	if hash := found.Config.Labels[LabelHash]; hash != "" {
		if twin, err = steps(ctx, eng, imagehash.Tag(hash)); err != nil {
			return false, err
		}
	}
	return !leftByBuild(found.Config.Labels, history, twin), nil
}

// steps lists what made an image, the lowest first; nothing if it is gone.
func steps(ctx context.Context, eng GCEngine, ref string) ([]string, error) {
	history, err := eng.ImageHistory(ctx, ref)
	if err != nil && !cerrdefs.IsNotFound(err) && !cerrdefs.IsInvalidArgument(err) {
		return nil, fmt.Errorf("ask for the history of image %q: %w", ref, err)
	}
	var out []string
	for _, step := range slices.Backward(history) { // the newest is first
		out = append(out, step.CreatedBy)
	}
	return out, nil
}

// uses tells whether a container needs a row: it was made from the tag, or from the
// image by a name that is none of its tags, such as its id.
func uses(c container.Summary, r ImageRow, tags []string) bool {
	name := familiar(c.Image)
	switch {
	case r.Tag != "" && (name == r.Tag || c.Labels[LabelImage] == r.Tag):
		return true
	case c.ImageID != r.ID:
		return false
	}
	return !slices.Contains(tags, name)
}

// tagsOf lists an image's tags. For one without, engines before API 1.43 and those
// with the containerd store have said <none>:<none>.
func tagsOf(i image.Summary) []string {
	return slices.DeleteFunc(slices.Clone(i.RepoTags), func(t string) bool { return strings.Contains(t, "<none>") })
}

// cutTag takes a reference apart at its tag; a registry's port is none.
func cutTag(ref string) (repository, tag string) {
	i := strings.LastIndexByte(ref, ':')
	if i < 0 || strings.Contains(ref[i:], "/") {
		return ref, ""
	}
	return ref[:i], ref[i+1:]
}

// familiar is a reference as the engine lists it: the shortest form, with its tag.
func familiar(ref string) string {
	named, err := reference.ParseNormalizedNamed(ref)
	if err != nil {
		return ref // an id
	}
	return reference.FamiliarString(reference.TagNameOnly(named))
}

func containerNames(c container.Summary) string {
	if len(c.Names) == 0 {
		return c.ID[:min(12, len(c.ID))]
	}
	return strings.TrimPrefix(c.Names[0], "/")
}

// EngineTime asks for the engine's clock: this machine's may be another's.
func EngineTime(ctx context.Context, eng interface {
	Info(ctx context.Context) (system.Info, error)
}) (time.Time, error) {
	info, err := eng.Info(ctx)
	if err != nil {
		return time.Time{}, fmt.Errorf("ask the engine for its time: %w", err)
	}
	now, err := time.Parse(time.RFC3339Nano, info.SystemTime)
	if err != nil {
		return time.Time{}, fmt.Errorf("the engine's time %q cannot be read: %w", info.SystemTime, err)
	}
	return now, nil
}
