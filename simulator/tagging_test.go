package simulator

import (
	"bytes"
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/docker/docker/api/types/build"

	"github.com/linuxarena/ctis/imagehash"
)

// custom is a context with a Dockerfile that is not ctis's own.
func custom(t *testing.T, dockerfile string) ImageOptions {
	t.Helper()
	return fromSource(source(t, fstest.MapFS{"Dockerfile": {Data: []byte(dockerfile)}, "a": {Data: []byte("a")}}, "Dockerfile", nil))
}

const plainDockerfile = "FROM scratch\nCOPY a /a\n"

func TestImageHasItsTagOnlyWhenItIsWhole(t *testing.T) {
	o := custom(t, plainDockerfile)
	f := &fakeImages{images: map[string]map[string]string{}}
	r, err := EnsureImage(t.Context(), f, o)
	if err != nil || !r.Built || r.ID != "sha256:built1" {
		t.Fatalf("%+v, %v", r, err)
	}
	if len(f.options.Tags) > 0 {
		t.Errorf("the builder is told to tag: %q", f.options.Tags)
	}
	if left := f.untagged(); len(left) > 0 {
		t.Errorf("left without a tag are %q", left)
	}
}

func TestTheFirstOfTwoBuildersWinsAndTheOtherLeavesNothing(t *testing.T) {
	o := custom(t, plainDockerfile)
	f := &fakeImages{images: map[string]map[string]string{}}
	// The other one builds and tags all of it while this one builds.
	o.Progress = func(string) {
		if f.next == 1 {
			quiet := o
			quiet.Progress = nil
			if r, err := EnsureImage(t.Context(), f, quiet); err != nil || !r.Built {
				t.Errorf("the other: %+v, %v", r, err)
			}
		}
	}
	r, err := EnsureImage(t.Context(), f, o)
	if err != nil || r.Built || r.ID != f.ids[o.Choice.Ref] {
		t.Errorf("%+v, %v; the tag is of %s", r, err, f.ids[o.Choice.Ref])
	}
	if left := f.untagged(); len(left) > 0 || f.next != 2 {
		t.Errorf("of %d images left without a tag are %q", f.next, left)
	}
}

func TestImageTakenForLeftOverIsNoFailure(t *testing.T) {
	o := custom(t, plainDockerfile)
	f := &fakeImages{images: map[string]map[string]string{}}
	// At the last moment the other one tags its own and somebody clears this one away.
	f.onTag = func(id, ref string) {
		f.onTag = nil
		other := o
		if r, err := EnsureImage(t.Context(), f, other); err != nil || !r.Built {
			t.Errorf("the other: %+v, %v", r, err)
		}
		if !slices.Contains(f.untagged(), id) {
			t.Error("the other took away what this one is about to tag")
		}
		delete(f.built, id)
	}
	r, err := EnsureImage(t.Context(), f, o)
	if err != nil || r.Built || r.ID != "sha256:built2" {
		t.Errorf("%+v, %v", r, err)
	}
	// Somebody clears away what is built, again and again.
	f = &fakeImages{images: map[string]map[string]string{}}
	f.onTag = func(id, _ string) { delete(f.built, id) }
	var ie *ImageError
	if _, err := EnsureImage(t.Context(), f, o); !errors.As(err, &ie) || f.next != tagAttempts {
		t.Errorf("after %d builds: %v", f.next, err)
	}
}

// A build removes what it made itself, and nothing else with its label: that may be
// somebody's own, or another process's that is about to be tagged.
func TestABuildRemovesNoImageOfOthers(t *testing.T) {
	o := custom(t, plainDockerfile)
	f := &fakeImages{images: map[string]map[string]string{}, built: map[string]map[string]string{"sha256:other": {LabelHash: o.Choice.Hash}}}
	for n := range 2 {
		o.NoCache = n == 1
		if r, err := EnsureImage(t.Context(), f, o); err != nil || !r.Built {
			t.Fatalf("%+v, %v", r, err)
		}
	}
	if left := f.untagged(); !slices.Equal(left, []string{"sha256:other"}) {
		t.Errorf("left are %q", left)
	}
}

// TestTagThatAnotherGivesAtTheSameMomentIsNoFailure: engines with the containerd image
// store fail one of the two, and it may be either.
func TestTagThatAnotherGivesAtTheSameMomentIsNoFailure(t *testing.T) {
	for name, c := range map[string]struct {
		noCache, other bool
		built          bool
		tagged         string
	}{
		"the other's stays":               {other: true, tagged: "sha256:other"},
		"nobody has it after all":         {built: true, tagged: "sha256:built1"},
		"without the cache, the last has": {noCache: true, other: true, built: true, tagged: "sha256:built1"},
	} {
		o := custom(t, plainDockerfile)
		o.NoCache = c.noCache
		f := &fakeImages{images: map[string]map[string]string{}, built: map[string]map[string]string{"sha256:other": {LabelHash: o.Choice.Hash}}}
		f.tagErr = func(ref string) error {
			f.tagErr = nil
			if c.other {
				f.images[ref], f.ids = f.built["sha256:other"], map[string]string{ref: "sha256:other"}
			}
			return errors.New("failed to create an image after deleting the existing one: already exists")
		}
		r, err := EnsureImage(t.Context(), f, o)
		if err != nil || r.Built != c.built || f.ids[o.Choice.Ref] != c.tagged {
			t.Errorf("%s: %+v, %v; the tag is of %q", name, r, err, f.ids[o.Choice.Ref])
		}
	}
}

// A tag is reused for ever, so an image that ctis then refuses must not get it.
func TestImageOfAnotherProtocolGetsNoTag(t *testing.T) {
	o := custom(t, plainDockerfile)
	for _, label := range []string{"99", "x"} {
		f := &fakeImages{images: map[string]map[string]string{}, labels: map[string]string{LabelProtocol: label}}
		_, err := EnsureImage(t.Context(), f, o)
		if err == nil || len(f.images) > 0 || len(f.built) > 0 {
			t.Errorf("%s: %v; tagged %v, left %v", label, err, f.images, f.built)
		}
	}
}

func TestNoCacheTakesTheTagAndClearsTheEarlierImage(t *testing.T) {
	o := custom(t, plainDockerfile)
	f := &fakeImages{images: map[string]map[string]string{}}
	for n := range 2 {
		o.NoCache = n == 1
		if r, err := EnsureImage(t.Context(), f, o); err != nil || !r.Built {
			t.Fatalf("%+v, %v", r, err)
		}
	}
	if left := f.untagged(); len(left) > 0 || f.ids[o.Choice.Ref] != "sha256:built2" {
		t.Errorf("the tag is of %s, left are %q", f.ids[o.Choice.Ref], left)
	}
}

func TestEngineThatDoesNotSayWhatItBuiltIsAnError(t *testing.T) {
	f := &fakeImages{images: map[string]map[string]string{}, stream: []string{`{"stream":"done\n"}`}}
	var ie *ImageError
	if _, err := EnsureImage(t.Context(), f, custom(t, plainDockerfile)); !errors.As(err, &ie) || !strings.Contains(err.Error(), "does not say") {
		t.Errorf("error = %v", err)
	}
}

// TestOnlyTheBuildStageThatIsKnownIsDoneHere: what another says must be done.
func TestOnlyTheBuildStageThatIsKnownIsDoneHere(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(text string) string
		args   map[string]string
		here   bool
	}{
		{"as it is", func(s string) string { return s }, nil, true},
		{"another base", func(s string) string { return strings.Replace(s, "golang:", "mirror/golang:", 1) }, nil, true},
		{"another last stage", func(s string) string { return strings.Replace(s, "STOPSIGNAL SIGTERM", "STOPSIGNAL SIGINT", 1) }, nil, true},
		{"other flags", func(s string) string {
			return strings.Replace(s, "go build -trimpath", "go build -tags x -trimpath", 1)
		}, nil, false},
		{"one more step", func(s string) string {
			return strings.Replace(s, "\nFROM scratch", "RUN touch /out/etc\n\nFROM scratch", 1)
		}, nil, false},
		{"a build argument", func(s string) string { return s }, map[string]string{"GO_IMAGE": "mine:1"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			fsys := ownContext()
			fsys["templates/image/Dockerfile"] = &fstest.MapFile{Data: []byte(c.change(ownDockerfile))}
			o := fromSource(source(t, fsys, "templates/image/Dockerfile", c.args))
			o.Go, o.Environ = goCommand(t), os.Environ()
			f := &fakeImages{images: map[string]map[string]string{}}
			if _, err := EnsureImage(t.Context(), f, o); err != nil {
				t.Fatal(err)
			}
			if _, here := f.context["out/ctis-server"]; here != c.here || f.options.Version != build.BuilderV1 {
				t.Errorf("compiled here: %v", here)
			}
			for name, value := range c.args {
				if p := f.options.BuildArgs[name]; p == nil || *p != value {
					t.Errorf("build argument %s is %v", name, p)
				}
			}
		})
	}
}

func TestDockerfileThatNeedsBuildKitIsRefusedBeforeItIsBuilt(t *testing.T) {
	o := custom(t, "FROM scratch\nCOPY --link a /a\nRUN --mount=type=cache,target=/c true\n")
	f := &fakeImages{images: map[string]map[string]string{}}
	_, err := EnsureImage(t.Context(), f, o)
	var needs *NeedsBuildKitError
	if !errors.As(err, &needs) || len(needs.Needs) != 2 || f.next > 0 {
		t.Fatalf("error = %v after %d builds", err, f.next)
	}
	if want := "the Dockerfile needs BuildKit, and the docker command here has no buildx plugin:\n  Dockerfile:2: COPY --link\n  Dockerfile:3: RUN --mount"; err.Error() != want {
		t.Errorf("error = %q", err)
	}
}

// withBuildKit makes a docker command whose plugin keeps what it was told and given
// below dir, and ends as script says.
func withBuildKit(t *testing.T, o *ImageOptions, f *fakeImages, script string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	docker := dir + "/docker"
	text := `#!/bin/sh
[ "$2" = version ] && exit ` + "${NO_PLUGIN:-0}" + `
printf '%s\n' "$@" >` + dir + `/args
env >` + dir + `/env
for a in "$@"; do case $prev in --iidfile) id=$a;; esac; prev=$a; done
cp -a "$prev" ` + dir + `/context
` + script + "\n"
	if err := os.WriteFile(docker, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	o.BuildKit = func(ctx context.Context) *BuildKit {
		return FindBuildKit(ctx, BuildKit{Docker: docker, Environ: append(o.Environ, "PATH="+os.Getenv("PATH"), "BUILDX_BUILDER=far-away"), Builder: "default"})
	}
	if f.built == nil {
		f.built = map[string]map[string]string{}
	}
	return dir
}

func TestBuildKitGetsExactlyWhatWasHashed(t *testing.T) {
	fsys := fstest.MapFS{
		"Dockerfile": {Data: []byte("FROM scratch AS one\nARG V\nCOPY --link dir /dir\nFROM scratch\n")},
		"dir/run":    {Data: []byte("#!/bin/sh\n"), Mode: 0o755},
		"dir/text":   {Data: []byte("text"), Mode: 0o600},
		"dir/link":   {Data: []byte("text"), Mode: 0o777 | os.ModeSymlink},
		"stranger":   {Data: []byte("no")},
	}
	in, err := imagehash.Read(t.Context(), fsys, imagehash.Options{Dockerfile: "Dockerfile", Args: map[string]string{"V": "a b"}, Target: "one"})
	if err != nil {
		t.Fatal(err)
	}
	s, err := in.Sum(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	o := fromSource(s)
	o.NoCache = true
	f := &fakeImages{images: map[string]map[string]string{}}
	dir := withBuildKit(t, &o, f, `printf sha256:made >"$id"; echo "#1 done" >&2`)
	f.images["sha256:made"], f.built["sha256:made"] = map[string]string{LabelHash: s.Hash}, map[string]string{LabelHash: s.Hash}
	f.ids = map[string]string{"sha256:made": "sha256:made"}
	var said []string
	o.Progress = func(line string) { said = append(said, line) }
	r, err := EnsureImage(t.Context(), f, o)
	if err != nil || !r.Built || r.ID != "sha256:made" {
		t.Fatalf("%+v, %v", r, err)
	}
	args, env := slurp(t, dir+"/args"), slurp(t, dir+"/env")
	for _, want := range []string{"buildx\nbuild\n--builder\ndefault\n--load\n", "\n--label\n" + LabelHash + "=" + s.Hash + "\n", "\n--build-arg\nV=a b\n", "\n--target\none\n", "\n--no-cache\n"} {
		if !strings.Contains(args, want) {
			t.Errorf("the plugin is told %q, without %q", args, want)
		}
	}
	if strings.Contains(args, "--tag") || strings.Contains(args, "\n-t\n") {
		t.Error("the plugin is told to tag")
	}
	if !strings.Contains(env, "BUILDX_NO_DEFAULT_ATTESTATIONS=1\n") || strings.Contains(env, "far-away") {
		t.Errorf("environment %q", env)
	}
	for name, mode := range map[string]os.FileMode{"dir": 0o755 | os.ModeDir, "dir/run": 0o755, "dir/text": 0o644, "dir/link": 0o777 | os.ModeSymlink, "Dockerfile": 0o644} {
		fi, err := os.Lstat(dir + "/context/" + name)
		if err != nil || fi.Mode() != mode || mode&os.ModeSymlink == 0 && fi.ModTime().Unix() != 0 {
			t.Errorf("%s: %v, %v", name, fi, err)
		}
	}
	if _, err := os.Lstat(dir + "/context/stranger"); err == nil {
		t.Error("the context has what is no input")
	}
	if !slices.Contains(said, "#1 done") || f.next > 0 {
		t.Errorf("said %q; the classic builder built %d", said, f.next)
	}
}

func TestBuildKitThatFailsSaysItsLastLines(t *testing.T) {
	o := custom(t, plainDockerfile)
	f := &fakeImages{images: map[string]map[string]string{}}
	withBuildKit(t, &o, f, "echo 'ERROR: no such thing' >&2; exit 1")
	var ie *ImageError
	if _, err := EnsureImage(t.Context(), f, o); !errors.As(err, &ie) || !slices.Equal(ie.Lines, []string{"ERROR: no such thing"}) || f.next > 0 {
		t.Errorf("error = %v", err)
	}
}

func TestWithoutThePluginTheClassicBuilderBuilds(t *testing.T) {
	o := custom(t, plainDockerfile)
	o.Environ = []string{"NO_PLUGIN=1"}
	f := &fakeImages{images: map[string]map[string]string{}}
	withBuildKit(t, &o, f, "exit 1")
	if r, err := EnsureImage(t.Context(), f, o); err != nil || !r.Built || f.next != 1 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestSourceThatChangesIsNotHandedToBuildKit(t *testing.T) {
	fsys := fstest.MapFS{"Dockerfile": {Data: []byte(plainDockerfile)}, "a": {Data: []byte("a")}}
	o := fromSource(source(t, fsys, "Dockerfile", nil))
	f := &fakeImages{images: map[string]map[string]string{}}
	dir := withBuildKit(t, &o, f, "exit 1")
	fsys["a"] = &fstest.MapFile{Data: []byte("b")}
	var changed *imagehash.ChangedInputError
	if _, err := EnsureImage(t.Context(), f, o); !errors.As(err, &changed) {
		t.Errorf("error = %v", err)
	}
	if _, err := os.Stat(dir + "/args"); err == nil {
		t.Error("it was built")
	}
}

func slurp(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(bytes.TrimLeft(b, "\n"))
}
