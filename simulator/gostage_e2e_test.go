package simulator

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/client"
)

// goImage makes an image with this machine's Go toolchain, a shell and what both
// need, as the Dockerfile's Go stage wants of its base. The Go build cache is put in
// as well, so that nothing is compiled twice.
func goImage(t *testing.T, eng *client.Client, cache string) string {
	t.Helper()
	out, err := exec.Command(goCommand(t), "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	root := strings.TrimSpace(string(out))
	files := []string{root + "/bin/go", root + "/go.env", root + "/VERSION", root + "/pkg/tool", root + "/pkg/include", root + "/src", cache}
	for _, program := range []string{"/bin/sh", "/bin/mkdir"} {
		real, err := filepath.EvalSymlinks(program)
		if err != nil {
			t.Skipf("the base image is made of this machine's own shell: %v", err)
		}
		out, err := exec.Command("ldd", real).Output()
		if err != nil {
			t.Fatalf("ldd %s: %v", real, err)
		}
		files = append(files, program, real)
		for _, lib := range regexp.MustCompile(`/\S+`).FindAllString(string(out), -1) {
			target, err := filepath.EvalSymlinks(lib)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, lib, target)
		}
	}
	slices.Sort(files)
	ref := "ctis-test/go-base:" + strings.ToLower(rand.Text()[:10])
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	// -h, because the directories of libraries are links on some systems.
	cmd := exec.CommandContext(ctx, "tar", append([]string{"-C", "/", "-h", "-P", "--transform=s,^/,,", "-c"}, slices.Compact(files)...)...)
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	stream, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	resp, err := eng.ImageImport(ctx, image.ImportSource{Source: stream, SourceName: "-"}, ref, image.ImportOptions{
		Changes: []string{"ENV PATH=" + root + "/bin:/usr/bin:/bin", "ENV GOCACHE=" + cache, "ENV TMPDIR=" + cache},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := eng.ImageRemove(context.Background(), ref, image.RemoveOptions{}); err != nil {
			t.Error(err)
		}
	})
	defer resp.Close()
	if said, err := follow(resp, nil); err != nil {
		t.Fatal(err, said.lines)
	}
	_, _ = io.Copy(io.Discard, stream) // so that tar ends by itself
	if err := cmd.Wait(); err != nil {
		t.Fatalf("tar: %v: %s", err, complaint.Bytes())
	}
	return ref
}

// contents lists an image's files: kind, mode, owner and digest by name.
func contents(t *testing.T, eng *client.Client, ref string) map[string]string {
	t.Helper()
	c, err := eng.ContainerCreate(t.Context(), &container.Config{Image: ref}, nil, nil, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := eng.ContainerRemove(context.Background(), c.ID, container.RemoveOptions{Force: true, RemoveVolumes: true}); err != nil {
			t.Error(err)
		}
	}()
	r, err := eng.ContainerExport(t.Context(), c.ID)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	files := map[string]string{}
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.New()
		if _, err := io.Copy(sum, tr); err != nil {
			t.Fatal(err)
		}
		files[h.Name] = fmt.Sprintf("%c %o %d:%d %x %s", h.Typeflag, h.Mode, h.Uid, h.Gid, sum.Sum(nil), h.Linkname)
	}
}

// TestBothWaysMakeTheSameImage builds the server here and by the Dockerfile's own Go
// stage: same tag, same runtime configuration, same files.
// It compiles the server three times and imports a Go toolchain of 300 MB, so it runs
// where CTIS_E2E_GOSTAGE=1 asks for it.
func TestBothWaysMakeTheSameImage(t *testing.T) {
	if os.Getenv("CTIS_E2E_GOSTAGE") != "1" {
		t.Skip("CTIS_E2E_GOSTAGE=1 builds the image by the Dockerfile's Go stage too; it takes minutes")
	}
	eng := realEngine(t)
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	cache, err := os.MkdirTemp("", "ctis-go-cache-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(cache) }) // the engine's copy is removed with its image
	base := "ctis-test/go-base-of:" + strings.ToLower(rand.Text()[:10])
	m := realContext(t)
	text := regexp.MustCompile(`(?m)^ARG GO_IMAGE=.*$`).ReplaceAllString(string(m["templates/image/Dockerfile"].Data), "ARG GO_IMAGE="+base)
	m["templates/image/Dockerfile"].Data = []byte(text)
	o := fromSource(source(t, m, "templates/image/Dockerfile", nil))
	var said []string
	o.Progress = func(line string) { said = append(said, line) }
	remove := func() {
		if _, err := eng.ImageRemove(context.Background(), o.Choice.Ref, image.RemoveOptions{PruneChildren: true}); err != nil {
			t.Error(err)
		}
	}
	build := func(goCommand string) (config string, files map[string]string) {
		t.Helper()
		o.Go, said = goCommand, nil
		r, err := EnsureImage(ctx, eng, o)
		if err != nil || !r.Built {
			t.Fatalf("%+v, %v; the builder said\n%s", r, err, strings.Join(said, "\n"))
		}
		defer remove()
		in, err := eng.ImageInspect(ctx, r.ID)
		if err != nil {
			t.Fatal(err)
		}
		in.Config.WorkingDir = cmp.Or(in.Config.WorkingDir, "/") // BuildKit writes down what is so without being said
		raw, err := json.MarshalIndent(in.Config, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		return string(raw) + in.Os + "/" + in.Architecture, contents(t, eng, r.ID)
	}
	o.Environ = append(os.Environ(), "GOCACHE="+cache)
	hereConfig, hereFiles := build(goCommand(t))
	if err := eng.ImageTag(ctx, goImage(t, eng, cache), base); err != nil {
		t.Fatal(err)
	}
	in, err := eng.ImageInspect(ctx, base)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// The builder keeps the stage for a next time that there is not.
		if _, err := CollectImages(context.Background(), stagesOn{eng, in.RootFS.Layers[0]}, GCOptions{}); err != nil {
			t.Error(err)
		}
		if _, err := eng.ImageRemove(context.Background(), base, image.RemoveOptions{}); err != nil {
			t.Error(err)
		}
	})
	compare := func(by string) {
		t.Helper()
		config, files := build("")
		if !slices.ContainsFunc(said, func(s string) bool { return strings.Contains(s, "go build") }) {
			t.Errorf("%s: the Go stage did not run: %q", by, said)
		}
		if config != hereConfig {
			t.Errorf("configured here\n%s\nby %s\n%s", hereConfig, by, config)
		}
		if !maps.Equal(files, hereFiles) {
			t.Errorf("files made here\n%q\nby %s\n%q", hereFiles, by, files)
		}
	}
	compare("the classic builder")
	docker, err := exec.LookPath("docker")
	if err != nil {
		t.Fatal(err)
	}
	if plugin := FindBuildKit(ctx, BuildKit{Docker: docker, Environ: os.Environ(), Builder: "default"}); plugin != nil {
		o.BuildKit = func(context.Context) *BuildKit { return plugin }
		compare("BuildKit")
	} else {
		t.Log("the docker command has no buildx plugin, so BuildKit was not compared")
	}
}

// stagesOn is a real engine of which only build stages on a layer can be collected.
type stagesOn struct {
	*client.Client
	layer string
}

func (s stagesOn) ImageList(ctx context.Context, o image.ListOptions) ([]image.Summary, error) {
	list, err := s.Client.ImageList(ctx, o)
	if err != nil || o.All {
		return list, err
	}
	return slices.DeleteFunc(list, func(i image.Summary) bool {
		in, err := s.ImageInspect(ctx, i.ID)
		return err != nil || i.Labels[LabelBuildStage] == "" || len(in.RootFS.Layers) == 0 || in.RootFS.Layers[0] != s.layer
	}), nil
}
