package trust

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/asn1"
	"encoding/binary"
	"errors"
	"strings"
	"testing"
	"time"

	jkslib "github.com/pavlo-v-chernykh/keystore-go/v4"
	pkcs12lib "software.sslmate.com/src/go-pkcs12"
)

// A keystore is written by one program, given the CA by this package, and read by
// the first again, which checks the seal as Java does.

func parsed(t testing.TB, text string) *x509.Certificate {
	t.Helper()
	c, err := x509.ParseCertificate(certificates([]byte(text))[0])
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func newJKS(t testing.TB, password string, certs map[string]string) []byte {
	t.Helper()
	s := jkslib.New(jkslib.WithOrderedAliases())
	for alias, text := range certs {
		e := jkslib.TrustedCertificateEntry{CreationTime: longAgo, Certificate: jkslib.Certificate{Type: "X509", Content: parsed(t, text).Raw}}
		if err := s.SetTrustedCertificateEntry(alias, e); err != nil {
			t.Fatal(err)
		}
	}
	var buf bytes.Buffer
	if err := s.Store(&buf, []byte(password)); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func TestJKSGetsTheCAAndKeepsItsEntries(t *testing.T) {
	fx := newFixture(t)
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	src := jkslib.New(jkslib.WithOrderedAliases())
	root := jkslib.Certificate{Type: "X.509", Content: parsed(t, fx.root1).Raw}
	for _, err := range []error{
		src.SetTrustedCertificateEntry("root", jkslib.TrustedCertificateEntry{CreationTime: longAgo, Certificate: root}),
		src.SetTrustedCertificateEntry(fx.auth.alias(), jkslib.TrustedCertificateEntry{CreationTime: longAgo, Certificate: root}),
		src.SetPrivateKeyEntry("server", jkslib.PrivateKeyEntry{CreationTime: longAgo, PrivateKey: pkcs8, CertificateChain: []jkslib.Certificate{root, root}}, []byte("changeit")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	var file bytes.Buffer
	if err := src.Store(&file, []byte("changeit")); err != nil {
		t.Fatal(err)
	}
	s, err := parseKeystore(file.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if s.holds(fx.auth.der) || !s.holds(root.Content) || s.roots() != 1 {
		t.Errorf("before: holds %t, %d roots", s.holds(fx.auth.der), s.roots())
	}
	data, err := s.with(fx.auth.der, fx.auth.alias(), longAgo)
	if err != nil {
		t.Fatal(err)
	}
	old := file.Bytes()
	if kept := old[12 : len(old)-20]; !bytes.HasPrefix(data[12:], kept) {
		t.Error("what was there did not stay byte for byte")
	}
	back := jkslib.New()
	if err := back.Load(bytes.NewReader(data), []byte("changeit")); err != nil {
		t.Fatalf("another program does not read it: %v", err)
	}
	e, err := back.GetTrustedCertificateEntry(fx.auth.alias() + "-2")
	if err != nil || !bytes.Equal(e.Certificate.Content, fx.auth.der) || e.Certificate.Type != "X.509" || !e.CreationTime.Equal(longAgo) {
		t.Errorf("the CA's entry: %+v, %v", e, err)
	}
	if k, err := back.GetPrivateKeyEntry("server", []byte("changeit")); err != nil || !bytes.Equal(k.PrivateKey, pkcs8) || len(k.CertificateChain) != 2 {
		t.Errorf("the key is gone: %v", err)
	}
	if s, err = parseKeystore(data); err != nil || !s.holds(fx.auth.der) || s.roots() != 2 {
		t.Errorf("after: %v", err)
	}
}

func TestPKCS12GetsTheCAWhateverItIsSealedWith(t *testing.T) {
	fx := newFixture(t)
	entries := []pkcs12lib.TrustStoreEntry{{Cert: parsed(t, fx.root1), FriendlyName: "root one"}, {Cert: parsed(t, fx.root2), FriendlyName: fx.auth.alias()}}
	for _, tc := range []struct {
		name     string
		encoder  *pkcs12lib.Encoder
		password string
		seen     int // roots that are not encrypted
	}{
		{"without password, as newer JDKs bring it", pkcs12lib.Passwordless, "", 2},
		{"as keytool makes it now", pkcs12lib.Modern2023, "changeit", 0},
		{"as keytool made it before", pkcs12lib.LegacyDES, "changeit", 0},
		{"with 40 bits of RC2", pkcs12lib.LegacyRC2, "changeit", 0},
		{"with an empty password", pkcs12lib.Modern2023, "", 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			old, err := tc.encoder.EncodeTrustStoreEntries(entries, tc.password)
			if err != nil {
				t.Fatal(err)
			}
			s, err := parseKeystore(old)
			if err != nil {
				t.Fatal(err)
			}
			if s.holds(fx.auth.der) || s.roots() != tc.seen {
				t.Errorf("before: holds %t, %d roots", s.holds(fx.auth.der), s.roots())
			}
			data, err := s.with(fx.auth.der, fx.auth.alias(), longAgo)
			if err != nil {
				t.Fatal(err)
			}
			p, kept := s.(*pkcs12), 0
			for _, entries := range append(p.parts, asn1.RawValue{FullBytes: p.bags}) {
				if len(entries.FullBytes) > 0 && bytes.Contains(data, entries.FullBytes) {
					kept++
				}
			}
			if kept != 1 {
				t.Error("what was there did not stay byte for byte")
			}
			readBack(t, data, tc.password)
			again, err := parseKeystore(data)
			if err != nil || !again.holds(fx.auth.der) || again.roots() != tc.seen+1 {
				t.Errorf("after: %v", err)
			}
		})
	}
}

// readBack has another implementation read a file: whole where it can, and where
// part of it is encrypted at least so far that it has checked the seal and misses
// nothing but a private key.
func readBack(t *testing.T, data []byte, password string) {
	t.Helper()
	if _, err := pkcs12lib.DecodeTrustStore(data, password); err == nil {
		return
	}
	if _, _, _, err := pkcs12lib.DecodeChain(data, password); err == nil || err.Error() != "pkcs12: private key missing" {
		t.Fatalf("another program does not read it: %v", err)
	}
	if _, _, _, err := pkcs12lib.DecodeChain(data, password+"x"); !errors.Is(err, pkcs12lib.ErrIncorrectPassword) {
		t.Fatalf("the seal is open to any password: %v", err)
	}
}

func TestACertificateThatJavaDoesNotTrustIsNotHeld(t *testing.T) {
	fx := newFixture(t)
	bag := sequence(mustOID(oidCertBag), explicit(sequence(mustOID(oidX509Cert), explicit(tlv(asn1.TagOctetString, fx.auth.der)))))
	part := sequence(mustOID(oidData), explicit(tlv(asn1.TagOctetString, sequence(bag))))
	version, err := asn1.Marshal(3)
	if err != nil {
		t.Fatal(err)
	}
	file := sequence(version, sequence(mustOID(oidData), explicit(tlv(asn1.TagOctetString, sequence(part)))))
	s, err := parseKeystore(file)
	if err != nil || s.holds(fx.auth.der) {
		t.Errorf("a certificate without the attribute of trust: %v", err)
	}
}

func TestKeystoresThatAreNoneSaySo(t *testing.T) {
	fx := newFixture(t)
	good := newJKS(t, "changeit", map[string]string{"a": fx.root1})
	edit := func(b []byte, at int, v uint32) []byte {
		c := bytes.Clone(b)
		binary.BigEndian.PutUint32(c[at:], v)
		return c
	}
	sealed, err := pkcs12lib.Modern2023.EncodeTrustStore([]*x509.Certificate{parsed(t, fx.root1)}, "secret")
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		data []byte
		want string
	}{
		"nothing":                  {nil, "no keystore"},
		"text":                     {[]byte(fx.ca), "no keystore"},
		"cut":                      {good[:len(good)-60], "middle"},
		"too short":                {good[:20], "too short"},
		"other version":            {edit(good, 4, 3), "version 3"},
		"more entries than it has": {edit(good, 8, 2), "middle"},
		"countless entries":        {edit(good, 8, 1<<31), "more than"},
		"unknown kind":             {edit(good, 12, 3), "kind 3"},
		"fewer entries":            {edit(good, 8, 0), "behind its last"},
		"other password":           {newJKS(t, "secret", map[string]string{"a": fx.root1}), "another password"},
		"PKCS#12, other password":  {sealed, "another password"},
		"PKCS#12, cut":             {sealed[:len(sealed)/2], "no PKCS#12"},
		"PKCS#12, trailing":        {append(bytes.Clone(sealed), 5, 0), "no PKCS#12"},
	} {
		if _, err := parseKeystore(tc.data); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRoundsOfASealAreBounded(t *testing.T) {
	seal := func(rounds int) []byte {
		n, err := asn1.Marshal(rounds)
		if err != nil {
			t.Fatal(err)
		}
		alg := sequence(sequence(mustOID(asn1.ObjectIdentifier{1, 3, 14, 3, 2, 26}), []byte{5, 0}), tlv(asn1.TagOctetString, make([]byte, 20)))
		return sequence(alg, tlv(asn1.TagOctetString, []byte("saltsalt")), n)
	}
	for rounds, ok := range map[int]bool{1: true, maxRounds: true, maxRounds + 1: false, 0: false, -1: false} {
		v, err := elements(seal(rounds), 1)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := parseSeal(v[0]); (err == nil) != ok {
			t.Errorf("%d rounds: %v", rounds, err)
		}
	}
}

func FuzzKeystore(f *testing.F) {
	fx := newFixture(f)
	f.Add(newJKS(f, "changeit", map[string]string{"a": fx.root1, "b": fx.root2}))
	for _, e := range []*pkcs12lib.Encoder{pkcs12lib.Passwordless, pkcs12lib.LegacyDES.WithIterations(1)} {
		data, err := e.EncodeTrustStore([]*x509.Certificate{parsed(f, fx.root1)}, "")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := parseKeystore(data)
		if err != nil {
			return
		}
		had := s.roots()
		if s.holds(fx.auth.der) {
			return
		}
		out, err := s.with(fx.auth.der, "x", time.Unix(0, 0))
		if err != nil {
			t.Fatal(err)
		}
		again, err := parseKeystore(out)
		if err != nil {
			t.Fatalf("what was written is not read: %v", err)
		}
		if !again.holds(fx.auth.der) || again.roots() != had+1 {
			t.Fatalf("%d roots became %d", had, again.roots())
		}
	})
}

func TestOldSubjectHashIsOpenSSLs(t *testing.T) {
	// Of a certificate that "openssl req -subj /CN=Nimbus" made.
	name := append([]byte{0x30, 0x11, 0x31, 0x0f, 0x30, 0x0d, 6, 3, 0x55, 4, 3, 0x0c, 6}, "Nimbus"...)
	if got := oldSubjectHash(name); got != "f9320aa4" {
		t.Errorf("got %s", got)
	}
}
