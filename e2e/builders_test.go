package e2e

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/rand"
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

	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/build"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/client"

	"github.com/linuxarena/ctis/e2e/images"
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

// builder builds an order and returns the image's file system.
type builder struct {
	name  string
	build func(ctx context.Context, o order) (fileTree, error)
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
func buildKit(t *testing.T, eng *client.Client) builder {
	program := buildx(t)
	forgetBuildCache(t, eng)
	return builder{"BuildKit", func(ctx context.Context, o order) (fileTree, error) {
		out, err := output(ctx, nil, program, append(append([]string{"build", "--progress", "plain", "--provenance=false", "--output", "type=tar,dest=-"}, o.flags()...), o.dir)...)
		if err != nil {
			return nil, err
		}
		tree := fileTree{}
		return tree, tree.apply(bytes.NewReader(out))
	}}
}

// classic builds an image, takes it out of the engine and removes it. It uses no
// cache: what is in it may be removed by a test beside this one.
func classic(t *testing.T) builder {
	return builder{"the classic builder", func(ctx context.Context, o order) (tree fileTree, err error) {
		ref := images.Repository + "inputs:" + strings.ToLower(rand.Text()[:12])
		said, err := output(ctx, []string{"DOCKER_BUILDKIT=0"}, "docker", append(append([]string{"build", "--no-cache", "--force-rm", "--tag", ref}, o.flags()...), o.dir)...)
		defer func() { err = errors.Join(err, forgetImages(context.WithoutCancel(ctx), ref, said)) }()
		if err != nil {
			return nil, err
		}
		saved, err := output(ctx, nil, "docker", "save", ref)
		if err != nil {
			return nil, err
		}
		return savedTree(saved)
	}}
}

// made matches the line in which the classic builder names what a step made.
var made = regexp.MustCompile(`(?m)^ ---> ([0-9a-f]{12})$`)

// forgetImages removes the image a build was to make and what its steps left. The
// engine removes with an image those without a name that it was made from.
func forgetImages(ctx context.Context, ref string, said []byte) error {
	out, err := output(ctx, nil, "docker", "images", "--quiet", ref)
	if err != nil {
		return err
	}
	var all []string
	if len(out) > 0 {
		all = append(all, ref)
	}
	for _, m := range slices.Backward(made.FindAllSubmatch(said, -1)) {
		all = append(all, string(m[1]))
	}
	for _, id := range all {
		named, err := output(ctx, nil, "docker", "images", "--quiet", "--filter", "dangling=true")
		if err != nil {
			return err
		}
		if id != ref && !bytes.Contains(named, []byte(id)) {
			continue // gone with another, or the base, which has a name
		}
		if _, err := output(ctx, nil, "docker", "rmi", id); err != nil {
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

// savedTree puts the layers of a saved image on top of each other.
func savedTree(saved []byte) (fileTree, error) {
	members := map[string][]byte{}
	for tr := tar.NewReader(bytes.NewReader(saved)); ; {
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
	for _, layer := range manifest[0].Layers {
		if err := tree.apply(bytes.NewReader(members[layer])); err != nil {
			return nil, err
		}
	}
	return tree, nil
}

// forgetBuildCache removes, after the test, what BuildKit kept since.
func forgetBuildCache(t *testing.T, eng *client.Client) {
	t.Helper()
	kept := func(ctx context.Context) (ids []string, err error) {
		var usage types.DiskUsage
		for { // the engine answers one such question at a time
			usage, err = eng.DiskUsage(ctx, types.DiskUsageOptions{Types: []types.DiskUsageObject{types.BuildCacheObject}})
			if err == nil || !strings.Contains(err.Error(), "already running") || ctx.Err() != nil {
				break
			}
			time.Sleep(100 * time.Millisecond)
		}
		for _, record := range usage.BuildCache {
			ids = append(ids, record.ID)
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
		// A record goes once those made from it are gone, so it may take some rounds.
		for {
			now, err := kept(ctx)
			if err != nil {
				t.Errorf("list what BuildKit keeps: %v", err)
				return
			}
			removed := 0
			for _, id := range now {
				if slices.Contains(before, id) {
					continue
				}
				report, err := eng.BuildCachePrune(ctx, build.CachePruneOptions{All: true, Filters: filters.NewArgs(filters.Arg("id", id))})
				if err != nil {
					t.Errorf("remove what BuildKit keeps: %v", err)
					return
				}
				removed += len(report.CachesDeleted)
			}
			if removed == 0 {
				return
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
