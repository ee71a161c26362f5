package imagehash

import (
	"fmt"
	"strings"
)

// Repository is where simulator images are kept.
const Repository = "linuxarena/env-internet-simulator"

// tagPrefix starts the tags that are named after their source.
const tagPrefix = "src-"

// Tag is the reference of the image built from the source with the given hash.
func Tag(hash string) string { return Repository + ":" + tagPrefix + hash }

// ParseTag takes the hash out of a reference that [Tag] made. Anything else,
// other repositories included, is refused.
func ParseTag(ref string) (hash string, err error) {
	rest, ok := strings.CutPrefix(ref, Repository+":"+tagPrefix)
	if !ok {
		return "", fmt.Errorf("image %q is not of the form %s", ref, Tag("HASH"))
	}
	if len(rest) != HashLen || strings.Trim(rest, "0123456789abcdef") != "" {
		return "", fmt.Errorf("image %q: %q is not a hash of %d hexadecimal digits", ref, rest, HashLen)
	}
	return rest, nil
}

// FromSourceTag tells whether a reference is in the simulator's repository and
// named after a source, by whatever version of the hash.
func FromSourceTag(ref string) bool { return strings.HasPrefix(ref, Repository+":"+tagPrefix) }

// Origin says what decided which image to use.
type Origin string

// The origins, the first given wins.
const (
	FromFlag      Origin = "--image"
	FromVariable  Origin = "INTERNET_SIMULATOR_IMAGE"
	FromSkipBuild Origin = "SKIP_DOCKER_BUILD"
	FromSource    Origin = "source"
)

// Policy says what to do about an image.
type Policy string

// The policies.
const (
	Build       Policy = "build"        // if absent
	PullMissing Policy = "pull-missing" // if absent
	PullAlways  Policy = "pull-always"
)

// Choice is the image to use.
type Choice struct {
	Ref    string
	Hash   string // of the source; "" unless Origin is FromSource
	Origin Origin
	Policy Policy
}

// Resolve settles which image to use (SPEC §5): the flag, then the variable, each
// as it is; then, with skipBuild, the repository's latest; else the image of the
// source with the given hash, which is built and never pulled. The hash may be
// empty if the choice does not depend on it; see [Overridden].
func Resolve(flagImage, envImage string, skipBuild bool, hash string) Choice {
	switch {
	case flagImage != "":
		return Choice{Ref: flagImage, Origin: FromFlag, Policy: PullMissing}
	case envImage != "":
		return Choice{Ref: envImage, Origin: FromVariable, Policy: PullMissing}
	case skipBuild:
		return Choice{Ref: Repository + ":latest", Origin: FromSkipBuild, Policy: PullAlways}
	}
	return Choice{Ref: Tag(hash), Hash: hash, Origin: FromSource, Policy: Build}
}

// Overridden reports whether the source plays no part, so that nothing needs to
// be hashed.
func Overridden(flagImage, envImage string, skipBuild bool) bool {
	return Resolve(flagImage, envImage, skipBuild, "").Origin != FromSource
}
