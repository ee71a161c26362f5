package imagehash

import (
	"fmt"
	"regexp"
	"strings"
)

// platform is what an image is built for.
type platform struct{ os, arch, variant string }

// platformPart is what the parts of a platform are made of.
var platformPart = regexp.MustCompile(`^[a-z0-9_.-]+$`)

// archAlias gives architectures that go by several names the one that counts.
var archAlias = map[string]platform{
	"x86_64": {arch: "amd64"}, "x86-64": {arch: "amd64"}, "i386": {arch: "386"}, "i686": {arch: "386"},
	"aarch64": {arch: "arm64"}, "armhf": {arch: "arm", variant: "v7"}, "armel": {arch: "arm", variant: "v6"},
}

// parsePlatform reads OS/ARCH or OS/ARCH/VARIANT and names it as builders do, so
// that two names of one platform are one.
func parsePlatform(text string) (platform, error) {
	parts := strings.Split(strings.ToLower(text), "/")
	bad := len(parts) < 2 || len(parts) > 3
	for _, p := range parts {
		bad = bad || !platformPart.MatchString(p)
	}
	if bad {
		return platform{}, fmt.Errorf("platform %q is not of the form OS/ARCH or OS/ARCH/VARIANT; an example is linux/amd64", text)
	}
	p := platform{os: parts[0], arch: parts[1]}
	if a, ok := archAlias[p.arch]; ok {
		p.arch, p.variant = a.arch, a.variant
	}
	if len(parts) == 3 {
		p.variant = parts[2]
	}
	switch {
	case p.arch == "arm" && p.variant == "":
		p.variant = "v7"
	case p.arch == "arm" && strings.Trim(p.variant, "0123456789") == "":
		p.variant = "v" + p.variant
	case p.arch == "arm64" && (p.variant == "8" || p.variant == "v8"), p.arch == "amd64" && p.variant == "v1":
		p.variant = "" // what it is without being said
	}
	return p, nil
}

func (p platform) String() string {
	if p.variant == "" {
		return p.os + "/" + p.arch
	}
	return p.os + "/" + p.arch + "/" + p.variant
}

// builderArgs sets in the global scope what a builder sets when nobody passes it.
// The platform built on is never known here: the hash must not depend on it.
func builderArgs(global *scope, target string, p *platform) {
	const why = "the builder sets it by platform"
	for _, name := range []string{"BUILDPLATFORM", "BUILDOS", "BUILDOSVERSION", "BUILDARCH", "BUILDVARIANT", "TARGETOSVERSION"} {
		global.setUnknown(name, why)
	}
	global.set("TARGETSTAGE", target)
	of := map[string]string{}
	if p != nil {
		of = map[string]string{"TARGETPLATFORM": p.String(), "TARGETOS": p.os, "TARGETARCH": p.arch, "TARGETVARIANT": p.variant}
	}
	for _, name := range []string{"TARGETPLATFORM", "TARGETOS", "TARGETARCH", "TARGETVARIANT"} {
		if v, ok := of[name]; ok {
			global.set(name, v)
		} else {
			global.setUnknown(name, why)
		}
	}
}

// PlatformName names a platform as [Sum] does.
func PlatformName(text string) (string, error) {
	p, err := parsePlatform(text)
	return p.String(), err
}
