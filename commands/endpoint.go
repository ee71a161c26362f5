package commands

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	dockercontext "github.com/docker/cli/cli/context"
	"github.com/docker/cli/cli/context/store"
)

// defaultHost is where the engine listens when nothing says otherwise.
const defaultHost = "unix:///var/run/docker.sock"

// endpoint is the one engine that this run talks to. It is resolved once and
// handed to every child process explicitly, so that ctis and docker compose can
// never mean two different engines.
type endpoint struct {
	context string // name of the Docker context; "" when a host was given
	host    string // URL
	tlsDir  string // holds ca.pem, cert.pem, key.pem; "" for none
	verify  bool
	version string // DOCKER_API_VERSION
}

// resolveEndpoint follows the docker command's own order: an explicit host, an
// explicit context, DOCKER_HOST, DOCKER_CONTEXT, the current context.
func resolveEndpoint(flagHost, flagContext string, env map[string]string) (endpoint, error) {
	e := endpoint{version: env["DOCKER_API_VERSION"]}
	configDir := dockerConfigDir(env)
	name := flagContext
	if name == "" {
		if e.host = flagHost; e.host == "" {
			e.host = env["DOCKER_HOST"]
		}
		if e.host != "" {
			if env["DOCKER_TLS_VERIFY"] != "" || env["DOCKER_CERT_PATH"] != "" {
				if e.tlsDir = env["DOCKER_CERT_PATH"]; e.tlsDir == "" {
					e.tlsDir = configDir
				}
				e.verify = env["DOCKER_TLS_VERIFY"] != ""
			}
			return e, nil
		}
		if name = env["DOCKER_CONTEXT"]; name == "" {
			var err error
			if name, err = currentContext(configDir); err != nil {
				return e, err
			}
		}
	}
	if name == "" || name == "default" {
		e.host = defaultHost
		return e, nil
	}
	e.context = name
	contexts := store.New(filepath.Join(configDir, "contexts"), store.NewConfig(
		func() any { return &map[string]any{} },
		store.EndpointTypeGetter("docker", func() any { return &dockercontext.EndpointMetaBase{} }),
	))
	meta, err := contexts.GetMetadata(name)
	if err != nil {
		return e, fmt.Errorf("docker context %q: %w", name, err)
	}
	base, ok := meta.Endpoints["docker"].(dockercontext.EndpointMetaBase)
	if !ok || base.Host == "" {
		return e, fmt.Errorf("docker context %q names no engine", name)
	}
	e.host, e.verify = base.Host, !base.SkipTLSVerify
	tlsDir := filepath.Join(contexts.GetStorageInfo(name).TLSPath, "docker")
	if _, err := os.Stat(tlsDir); err == nil {
		e.tlsDir = tlsDir
	}
	return e, nil
}

// dockerConfigDir is where Docker's configuration is.
func dockerConfigDir(env map[string]string) string {
	if dir := env["DOCKER_CONFIG"]; dir != "" {
		return dir
	}
	return filepath.Join(env["HOME"], ".docker")
}

// currentContext reads the context chosen with `docker context use`.
func currentContext(configDir string) (string, error) {
	raw, err := os.ReadFile(filepath.Join(configDir, "config.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("docker's configuration cannot be read: %w", err)
	}
	var config struct {
		CurrentContext string `json:"currentContext"`
	}
	if err := json.Unmarshal(raw, &config); err != nil {
		return "", fmt.Errorf("docker's configuration %s: %w", filepath.Join(configDir, "config.json"), err)
	}
	return config.CurrentContext, nil
}

func (e endpoint) String() string {
	if e.context != "" {
		return e.host + " (context " + e.context + ")"
	}
	return e.host
}

// local says whether the engine shares this machine's network, so that its
// routes are worth reading.
func (e endpoint) local() bool {
	return strings.HasPrefix(e.host, "unix://") || strings.HasPrefix(e.host, "npipe://")
}

// environ returns environ with the variables that make docker's own programs
// use this endpoint and no other.
func (e endpoint) environ(environ []string) []string {
	out := make([]string, 0, len(environ)+4)
	for _, kv := range environ {
		switch name, _, _ := strings.Cut(kv, "="); name {
		case "DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH", "DOCKER_TLS":
		default:
			out = append(out, kv)
		}
	}
	if e.context != "" {
		return append(out, "DOCKER_CONTEXT="+e.context)
	}
	out = append(out, "DOCKER_HOST="+e.host)
	if e.tlsDir != "" {
		out = append(out, "DOCKER_CERT_PATH="+e.tlsDir, "DOCKER_TLS=1")
		if e.verify {
			out = append(out, "DOCKER_TLS_VERIFY=1")
		}
	}
	return out
}
