package conduit

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
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

// Identity is the key one end of the link has, and the certificate that shows it.
type Identity struct {
	certificate tls.Certificate
	// Fingerprint is the SHA-256 of the public key (its SubjectPublicKeyInfo), in hex.
	Fingerprint string
}

const identityFile = "link.pem"

// LoadIdentity reads the identity kept in dir, or makes one. A file that cannot be
// read back is replaced: the host tells the other end about the new one.
func LoadIdentity(dir string) (*Identity, error) {
	path := filepath.Join(dir, identityFile)
	b, err := os.ReadFile(path)
	if err == nil {
		if id, err := parseIdentity(b); err == nil {
			return id, nil
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("the key for the link: %w", err)
	}
	if b, err = newIdentity(); err != nil {
		return nil, fmt.Errorf("the key for the link: %w", err)
	}
	if err := durable.WriteFile(path, b, 0o600); err != nil {
		return nil, fmt.Errorf("the key for the link is not stored: %w", err)
	}
	return parseIdentity(b)
}

// newIdentity makes a key and a certificate that signs itself. Nothing is read in it
// but the key, so its names and dates say nothing.
func newIdentity() ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		NotBefore:    time.Unix(0, 0),
		NotAfter:     time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC), // without an end (RFC 5280 §4.1.2.5)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})...), nil
}

func parseIdentity(b []byte) (*Identity, error) {
	c, err := tls.X509KeyPair(b, b)
	if err != nil {
		return nil, err
	}
	return &Identity{certificate: c, Fingerprint: fingerprint(c.Leaf)}, nil
}

func fingerprint(c *x509.Certificate) string {
	sum := sha256.Sum256(c.RawSubjectPublicKeyInfo)
	return hex.EncodeToString(sum[:])
}

// config is TLS with the one peer whose fingerprint peer gives; none while that is "".
func (id *Identity) config(peer func() string) *tls.Config {
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		Certificates:           []tls.Certificate{id.certificate},
		ClientAuth:             tls.RequireAnyClientCert,
		SessionTicketsDisabled: true,
		// The certificates sign themselves: whom they show is settled by the key.
		InsecureSkipVerify: true,
		VerifyConnection: func(s tls.ConnectionState) error {
			want := peer()
			if want == "" || len(s.PeerCertificates) == 0 ||
				subtle.ConstantTimeCompare([]byte(fingerprint(s.PeerCertificates[0])), []byte(want)) != 1 {
				return errors.New("it is not the peer that was named for the link")
			}
			return nil
		},
	}
}
