package wire

import (
	"bytes"
	"strconv"
	"strings"
)

// Hopeless refuses the beginning of a head that can become none, before its end
// has come: such clients often do not go on.
func Hopeless(b []byte) *Refusal {
	if len(b) == 0 {
		return nil
	}
	if !IsToken(string(b[:1])) {
		_, r := parseRequestLine(string(b[:1]), strict)
		return r
	}
	if bytes.IndexByte(b[:min(len(b), MaxLine)], '\n') < 0 {
		return nil
	}
	line, _ := cutLine(string(b[:min(len(b), MaxLine)]), 0)
	if h, r := parseRequestLine(line, strict); h == nil {
		return r
	}
	return nil
}

func parseRequestLine(line string, takes tolerance) (*Head, *Refusal) {
	method, rest, ok1 := strings.Cut(line, " ")
	target, proto, ok2 := strings.Cut(rest, " ")
	if len(line) > takes.line {
		refusal := &Refusal{Status: 414, Reason: "request line longer than " + strconv.Itoa(takes.line) + " bytes", Cause: CauseLongLine}
		if ok1 && IsToken(method) {
			return &Head{Method: method, Target: target, Proto: proto}, refusal
		}
		return nil, refusal
	}
	if line != "" && line[0] == 0x16 {
		return nil, &Refusal{Status: 400, Reason: "tls record on a plain http port", Cause: CauseTLS, Detail: line}
	}
	if !ok1 || !ok2 || target == "" || strings.Contains(proto, " ") {
		refusal := &Refusal{Status: 400, Reason: "request line is not method, target and version with single spaces between", Cause: CauseLine, Detail: line}
		if IsToken(method) && target != "" && ok2 {
			refusal.Cause, refusal.Detail = CauseSpaces, proto
		}
		return nil, refusal
	}
	if !IsToken(method) {
		return nil, &Refusal{Status: 400, Reason: "method is no token", Cause: CauseMethod, Detail: method}
	}
	if len(proto) != len("HTTP/1.1") || !strings.HasPrefix(proto, "HTTP/") || !digit(proto[5]) || proto[6] != '.' || !digit(proto[7]) {
		return nil, &Refusal{Status: 400, Reason: "version is not HTTP/x.y", Cause: CauseSpaces, Detail: proto}
	}
	h := &Head{Method: method, Target: target, Proto: proto, Minor: int(proto[7] - '0')}
	switch {
	case proto[5] > '1':
		return h, &Refusal{Status: 505, Reason: "version " + proto + " is not served", Cause: CauseVersion, Detail: proto}
	case proto[5] != '1':
		return h, &Refusal{Status: 400, Reason: "version " + proto + " is not served", Cause: CauseVersion, Detail: proto}
	}
	for i := 0; i < len(method) && !takes.methods; i++ {
		if c := method[i]; (c < 'A' || c > 'Z') && c != '-' && c != '_' {
			return h, &Refusal{Status: 400, Reason: "method has other characters than capitals", Cause: CauseMethod, Detail: method} // as nginx
		}
	}
	return h, h.checkTarget(takes)
}

// checkTarget accepts origin form and absolute form. The other two, authority
// form (CONNECT) and "*", are refused by some servers, nginx among them.
func (h *Head) checkTarget(takes tolerance) *Refusal {
	t := h.Target
	switch {
	case t == "*" && h.Method == "OPTIONS" && takes.star:
		return nil
	case h.Method == "CONNECT" && t[0] != '/' && plainAuthority(t):
		if takes.connect && strings.Contains(t, ":") && t[len(t)-1] != ':' {
			return nil
		}
		return &Refusal{Status: 400, Reason: "method CONNECT", Cause: CauseConnect}
	}
	for i := 0; i < len(t); i++ {
		if t[i] <= ' ' || t[i] == 0x7f {
			return &Refusal{Status: 400, Reason: "control character in the request target"}
		}
	}
	if t[0] != '/' {
		scheme, rest, ok := strings.Cut(t, "://")
		if h.Method == "CONNECT" || !ok || !strings.EqualFold(scheme, "http") && !strings.EqualFold(scheme, "https") {
			return &Refusal{Status: 400, Reason: "request target is neither a path nor an http url"}
		}
		h.Authority = rest
		if k := strings.IndexAny(rest, "/?"); k >= 0 {
			h.Authority = rest[:k]
		}
		if strings.Contains(h.Authority, "#") || !plainAuthority(h.Authority) {
			return &Refusal{Status: 400, Reason: "request target has no valid host"}
		}
	}
	path := h.Path()
	for i := 0; i < len(path); i++ {
		if path[i] == '%' && (i+2 >= len(path) || !hex(path[i+1]) || !hex(path[i+2])) {
			return &Refusal{Status: 400, Reason: "invalid escape in the path"}
		}
	}
	return nil
}

// Path is the path part of the target, still escaped.
func (h *Head) Path() string { p, _ := SplitTarget(h.Target); return p }

// SplitTarget divides a request target into its path, still escaped, and its
// query without the question mark. The authority of an absolute form is left
// out, and its empty path is "/".
func SplitTarget(target string) (path, query string) {
	if i := strings.Index(target, "://"); i >= 0 && !strings.HasPrefix(target, "/") {
		target = target[i+3:]
		if k := strings.IndexAny(target, "/?"); k >= 0 {
			target = target[k:]
		} else {
			target = ""
		}
		if !strings.HasPrefix(target, "/") {
			target = "/" + target
		}
	}
	path, query, _ = strings.Cut(target, "?")
	return path, query
}

// OriginForm is the target as it is sent to the server it is for, byte for byte: of
// an absolute form, what follows the authority (RFC 9112 §3.2.1).
func OriginForm(target string) string {
	i := strings.Index(target, "://")
	if i < 0 || strings.HasPrefix(target, "/") {
		return target
	}
	rest := target[i+3:]
	k := strings.IndexAny(rest, "/?")
	switch {
	case k < 0:
		return "/"
	case rest[k] == '?':
		return "/" + rest[k:]
	}
	return rest[k:]
}
