package ca

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// clock can be set; leaves are judged against it.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func (c *clock) now() time.Time  { c.mu.Lock(); defer c.mu.Unlock(); return c.t }
func (c *clock) set(t time.Time) { c.mu.Lock(); defer c.mu.Unlock(); c.t = t }

var start = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

func load(t *testing.T) (*Authority, *clock, string) {
	t.Helper()
	c, dir := &clock{t: start}, t.TempDir()
	a, err := Load(dir, c.now)
	if err != nil {
		t.Fatal(err)
	}
	return a, c, dir
}

func verify(t *testing.T, a *Authority, leaf *x509.Certificate, host string, at time.Time) error {
	t.Helper()
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(a.PEM()) {
		t.Fatal("the authority's PEM is none")
	}
	_, err := leaf.Verify(x509.VerifyOptions{DNSName: host, Roots: roots, CurrentTime: at, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	return err
}

func TestLeafVerifiesForItsHostBeforeNowAndLater(t *testing.T) {
	a, _, _ := load(t)
	for _, kind := range []KeyType{ECDSA, RSA} {
		cert, err := a.Leaf("t1", "files.example.com", kind)
		if err != nil {
			t.Fatal(err)
		}
		leaf := cert.Leaf
		for name, at := range map[string]time.Time{"a day ago": start.Add(-24 * time.Hour), "now": start, "in 60 days": start.Add(60 * 24 * time.Hour)} {
			if err := verify(t, a, leaf, "files.example.com", at); err != nil {
				t.Errorf("kind %d, %s: %v", kind, name, err)
			}
		}
		if verify(t, a, leaf, "other.example.com", start) == nil {
			t.Error("it verifies for another host")
		}
		if verify(t, a, leaf, "files.example.com", start.Add(91*24*time.Hour)) == nil {
			t.Error("it verifies after its end")
		}
		if total := leaf.NotAfter.Sub(leaf.NotBefore) + time.Second; total > 90*24*time.Hour {
			t.Errorf("it is valid for %s, back-dating included", total)
		}
		if leaf.NotBefore.Before(a.cert.NotBefore) || leaf.NotAfter.After(a.cert.NotAfter) {
			t.Error("it is valid outside the authority's time")
		}
		if leaf.Subject.String() != "" || len(leaf.DNSNames) != 1 || leaf.DNSNames[0] != "files.example.com" {
			t.Errorf("subject %q, names %q", leaf.Subject, leaf.DNSNames)
		}
		if len(leaf.SubjectKeyId) == 0 || !bytes.Equal(leaf.AuthorityKeyId, a.cert.SubjectKeyId) || leaf.SerialNumber.Sign() <= 0 {
			t.Error("key identifiers or serial number are missing")
		}
		switch leaf.PublicKey.(type) {
		case *ecdsa.PublicKey:
			if kind != ECDSA {
				t.Error("an ECDSA key where RSA was asked for")
			}
		case *rsa.PublicKey:
			if kind != RSA {
				t.Error("an RSA key where ECDSA was asked for")
			}
		}
	}
}

func TestLeafForAnAddressNamesIt(t *testing.T) {
	a, _, _ := load(t)
	for _, host := range []string{"192.0.2.1", "2001:db8::1"} {
		cert, err := a.Leaf("t1", host, ECDSA)
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := netip.AddrFromSlice(cert.Leaf.IPAddresses[0]); got.Unmap() != netip.MustParseAddr(host) || len(cert.Leaf.DNSNames) > 0 {
			t.Errorf("%s: %v %v", host, cert.Leaf.IPAddresses, cert.Leaf.DNSNames)
		}
	}
}

func TestLeafNeverBeginsBeforeTheAuthority(t *testing.T) {
	a, c, _ := load(t)
	c.set(a.cert.NotBefore.Add(time.Hour))
	cert, err := a.Leaf("t1", "a.example", ECDSA)
	if err != nil {
		t.Fatal(err)
	}
	if !cert.Leaf.NotBefore.Equal(a.cert.NotBefore) {
		t.Errorf("it begins at %s", cert.Leaf.NotBefore)
	}
}

func TestLeafIsMadeAnewInItsLastThird(t *testing.T) {
	a, c, _ := load(t)
	get := func() *tls.Certificate {
		cert, err := a.Leaf("t1", "a.example", ECDSA)
		if err != nil {
			t.Fatal(err)
		}
		return cert
	}
	first := get()
	c.set(start.Add(57 * 24 * time.Hour))
	if get() != first {
		t.Error("it is made anew too early")
	}
	c.set(start.Add(59 * 24 * time.Hour))
	if get() == first {
		t.Error("it is not made anew")
	}
}

func TestLeafIsMadeOnceHoweverManyAsk(t *testing.T) {
	a, _, _ := load(t)
	var wg sync.WaitGroup
	certs := make([]*tls.Certificate, 50)
	for i := range certs {
		wg.Go(func() { certs[i], _ = a.Leaf("t1", "a.example", ECDSA) })
	}
	wg.Wait()
	for _, c := range certs {
		if c == nil || c != certs[0] {
			t.Fatal("two certificates were made for one name")
		}
	}
}

func TestLeavesOfTrajectoriesAreApart(t *testing.T) {
	a, _, _ := load(t)
	one, _ := a.Leaf("t1", "a.example", ECDSA)
	two, _ := a.Leaf("t2", "a.example", ECDSA)
	if one == two || one.Leaf.SerialNumber.Cmp(two.Leaf.SerialNumber) == 0 {
		t.Error("two trajectories share a certificate")
	}
	a.Forget("t1")
	again, _ := a.Leaf("t1", "a.example", ECDSA)
	same, _ := a.Leaf("t2", "a.example", ECDSA)
	if again == one || same != two {
		t.Error("forgetting one trajectory forgets too little or too much")
	}
}

func TestCacheIsBounded(t *testing.T) {
	a, _, _ := load(t)
	// Minting is slow; what bounds the cache is the list, so it is filled by hand.
	for i := range maxLeaves + 10 {
		key := leafKey{"t1", strconv.Itoa(i), ECDSA}
		done := make(chan struct{})
		close(done)
		if a.leaves.entries == nil {
			_, _ = a.Leaf("t1", "first.example", ECDSA)
		}
		a.leaves.entries[key] = a.leaves.recent.PushFront(&leaf{key: key, ready: done, err: os.ErrNotExist})
	}
	if _, err := a.Leaf("t1", "last.example", ECDSA); err != nil {
		t.Fatal(err)
	}
	if n := len(a.leaves.entries); n > maxLeaves || n != a.leaves.recent.Len() {
		t.Errorf("%d entries, %d in the list, at most %d", n, a.leaves.recent.Len(), maxLeaves)
	}
}

func TestCertificateFitsWhatTheClientSupports(t *testing.T) {
	a, _, _ := load(t)
	modern := &tls.ClientHelloInfo{ServerName: "a.example", SupportedVersions: []uint16{tls.VersionTLS13}, SignatureSchemes: []tls.SignatureScheme{tls.ECDSAWithP256AndSHA256}, SupportedCurves: []tls.CurveID{tls.CurveP256}}
	old := &tls.ClientHelloInfo{ServerName: "a.example", SupportedVersions: []uint16{tls.VersionTLS12}, SignatureSchemes: []tls.SignatureScheme{tls.PKCS1WithSHA256}, SupportedCurves: []tls.CurveID{tls.CurveP256},
		CipherSuites: []uint16{tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256}, SupportedPoints: []uint8{0}}
	for _, c := range []struct {
		hello *tls.ClientHelloInfo
		rsa   bool
	}{{modern, false}, {old, true}} {
		cert, err := a.Certificate("t1", "a.example", c.hello)
		if err != nil {
			t.Fatal(err)
		}
		if _, isRSA := cert.PrivateKey.(*rsa.PrivateKey); isRSA != c.rsa {
			t.Errorf("rsa is %v, want %v", isRSA, c.rsa)
		}
	}
}

func TestAuthorityStaysTheSame(t *testing.T) {
	a, c, dir := load(t)
	b, err := Load(dir, c.now)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(a.PEM(), b.PEM()) {
		t.Error("a second start has another authority")
	}
	fi, err := os.Stat(filepath.Join(dir, bundleFile))
	if err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", fi.Mode(), err)
	}
	cert, err := b.Leaf("t1", "a.example", ECDSA)
	if err != nil {
		t.Fatal(err)
	}
	if err := verify(t, a, cert.Leaf, "a.example", start); err != nil {
		t.Error(err)
	}
}

func TestDamagedAuthorityIsAnErrorAndNotReplaced(t *testing.T) {
	_, c, dir := load(t)
	path := filepath.Join(dir, bundleFile)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	other, _, _ := load(t)
	for name, b := range map[string][]byte{
		"empty": nil, "cut": whole[:len(whole)/2], "other key": append(other.PEM(), whole[len(other.PEM()):]...),
	} {
		if name == "other key" { // certificate of one, key of the other
			i := bytes.Index(whole, []byte("-----BEGIN PRIVATE"))
			b = append(other.PEM(), whole[i:]...)
		}
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(dir, c.now); err == nil || !strings.Contains(err.Error(), "damaged") {
			t.Errorf("%s: %v", name, err)
		}
		if now, _ := os.ReadFile(path); !bytes.Equal(now, b) {
			t.Errorf("%s: the file was replaced", name)
		}
	}
}

func TestAuthorityGivesNothingAway(t *testing.T) {
	a, _, _ := load(t)
	text := strings.ToLower(a.cert.Subject.String())
	for _, word := range []string{"ctis", "simul", "test", "fake", "mock", "proxy", "local", "internal", "sandbox", "dev"} {
		if strings.Contains(text, word) {
			t.Errorf("the subject %q says %q", text, word)
		}
	}
	if !a.cert.IsCA || !a.cert.MaxPathLenZero || len(a.cert.SubjectKeyId) == 0 || a.cert.NotAfter.Before(start.Add(9*365*24*time.Hour)) || !a.cert.NotBefore.Before(start.Add(-3*24*time.Hour)) {
		t.Errorf("authority %+v", a.cert)
	}
}
