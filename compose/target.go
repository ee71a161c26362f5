package compose

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Target is a port of a service of the trajectory's own project.
type Target struct {
	Service string
	Port    uint16
}

func (t Target) String() string { return t.Service + ":" + strconv.Itoa(int(t.Port)) }

// Service names are whatever Compose allows, which is more than a hostname
// (VPN_Client).
var serviceName = regexp.MustCompile(`^[a-zA-Z0-9._-]+$`)

// ParseTarget reads the form service:port, and only that: no scheme, no path,
// no spaces, a decimal port from 1 to 65535 without leading zeros. The error says
// what to write instead; a target where what is meant is clear.
func ParseTarget(s string) (Target, error) {
	t, wrong := readTarget(s)
	if wrong == "" {
		return t, nil
	}
	if meant, ok := meantTarget(s); ok {
		return Target{}, fmt.Errorf("target %q has %s; write %q", s, wrong, meant)
	}
	if strings.HasSuffix(wrong, "as its port") {
		return Target{}, fmt.Errorf("target %q has %s; it must be a number from 1 to 65535", s, wrong)
	}
	return Target{}, fmt.Errorf("target %q has %s; write service:port", s, wrong)
}

// readTarget reads a target, or says what is wrong with it.
func readTarget(s string) (t Target, wrong string) {
	if strings.Contains(s, "://") {
		return t, "a scheme"
	}
	name, port, ok := strings.Cut(s, ":")
	if !serviceName.MatchString(name) {
		return t, "no service name at its beginning"
	}
	if !ok {
		return t, "no port"
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 || strconv.FormatUint(n, 10) != port {
		return t, fmt.Sprintf("%q as its port", port)
	}
	return Target{Service: name, Port: uint16(n)}, ""
}

// meantTarget takes off what no target has: a scheme, a path, spaces, and what is
// before the digits of a port.
func meantTarget(s string) (Target, bool) {
	if _, rest, ok := strings.Cut(s, "://"); ok {
		s = rest
	}
	s, _, _ = strings.Cut(s, "/")
	name, port, _ := strings.Cut(s, ":")
	port = strings.TrimLeft(strings.TrimSpace(port), "+0")
	t, wrong := readTarget(strings.TrimSpace(name) + ":" + port)
	return t, wrong == ""
}
