package compose

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
)

// MinimumVersion is the oldest Docker Compose that understands the generated
// override: !override came with it. There is no newest one.
const MinimumVersion = "2.24.4"

// NotInstalledError says that there is no `docker compose`.
type NotInstalledError struct {
	Docker string // the program that was asked
	V1     string // version of a docker-compose of the first generation, if that is all there is
	Err    error
}

func (e *NotInstalledError) Error() string {
	switch {
	case errors.Is(e.Err, exec.ErrNotFound):
		return fmt.Sprintf("%q is not installed; install the Docker CLI and its Compose plugin, version %s or newer", e.Docker, MinimumVersion)
	case e.V1 != "":
		return fmt.Sprintf("only docker-compose %s is installed, which is no longer developed; install the Compose plugin of the Docker CLI, version %s or newer", e.V1, MinimumVersion)
	}
	return fmt.Sprintf("%q has no compose command; install the Compose plugin of the Docker CLI, version %s or newer", e.Docker, MinimumVersion)
}

func (e *NotInstalledError) Unwrap() error { return e.Err }

// TooOldError is a Docker Compose that does not understand the generated override.
type TooOldError struct{ Have, Want string }

func (e *TooOldError) Error() string {
	return fmt.Sprintf("Docker Compose %s is too old; install version %s or newer", e.Have, e.Want)
}

// Version returns the version of Docker Compose. A missing one is a
// *[NotInstalledError], one below [MinimumVersion] a *[TooOldError].
func (r *Runner) Version(ctx context.Context) (string, error) {
	out, err := r.output(ctx, "compose", "version", "--short")
	if err != nil {
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		return "", &NotInstalledError{Docker: r.docker(), V1: r.firstGeneration(ctx), Err: err}
	}
	version := strings.TrimSpace(string(out))
	return version, checkVersion(version)
}

// firstGeneration is the version of a docker-compose that is not a plugin.
func (r *Runner) firstGeneration(ctx context.Context) string {
	cmd := exec.CommandContext(ctx, "docker-compose", "version", "--short")
	cmd.Env = r.environ(Invocation{})
	out, err := cmd.Output()
	if version := strings.TrimSpace(string(out)); err == nil && strings.HasPrefix(version, "1.") {
		return version
	}
	return ""
}

var versionNumber = regexp.MustCompile(`^v?(\d+)\.(\d+)(?:\.(\d+))?`)

// checkVersion refuses what is certainly too old. A version without a number,
// as a development build has, gets the benefit of the doubt: the override is
// verified after merging anyway.
func checkVersion(version string) error {
	have, want := versionNumber.FindStringSubmatch(version), versionNumber.FindStringSubmatch(MinimumVersion)
	if have == nil {
		return nil
	}
	for i := 1; i < len(want); i++ {
		h, _ := strconv.Atoi(have[i]) // digits, or empty for 0
		w, _ := strconv.Atoi(want[i])
		if h != w {
			if h < w {
				return &TooOldError{Have: version, Want: MinimumVersion}
			}
			return nil
		}
	}
	return nil
}
