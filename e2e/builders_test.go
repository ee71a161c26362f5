package e2e

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	imagetypes "github.com/docker/docker/api/types/image"
	"github.com/docker/docker/client"
)

// order is what a builder is asked to build.
type order struct {
	dir              string // the context
	dockerfile       string // path in it
	args             map[string]string
	target, platform string
}

func (o order) flags() []string {
	flags := []string{"--file", filepath.Join(o.dir, o.dockerfile), "--network", "none"}
	for _, name := range slices.Sorted(maps.Keys(o.args)) {
		flags = append(flags, "--build-arg", name+"="+o.args[name])
	}
	if o.target != "" {
		flags = append(flags, "--target", o.target)
	}
	if o.platform != "" {
		flags = append(flags, "--platform", o.platform)
	}
	return flags
}

// builder builds an order and returns what each stage made, below the stage's name.
type builder struct {
	name string
	// gathers tells whether the Dockerfile has to end with a stage that has, below the
	// name of every other, what that made.
	gathers bool
	build   func(ctx context.Context, o order) (fileTree, error)
}

// buildSlots bounds how many builds run at once: most of each is waiting for the engine.
var buildSlots = make(chan struct{}, 6)

// inTurn builds when there is room.
func (b builder) inTurn(ctx context.Context, o order) (fileTree, error) {
	buildSlots <- struct{}{}
	defer func() { <-buildSlots }()
	return b.build(ctx, o)
}

// buildx finds the client of BuildKit, which is a plugin of the docker command
// and works as well where it is not installed as one.
func buildx(t *testing.T) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	config := os.Getenv("DOCKER_CONFIG")
	if config == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			t.Fatal(err)
		}
		config = filepath.Join(home, ".docker")
	}
	found, _ := filepath.Glob(filepath.Join(cache, "ctis", "tools", "docker-buildx-v*"))
	for _, p := range append(found, filepath.Join(config, "cli-plugins", "docker-buildx"), "/usr/libexec/docker/cli-plugins/docker-buildx") {
		if _, err := os.Stat(p); err == nil {
			return p
		}
	}
	t.Fatal("the buildx plugin is nowhere; scripts/setup.sh test builds it")
	return ""
}

// buildKit exports without making an image. What stays in its cache is removed
// after the test.
func buildKit(t *testing.T) builder {
	program := buildx(t)
	forgetBuildCache(t, program)
	return builder{"BuildKit", true, func(ctx context.Context, o order) (fileTree, error) {
		out, err := output(ctx, nil, program, append(append([]string{"build", "--progress", "plain", "--provenance=false", "--output", "type=tar,dest=-"}, o.flags()...), o.dir)...)
		if err != nil {
			return nil, err
		}
		tree := fileTree{}
		return tree, tree.apply(bytes.NewReader(out))
	}}
}

// classic builds, takes what each stage made out of the engine and removes it. It uses
// no cache: what is in it may be removed by a test beside this one.
func classic(eng *client.Client) builder {
	return builder{"the classic builder", false, func(ctx context.Context, o order) (tree fileTree, err error) {
		said, err := output(ctx, []string{"DOCKER_BUILDKIT=0"}, "docker", append(append([]string{"build", "--no-cache", "--force-rm"}, o.flags()...), o.dir)...)
		stages := stagesIn(said)
		defer func() { err = errors.Join(err, forget(context.WithoutCancel(ctx), eng, stages)) }()
		if err != nil {
			return nil, err
		}
		tree = fileTree{}
		for _, s := range stages {
			if s.id == "" {
				continue // it made nothing
			}
			made, err := savedTree(ctx, eng, s.id)
			if err != nil {
				return nil, fmt.Errorf("stage %q: %w", s.name, err)
			}
			for p, file := range made {
				tree[s.name+"/"+p] = file
			}
		}
		return tree, nil
	}}
}

// stage is what the classic builder made of one.
type stage struct{ name, id string }

// said matches the lines in which the classic builder names a stage, and what a step made.
var said = regexp.MustCompile(`(?m)^Step \d+/\d+ : FROM \S+ AS (\S+)$|^ ---> ([0-9a-f]{12})$`)

func stagesIn(output []byte) (stages []stage) {
	for _, m := range said.FindAllSubmatch(output, -1) {
		switch {
		case len(m[1]) > 0:
			stages = append(stages, stage{name: string(m[1])})
		case len(stages) > 0:
			stages[len(stages)-1].id = string(m[2])
		}
	}
	return stages
}

// forget removes what stages made, those above others last. The engine removes with an
// image those without a name that it was made from; a base, which has one, stays.
func forget(ctx context.Context, eng *client.Client, stages []stage) error {
	for _, s := range slices.Backward(stages) {
		if s.id == "" {
			continue
		}
		in, err := eng.ImageInspect(ctx, s.id)
		if err == nil && len(in.RepoTags) == 0 {
			_, err = eng.ImageRemove(ctx, s.id, imagetypes.RemoveOptions{PruneChildren: true})
		}
		if err != nil && !cerrdefs.IsNotFound(err) {
			return err
		}
	}
	return nil
}

// output runs a program and returns what it wrote, or an error with what it said.
func output(ctx context.Context, env []string, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), env...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return out.Bytes(), fmt.Errorf("%s: %w\n%s", filepath.Base(name), err, errs.String())
	}
	return out.Bytes(), nil
}

// fileTree is what a file system holds: by path, a file's bytes with its
// executable bit, or a link's target.
type fileTree map[string]string

// apply adds a layer. No layer here removes anything.
func (f fileTree) apply(layer io.Reader) error {
	for tr := tar.NewReader(layer); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		p := strings.Trim(path.Clean("/"+h.Name), "/")
		switch h.Typeflag {
		case tar.TypeReg:
			data, err := io.ReadAll(tr)
			if err != nil {
				return err
			}
			f[p] = fmt.Sprintf("file %v %s", h.Mode&0o100 != 0, data)
		case tar.TypeSymlink:
			f[p] = "link " + h.Linkname
		case tar.TypeLink:
			f[p] = f[strings.Trim(path.Clean("/"+h.Linkname), "/")]
		}
	}
}

// below is what is in a directory.
func (f fileTree) below(dir string) fileTree {
	part := fileTree{}
	for p, file := range f {
		if rel, ok := strings.CutPrefix(p, dir+"/"); ok {
			part[rel] = file
		}
	}
	return part
}

// savedTree puts the layers of an image on top of each other.
func savedTree(ctx context.Context, eng *client.Client, id string) (fileTree, error) {
	saved, err := eng.ImageSave(ctx, []string{id})
	if err != nil {
		return nil, err
	}
	defer saved.Close()
	members := map[string][]byte{}
	for tr := tar.NewReader(saved); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if members[h.Name], err = io.ReadAll(tr); err != nil {
			return nil, err
		}
		if h.Typeflag == tar.TypeSymlink { // the same layer twice
			members[h.Name] = members[path.Join(path.Dir(h.Name), h.Linkname)]
		}
	}
	var manifest []struct{ Layers []string }
	if err := json.Unmarshal(members["manifest.json"], &manifest); err != nil || len(manifest) != 1 {
		return nil, fmt.Errorf("a saved image without its manifest: %w", err)
	}
	tree := fileTree{}
	for _, name := range manifest[0].Layers {
		layer := io.Reader(bytes.NewReader(members[name]))
		if bytes.HasPrefix(members[name], []byte{0x1f, 0x8b}) { // as the containerd image store keeps it
			if layer, err = gzip.NewReader(layer); err != nil {
				return nil, err
			}
		}
		if err := tree.apply(layer); err != nil {
			return nil, err
		}
	}
	return tree, nil
}

// forgetBuildCache removes, after the test, what BuildKit kept since. It asks BuildKit
// itself: the engine would count, beside that, the bytes of everything it has.
func forgetBuildCache(t *testing.T, buildx string) {
	t.Helper()
	kept := func(ctx context.Context) (ids []string, err error) {
		out, err := output(ctx, nil, buildx, "du", "--format", "json")
		for dec := json.NewDecoder(bytes.NewReader(out)); err == nil; {
			var record struct{ ID string }
			if err = dec.Decode(&record); err == nil {
				ids = append(ids, record.ID)
			}
		}
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return ids, err
	}
	before, err := kept(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		now, err := kept(ctx)
		if err != nil {
			t.Errorf("list what BuildKit keeps: %v", err)
			return
		}
		now = slices.DeleteFunc(now, func(id string) bool { return slices.Contains(before, id) })
		for some := range slices.Chunk(now, 500) { // a filter is an argument, whose length is bounded
			if _, err := output(ctx, nil, buildx, "prune", "--all", "--force", "--filter", "id~=^("+strings.Join(some, "|")+")$"); err != nil {
				t.Errorf("remove what BuildKit keeps: %v", err)
			}
		}
	})
}

// majorOf reads the first number of a version.
func majorOf(t *testing.T, version string) int {
	t.Helper()
	first, _, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
	n, err := strconv.Atoi(first)
	if err != nil {
		t.Fatalf("the engine's version is %q", version)
	}
	if n < 20 { // the engine counts anew as a module: its v2 comes after 28
		n += 27
	}
	return n
}
