package trust

import (
	"context"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
)

// The bundle that [Env] points at. It has a directory of its own, which no image
// and hardly any mount covers: a service with a read-only root takes it when it
// has an anonymous volume at BundleDir. Its name gives nothing away.
const (
	BundleDir = "/usr/local/share/pki"
	Bundle    = BundleDir + "/ca-bundle.pem"
)

// bundleVars are the variables by which programs are told a file of trusted
// roots, with who reads them. All but those marked replace the program's own
// roots, which is why the bundle holds the image's as well.
var bundleVars = [...]string{
	"SSL_CERT_FILE",                      // OpenSSL, Go, Ruby, Python's ssl, rustls-native-certs, .NET
	"REQUESTS_CA_BUNDLE",                 // Python requests, httpx through some wrappers, Azure CLI
	"CURL_CA_BUNDLE",                     // curl, requests as second choice
	"PIP_CERT",                           // pip
	"NODE_EXTRA_CA_CERTS",                // Node; adds
	"GIT_SSL_CAINFO",                     // git
	"AWS_CA_BUNDLE",                      // AWS CLI and SDKs
	"CARGO_HTTP_CAINFO",                  // cargo
	"NIX_SSL_CERT_FILE",                  // programs from nixpkgs
	"CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE", // gcloud
	"DENO_CERT",                          // Deno; adds
	"GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",   // gRPC's C core and what wraps it
	"HEX_CACERTS_PATH",                   // Elixir's Hex
	"HTTPLIB2_CA_CERTS",                  // httplib2, older Google clients
	"PERL_LWP_SSL_CA_FILE",               // Perl's LWP
	"COMPOSER_CAFILE",                    // PHP's Composer
	"CONDA_SSL_VERIFY",                   // conda, mamba
	"JULIA_SSL_CA_ROOTS_PATH",            // Julia
	"YARN_HTTPS_CA_FILE_PATH",            // Yarn 2 and later
	"npm_config_cafile",                  // npm
	"BUNDLE_SSL_CA_CERT",                 // Ruby's Bundler
}

// Env is what the environment of every service on the simulator's network gets,
// except for variables the service sets itself. A file such a variable names
// gets the CA too.
//
// SSL_CERT_DIR is not among them: it replaces the directory OpenSSL looks in,
// and the image's own directory gets the CA under its hash. Nor is HTTPS_CA_FILE:
// with it, LWP no longer compares a certificate's name with the host's.
func Env() map[string]string {
	// They make uv, which brings its own roots, use the system's; the second is the
	// newer name.
	env := map[string]string{"UV_NATIVE_TLS": "1", "UV_SYSTEM_CERTS": "1"}
	for _, v := range bundleVars {
		env[v] = Bundle
	}
	return env
}

// env is which files the container's programs are told to trust.
type bundleEnv struct {
	vars    map[string]string // all that the container's programs get
	workdir string
	// set maps files named by the service or the image to the variable, other
	// than Bundle. Those of the image alone are there too: [Env] hides them.
	set map[string]string
}

func (e bundleEnv) paths() []string { return slices.Sorted(maps.Keys(e.set)) }

func environment(ctx context.Context, eng Engine, c container.InspectResponse) (bundleEnv, error) {
	e := bundleEnv{vars: map[string]string{}, set: map[string]string{}}
	e.ofContainer(c)
	img, err := eng.ImageInspect(ctx, c.Image)
	switch {
	case errdefs.IsNotFound(err): // untagged and removed meanwhile; the container keeps its files
	case err != nil:
		return e, err
	case img.Config != nil:
		e.add(img.Config.Env)
	}
	return e, nil
}

// ofContainer takes over what the container itself says.
func (e *bundleEnv) ofContainer(c container.InspectResponse) {
	if c.Config == nil {
		return
	}
	e.add(c.Config.Env)
	e.workdir = c.Config.WorkingDir
	for _, kv := range c.Config.Env {
		name, value, _ := strings.Cut(kv, "=")
		e.vars[name] = value
	}
}

func (e bundleEnv) add(vars []string) {
	for _, kv := range vars {
		name, value, _ := strings.Cut(kv, "=")
		if slices.Contains(bundleVars[:], name) && path.IsAbs(value) && path.Clean(value) != Bundle {
			e.set[path.Clean(value)] = name
		}
	}
}
