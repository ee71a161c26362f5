package simulator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/distribution/reference"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/system"
	"github.com/docker/docker/client"
	dockerspec "github.com/moby/docker-image-spec/specs-go/v1"

	"github.com/linuxarena/ctis/imagehash"
)

var gcNow = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// storedImage is an image of a fakeStore.
type storedImage struct {
	parent string
	tags   []string
	labels map[string]string
	layers []string
	steps  []int64  // the lowest first, empty ones included
	by     []string // what made them; nil for a build of ctis
	built  time.Duration
	tagged time.Duration // before gcNow; 0 for never
}

// fakeStore keeps images as engine 20.10 does: removing the last tag removes the
// image and the untagged ones below it that nobody else is built on.
type fakeStore struct {
	images     map[string]*storedImage
	containers []container.Summary
	removed    []string // names given to ImageRemove
	forced     bool
	onRemove   func(ref string) error
	// whole keeps, as the containerd store does, what an image was made from if that is
	// not all there, and removes what others are built on.
	whole bool
}

func (f *fakeStore) find(ref string) (string, *storedImage, error) {
	if i, ok := f.images[ref]; ok {
		return ref, i, nil
	}
	for id, i := range f.images {
		if slices.Contains(i.tags, ref) {
			return id, i, nil
		}
	}
	return "", nil, fmt.Errorf("no such image %s: %w", ref, cerrdefs.ErrNotFound)
}

func (f *fakeStore) children(id string) (n int) {
	for _, i := range f.images {
		if i.parent == id {
			n++
		}
	}
	return n
}

func (i *storedImage) size() (sum int64) {
	for _, s := range i.steps {
		sum += s
	}
	return sum
}

func (f *fakeStore) ImageList(_ context.Context, o image.ListOptions) ([]image.Summary, error) {
	var out []image.Summary
	for _, id := range slices.Sorted(maps.Keys(f.images)) {
		i := f.images[id]
		if !o.All && len(i.tags) == 0 && f.children(id) > 0 {
			continue
		}
		if want := o.Filters.Get("reference"); len(want) > 0 && !slices.ContainsFunc(i.tags, func(t string) bool { return strings.HasPrefix(t, want[0]) }) {
			continue
		}
		if o.Filters.ExactMatch("dangling", "true") && len(o.Filters.Get("dangling")) > 0 && len(i.tags) > 0 {
			continue
		}
		if want := o.Filters.Get("label"); len(want) > 0 {
			if _, ok := i.labels[want[0]]; !ok {
				continue
			}
		}
		tags := i.tags
		if len(tags) == 0 {
			tags = []string{"<none>:<none>"}
		}
		out = append(out, image.Summary{ID: id, ParentID: i.parent, RepoTags: tags, Labels: i.labels, Size: i.size()})
	}
	return out, nil
}

func (f *fakeStore) ImageInspect(_ context.Context, ref string, _ ...client.ImageInspectOption) (image.InspectResponse, error) {
	id, i, err := f.find(ref)
	if err != nil {
		return image.InspectResponse{}, err
	}
	r := image.InspectResponse{ID: id, RepoTags: i.tags, Size: i.size(), Created: gcNow.Add(-i.built).Format(time.RFC3339Nano),
		RootFS: image.RootFS{Type: "layers", Layers: i.layers}, Config: &dockerspec.DockerOCIImageConfig{}}
	r.Config.Labels = i.labels
	if i.tagged > 0 {
		r.Metadata.LastTagTime = gcNow.Add(-i.tagged)
	}
	return r, nil
}

func (f *fakeStore) ImageHistory(_ context.Context, ref string, _ ...client.ImageHistoryOption) ([]image.HistoryResponseItem, error) {
	_, i, err := f.find(ref)
	if err != nil {
		return nil, err
	}
	var out []image.HistoryResponseItem
	for n, s := range slices.Backward(i.steps) {
		item := image.HistoryResponseItem{Size: s}
		switch {
		case i.by != nil:
			item.CreatedBy = i.by[n]
		case n == len(i.steps)-1:
			item.CreatedBy = "/bin/sh -c #(nop)  LABEL io.ctis.source-hash=" + i.labels[LabelHash]
		}
		out = append(out, item)
	}
	return out, nil
}

func (f *fakeStore) ImageRemove(_ context.Context, ref string, o image.RemoveOptions) ([]image.DeleteResponse, error) {
	f.removed = append(f.removed, ref)
	f.forced = f.forced || o.Force
	if f.onRemove != nil {
		if err := f.onRemove(ref); err != nil {
			return nil, err
		}
	}
	id, i, err := f.find(ref)
	if err != nil {
		return nil, err
	}
	if len(i.tags) > 1 {
		i.tags = slices.DeleteFunc(i.tags, func(t string) bool { return t == ref })
		return []image.DeleteResponse{{Untagged: ref}}, nil
	}
	if slices.ContainsFunc(f.containers, func(c container.Summary) bool { return c.ImageID == id }) {
		return nil, fmt.Errorf("image is being used: %w", cerrdefs.ErrConflict)
	}
	delete(f.images, id)
	if f.whole && o.PruneChildren {
		var chain []string
		for p := i.parent; p != ""; p = f.images[p].parent {
			if f.images[p] == nil {
				return []image.DeleteResponse{{Untagged: ref}}, nil
			}
			chain = append(chain, p)
		}
		for _, p := range chain {
			delete(f.images, p)
		}
		return []image.DeleteResponse{{Untagged: ref}}, nil
	}
	for id = i.parent; id != "" && o.PruneChildren; {
		p, ok := f.images[id]
		if !ok || len(p.tags) > 0 || f.children(id) > 0 {
			break
		}
		delete(f.images, id)
		id = p.parent
	}
	return []image.DeleteResponse{{Untagged: ref}}, nil
}

func (f *fakeStore) ContainerList(context.Context, container.ListOptions) ([]container.Summary, error) {
	return f.containers, nil
}

func (f *fakeStore) Info(context.Context) (system.Info, error) {
	return system.Info{SystemTime: gcNow.Format(time.RFC3339Nano)}, nil
}

const day = 24 * time.Hour

func src(n int) string { return imagehash.Tag(fmt.Sprintf("%016x", n)) }

// store has one image of every kind. Of 100 bytes each are a layer of their own,
// and 1000 a base that several share.
func store() *fakeStore {
	one := func(layer string, tags ...string) *storedImage {
		return &storedImage{tags: tags, layers: []string{layer}, steps: []int64{0, 100, 0}, built: day, tagged: day, labels: map[string]string{LabelHash: "h"}}
	}
	f := &fakeStore{images: map[string]*storedImage{
		"current":  one("l0", src(0)),
		"old":      one("l1", src(1)),
		"running":  one("l2", src(2)),
		"stopped":  one("l3", src(3)),
		"created":  one("l4", src(4), src(44)), // the container was made from the first
		"byID":     one("l5", src(5), src(55)),
		"other":    one("l6", src(6), "elsewhere/keep:1"),
		"double":   one("l7", src(7), src(77)),
		"named":    one("l8", imagehash.Repository+":latest", imagehash.Repository+":v1"),
		"fresh":    one("l9", src(9)),
		"retagged": one("l10", src(10)),
		"nearly":   one("l11", imagehash.Repository+"-other:src-0000000000000001"),
		"moved":    one("l12"), // its tag is another's now
		"left":     one("l13"),
		"leftUsed": one("l14"),
		"foreign":  {layers: []string{"l15"}, steps: []int64{100}, built: day},
		"base":     {tags: []string{"debian:12"}, layers: []string{"b"}, steps: []int64{1000}, built: day},
		"step":     {parent: "base", layers: []string{"b", "s"}, steps: []int64{1000, 50}, built: day},
		"based":    {parent: "step", tags: []string{src(16)}, layers: []string{"b", "s", "l16"}, steps: []int64{1000, 50, 100}, built: day},
		"stage": {parent: "base", labels: map[string]string{LabelBuildStage: "1"}, layers: []string{"b", "go"}, steps: []int64{1000, 300}, built: day,
			by: []string{"base", "/bin/sh -c #(nop)  LABEL io.ctis.build-stage=1"}},
		// Somebody's own, on an image of ctis, which gave it its label.
		"child": {parent: "current", labels: map[string]string{LabelHash: "h"}, layers: []string{"l0", "c"}, steps: []int64{0, 100, 0, 7}, built: day,
			by: []string{"", "", "LABEL io.ctis.source-hash=h", "COPY mine /"}},
		"byHand": {labels: map[string]string{LabelProtocol: "2"}, layers: []string{"l17"}, steps: []int64{100, 1}, built: day, by: []string{"LABEL io.ctis.protocol=2", "RUN mine"}},
	}}
	f.images["fresh"].built, f.images["fresh"].tagged = time.Minute, time.Minute
	f.images["retagged"].tagged = time.Minute // a builder found it in its cache
	f.images["moved"].tagged = 0
	f.containers = []container.Summary{
		{Names: []string{"/ctis-simulator"}, ImageID: "running", Image: src(2), State: "running"},
		{Names: []string{"/a-stopped"}, ImageID: "stopped", Image: src(3), State: "exited"},
		{Names: []string{"/a-created"}, ImageID: "created", Image: src(4), State: "created"},
		{Names: []string{"/by-id"}, ImageID: "byID", Image: "byID", State: "exited"},
		{Names: []string{"/by-other-name"}, ImageID: "other", Image: "elsewhere/keep:1", State: "running"},
		{Names: []string{"/of-moved"}, ImageID: "leftUsed", Image: "leftUsed", State: "exited", Labels: map[string]string{LabelImage: src(99)}},
	}
	return f
}

// told is what became of every image, by tag or, without one, by id.
func told(res *GCResult) map[string]string {
	m := map[string]string{}
	for _, i := range res.Images {
		name := i.Tag
		if name == "" {
			name = i.ID
		}
		m[name] = string(i.Action) + ": " + i.Reason
	}
	return m
}

func collectOptions() GCOptions {
	return GCOptions{Current: map[string]string{src(0): "the current one"}, Grace: 10 * time.Minute}
}

func TestOnlySupersededTagsThatNobodyUsesGo(t *testing.T) {
	want := map[string]string{
		src(0):                           "kept: the current one",
		src(1):                           "removed: superseded and unused",
		src(2):                           "kept: used by container ctis-simulator",
		src(3):                           "kept: used by container a-stopped",
		src(4):                           "kept: used by container a-created",
		src(44):                          "removed: superseded and unused",
		src(5):                           "kept: used by container by-id",
		src(55):                          "kept: used by container by-id",
		src(6):                           "removed: superseded and unused",
		src(7):                           "removed: superseded and unused",
		src(77):                          "removed: superseded and unused",
		src(9):                           "kept: younger than 10m",
		src(10):                          "kept: younger than 10m",
		src(16):                          "removed: superseded and unused",
		imagehash.Repository + ":latest": "kept: not a tag that ctis makes",
		imagehash.Repository + ":v1":     "kept: not a tag that ctis makes",
		"moved":                          "removed: untagged: left by a build",
		"left":                           "removed: untagged: left by a build",
		"leftUsed":                       "kept: used by container of-moved",
		"stage":                          "removed: untagged: left by a build",
		"child":                          "kept: untagged, and not known to be left by a build; docker rmi removes it",
	}
	// l1, l7, moved, left; of "based" its own and the step's layer; of "stage" the
	// toolchain's. What "created" and "other" are made of stays.
	const bytes = 4*100 + 150 + 300
	f := store()
	dry := collectOptions()
	dry.DryRun = true
	res, err := CollectImages(t.Context(), f, dry)
	if err != nil || len(f.removed) > 0 || len(f.images) != 22 {
		t.Fatalf("a dry run removes %q, leaves %d images, %v", f.removed, len(f.images), err)
	}
	if res.Freed != bytes {
		t.Errorf("a dry run would free %d bytes, not %d", res.Freed, bytes)
	}
	wouldBe := maps.Clone(want)
	for name, text := range want {
		wouldBe[name] = strings.Replace(text, "removed:", "would_remove:", 1)
	}
	if got := told(res); !maps.Equal(got, wouldBe) {
		t.Errorf("a dry run tells\n%q, not\n%q", got, wouldBe)
	}
	res, err = CollectImages(t.Context(), f, collectOptions())
	if err != nil {
		t.Fatal(err)
	}
	if got := told(res); !maps.Equal(got, want) {
		t.Errorf("told is\n%q, not\n%q", got, want)
	}
	if res.Freed != bytes {
		t.Errorf("freed are %d bytes, not %d", res.Freed, bytes)
	}
	left := slices.Sorted(maps.Keys(f.images))
	if wantLeft := []string{"base", "byHand", "byID", "child", "created", "current", "foreign", "fresh", "leftUsed", "named", "nearly", "other", "retagged", "running", "stopped"}; !slices.Equal(left, wantLeft) {
		t.Errorf("left are %q, not %q", left, wantLeft)
	}
	if f.forced {
		t.Error("a removal was forced")
	}
	for _, ref := range f.removed {
		if i, ok := f.images[ref]; ok && len(i.tags) > 0 {
			t.Errorf("%s was removed by its id", ref)
		}
	}
	again, err := CollectImages(t.Context(), f, collectOptions())
	if err != nil || again.Freed != 0 {
		t.Errorf("the second time frees %d bytes, %v", again.Freed, err)
	}
	for _, i := range again.Images {
		if i.Action != GCKept {
			t.Errorf("the second time: %+v", i)
		}
	}
}

func TestNewestSupersededTagsStayIfAskedFor(t *testing.T) {
	var rows []ImageRow
	for n := range 5 {
		rows = append(rows, ImageRow{ID: fmt.Sprint(n), Tag: src(n), Since: gcNow.Add(-day * time.Duration(n+1))})
	}
	rows = append(rows, ImageRow{ID: "untagged", Since: gcNow.Add(-day)})
	plan := PlanGC(GCRule{Current: map[string]string{src(0): "needed"}, Keep: 2, Now: gcNow}, rows)
	var got []string
	for _, v := range plan {
		got = append(got, fmt.Sprintf("%s %v", v.ID, v.Remove))
	}
	if want := []string{"untagged true", "0 false", "1 false", "2 false", "3 true", "4 true"}; !slices.Equal(got, want) {
		t.Errorf("plan %q, not %q", got, want)
	}
}

func TestWhatComesIntoUseMeanwhileIsSkipped(t *testing.T) {
	f := store()
	f.onRemove = func(ref string) error {
		switch ref {
		case src(1):
			return fmt.Errorf("unable to remove %s: container is using it: %w", ref, cerrdefs.ErrConflict)
		case src(16):
			return fmt.Errorf("no such image: %w", cerrdefs.ErrNotFound)
		case "left":
			return errors.New("disk on fire")
		case "moved": // while another removes it
			delete(f.images, ref)
			return errors.New("unrecognized image ID")
		case src(7):
			f.images["double"].tags = append(f.images["double"].tags, "mine:1") // keeps its bytes
		}
		return nil
	}
	res, err := CollectImages(t.Context(), f, collectOptions())
	if err == nil || !strings.Contains(err.Error(), "disk on fire") {
		t.Errorf("error %v", err)
	}
	got := told(res)
	if !strings.HasPrefix(got[src(1)], "skipped: unable to remove") || got[src(16)] != "skipped: somebody else removed it" || !strings.HasPrefix(got["left"], "skipped: disk on fire") {
		t.Errorf("told is %q", got)
	}
	if !strings.HasPrefix(got["stage"], "removed") {
		t.Error("one that fails keeps others from going")
	}
	if got["moved"] != "skipped: somebody else removed it" {
		t.Errorf("removed by two at once: %q", got["moved"])
	}
	if want := int64(300); res.Freed != want { // the stage
		t.Errorf("freed are %d bytes, not %d", res.Freed, want)
	}
}

func TestTagThatWasBuiltAnewMeanwhileStays(t *testing.T) {
	f := store()
	v := ImageVerdict{ImageRow: ImageRow{ID: "somebody's", Tag: src(1)}, Remove: true}
	if action, why, err := removeImage(t.Context(), f, v); action != GCSkipped || err != nil || len(f.removed) > 0 {
		t.Errorf("%s (%s), %v, removed %q", action, why, err, f.removed)
	}
	v = ImageVerdict{ImageRow: ImageRow{ID: "old"}, Remove: true} // was untagged when it was looked at
	if action, why, err := removeImage(t.Context(), f, v); action != GCSkipped || err != nil || len(f.removed) > 0 {
		t.Errorf("%s (%s), %v, removed %q", action, why, err, f.removed)
	}
}

func TestBytesFreedAreThoseOfLayersNobodyElseHas(t *testing.T) {
	image := func(layers string, total int64, steps ...int64) *layered {
		return &layered{layers: strings.Split(layers, ""), steps: steps, total: total}
	}
	for _, c := range []struct {
		name string
		gone []*layered
		left []string
		want int64
	}{
		{"alone", []*layered{image("ab", 30, 10, 20)}, nil, 30},
		{"alone, packed form too", []*layered{image("ab", 45, 10, 20)}, nil, 45},
		{"one below stays", []*layered{image("ab", 45, 10, 20)}, []string{"a", "x"}, 20},
		{"all stays", []*layered{image("ab", 30, 10, 20)}, []string{"abc"}, 0},
		{"two with one base", []*layered{image("ab", 30, 10, 20), image("ac", 40, 10, 30)}, nil, 60},
		{"two with one base that stays", []*layered{image("ab", 30, 10, 20), image("ac", 40, 10, 30)}, []string{"a"}, 50},
		{"the same upper layer over another base is another", []*layered{image("ab", 30, 10, 20)}, []string{"xb"}, 30},
		{"an empty layer in a place unknown", []*layered{image("abc", 30, 10, 20)}, []string{"ab"}, 0},
	} {
		left := stack{}
		for _, l := range c.left {
			left.add(strings.Split(l, ""))
		}
		if got := freed(c.gone, left); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

func TestGraceIsWrittenWithoutNoughts(t *testing.T) {
	for d, want := range map[time.Duration]string{10 * time.Minute: "10m", time.Hour: "1h", 90 * time.Minute: "1h30m", 30 * time.Second: "30s", 0: "0s"} {
		if got := short(d); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
}

// What INTERNET_SIMULATOR_IMAGE names stays, in whatever way it names it.
func TestWhatIsNeededStaysByAnyOfItsNames(t *testing.T) {
	full, err := reference.ParseNormalizedNamed(src(1)) // with the registry that is meant where none is named
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{src(1), full.String(), "old"} {
		f := store()
		res, err := CollectImages(t.Context(), f, GCOptions{Current: map[string]string{name: "needed"}})
		if got := told(res)[src(1)]; err != nil || got != "kept: needed" {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	// By one of two tags: the other may go. By its id: none may.
	for name, want := range map[string]string{src(7): "removed: superseded and unused", "double": "kept: needed"} {
		res, err := CollectImages(t.Context(), store(), GCOptions{Current: map[string]string{name: "needed"}})
		if got := told(res); err != nil || got[src(7)] != "kept: needed" || got[src(77)] != want {
			t.Errorf("%s: %q and %q, %v", name, got[src(7)], got[src(77)], err)
		}
	}
}

// TestStepsThatTheEngineLeavesGoWithTheirImage: two images share their first step, a
// third one, which stays, its second with the first of them.
func TestStepsThatTheEngineLeavesGoWithTheirImage(t *testing.T) {
	for _, whole := range []bool{false, true} {
		step := func(parent string, layers ...string) *storedImage {
			return &storedImage{parent: parent, layers: layers, steps: make([]int64, len(layers)), built: day}
		}
		f := &fakeStore{whole: whole, images: map[string]*storedImage{
			"first": step("", "l1"),
			"a2":    step("first", "l1", "a2"), "a3": step("a2", "l1", "a2", "a3"), "a": step("a3", "l1", "a2", "a3"),
			"b2": step("first", "l1", "b2"), "b3": step("b2", "l1", "b2", "b3"), "b": step("b3", "l1", "b2", "b3"),
			"mine": step("b2", "l1", "b2", "m"),
		}}
		f.images["a"].tags, f.images["b"].tags, f.images["mine"].tags = []string{src(1)}, []string{src(2)}, []string{"mine:1"}
		if _, err := CollectImages(t.Context(), f, collectOptions()); err != nil {
			t.Fatal(err)
		}
		left := slices.Sorted(maps.Keys(f.images))
		want := []string{"b2", "first", "mine"}
		if whole {
			want = []string{"b2", "mine"} // the first was the engine's to remove
		}
		if !slices.Equal(left, want) || f.forced {
			t.Errorf("whole %v: left are %q, want %q", whole, left, want)
		}
	}
}
