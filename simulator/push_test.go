package simulator

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/registry"
	"github.com/docker/docker/api/types/system"
	"github.com/docker/docker/client"

	"github.com/linuxarena/ctis/imagehash"
)

// fakePusher is an engine with one image, as far as pushing goes.
type fakePusher struct {
	names  map[string]bool
	pushed string
	auth   registry.AuthConfig
	says   string
}

func (f *fakePusher) Info(context.Context) (system.Info, error) {
	return system.Info{IndexServerAddress: "https://index.example/v1/"}, nil
}

func (f *fakePusher) ImageInspect(_ context.Context, ref string, _ ...client.ImageInspectOption) (image.InspectResponse, error) {
	if !f.names[ref] {
		return image.InspectResponse{}, cerrdefs.ErrNotFound
	}
	return image.InspectResponse{ID: "sha256:1"}, nil
}

func (f *fakePusher) ImageTag(_ context.Context, source, target string) error {
	if !f.names[source] {
		return cerrdefs.ErrNotFound
	}
	f.names[target] = true
	return nil
}

func (f *fakePusher) ImageRemove(_ context.Context, ref string, _ image.RemoveOptions) ([]image.DeleteResponse, error) {
	delete(f.names, ref)
	return nil, nil
}

func (f *fakePusher) ImagePush(_ context.Context, ref string, o image.PushOptions) (io.ReadCloser, error) {
	if !f.names[ref] {
		return nil, cerrdefs.ErrNotFound
	}
	f.pushed = ref
	raw, err := base64.URLEncoding.DecodeString(o.RegistryAuth)
	if err != nil {
		return nil, err
	}
	return io.NopCloser(strings.NewReader(f.says)), json.Unmarshal(raw, &f.auth)
}

func TestImageIsPushedToWhereItIsToGo(t *testing.T) {
	ref := imagehash.Tag("0123456789abcdef")
	for _, c := range []struct {
		registry, key, want string
		names               []string // left afterwards
	}{
		{"", "https://index.example/v1/", ref, []string{ref}},
		{"localhost:5000", "localhost:5000", "localhost:5000/" + ref, []string{ref}},
		{"registry.example/team", "registry.example", "registry.example/team/" + ref, []string{ref}},
		{"kept.example", "kept.example", "kept.example/" + ref, []string{"kept.example/" + ref, ref}},
	} {
		f := &fakePusher{names: map[string]bool{ref: true}, says: `{"status":"Pushed","id":"l1"}{"aux":{"Digest":"sha256:d","Tag":"x","Size":1}}`}
		if strings.HasPrefix(c.registry, "kept.") {
			f.names[c.want] = true // the user's own
		}
		asked := ""
		p, err := PushImage(t.Context(), f, ref, PushOptions{Registry: c.registry, Credentials: func(key string) (Credentials, error) {
			asked = key
			return Credentials{Username: "me", Password: "secret"}, nil
		}})
		if err != nil || p.Ref != c.want || p.Digest != "sha256:d" || f.pushed != c.want || asked != c.key || f.auth.Username != "me" || f.auth.Password != "secret" {
			t.Errorf("to %q: %+v, %v; pushed %q with %+v for %q", c.registry, p, err, f.pushed, f.auth, asked)
		}
		var names []string
		for n := range f.names {
			names = append(names, n)
		}
		slices.Sort(names)
		if !slices.Equal(names, c.names) {
			t.Errorf("to %q: names left are %q", c.registry, names)
		}
	}
}

func TestFailedPushSaysWhyAndLeavesNoName(t *testing.T) {
	ref := imagehash.Tag("0123456789abcdef")
	f := &fakePusher{names: map[string]bool{ref: true}, says: `{"status":"Preparing","id":"l1"}{"errorDetail":{"message":"denied: requested access"},"error":"denied"}`}
	_, err := PushImage(t.Context(), f, ref, PushOptions{Registry: "localhost:5000"})
	var ie *ImageError
	if !errors.As(err, &ie) || ie.Op != "push" || !strings.Contains(err.Error(), "denied: requested access") || !strings.Contains(ie.Hint(), "docker login") {
		t.Errorf("error = %v", err)
	}
	if len(f.names) != 1 {
		t.Errorf("names left are %v", f.names)
	}
	_, err = PushImage(t.Context(), f, ref, PushOptions{Registry: "localhost:5000", Credentials: func(string) (Credentials, error) {
		return Credentials{}, fmt.Errorf("helper broken")
	}})
	if err == nil || !strings.Contains(err.Error(), "helper broken") {
		t.Errorf("error = %v", err)
	}
}

func TestRegistryMustBeAHost(t *testing.T) {
	for registry, ok := range map[string]bool{"": true, "localhost": true, "localhost:5000": true, "registry.example": true, "registry.example:443/a/b": true, "team": false, "team/x": false, "https://registry.example": false, "Registry.example/UPPER": false} {
		if _, err := ParseRegistry(registry, imagehash.Tag("0")); (err == nil) != ok {
			t.Errorf("%q: %v", registry, err)
		}
	}
}
