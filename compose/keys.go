package compose

import (
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"

	"github.com/compose-spec/compose-go/v2/types"
)

// Keys are API keys by the names of their variables. However they are printed, their
// values are not shown.
type Keys map[string]string

// Format writes the names alone, whatever the verb.
func (k Keys) Format(s fmt.State, _ rune) { fmt.Fprintf(s, "keys of %v", sortedKeys(k)) }

// MarshalJSON writes the names alone.
func (k Keys) MarshalJSON() ([]byte, error) { return json.Marshal(sortedKeys(k)) }

// keysOf takes the keys of a file's upstream proxies out of the variables.
func keysOf(c *Config, vars types.Mapping) Keys {
	keys := Keys{}
	for _, u := range c.Upstreams {
		if v := vars[u.KeyEnv]; u.KeyEnv != "" && v != "" {
			keys[u.KeyEnv] = v
		}
	}
	return keys
}

// maxAuthorities bounds a ca_file, in bytes: the gateway takes no more.
const maxAuthorities = 1 << 20

// authorityFiles reads the certificate authorities that upstream proxies are verified
// against besides the public ones.
func (l *environmentLoad) authorityFiles() {
	for i := range l.config.Upstreams {
		u := &l.config.Upstreams[i]
		if u.caFile == "" {
			continue
		}
		at := l.config.index.value(below(u.path, "ca_file")...)
		content, ok := l.fileBeside(at, "ca_file", u.caFile)
		if !ok {
			continue
		}
		if len(content) > maxAuthorities {
			l.problems.errorf(at, "ca_file %q has more than %d bytes", u.caFile, maxAuthorities)
			continue
		}
		text, err := certificates(content)
		if err != nil {
			l.problems.errorf(at, "ca_file %q %s", u.caFile, err).
				hint("it is to hold certificates as PEM: -----BEGIN CERTIFICATE-----")
			continue
		}
		u.Authorities = text
	}
}

// certificates are those in b, and nothing else that is in it: what stands around them,
// maybe a private key, is not passed on.
func certificates(b []byte) (string, error) {
	var text []byte
	for {
		block, rest := pem.Decode(b)
		if block == nil {
			break
		}
		b = rest
		if block.Type != "CERTIFICATE" {
			continue
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return "", fmt.Errorf("has a certificate that cannot be read: %w", err)
		}
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: block.Bytes})...)
	}
	if text == nil {
		return "", fmt.Errorf("has no certificate in it")
	}
	return string(text), nil
}
