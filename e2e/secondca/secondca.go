// Package secondca is a certificate authority that test images trust before ctis
// gives them its own, as a company's images trust the company's. It is no secret:
// everybody who has this source has its key, so that images and servers that are
// built apart fit each other.
package secondca

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"time"
)

var (
	from  = time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
	until = time.Date(2055, 1, 1, 0, 0, 0, 0, time.UTC)
)

// Authority is the CA with its key.
type Authority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

// New derives the authority: the same key each time.
func New() (*Authority, error) {
	seed := sha256.Sum256([]byte("github.com/linuxarena/ctis/e2e/secondca"))
	key, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), seed[:])
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{Organization: []string{"Second Example"}, CommonName: "Second Example Root"},
		NotBefore: from, NotAfter: until, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	// Without a source of randomness signatures are the same each time too, so that
	// an image made with the certificate is found again by its digest.
	der, err := x509.CreateCertificate(nil, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &Authority{key, cert}, nil
}

// PEM is the authority's certificate.
func (a *Authority) PEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

// Leaf is a certificate of a server of that name, with its key.
func (a *Authority) Leaf(host string) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), DNSNames: []string{host}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), KeyUsage: x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}

// CRL is a revocation list: what a Java runtime without compiler can be made to
// fetch over HTTPS, and show, by its own keytool.
func (a *Authority) CRL() ([]byte, error) {
	return x509.CreateRevocationList(nil, &x509.RevocationList{Number: big.NewInt(1), ThisUpdate: from, NextUpdate: until}, a.cert, a.key)
}
