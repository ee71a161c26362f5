package images

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/build"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/client"
)

type fakeEngine struct {
	Engine
	tags   map[string]bool
	answer string
	builds int
	seen   []byte
}

func (f *fakeEngine) ImageInspect(_ context.Context, ref string, _ ...client.ImageInspectOption) (image.InspectResponse, error) {
	if !f.tags[ref] {
		return image.InspectResponse{}, errdefs.ErrNotFound
	}
	return image.InspectResponse{}, nil
}

func (f *fakeEngine) ImageBuild(_ context.Context, r io.Reader, o build.ImageBuildOptions) (build.ImageBuildResponse, error) {
	f.builds++
	var err error
	if f.seen, err = io.ReadAll(r); err != nil {
		return build.ImageBuildResponse{}, err
	}
	if !strings.Contains(f.answer, `"error"`) {
		f.tags[o.Tags[0]] = true
	}
	return build.ImageBuildResponse{Body: io.NopCloser(strings.NewReader(f.answer))}, nil
}

func TestAnImageIsBuiltOnceForTheSameProgram(t *testing.T) {
	eng := &fakeEngine{tags: map[string]bool{}, answer: `{"stream":"Step 1"}` + "\n"}
	first, err := Scratch(t.Context(), eng, Agent())
	if err != nil {
		t.Fatal(err)
	}
	again, err := Scratch(t.Context(), eng, Agent())
	if err != nil || again != first || eng.builds != 1 || !strings.HasPrefix(first, Repository+"agent:") {
		t.Errorf("%q, then %q after %d builds, %v", first, again, eng.builds, err)
	}
	other := Agent()
	other.Files = map[string]string{"/etc/motd": "hello"}
	other.Config = []string{"USER 1000"}
	if ref, err := Scratch(t.Context(), eng, other); err != nil || ref == first {
		t.Errorf("other inputs: %q, %v", ref, err)
	}
	var dockerfile string
	names := map[string]int64{}
	for tr := tar.NewReader(bytes.NewReader(eng.seen)); ; {
		h, err := tr.Next()
		if err != nil {
			break
		}
		names[h.Name] = h.Mode
		if h.Name == "Dockerfile" {
			text, _ := io.ReadAll(tr)
			dockerfile = string(text)
		}
	}
	if dockerfile != "FROM scratch\nCOPY rootfs/ /\nUSER 1000\nENTRYPOINT [\"/app\"]\n" || names["rootfs/app"] != 0o755 || names["rootfs/etc/motd"] != 0o644 {
		t.Errorf("%q, %v", dockerfile, names)
	}
}

func TestAFailedBuildSaysWhatTheBuilderSaid(t *testing.T) {
	eng := &fakeEngine{tags: map[string]bool{}, answer: `{"stream":"Step 2 : RUN false"}` + "\n" + `{"error":"returned a non-zero code: 1"}`}
	if _, err := Scratch(t.Context(), eng, Agent()); err == nil || !strings.Contains(err.Error(), "Step 2") || !strings.Contains(err.Error(), "non-zero") {
		t.Errorf("got %v", err)
	}
	eng.answer = `{"stream":"cut`
	if _, err := Scratch(t.Context(), eng, Agent()); err == nil {
		t.Error("messages that end early were taken for success")
	}
	if _, err := Scratch(t.Context(), eng, ScratchSpec{Name: "x", Package: "github.com/linuxarena/ctis/no/such"}); err == nil || !strings.Contains(err.Error(), "no/such") {
		t.Errorf("got %v", err)
	}
}

func TestImagesWorkOnARealEngine(t *testing.T) {
	if os.Getenv("CTIS_E2E") != "1" {
		t.Skip("needs a Docker engine: set CTIS_E2E=1")
	}
	eng, err := client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation())
	if err != nil {
		t.Fatal(err)
	}
	defer eng.Close()
	agent, err := Scratch(t.Context(), eng, Agent())
	if err != nil {
		t.Fatal(err)
	}
	debian, err := Debian(t.Context(), eng)
	if errors.Is(err, ErrNoDebootstrap) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, ref := range []string{agent, debian} {
		if ok, err := exists(t.Context(), eng, ref); err != nil || !ok {
			t.Errorf("%s: %t, %v", ref, ok, err)
		}
	}
	t.Logf("images %s and %s", agent, debian)
}
