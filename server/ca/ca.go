// Package ca is the certificate authority that containers are made to trust. It
// is created once per state directory and then stays the same, so that a
// container keeps trusting a simulator that was killed, restarted or replaced.
//
// It signs nothing by itself: a certificate is made only for a name the caller
// says belongs to a trajectory.
package ca

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"time"

	"github.com/linuxarena/ctis/server/durable"
)

const (
	bundleFile = "authority.pem" // certificate and key together: one file cannot be half replaced
	bits       = 2048            // RSA, because old clients verify no ECDSA roots
	lifetime   = 10 * 365 * 24 * time.Hour
	// backdating covers containers whose clock lags or is faked a little. The
	// authority's is the larger, since no leaf may begin before it.
	backdating     = 30 * 24 * time.Hour
	leafBackdating = 2 * 24 * time.Hour
)

// subject reads like one of the many small public authorities.
var subject = pkix.Name{
	Country:            []string{"US"},
	Organization:       []string{"Corvane Trust Services LLC"},
	OrganizationalUnit: []string{"Certification Services Division"},
	CommonName:         "Corvane Global Root R3",
}

// Authority is a certificate with its key.
type Authority struct {
	cert *x509.Certificate
	key  crypto.Signer
	pem  []byte
	now  func() time.Time

	leaves leaves
}

// Load reads the authority kept in dir, or makes one if there is none. A
// damaged one is an error: a new one in its place would silently cut off every
// container that trusts the old.
func Load(dir string, now func() time.Time) (*Authority, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, bundleFile)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if b, err = create(now()); err != nil {
			return nil, err
		}
		if err := durable.WriteFile(path, b, 0o600); err != nil {
			return nil, fmt.Errorf("the certificate authority cannot be stored: %w", err)
		}
	} else if err != nil {
		return nil, err
	}
	a, err := parse(b)
	if err != nil {
		return nil, fmt.Errorf("certificate authority %q is damaged: %w; restore it, or remove it to have a new one made and set the trajectories up again", path, err)
	}
	a.now = now
	return a, nil
}

// Created is when the authority was made, to the second below.
func (a *Authority) Created() time.Time { return a.cert.NotBefore.Add(backdating) }

// PEM is the authority's certificate.
func (a *Authority) PEM() []byte { return append([]byte(nil), a.pem...) }

func create(now time.Time) ([]byte, error) {
	key, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		return nil, err
	}
	id, err := keyID(key.Public())
	if err != nil {
		return nil, err
	}
	serial, err := serialNumber()
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               subject,
		NotBefore:             now.Add(-backdating).UTC().Truncate(time.Second),
		NotAfter:              now.Add(lifetime).UTC().Truncate(time.Second),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true, // signs leaves and nothing else
		SubjectKeyId:          id,
		AuthorityKeyId:        id,
		SignatureAlgorithm:    x509.SHA256WithRSA,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	out := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return append(out, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})...), nil
}

func parse(b []byte) (*Authority, error) {
	certBlock, rest := pem.Decode(b)
	if certBlock == nil || certBlock.Type != "CERTIFICATE" {
		return nil, errors.New("it holds no certificate")
	}
	keyBlock, _ := pem.Decode(rest)
	if keyBlock == nil || keyBlock.Type != "PRIVATE KEY" {
		return nil, errors.New("it holds no private key")
	}
	cert, err := x509.ParseCertificate(certBlock.Bytes)
	if err != nil {
		return nil, err
	}
	parsed, err := x509.ParsePKCS8PrivateKey(keyBlock.Bytes)
	if err != nil {
		return nil, err
	}
	key, ok := parsed.(*rsa.PrivateKey)
	if !ok || !key.PublicKey.Equal(cert.PublicKey) {
		return nil, errors.New("its key and its certificate do not belong together")
	}
	return &Authority{cert: cert, key: key, pem: pem.EncodeToMemory(certBlock)}, nil
}

// keyID is the identifier of RFC 7093 §2 method 1 over the public key, in the
// usual length of 160 bits.
func keyID(pub crypto.PublicKey) ([]byte, error) {
	der, err := x509.MarshalPKIXPublicKey(pub)
	if err != nil {
		return nil, err
	}
	var info struct {
		Algorithm pkix.AlgorithmIdentifier
		Key       asn1.BitString
	}
	if _, err := asn1.Unmarshal(der, &info); err != nil {
		return nil, err
	}
	sum := sha256.Sum256(info.Key.Bytes)
	return sum[:sha1.Size], nil
}

// serialNumber is random in 127 bits: positive, and never the same twice.
func serialNumber() (*big.Int, error) {
	n, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	return n.Add(n, big.NewInt(1)), nil
}
