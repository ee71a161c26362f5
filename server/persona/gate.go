package persona

import (
	"net/url"
	"slices"
	"strings"

	"github.com/linuxarena/ctis/server/api"
)

// gate is what of a persona's paths its backend is asked for: the root, and each
// declared prefix with what is below it. The rules:
//
//   - It judges the path as it was sent. A prefix is its first segment, byte for byte:
//     "/v1%2Fx", "//v1", "/v1;a/x" and "/%76%31/x" are not below "/v1".
//   - What a backend might make of the rest must lie below the prefix too. Servers
//     resolve dot segments, decode escapes (some twice), merge slashes, take a
//     backslash for a slash and drop what follows a semicolon in a segment. A path
//     that any of them would lead out of its prefix is not passed on.
//   - What passes is passed on untouched: "/v1/a/../b" and "/v1/a%2Fb" included.
func gate(p *api.Persona, path string) (kind, endpoint string) {
	if path == "/" {
		return api.KindBackend, ""
	}
	rest, ok := strings.CutPrefix(path, "/")
	if !ok {
		return api.KindNotFound, ""
	}
	first, below, _ := strings.Cut(rest, "/")
	if !slices.Contains(p.Endpoints, first) || climbs(below) {
		return api.KindNotFound, ""
	}
	return api.KindBackend, first
}

// maxDecoding is how many times a path may be encoded in itself.
const maxDecoding = 4

// climbs says whether a path below a prefix can be understood to lead out of it.
func climbs(below string) bool {
	for range maxDecoding {
		if climbsAsIs(below) {
			return true
		}
		decoded, _ := decode(below)
		if decoded == below {
			return false
		}
		below = decoded
	}
	return true
}

func climbsAsIs(below string) bool {
	depth := 0
	for segment := range strings.FieldsFuncSeq(below, func(r rune) bool { return r == '/' || r == '\\' }) {
		name, _, _ := strings.Cut(segment, ";")
		if plain, err := url.PathUnescape(name); err == nil {
			name = plain
		}
		switch name {
		case "", ".":
		case "..":
			if depth--; depth < 0 {
				return true
			}
		default:
			depth++
		}
	}
	return false
}
