package trust

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"time"
)

// authority is the CA to be trusted.
type authority struct {
	der  []byte
	pem  []byte // one block, ends in a newline
	name string // for file names, from its subject
	hash string // OpenSSL's hash of its subject, 8 hexadecimal digits
	old  string // and the one before OpenSSL 1.0
	from time.Time
}

// parseAuthority reads exactly one CA certificate.
func parseAuthority(text []byte) (*authority, error) {
	certs := certificates(text)
	if len(certs) != 1 {
		return nil, fmt.Errorf("CA: want one certificate in PEM, got %d", len(certs))
	}
	c, err := x509.ParseCertificate(certs[0])
	if err != nil {
		return nil, fmt.Errorf("CA: %w", err)
	}
	if !c.IsCA {
		return nil, errors.New("CA: the certificate is not one of a CA")
	}
	hash, err := subjectHash(c.RawSubject)
	if err != nil {
		return nil, fmt.Errorf("CA: subject: %w", err)
	}
	return &authority{
		der: c.Raw, pem: encode(c.Raw), name: fileName(c.Subject.CommonName, c.Subject.Organization, hash),
		hash: hash, old: oldSubjectHash(c.RawSubject), from: c.NotBefore,
	}, nil
}

// fileName derives a name as distributions give their certificates.
func fileName(common string, organizations []string, hash string) string {
	name := common
	if name == "" {
		name = strings.Join(organizations, " ")
	}
	name = strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
			return r
		}
		return '_'
	}, name)
	name = strings.Trim(name[:min(len(name), 64)], "_")
	if name == "" {
		return hash
	}
	return name
}

// alias is the CA's name in a keystore, where names are in lower case and may be
// of another certificate too.
func (a *authority) alias() string { return strings.ToLower(a.name) + "_" + a.hash }

// certificates lists the certificates in PEM text, as DER, in order. Text
// between blocks and blocks of other kinds are passed over.
func certificates(text []byte) [][]byte {
	var all [][]byte
	for {
		var b *pem.Block
		if b, text = pem.Decode(text); b == nil {
			return all
		}
		if b.Type == "CERTIFICATE" || b.Type == "X509 CERTIFICATE" {
			all = append(all, b.Bytes)
		}
	}
}

func encode(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// holds tells whether text has the CA among its certificates. It compares the
// certificate, not its text, which may be wrapped or commented otherwise.
func (a *authority) holds(text []byte) bool {
	for _, der := range certificates(text) {
		if bytes.Equal(der, a.der) {
			return true
		}
	}
	return false
}

// appended is text with the CA at its end, everything before unchanged.
func (a *authority) appended(text []byte) []byte {
	out := make([]byte, 0, len(text)+1+len(a.pem))
	out = append(out, text...)
	if len(out) > 0 && out[len(out)-1] != '\n' {
		out = append(out, '\n')
	}
	return append(out, a.pem...)
}

// combined is one bundle of every certificate in texts, each once, and the CA,
// and how many there are besides it.
func (a *authority) combined(texts [][]byte) (bundle []byte, roots int) {
	seen := map[string]bool{string(a.der): true}
	for _, text := range texts {
		for _, der := range certificates(text) {
			if !seen[string(der)] {
				seen[string(der)] = true
				bundle = append(bundle, encode(der)...)
				roots++
			}
		}
	}
	return append(bundle, a.pem...), roots
}
