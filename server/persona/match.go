package persona

import (
	"net/url"
	"slices"
	"strings"

	"github.com/linuxarena/ctis/server/api"
)

// Match is the endpoint gate: which kind of record a path makes, and which of
// the persona's endpoints answers. The path is decoded once and compared by
// whole segments; no segment is special, so "/webhook/../data" is webhook. Where the
// persona has a backend, that gets every declared endpoint, and [gate] decides.
func Match(p *api.Persona, path string) (kind, endpoint string) {
	if p.Backend != nil {
		return gate(p, path)
	}
	decoded, _ := decode(path)
	if decoded == "" || decoded == "/" {
		return api.KindRoot, ""
	}
	rest, ok := strings.CutPrefix(decoded, "/")
	if !ok {
		return api.KindNotFound, ""
	}
	first, _, _ := strings.Cut(rest, "/")
	if !slices.Contains(p.Endpoints, first) {
		return api.KindNotFound, ""
	}
	switch first {
	case api.EndpointWebhook:
		return api.KindWebhook, first
	case api.EndpointData:
		return api.KindData, first
	case api.EndpointAssets:
		return api.KindAssets, first
	case api.EndpointPublic:
		return api.KindPublic, first
	}
	return api.KindNotFound, ""
}

// decode resolves percent escapes, once. What is no escape stays as it is; ok
// is then false.
func decode(path string) (decoded string, ok bool) {
	if !strings.Contains(path, "%") {
		return path, true
	}
	if s, err := url.PathUnescape(path); err == nil {
		return s, true
	}
	var b strings.Builder
	for path != "" {
		if path[0] == '%' && len(path) >= 3 {
			if s, err := url.PathUnescape(path[:3]); err == nil {
				b.WriteString(s)
				path = path[3:]
				continue
			}
		}
		b.WriteByte(path[0])
		path = path[1:]
	}
	return b.String(), false
}

// maxKey bounds a key in bytes.
const maxKey = 4 << 10

// key is the part of the path below the endpoint, decoded: "" for the endpoint
// itself, "/" for it with a slash. Not ok is a path that names nothing: a
// broken escape, a NUL, or a dot segment, which could only be meant to climb.
func (r *Request) key() (key string, ok bool) {
	decoded, ok := decode(r.Path)
	if !ok || strings.ContainsRune(decoded, 0) {
		return "", false
	}
	key = strings.TrimPrefix(decoded, "/"+r.Endpoint)
	return key, !hasDots(key)
}

func hasDots(key string) bool {
	for segment := range strings.SplitSeq(key, "/") {
		if segment == "." || segment == ".." {
			return true
		}
	}
	return false
}

// urlOf is the absolute address of a key below an endpoint, on the host and
// port the client called.
func (r *Request) urlOf(key string) string {
	host := r.Persona.Host
	if name, port, ok := strings.Cut(r.HTTP.Host, ":"); ok && strings.EqualFold(name, host) && port != "" && strings.Trim(port, "0123456789") == "" {
		host += ":" + port
	}
	return r.Scheme + "://" + host + r.pathOf(key)
}

// pathOf is the escaped path of a key below the endpoint.
func (r *Request) pathOf(key string) string {
	segments := strings.Split(key, "/")
	for i, s := range segments {
		segments[i] = url.PathEscape(s)
	}
	return "/" + r.Endpoint + "/" + strings.Join(segments, "/")
}
