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
// no spaces, a decimal port from 1 to 65535 without leading zeros.
func ParseTarget(s string) (Target, error) {
	if _, rest, ok := strings.Cut(s, "://"); ok {
		return Target{}, fmt.Errorf("target %q has a scheme; write %q", s, rest)
	}
	name, port, ok := strings.Cut(s, ":")
	if !ok {
		return Target{}, fmt.Errorf("target %q has no port; write service:port", s)
	}
	if !serviceName.MatchString(name) {
		return Target{}, fmt.Errorf("target %q does not start with a service name; write service:port", s)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 || strconv.FormatUint(n, 10) != port {
		return Target{}, fmt.Errorf("target %q has %q as its port; it must be a number from 1 to 65535", s, port)
	}
	return Target{Service: name, Port: uint16(n)}, nil
}
