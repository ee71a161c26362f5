package ca

import (
	"container/list"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/netip"
	"sync"
	"time"
)

const (
	// leafLifetime is from NotBefore to NotAfter, the back-dated days included:
	// clients measure exactly that, and their limits keep shrinking.
	leafLifetime = 90 * 24 * time.Hour
	// renewBefore is the last third, in which a certificate is made anew.
	renewBefore = leafLifetime / 3
	// cached leaves over all trajectories; the least recently used goes.
	maxLeaves = 2048
)

// KeyType is the kind of key a leaf has.
type KeyType uint8

// The key types.
const (
	ECDSA KeyType = iota // P-256
	RSA                  // 2048 bits, for clients that verify nothing newer
)

type leafKey struct {
	trajectory, host string
	kind             KeyType
}

// leaves caches certificates. One that is being made is made once, however many
// ask for it, and nobody who asks for another waits for it.
type leaves struct {
	mu      sync.Mutex
	entries map[leafKey]*list.Element // of *leaf
	recent  list.List                 // most recently used first
	signers [2]signer
}

// signer is the key all leaves of one type share within a process.
type signer struct {
	once sync.Once
	key  crypto.Signer
	err  error
}

type leaf struct {
	key   leafKey
	ready chan struct{} // closed when cert and err are set
	cert  *tls.Certificate
	err   error
}

// Certificate gives the certificate for host, a DNS name or an IP address, of
// a trajectory, with the key type that the client can verify.
func (a *Authority) Certificate(trajectory, host string, hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	cert, err := a.Leaf(trajectory, host, ECDSA)
	if err != nil || hello.SupportsCertificate(cert) == nil {
		return cert, err
	}
	return a.Leaf(trajectory, host, RSA)
}

// Leaf gives the certificate for host with a key of the given type.
func (a *Authority) Leaf(trajectory, host string, kind KeyType) (*tls.Certificate, error) {
	key := leafKey{trajectory, host, kind}
	l := &a.leaves
	l.mu.Lock()
	if e, ok := l.entries[key]; ok {
		have := e.Value.(*leaf)
		if !have.done() || have.err == nil && a.now().Before(have.cert.Leaf.NotAfter.Add(-renewBefore)) && !a.now().Before(have.cert.Leaf.NotBefore) {
			l.recent.MoveToFront(e)
			l.mu.Unlock()
			<-have.ready
			return have.cert, have.err
		}
		l.recent.Remove(e)
		delete(l.entries, key)
	}
	made := &leaf{key: key, ready: make(chan struct{})}
	if l.entries == nil {
		l.entries = map[leafKey]*list.Element{}
	}
	l.entries[key] = l.recent.PushFront(made)
	for l.recent.Len() > maxLeaves {
		oldest := l.recent.Back()
		l.recent.Remove(oldest)
		delete(l.entries, oldest.Value.(*leaf).key)
	}
	l.mu.Unlock()

	made.cert, made.err = a.mint(host, kind)
	close(made.ready)
	return made.cert, made.err
}

// Forget drops what is cached for a trajectory.
func (a *Authority) Forget(trajectory string) {
	l := &a.leaves
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, e := range l.entries {
		if key.trajectory == trajectory {
			l.recent.Remove(e)
			delete(l.entries, key)
		}
	}
}

func (l *leaf) done() bool {
	select {
	case <-l.ready:
		return true
	default:
		return false
	}
}

func (a *Authority) mint(host string, kind KeyType) (*tls.Certificate, error) {
	key, err := a.leaves.signers[kind].get(kind)
	if err != nil {
		return nil, fmt.Errorf("certificate for %q: %w", host, err)
	}
	return a.sign(host, key, kind)
}

// sign makes a certificate for host and a key.
func (a *Authority) sign(host string, key crypto.Signer, kind KeyType) (*tls.Certificate, error) {
	id, err := keyID(key.Public())
	if err != nil {
		return nil, fmt.Errorf("certificate for %q: %w", host, err)
	}
	serial, err := serialNumber()
	if err != nil {
		return nil, fmt.Errorf("certificate for %q: %w", host, err)
	}
	from := a.now().Add(-leafBackdating).UTC().Truncate(time.Second)
	if from.Before(a.cert.NotBefore) {
		from = a.cert.NotBefore
	}
	until := from.Add(leafLifetime - time.Second) // both ends count as valid
	if until.After(a.cert.NotAfter) {
		until = a.cert.NotAfter
	}
	template := &x509.Certificate{
		SerialNumber:          serial,
		NotBefore:             from,
		NotAfter:              until,
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
		SubjectKeyId:          id,
		AuthorityKeyId:        a.cert.SubjectKeyId,
		SignatureAlgorithm:    x509.SHA256WithRSA,
	}
	if kind == RSA {
		template.KeyUsage |= x509.KeyUsageKeyEncipherment // key exchange of TLS 1.2's older suites
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		template.IPAddresses = append(template.IPAddresses, ip.AsSlice())
	} else {
		template.DNSNames = []string{host}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return nil, fmt.Errorf("certificate for %q: %w", host, err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("certificate for %q: %w", host, err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: parsed}, nil
}

func (s *signer) get(kind KeyType) (crypto.Signer, error) {
	s.once.Do(func() {
		if kind == RSA {
			s.key, s.err = rsa.GenerateKey(rand.Reader, bits)
			return
		}
		s.key, s.err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	})
	return s.key, s.err
}
