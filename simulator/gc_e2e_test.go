package simulator

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/docker/docker/api/types/build"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/client"
	"golang.org/x/sync/errgroup"

	"github.com/linuxarena/ctis/imagehash"
)

// gcMark is the label of what the test makes; its value is the test's own.
// It sorts before the label of the source, which has to be the last step of a build.
const gcMark = "ctis.test"

// fenced is a real engine of which only the test's own images can be collected:
// others on it have superseded tags of their own. What is only read is all there.
type fenced struct {
	*client.Client
	mark string
}

func (f fenced) ImageList(ctx context.Context, o image.ListOptions) ([]image.Summary, error) {
	list, err := f.Client.ImageList(ctx, o)
	if !o.All {
		list = slices.DeleteFunc(list, func(i image.Summary) bool { return i.Labels[gcMark] != f.mark })
	}
	return list, err
}

// payload is the size of what every image has for itself, in bytes.
const payload = 1 << 20

// marked builds an image of a program all share and a payload of its own.
func (f fenced) marked(ctx context.Context, program []byte, tags ...string) (id string, err error) {
	own := make([]byte, payload)
	_, _ = rand.Read(own) // never fails
	var b bytes.Buffer
	tw := tar.NewWriter(&b)
	for name, data := range map[string][]byte{
		"Dockerfile": []byte("FROM scratch\nCOPY program /program\nCOPY own /own\n"), "program": program, "own": own,
	} {
		if err := tw.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(data)), ModTime: time.Unix(0, 0)}); err != nil {
			return "", err
		}
		if _, err := tw.Write(data); err != nil {
			return "", err
		}
	}
	if err := tw.Close(); err != nil {
		return "", err
	}
	resp, err := f.ImageBuild(ctx, &b, build.ImageBuildOptions{Version: build.BuilderV1, Remove: true, ForceRemove: true,
		Labels: map[string]string{LabelHash: "test", gcMark: f.mark}})
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	said, err := follow(resp.Body, nil)
	if err != nil {
		return "", fmt.Errorf("%w: %q", err, said.lines)
	}
	for _, tag := range tags {
		if err := f.ImageTag(ctx, said.id, tag); err != nil {
			return "", err
		}
	}
	return said.id, nil
}

// keeps makes a container from an image and takes it to a state.
func (f fenced) keeps(t *testing.T, ref, state string) {
	t.Helper()
	c, err := f.ContainerCreate(t.Context(), &container.Config{Image: ref, Entrypoint: []string{"/program"}, Labels: map[string]string{gcMark: f.mark}}, &container.HostConfig{NetworkMode: "none"}, nil, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.ContainerRemove(context.Background(), c.ID, container.RemoveOptions{Force: true}); err != nil {
			t.Error(err)
		}
	})
	if state == "created" {
		return
	}
	if err := f.ContainerStart(t.Context(), c.ID, container.StartOptions{}); err != nil {
		t.Fatal(err)
	}
	if state == "stopped" {
		now := 0
		if err := f.ContainerStop(t.Context(), c.ID, container.StopOptions{Timeout: &now}); err != nil {
			t.Fatal(err)
		}
	}
}

// sleeper is a static program that does nothing.
func sleeper(t *testing.T, f fenced) []byte {
	t.Helper()
	v, err := f.ServerVersion(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	dir, err := filepath.Abs("testdata/sleeper")
	if err != nil {
		t.Fatal(err)
	}
	b, err := ProgramOptions{Dir: dir, Go: goCommand(t), Environ: os.Environ()}.binary(t.Context(), v.Arch)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestCollectionOnARealEngine(t *testing.T) {
	mark := strings.ToLower(rand.Text()[:10])
	f := fenced{realEngine(t), mark}
	src := func(kind string) string {
		return imagehash.Tag(hex.EncodeToString([]byte(mark))[:12] + hex.EncodeToString([]byte(kind))[:4])
	}
	elsewhere := "ctis-test/elsewhere:" + mark
	t.Cleanup(func() {
		list, err := f.Client.ImageList(context.Background(), image.ListOptions{})
		if err != nil {
			t.Error(err)
		}
		for _, i := range list {
			if i.Labels[gcMark] != mark {
				continue
			}
			names := tagsOf(i)
			if len(names) == 0 {
				names = []string{""}
			}
			for _, tag := range names {
				if _, _, err := removeImage(context.Background(), f.Client, ImageVerdict{ImageRow: ImageRow{ID: i.ID, Tag: tag}}); err != nil {
					t.Error(err)
				}
			}
		}
	})
	program := sleeper(t, f)
	if _, err := f.marked(t.Context(), program, src("current")); err != nil { // and with it the step that all share
		t.Fatal(err)
	}
	var untagged, byID string
	var g errgroup.Group
	g.SetLimit(4)
	put := func(id *string, tags ...string) {
		g.Go(func() (err error) { *id, err = f.marked(t.Context(), program, tags...); return err })
	}
	for _, tags := range [][]string{{src("old")}, {src("b-old")}, {src("running")}, {src("stopped")}, {src("created"), src("dou")}, {src("also"), elsewhere}} {
		put(new(string), tags...)
	}
	put(&untagged)
	put(&byID)
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	f.keeps(t, src("running"), "running")
	f.keeps(t, src("stopped"), "stopped")
	f.keeps(t, src("created"), "created")
	f.keeps(t, byID, "created")

	young, err := CollectImages(t.Context(), f, GCOptions{Grace: time.Hour, DryRun: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range young.Images {
		if i.Action != GCKept {
			t.Errorf("built just now: %+v", i)
		}
	}
	o := GCOptions{Current: map[string]string{src("current"): "current"}, DryRun: true}
	dry, err := CollectImages(t.Context(), f, o)
	if err != nil {
		t.Fatal(err)
	}
	o.DryRun = false
	res, err := CollectImages(t.Context(), f, o)
	if err != nil {
		t.Fatal(err)
	}
	if dry.Freed != res.Freed {
		t.Errorf("a dry run promises %d bytes, and %d are freed", dry.Freed, res.Freed)
	}
	// Three images went whole: two superseded and the untagged one. What they share
	// with the others stays; where a layer is kept packed and unpacked, its blocks count.
	if least, most := int64(3*payload), int64(3*payload+64<<10); res.Freed < least || res.Freed > most {
		t.Errorf("freed are %d bytes, not %d to %d", res.Freed, least, most)
	}
	got := map[string]GCAction{}
	for _, i := range res.Images {
		name := i.Tag
		if name == "" {
			name = i.ID
		}
		got[name] = i.Action
		if i.Action == GCSkipped {
			t.Errorf("skipped: %+v", i)
		}
	}
	want := map[string]GCAction{
		src("current"): GCKept, src("running"): GCKept, src("stopped"): GCKept, src("created"): GCKept, byID: GCKept,
		src("old"): GCRemoved, src("b-old"): GCRemoved, src("dou"): GCRemoved, src("also"): GCRemoved, untagged: GCRemoved,
	}
	for name, action := range want {
		if got[name] != action {
			t.Errorf("%s: %q, not %q", name, got[name], action)
		}
		_, err := f.ImageInspect(t.Context(), name)
		if (err == nil) != (action == GCKept) {
			t.Errorf("%s is to be %s: %v", name, action, err)
		}
	}
	if len(got) != len(want) {
		t.Errorf("told are %v", got)
	}
	if _, err := f.ImageInspect(t.Context(), elsewhere); err != nil {
		t.Errorf("another name went with the tag: %v", err)
	}
}

// ofSource is a real engine of which only images of one source can be collected.
type ofSource struct {
	*client.Client
	hash string
}

func (f ofSource) ImageList(ctx context.Context, o image.ListOptions) ([]image.Summary, error) {
	list, err := f.Client.ImageList(ctx, o)
	if !o.All {
		list = slices.DeleteFunc(list, func(i image.Summary) bool { return i.Labels[LabelHash] != f.hash })
	}
	return list, err
}

func TestBuildersAtOnceLeaveOneImage(t *testing.T) {
	eng := realEngine(t)
	own := rand.Text()
	m := fstest.MapFS{}
	m["Dockerfile"] = &fstest.MapFile{Data: []byte("FROM scratch\nCOPY own /own\n")}
	m["own"] = &fstest.MapFile{Data: []byte(own)}
	s := source(t, m, "Dockerfile", nil)
	o := fromSource(s)
	t.Cleanup(func() {
		_, _ = eng.ImageRemove(context.Background(), o.Choice.Ref, image.RemoveOptions{PruneChildren: true}) // may never have been
	})
	results := make(chan error, 3)
	for range cap(results) {
		go func() {
			_, err := EnsureImage(patient(t), eng, o)
			results <- err
		}()
	}
	for range cap(results) {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	o.NoCache = true
	if r, err := EnsureImage(patient(t), eng, o); err != nil || !r.Built {
		t.Errorf("again, without the cache: %+v, %v", r, err)
	}
	// Of two that find no tag and give it at one moment, the first is left without.
	if _, err := CollectImages(t.Context(), ofSource{eng, s.Hash}, GCOptions{Current: map[string]string{o.Choice.Ref: "current"}}); err != nil {
		t.Error(err)
	}
	list, err := eng.ImageList(t.Context(), image.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var mine []image.Summary
	for _, i := range list {
		if i.Labels[LabelHash] == s.Hash {
			mine = append(mine, i)
		}
	}
	if len(mine) != 1 || !slices.Equal(tagsOf(mine[0]), []string{o.Choice.Ref}) {
		t.Errorf("left are %+v", mine)
	}
	if r, err := eng.ImageSave(t.Context(), []string{o.Choice.Ref}); err == nil {
		n, err := io.Copy(io.Discard, r)
		if r.Close(); err != nil || n == 0 {
			t.Errorf("the image cannot be read: %d bytes, %v", n, err)
		}
	}
}
