package simulator

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/registry"

	"github.com/linuxarena/ctis/imagehash"
)

// keyring finds the credentials of some registries and notes which were asked for.
type keyring struct {
	known map[string]Credentials
	err   error
	asked []string
}

func (k *keyring) find(key string) (Credentials, error) {
	k.asked = append(k.asked, key)
	return k.known[key], k.err
}

func decoded(t *testing.T, auth string) (c registry.AuthConfig) {
	t.Helper()
	raw, err := base64.URLEncoding.DecodeString(auth)
	if err == nil {
		err = json.Unmarshal(raw, &c)
	}
	if err != nil {
		t.Errorf("credentials %q: %v", auth, err)
	}
	return c
}

// TestImagesArePulledWithTheCredentialsOfTheirRegistry: the image that is named, and
// the base of one that is built.
func TestImagesArePulledWithTheCredentialsOfTheirRegistry(t *testing.T) {
	me := Credentials{Username: "me", Password: "secret"}
	for ref, key := range map[string]string{"private.example:5000/team/base:1": "private.example:5000", "team/base": usualRegistry} {
		for way, o := range map[string]ImageOptions{
			"named": {Choice: imagehash.Resolve(ref, "", false, "")},
			"base":  fromSource(dockerfileSource(t, "FROM "+ref+"\nCOPY a /\n", imagehash.Options{})),
		} {
			f, keys := &fakeImages{images: map[string]map[string]string{}}, &keyring{known: map[string]Credentials{key: me}}
			o.Credentials = keys.find
			if _, err := EnsureImage(context.Background(), f, o); err != nil {
				t.Fatalf("%s %s: %v", way, ref, err)
			}
			if got := decoded(t, f.pulledWith); got.Username != me.Username || got.Password != me.Password || !slices.Equal(keys.asked, []string{key}) {
				t.Errorf("%s %s: pulled with %+v, asked for %q", way, ref, got, keys.asked)
			}
		}
	}
}

func TestWithoutCredentialsAnImageIsPulledAllTheSame(t *testing.T) {
	for name, keys := range map[string]*keyring{"none": {}, "a broken helper": {err: errors.New("helper broken")}} {
		f := &fakeImages{images: map[string]map[string]string{}}
		o := fromSource(dockerfileSource(t, "FROM private.example/base\nCOPY a /\n", imagehash.Options{}))
		var said []string
		o.Credentials, o.Progress = keys.find, func(line string) { said = append(said, line) }
		if _, err := EnsureImage(context.Background(), f, o); err != nil || f.pulledWith != "" {
			t.Errorf("%s: pulled with %q, %v", name, f.pulledWith, err)
		}
		const want = `pulling private.example/base without credentials: credentials for "private.example": helper broken`
		if slices.Contains(said, want) != (keys.err != nil) {
			t.Errorf("%s: said %q", name, strings.Join(said, "\n"))
		}
	}
}

// TestTheClassicBuilderGetsTheCredentialsItMayNeed, of images that are copied from
// and are not here, and no others.
func TestTheClassicBuilderGetsTheCredentialsItMayNeed(t *testing.T) {
	keys := &keyring{known: map[string]Credentials{"tools.example": {Username: "me"}, "here.example": {Username: "no"}, "unused.example": {Username: "no"}}}
	f := &fakeImages{images: map[string]map[string]string{"here.example/x": nil}}
	o := fromSource(dockerfileSource(t, "FROM scratch AS first\nFROM scratch\nCOPY --from=first / /\nCOPY --from=here.example/x / /\n"+
		"COPY --from=tools.example/t:1 / /\nCOPY --from=free.example/t / /\n", imagehash.Options{}))
	o.Credentials = keys.find
	if _, err := EnsureImage(context.Background(), f, o); err != nil {
		t.Fatal(err)
	}
	if got := f.options.AuthConfigs; len(got) != 1 || got["tools.example"].Username != "me" {
		t.Errorf("the builder got %+v", got)
	}
	if want := []string{"tools.example", "free.example"}; !slices.Equal(keys.asked, want) {
		t.Errorf("asked for %q, want %q", keys.asked, want)
	}
}
