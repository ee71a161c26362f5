package simulator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/client"

	"github.com/linuxarena/ctis/imagehash"
)

// baseImages is an image store whose images bring something with them.
type baseImages struct {
	*fakeImages
	onBuild, env []string
}

func (f baseImages) ImageInspect(ctx context.Context, ref string, opts ...client.ImageInspectOption) (image.InspectResponse, error) {
	r, err := f.fakeImages.ImageInspect(ctx, ref, opts...)
	if err == nil {
		r.Config.OnBuild, r.Config.Env = f.onBuild, f.env
	}
	return r, err
}

func dockerfileSource(t *testing.T, text string, o imagehash.Options) *imagehash.Sum {
	t.Helper()
	o.Dockerfile = "Dockerfile"
	in, err := imagehash.Read(t.Context(), fstest.MapFS{"Dockerfile": {Data: []byte(text)}, "a": {Data: []byte("a")}}, o)
	if err != nil {
		t.Fatal(err)
	}
	s, err := in.Sum(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestBaseImageThatCopiesByItselfIsRefused(t *testing.T) {
	for name, there := range map[string]map[string]map[string]string{"here": {"onb": nil}, "pulled": {}} {
		f := baseImages{&fakeImages{images: there}, []string{"RUN true", "COPY . /app/"}, nil}
		_, err := EnsureImage(context.Background(), f, fromSource(dockerfileSource(t, "# c\nFROM onb\nCOPY a /\n", imagehash.Options{})))
		var se *imagehash.SyntaxError
		if !errors.As(err, &se) || se.Line != 2 || !strings.Contains(err.Error(), `base image "onb" adds ONBUILD COPY . /app/`) {
			t.Errorf("%s: error = %v", name, err)
		}
		if slices.Contains(f.asked, "build") {
			t.Errorf("%s: it was built: %q", name, f.asked)
		}
	}
	f := baseImages{&fakeImages{images: map[string]map[string]string{"onb": nil}}, []string{"RUN true"}, nil}
	if _, err := EnsureImage(context.Background(), f, fromSource(dockerfileSource(t, "FROM onb\nCOPY a /\n", imagehash.Options{}))); err != nil {
		t.Errorf("with a trigger that reads nothing: %v", err)
	}
}

func TestBaseImageThatCannotBePulledIsNotBuiltOn(t *testing.T) {
	f := &fakeImages{images: map[string]map[string]string{}, pullErr: errors.New("no route")}
	_, err := EnsureImage(context.Background(), f, fromSource(dockerfileSource(t, "FROM gone\nCOPY a /\n", imagehash.Options{})))
	var ie *ImageError
	if !errors.As(err, &ie) || ie.Op != "pull" || ie.Ref != "gone" || slices.Contains(f.asked, "build") {
		t.Errorf("error = %v after %q", err, f.asked)
	}
}

func TestWhatTheClassicBuilderMakesOtherwiseIsRefused(t *testing.T) {
	engine, err := engineArch(context.Background(), &fakeImages{})
	if err != nil {
		t.Fatal(err)
	}
	own, other := "linux/"+engine, "linux/arm64"
	if engine == "arm64" {
		other = "linux/amd64"
	}
	for _, c := range []struct{ text, platform, want string }{
		{"FROM scratch\nCOPY a /\n", "", ""},
		{"FROM scratch\nCOPY a /\n", own, ""},
		{"FROM scratch\nCOPY a /\n", other, fmt.Sprintf("--platform %s on an engine for %s", other, own)},
		{"FROM base\nARG A=1\nRUN echo $A\n", "", `Dockerfile:2: ARG A, which base image "base" sets by ENV`},
		{"FROM base\nARG B=1\nRUN echo $B\n", "", ""},
		{"FROM scratch\nENV X=1\nARG X=2\n", "", "Dockerfile:3: ARG X below an ENV of that name"},
	} {
		f := baseImages{&fakeImages{images: map[string]map[string]string{"base": nil}}, nil, []string{"PATH=/bin", "A=2"}}
		_, err := EnsureImage(context.Background(), f, fromSource(dockerfileSource(t, c.text, imagehash.Options{Platform: c.platform})))
		var ne *NeedsBuildKitError
		if c.want == "" && err != nil || c.want != "" && (!errors.As(err, &ne) || !strings.HasSuffix(err.Error(), "\n  "+c.want)) {
			t.Errorf("%q for %q: error %v, want %q", c.text, c.platform, err, c.want)
		}
	}
}
