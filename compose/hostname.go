package compose

import (
	"fmt"
	"net/netip"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// Hostname is a public hostname in the one form in which hostnames are
// compared: lower-case ASCII (IDNA), without a trailing dot.
type Hostname string

// ParseHostname is the only way to a valid Hostname. It refuses what is more
// than a hostname (a scheme, a port, a path), what is less (an address, a
// wildcard), and what never leaves a container (localhost).
func ParseHostname(s string) (Hostname, error) {
	switch {
	case s == "":
		return "", fmt.Errorf("hostname is empty")
	case strings.Contains(s, "://"):
		return "", fmt.Errorf("hostname %q has a scheme; write the bare name", s)
	case strings.ContainsAny(s, "/?#"):
		return "", fmt.Errorf("hostname %q has a path; write the bare name", s)
	case strings.Contains(s, "*"):
		return "", fmt.Errorf("hostname %q is a wildcard; write each name out", s)
	}
	if _, err := netip.ParseAddr(strings.Trim(s, "[]")); err == nil {
		return "", fmt.Errorf("hostname %q is an address, not a name", s)
	}
	if strings.Contains(s, ":") {
		return "", fmt.Errorf("hostname %q has a port; write the bare name", s)
	}
	if !utf8.ValidString(s) {
		return "", fmt.Errorf("hostname %q is not valid UTF-8", s)
	}
	ascii, err := idna.Lookup.ToASCII(strings.TrimSuffix(s, "."))
	if err == nil {
		// A name may pass that its own encoding does not: then clients that are
		// given the encoded form would refuse it.
		ascii, err = idna.Lookup.ToASCII(ascii)
	}
	if err != nil {
		return "", fmt.Errorf("hostname %q is not valid: %s", s, strings.TrimPrefix(err.Error(), "idna: "))
	}
	// The profile above checks characters, not lengths.
	if len(ascii) > 253 {
		return "", fmt.Errorf("hostname %q has %d characters; 253 are allowed", s, len(ascii))
	}
	labels := strings.Split(ascii, ".")
	for _, l := range labels {
		if l == "" {
			return "", fmt.Errorf("hostname %q has an empty label", s)
		}
		if len(l) > 63 {
			return "", fmt.Errorf("hostname %q has a label of %d characters; 63 are allowed", s, len(l))
		}
	}
	last := labels[len(labels)-1]
	if strings.Trim(last, "0123456789") == "" {
		return "", fmt.Errorf("hostname %q ends in a number, so clients take it for an address", s)
	}
	if last == "localhost" {
		return "", fmt.Errorf("hostname %q always means the container itself (RFC 6761)", s)
	}
	return Hostname(ascii), nil
}
