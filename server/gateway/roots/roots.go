// Package roots holds the certificate authorities that upstreams are verified
// against. The image has no file system of a distribution to take them from, and the
// host's would make images of one source differ, so they are part of the source.
package roots

import (
	"crypto/x509"
	_ "embed"
	"fmt"
	"sync"
)

// mozilla are DER certificates, one behind the other: the roots Mozilla trusts for
// servers, as golang.org/x/crypto/x509roots/fallback publishes them (version
// v0.0.0-20261030153154-30a33513ff6d), without those it trusts under a condition that
// no certificate says. scripts/roots.sh renews the file.
//
//go:embed mozilla.der
var mozilla []byte

var parsed = sync.OnceValues(func() ([]*x509.Certificate, error) {
	list, err := x509.ParseCertificates(mozilla)
	if err != nil {
		return nil, fmt.Errorf("the roots in this program: %w", err)
	}
	return list, nil
})

// Pool makes a pool of the public roots and, where extra is not empty, of the
// certificates in it, which are PEM.
func Pool(extra string) (*x509.CertPool, error) {
	list, err := parsed()
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	for _, c := range list {
		pool.AddCert(c)
	}
	if extra != "" && !pool.AppendCertsFromPEM([]byte(extra)) {
		return nil, fmt.Errorf("there is no certificate in the further authorities")
	}
	return pool, nil
}
