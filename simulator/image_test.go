package simulator

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/build"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/system"
	"github.com/docker/docker/client"
	dockerspec "github.com/moby/docker-image-spec/specs-go/v1"

	"github.com/linuxarena/ctis/imagehash"
	"github.com/linuxarena/ctis/server/api"
	recipe "github.com/linuxarena/ctis/templates/image"
)

// usualRegistry is the engine's, for names without a host.
const usualRegistry = "https://usual.example/v1/"

// fakeImages is an engine's image store. What is built has no tag until it is given
// one.
type fakeImages struct {
	mu         sync.Mutex
	images     map[string]map[string]string // labels by reference
	ids        map[string]string            // by reference; those of before the test have one made of it
	built      map[string]map[string]string // labels by id
	labels     map[string]string            // what the Dockerfile gives to all that is built
	next       int
	asked      []string
	context    map[string]tarEntry // of the last build
	options    build.ImageBuildOptions
	stream     []string // what a build or pull says, as JSON; a good end if empty
	pullErr    error
	pulledWith string               // credentials of the last pull, as they were sent
	onTag      func(id, ref string) // before it is done, without the lock
	tagErr     func(ref string) error
}

type tarEntry struct {
	tar.Header
	data []byte
}

func (f *fakeImages) idOf(ref string) string { return cmp.Or(f.ids[ref], "sha256:"+ref) }

func (f *fakeImages) ask(format string, args ...any) {
	f.asked = append(f.asked, fmt.Sprintf(format, args...))
}

func (f *fakeImages) ImageInspect(_ context.Context, ref string, _ ...client.ImageInspectOption) (image.InspectResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ask("inspect %s", ref)
	labels, ok := f.images[ref]
	r := image.InspectResponse{ID: f.idOf(ref), Config: &dockerspec.DockerOCIImageConfig{}}
	if built, is := f.built[ref]; is {
		labels, ok, r.ID = built, true, ref
	}
	for tag, id := range f.ids {
		if id == r.ID {
			r.RepoTags = append(r.RepoTags, tag)
		}
	}
	if !ok {
		return image.InspectResponse{}, fmt.Errorf("no such image %q: %w", ref, cerrdefs.ErrNotFound)
	}
	r.Config.Labels = labels
	return r, nil
}

func (f *fakeImages) ImageBuild(_ context.Context, r io.Reader, o build.ImageBuildOptions) (build.ImageBuildResponse, error) {
	content := map[string]tarEntry{}
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return build.ImageBuildResponse{}, fmt.Errorf("read context: %w", err)
		}
		data, err := io.ReadAll(tr)
		if err != nil {
			return build.ImageBuildResponse{}, fmt.Errorf("read context: %w", err)
		}
		content[h.Name] = tarEntry{*h, data}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ask("build")
	f.options, f.context = o, content
	if len(f.stream) > 0 {
		return build.ImageBuildResponse{Body: io.NopCloser(strings.NewReader(strings.Join(f.stream, "\n")))}, nil
	}
	f.next++
	id := fmt.Sprintf("sha256:built%d", f.next)
	if f.built == nil {
		f.built = map[string]map[string]string{}
	}
	f.built[id] = maps.Clone(o.Labels)
	maps.Copy(f.built[id], f.labels)
	return build.ImageBuildResponse{Body: io.NopCloser(strings.NewReader(`{"stream":"Step 1\n"}{"aux":{"ID":"` + id + `"}}`))}, nil
}

func (f *fakeImages) ImageTag(_ context.Context, id, ref string) error {
	if f.onTag != nil {
		f.onTag(id, ref)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ask("tag %s", ref)
	if f.tagErr != nil {
		return f.tagErr(ref)
	}
	labels, ok := f.built[id]
	if !ok {
		return fmt.Errorf("no such image %q: %w", id, cerrdefs.ErrNotFound)
	}
	if f.ids == nil {
		f.ids = map[string]string{}
	}
	f.images[ref], f.ids[ref] = labels, id
	return nil
}

// untagged lists what was built and has no tag, sorted.
func (f *fakeImages) untagged() []string {
	var left []string
	for id := range f.built {
		if !slices.Contains(slices.Collect(maps.Values(f.ids)), id) {
			left = append(left, id)
		}
	}
	slices.Sort(left)
	return left
}

func (f *fakeImages) ImageList(_ context.Context, o image.ListOptions) ([]image.Summary, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []image.Summary
	for _, id := range f.untagged() {
		if o.Filters.MatchKVList("label", f.built[id]) {
			out = append(out, image.Summary{ID: id, RepoTags: []string{"<none>:<none>"}})
		}
	}
	return out, nil
}

func (f *fakeImages) ImageRemove(_ context.Context, ref string, o image.RemoveOptions) ([]image.DeleteResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.built[ref]; !ok || o.Force {
		return nil, fmt.Errorf("no such image %q, or forced: %w", ref, cerrdefs.ErrNotFound)
	}
	f.ask("remove")
	delete(f.built, ref)
	return nil, nil
}

func (f *fakeImages) ImagePull(_ context.Context, ref string, o image.PullOptions) (io.ReadCloser, error) {
	f.pulledWith = o.RegistryAuth
	f.asked = append(f.asked, "pull "+ref)
	if f.pullErr != nil {
		return nil, f.pullErr
	}
	if len(f.stream) == 0 {
		f.images[ref] = nil
	}
	return io.NopCloser(strings.NewReader(strings.Join(f.stream, "\n"))), nil
}

func (f *fakeImages) Info(context.Context) (system.Info, error) {
	return system.Info{IndexServerAddress: usualRegistry}, nil
}

func (f *fakeImages) ServerVersion(context.Context) (types.Version, error) {
	return types.Version{Os: "linux", Arch: runtime.GOARCH}, nil
}

var ownDockerfile = string(recipe.Dockerfile)

func ownContext() fstest.MapFS {
	return fstest.MapFS{
		"templates/image/Dockerfile":       {Data: []byte(ownDockerfile)},
		"server/cmd/ctis-server/main.go":   {Data: []byte("package main\n\nimport \"github.com/linuxarena/ctis/server/words\"\n\nfunc main() { println(words.Hello) }\n")},
		"templates/pages/index.html":       {Data: []byte("hello")},
		"server/words/words.go":            {Data: []byte("package words\n\nimport _ \"embed\"\n\n//go:embed hello.txt\nvar Hello string\n")},
		"server/words/hello.txt":           {Data: []byte("hello")},
		"server/words/link.txt":            {Data: []byte("hello.txt"), Mode: fs.ModeSymlink},
		"compose/not_part_of_the_image.go": {Data: []byte("package broken")},
	}
}

func source(t *testing.T, fsys fs.FS, dockerfile string, args map[string]string) *imagehash.Sum {
	t.Helper()
	in, err := imagehash.Read(t.Context(), fsys, imagehash.Options{Dockerfile: dockerfile, Args: args})
	if err != nil {
		t.Fatal(err)
	}
	s, err := in.Sum(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func fromSource(s *imagehash.Sum) ImageOptions {
	return ImageOptions{Choice: imagehash.Resolve("", "", false, s.Hash), Source: s}
}

func goCommand(t *testing.T) string {
	t.Helper()
	p, err := exec.LookPath("go")
	if err != nil {
		t.Fatal("the tests need the go command they are run by: ", err)
	}
	return p
}

func TestImageThatExistsIsReusedAfterOneQuestion(t *testing.T) {
	s := source(t, ownContext(), "templates/image/Dockerfile", nil)
	o := fromSource(s)
	f := &fakeImages{images: map[string]map[string]string{o.Choice.Ref: {LabelProtocol: strconv.Itoa(api.Protocol)}}}
	r, err := EnsureImage(context.Background(), f, o)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"inspect " + o.Choice.Ref}; !slices.Equal(f.asked, want) {
		t.Errorf("engine was asked %q, want %q", f.asked, want)
	}
	if r.Built || r.Pulled || r.Hash != s.Hash || r.ID != "sha256:"+o.Choice.Ref || r.Protocol != api.Protocol {
		t.Errorf("result = %+v", r)
	}
}

func TestImageIsCompiledHereOntoAnEmptyOne(t *testing.T) {
	s := source(t, ownContext(), "templates/image/Dockerfile", nil)
	o := fromSource(s)
	o.Go = goCommand(t)
	// Settings that would break the build or its result.
	o.Environ = append(os.Environ(), "GOFLAGS=-mod=vendor", "GOOS=plan9", "GOARCH=mips", "CGO_ENABLED=1", "GO111MODULE=off", "GOPROXY=http://192.0.2.1", "GOWORK=/nowhere")
	var first []byte
	for range 2 {
		f := &fakeImages{images: map[string]map[string]string{}}
		r, err := EnsureImage(context.Background(), f, o)
		if err != nil {
			t.Fatal(err)
		}
		if !r.Built || f.options.Version != build.BuilderV1 || f.options.Labels[LabelHash] != s.Hash || f.options.Dockerfile != "Dockerfile" || !f.options.NoCache {
			t.Errorf("result %+v with options %+v", r, f.options)
		}
		_, wantText, _ := strings.Cut(ownDockerfile, "\nLABEL io.ctis.protocol=\"4\"\nCOPY --from=build --chown=65532:65532 /out/ /\n")
		wantText = "FROM scratch\nLABEL io.ctis.protocol=\"4\"\nCOPY --chown=65532:65532 out/ /\n" + wantText
		if got := string(f.context["Dockerfile"].data); got != wantText {
			t.Errorf("Dockerfile = %q", got)
		}
		var names []string
		for name, e := range f.context {
			names = append(names, fmt.Sprintf("%s %o %d", name, e.Mode, e.Uid))
			if !e.ModTime.Equal(f.context["out/"].ModTime) || e.Uname != "" {
				t.Errorf("%s carries a time or owner's name: %+v", name, e.Header)
			}
		}
		slices.Sort(names)
		want := []string{"Dockerfile 644 65532", "out/ 755 65532", "out/ctis-server 755 65532", "out/run/ 755 65532", "out/run/ctis/ 755 65532", "out/var/ 755 65532", "out/var/lib/ 755 65532", "out/var/lib/ctis/ 755 65532"}
		if !slices.Equal(names, want) {
			t.Errorf("context = %q\n   want %q", names, want)
		}
		binary := f.context["out/ctis-server"].data
		if !bytes.HasPrefix(binary, []byte("\x7fELF")) {
			t.Error("the server is no ELF binary")
		}
		if first == nil {
			first = binary
		} else if !bytes.Equal(first, binary) {
			t.Error("two builds of one source differ")
		}
	}
	exe := filepath.Join(t.TempDir(), "ctis-server")
	if err := os.WriteFile(exe, first, 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(exe).CombinedOutput(); err != nil || strings.TrimSpace(string(out)) != "hello" {
		t.Errorf("the server says %q, %v", out, err)
	}
}

func TestWithoutAToolchainTheDockerfileBuildsFromItsInputsAlone(t *testing.T) {
	tests := map[string]func(*ImageOptions){
		"none":              func(*ImageOptions) {},
		"that does not run": func(o *ImageOptions) { o.Go = "/bin/false" },
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			s := source(t, ownContext(), "templates/image/Dockerfile", nil)
			o := fromSource(s)
			change(&o)
			f := &fakeImages{images: map[string]map[string]string{}}
			if _, err := EnsureImage(context.Background(), f, o); err != nil {
				t.Fatal(err)
			}
			if f.options.Dockerfile != "templates/image/Dockerfile" || f.options.Labels[LabelHash] != s.Hash {
				t.Errorf("options = %+v", f.options)
			}
			if string(f.context["templates/image/Dockerfile"].data) != ownDockerfile {
				t.Error("the Dockerfile is not the context's")
			}
			if _, ok := f.context["compose/not_part_of_the_image.go"]; ok {
				t.Error("the context has what is no input")
			}
		})
	}
}

func TestAnyOtherDockerfileIsBuiltAsItIs(t *testing.T) {
	fsys := fstest.MapFS{"Dockerfile": {Data: []byte("FROM alpine\nARG V=1\nCOPY a /a\n")}, "a": {Data: []byte("a")}}
	s := source(t, fsys, "Dockerfile", map[string]string{"V": "2", "UNUSED": "3"})
	o := fromSource(s)
	o.Go = goCommand(t)
	f := &fakeImages{images: map[string]map[string]string{}}
	if _, err := EnsureImage(context.Background(), f, o); err != nil {
		t.Fatal(err)
	}
	if len(f.options.BuildArgs) != 1 || *f.options.BuildArgs["V"] != "2" || string(f.context["a"].data) != "a" {
		t.Errorf("options %+v, context %v", f.options, f.context)
	}
}

func TestNoCacheBuildsWhatExists(t *testing.T) {
	s := source(t, ownContext(), "templates/image/Dockerfile", nil)
	o := fromSource(s)
	o.NoCache = true
	f := &fakeImages{images: map[string]map[string]string{o.Choice.Ref: nil}}
	r, err := EnsureImage(context.Background(), f, o)
	if err != nil || !r.Built || !f.options.NoCache {
		t.Errorf("result = %+v, %v, options %+v", r, err, f.options)
	}
}

func TestFailedBuildSaysTheLastLines(t *testing.T) {
	s := source(t, ownContext(), "templates/image/Dockerfile", nil)
	var stream []string
	for i := range 50 {
		b, _ := json.Marshal(map[string]string{"stream": fmt.Sprintf("line %d\n", i)})
		stream = append(stream, string(b))
	}
	stream = append(stream, `{"errorDetail":{"message":"RUN returned 1"},"error":"RUN returned 1"}`)
	f := &fakeImages{images: map[string]map[string]string{s.Bases[0].Image: nil}, stream: stream}
	_, err := EnsureImage(context.Background(), f, fromSource(s))
	var ie *ImageError
	if !errors.As(err, &ie) {
		t.Fatalf("error = %v (%T), want an *ImageError", err, err)
	}
	if ie.Op != "build" || len(ie.Lines) != tailLines || ie.Lines[tailLines-1] != "line 49" || !strings.Contains(err.Error(), "RUN returned 1; its last lines:\n  line 30\n") {
		t.Errorf("error = %v", err)
	}
}

func TestSourceThatDoesNotCompileSaysTheCompilersLines(t *testing.T) {
	fsys := ownContext()
	fsys["server/cmd/ctis-server/main.go"].Data = []byte("package main\n\nfunc main() { undefined() }\n")
	o := fromSource(source(t, fsys, "templates/image/Dockerfile", nil))
	o.Go, o.Environ = goCommand(t), os.Environ()
	f := &fakeImages{images: map[string]map[string]string{}}
	_, err := EnsureImage(context.Background(), f, o)
	var ie *ImageError
	if !errors.As(err, &ie) || !strings.Contains(err.Error(), "main.go:3:15: undefined: undefined") {
		t.Errorf("error = %v, want the compiler's", err)
	}
	if slices.ContainsFunc(f.asked, func(s string) bool { return strings.HasPrefix(s, "build") }) {
		t.Error("the engine was asked to build")
	}
}

func TestSourceThatChangesWhileItIsBuiltMakesNoImage(t *testing.T) {
	for _, here := range []bool{true, false} {
		fsys := ownContext()
		o := fromSource(source(t, fsys, "templates/image/Dockerfile", nil))
		if here {
			o.Go, o.Environ = goCommand(t), os.Environ()
		}
		fsys["server/words/hello.txt"].Data = []byte("hallo")
		f := &fakeImages{images: map[string]map[string]string{}}
		_, err := EnsureImage(context.Background(), f, o)
		var ce *imagehash.ChangedInputError
		if _, made := f.images[o.Choice.Ref]; !errors.As(err, &ce) || ce.Path != "server/words/hello.txt" || made {
			t.Errorf("compiled here %v: error = %v with images %v", here, err, f.images)
		}
	}
}

func TestOverriddenImageIsPulledOnlyWhenItsPolicySays(t *testing.T) {
	const latest = imagehash.Repository + ":latest"
	tests := []struct {
		name    string
		choice  imagehash.Choice
		present bool
		pullErr error
		asked   string
		fails   string
	}{
		{"by name, present", imagehash.Resolve("mine:1", "", false, ""), true, nil, "inspect mine:1", ""},
		{"by name, absent", imagehash.Resolve("mine:1", "", false, ""), false, nil, "inspect mine:1, pull mine:1, inspect mine:1", ""},
		{"by name, absent everywhere", imagehash.Resolve("mine:1", "", false, ""), false, errors.New("manifest unknown"), "inspect mine:1, pull mine:1",
			`pull of image "mine:1" failed: manifest unknown`},
		{"latest is always pulled", imagehash.Resolve("", "", true, ""), true, nil, "inspect " + latest + ", pull " + latest + ", inspect " + latest, ""},
		{"latest without a way out", imagehash.Resolve("", "", true, ""), true, errors.New("no route"), "inspect " + latest + ", pull " + latest, ""},
		{"latest without a way out, absent", imagehash.Resolve("", "", true, ""), false, errors.New("no route"), "inspect " + latest + ", pull " + latest,
			`pull of image "` + latest + `" failed: no route`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := &fakeImages{images: map[string]map[string]string{}, pullErr: tt.pullErr}
			if tt.present {
				f.images[tt.choice.Ref] = nil
			}
			_, err := EnsureImage(context.Background(), f, ImageOptions{Choice: tt.choice})
			if got := strings.Join(f.asked, ", "); got != tt.asked {
				t.Errorf("engine was asked %s, want %s", got, tt.asked)
			}
			if got := fmt.Sprint(err); tt.fails != "" && got != tt.fails || tt.fails == "" && err != nil {
				t.Errorf("error = %v, want %q", err, tt.fails)
			}
		})
	}
}

func TestImageOfAnotherReleaseIsRefused(t *testing.T) {
	for label, want := range map[string]string{
		strconv.Itoa(api.Protocol + 1): fmt.Sprintf(`image "mine:1" speaks version %d of the administrative interface and this ctis version %d; use an image and a ctis of one release`, api.Protocol+1, api.Protocol),
		"new":                          `image "mine:1": label io.ctis.protocol="new" is no version`,
	} {
		f := &fakeImages{images: map[string]map[string]string{"mine:1": {LabelProtocol: label}}}
		_, err := EnsureImage(context.Background(), f, ImageOptions{Choice: imagehash.Resolve("mine:1", "", false, "")})
		if err == nil || err.Error() != want {
			t.Errorf("error = %v, want %s", err, want)
		}
	}
}

func TestPullTellsEveryChangeOfStatusOnce(t *testing.T) {
	var said []string
	o, err := follow(strings.NewReader(`{"status":"Pulling from x","id":"1"}
{"status":"Downloading","id":"a","progressDetail":{"current":1}}
{"status":"Downloading","id":"a","progressDetail":{"current":2}}
{"status":"Downloading","id":"b"}
{"status":"Done","id":"a"}
{"aux":{"ID":"x"}}
{"status":"Status: Downloaded"}`), func(s string) { said = append(said, s) })
	want := []string{"1: Pulling from x", "a: Downloading", "b: Downloading", "a: Done", "Status: Downloaded"}
	if err != nil || !slices.Equal(said, want) || !slices.Equal(o.lines, want) || o.id != "x" {
		t.Errorf("said %q, kept %+v, %v; want %q", said, o, err, want)
	}
}

func TestAnswerThatBreaksOffIsAnError(t *testing.T) {
	if _, err := follow(strings.NewReader(`{"stream":"Step 1`), nil); err == nil {
		t.Error("a broken stream is taken for a good end")
	}
}

func TestGoIsNeverTakenFromTheCurrentDirectory(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "go"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	if got := FindGo(".:" + string(filepath.ListSeparator)); got == "go" || strings.HasPrefix(got, ".") || got == filepath.Join(dir, "go") {
		t.Errorf("FindGo = %q", got)
	}
	if got, want := FindGo("/nowhere:"+dir), filepath.Join(dir, "go"); got != want {
		t.Errorf("FindGo = %q, want %q", got, want)
	}
}

// The two ways to an image must not drift apart.
func TestDockerfileCompilesTheServerAsTheHostDoes(t *testing.T) {
	s := source(t, os.DirFS(".."), "templates/image/Dockerfile", nil)
	if !hasServer(s) {
		t.Error("the Dockerfile's inputs do not have the server")
	}
	if _, ok := s.FinalStage(); !ok {
		t.Error("the Dockerfile's last stage cannot be used without its others")
	}
	text, err := os.ReadFile("../templates/image/Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{
		fmt.Sprintf(`printf 'module %s\n\ngo %s\n' > go.mod`, goModule, goVersion),
		fmt.Sprintf(`go build -trimpath -ldflags "%s" -o /out%s %s`, goLDFlags, serverBinary, goPackage),
		"CGO_ENABLED=0 GOFLAGS=-mod=mod GOTOOLCHAIN=local",
		"mkdir -p /out" + stateDir + " /out" + runtimeDir + "\n",
		fmt.Sprintf("--chown=%d:%d /out/ /", serverUser, serverUser),
		fmt.Sprintf("%s=%q", LabelProtocol, fmt.Sprint(api.Protocol)),
	} {
		if !strings.Contains(string(text), part) {
			t.Errorf("the Dockerfile does not say %s", part)
		}
	}
}

func TestNothingTheServerIsBuiltFromIsExecutable(t *testing.T) {
	// The copy inside the ctis binary has no executable bits, and must have the
	// hash of a checkout.
	for _, in := range source(t, os.DirFS(".."), "templates/image/Dockerfile", nil).All() {
		if in.Exec {
			t.Errorf("%s is executable", in.Path)
		}
	}
}
