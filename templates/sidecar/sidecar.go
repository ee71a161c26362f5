// Package sidecar renders the configuration of the nginx that stands before the
// exposed services of a trajectory.
package sidecar

import (
	"bytes"
	_ "embed"
	"fmt"
	"path"
	"regexp"
	"text/template"
)

// Config is all that a configuration depends on.
type Config struct {
	Dir      string // absolute: where nginx finds the certificates
	IPv6     bool   // clients come by IPv6 too; without it the kernel may have none to listen on
	Resolve6 bool   // some target has IPv6 addresses alone
	Hosts    []Host // in the order they are to stand in
}

// Host is a public hostname and what stands behind it.
type Host struct {
	Name        string // as hostnames are compared: lower-case ASCII, no trailing dot
	Certificate string // base name of its files below Dir, without .crt and .key
	Upstream    string // a name of the target that the engine's resolver knows
	Port        uint16
}

//go:embed nginx.conf.tmpl
var text string

var conf = template.Must(template.New("nginx.conf").Option("missingkey=error").Parse(text))

// Nothing that means something to nginx gets into its configuration by a name.
var (
	plainName = regexp.MustCompile(`^[a-z0-9_]([a-z0-9_.-]{0,251}[a-z0-9_])?$`)
	plainPath = regexp.MustCompile(`^(/[a-z0-9_-]+)+$`)
)

// Render writes the configuration. Equal input gives equal bytes. It is an error if
// a name could be read as anything else, or if two hosts have one name.
func Render(c Config) ([]byte, error) {
	if !plainPath.MatchString(c.Dir) {
		return nil, fmt.Errorf("%q is no directory that can stand in an nginx configuration", c.Dir)
	}
	seen := map[string]bool{}
	for _, h := range c.Hosts {
		for _, name := range []string{h.Name, h.Certificate, h.Upstream} {
			if !plainName.MatchString(name) {
				return nil, fmt.Errorf("%q is no name that can stand in an nginx configuration", name)
			}
		}
		switch {
		case path.Base(h.Certificate) != h.Certificate || h.Port == 0:
			return nil, fmt.Errorf("host %q has certificate %q and port %d", h.Name, h.Certificate, h.Port)
		case seen[h.Name]:
			return nil, fmt.Errorf("host %q stands twice", h.Name)
		}
		seen[h.Name] = true
	}
	var b bytes.Buffer
	err := conf.Execute(&b, struct {
		Config
		BucketSize, HashSize int
	}{c, bucketSize(c.Hosts), hashSize(len(c.Hosts))})
	return b.Bytes(), err
}

// bucketSize is the size in bytes of a bucket of nginx' hash of server names. A name
// takes 8 bytes, two for its length and itself, rounded up to 8, and a bucket 8 more;
// nginx does not start with a name that takes more than one. It gets room for four.
func bucketSize(hosts []Host) int {
	longest := 0
	for _, h := range hosts {
		longest = max(longest, len(h.Name))
	}
	return powerOfTwo(128, 4*(8+(longest+2+7)/8*8)+8)
}

// hashSize is the number of buckets nginx may use: with four to each name it finds a
// size at which none overflows.
func hashSize(hosts int) int { return powerOfTwo(1024, 4*hosts) }

// powerOfTwo is the smallest power of two that is at least n and, one itself, least.
func powerOfTwo(least, n int) int {
	for least < n {
		least *= 2
	}
	return least
}
