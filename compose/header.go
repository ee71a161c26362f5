package compose

import (
	"net/textproto"
	"slices"
	"strings"
)

// headerToken says whether name can be a header's (RFC 9110, section 5.6.2).
func headerToken(name string) bool {
	for i := 0; i < len(name); i++ {
		c := name[i]
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0) {
			return false
		}
	}
	return name != ""
}

// connectionHeaders are about one connection or where a message ends
// (RFC 9110, sections 7.6.1 and 8.6; RFC 9112, section 6.1), so whoever sends
// the message has to set them.
var connectionHeaders = []string{
	"Connection", "Content-Length", "Expect", "Host", "Http2-Settings", "Keep-Alive", "Proxy-Authenticate",
	"Proxy-Authorization", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

func isConnectionHeader(name string) bool {
	return slices.Contains(connectionHeaders, textproto.CanonicalMIMEHeaderKey(name))
}

// headerText says whether v can be sent as a header's value: no control
// characters, no space at its ends (RFC 9110, section 5.5).
func headerText(v string) bool {
	return !strings.ContainsFunc(v, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }) && strings.TrimSpace(v) == v
}

// legalServerHeader is stricter: error pages show the value too, and no known
// server says more than visible ASCII.
func legalServerHeader(v string) bool {
	for i := 0; i < len(v); i++ {
		if v[i] < ' ' || v[i] > '~' {
			return false
		}
	}
	return strings.TrimSpace(v) == v && !strings.Contains(v, "  ")
}
