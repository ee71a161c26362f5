package commands

import (
	"fmt"

	dockerconfig "github.com/docker/cli/cli/config"

	"github.com/linuxarena/ctis/simulator"
)

// registryCredentials finds what docker login keeps for a registry, in Docker's
// configuration or with the helper that it names. None is no error: a registry may
// want none.
func (a *app) registryCredentials(key string) (simulator.Credentials, error) {
	config, err := dockerconfig.Load(dockerConfigDir(a.env))
	if err != nil {
		return simulator.Credentials{}, fmt.Errorf("docker's configuration: %w", err)
	}
	c, err := config.GetAuthConfig(key)
	if err != nil {
		return simulator.Credentials{}, err
	}
	return simulator.Credentials{
		Username: c.Username, Password: c.Password, Auth: c.Auth, ServerAddress: c.ServerAddress,
		IdentityToken: c.IdentityToken, RegistryToken: c.RegistryToken,
	}, nil
}
