package simulator

import (
	"context"
	"fmt"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/distribution/reference"
	"github.com/docker/docker/api/types/registry"
	"github.com/docker/docker/api/types/system"

	"github.com/linuxarena/ctis/imagehash"
)

// Credentials are what a registry is told.
type Credentials struct{ Username, Password, Auth, ServerAddress, IdentityToken, RegistryToken string }

// FindCredentials finds those for a registry, by the key that Docker's configuration
// keeps them under. None is no error.
type FindCredentials func(key string) (Credentials, error)

// informed is an engine that tells its registry.
type informed interface {
	Info(ctx context.Context) (system.Info, error)
}

// registryKey is what Docker's configuration calls the registry of a name. The one
// that names without a host mean goes by the address the engine tells.
func registryKey(ctx context.Context, eng informed, named reference.Named) (string, error) {
	key := reference.Domain(named)
	if usual, err := reference.ParseNormalizedNamed("usual"); err == nil && reference.Domain(usual) == key {
		info, err := eng.Info(ctx)
		if err != nil {
			return "", fmt.Errorf("ask the engine for its registry: %w", err)
		}
		key = info.IndexServerAddress
	}
	return key, nil
}

// credentialsOf finds what the registry of a name is told.
func credentialsOf(ctx context.Context, eng informed, named reference.Named, find FindCredentials) (key string, auth registry.AuthConfig, err error) {
	if find == nil {
		return "", registry.AuthConfig{}, nil
	}
	if key, err = registryKey(ctx, eng, named); err != nil {
		return "", registry.AuthConfig{}, err
	}
	c, err := find(key)
	if err != nil {
		return "", registry.AuthConfig{}, fmt.Errorf("credentials for %q: %w", key, err)
	}
	return key, registry.AuthConfig{
		Username: c.Username, Password: c.Password, Auth: c.Auth, ServerAddress: c.ServerAddress,
		IdentityToken: c.IdentityToken, RegistryToken: c.RegistryToken,
	}, nil
}

// RegistryAuth is how the engine is told the credentials for an image's registry; ""
// where there are none, or none that can be had.
func RegistryAuth(ctx context.Context, eng ImageEngine, ref string, find FindCredentials) string {
	return pullCredentials(ctx, eng, ref, ImageOptions{Credentials: find, Progress: func(string) {}})
}

// pullCredentials are those that an image is pulled with; "" for none. Most images
// can be pulled without, so what is in the way of finding them is said and no more.
func pullCredentials(ctx context.Context, eng informed, ref string, o ImageOptions) string {
	named, err := reference.ParseNormalizedNamed(ref)
	if err != nil {
		return "" // the engine says what is wrong with it
	}
	_, auth, err := credentialsOf(ctx, eng, named, o.Credentials)
	if err == nil && auth == (registry.AuthConfig{}) {
		return ""
	}
	encoded := ""
	if err == nil {
		encoded, err = registry.EncodeAuthConfig(auth)
	}
	if err != nil {
		o.Progress(fmt.Sprintf("pulling %s without credentials: %v", ref, err))
		return ""
	}
	return encoded
}

// buildCredentials are those that the engine's classic builder may need for images
// that are copied from and are not here: what a stage is built on has been pulled.
func buildCredentials(ctx context.Context, eng ImageEngine, o ImageOptions) map[string]registry.AuthConfig {
	found := map[string]registry.AuthConfig{}
	for _, r := range o.Source.Remote {
		named, err := reference.ParseNormalizedNamed(r.Source)
		if r.Kind != imagehash.RemoteImage || err != nil {
			continue
		}
		if _, err := eng.ImageInspect(ctx, r.Source); !cerrdefs.IsNotFound(err) {
			continue
		}
		key, auth, err := credentialsOf(ctx, eng, named, o.Credentials)
		switch {
		case err != nil:
			o.Progress(fmt.Sprintf("pulling %s without credentials: %v", r.Source, err))
		case auth != registry.AuthConfig{}:
			found[key] = auth
		}
	}
	return found
}
