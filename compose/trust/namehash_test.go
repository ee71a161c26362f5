package trust

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/asn1"
	"fmt"
	"math/big"
	mathrand "math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// attr is one attribute of a name; attributes with the same set number form one
// relative name.
type attr struct {
	set   int
	oid   asn1.ObjectIdentifier
	tag   int
	value string
}

var (
	oidCN = asn1.ObjectIdentifier{2, 5, 4, 3}
	oidC  = asn1.ObjectIdentifier{2, 5, 4, 6}
	oidO  = asn1.ObjectIdentifier{2, 5, 4, 10}
	oidOU = asn1.ObjectIdentifier{2, 5, 4, 11}
	oidE  = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 1}
	oidID = asn1.ObjectIdentifier{2, 5, 4, 45} // x500UniqueIdentifier, a BIT STRING
)

func rawName(t testing.TB, attrs []attr) []byte {
	t.Helper()
	marshal := func(v any) []byte {
		der, err := asn1.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return der
	}
	var sets [][][]byte
	for i, a := range attrs {
		member := marshal(struct {
			Type  asn1.ObjectIdentifier
			Value asn1.RawValue
		}{a.oid, asn1.RawValue{Tag: a.tag, Bytes: []byte(a.value)}})
		if i == 0 || attrs[i-1].set != a.set {
			sets = append(sets, nil)
		}
		sets[len(sets)-1] = append(sets[len(sets)-1], member)
	}
	var body []byte
	for _, set := range sets {
		var members []byte
		for _, m := range set {
			members = append(members, m...)
		}
		body = append(body, marshal(asn1.RawValue{Tag: asn1.TagSet, IsCompound: true, Bytes: members})...)
	}
	return marshal(asn1.RawValue{Tag: asn1.TagSequence, IsCompound: true, Bytes: body})
}

// names are subjects with the hash "openssl x509 -subject_hash" gives them.
var names = []struct {
	name  string
	attrs []attr
	hash  string
}{
	{"plain", []attr{{0, oidC, asn1.TagPrintableString, "US"}, {1, oidO, asn1.TagPrintableString, "Internet Security Research Group"}, {2, oidCN, asn1.TagPrintableString, "ISRG Root X1"}}, "4042bcee"},
	{"without attributes", nil, "eea339da"},
	{"white space and case", []attr{{0, oidCN, asn1.TagUTF8String, " \t Nimbus \n\v ROOT\f  r3 \r"}}, "981e8086"},
	{"only white space", []attr{{0, oidCN, asn1.TagUTF8String, "   "}}, "5da78770"},
	{"empty string", []attr{{0, oidCN, asn1.TagUTF8String, ""}}, "5da78770"},
	{"letters beyond ASCII keep their case", []attr{{0, oidCN, asn1.TagUTF8String, "ÄÖÜ Ünïcode Ω\u00a0 X"}}, "748edc30"},
	{"T61 is Latin-1", []attr{{0, oidO, asn1.TagT61String, "Caf\xc9  \xa0 BAR"}}, "ad09641f"},
	{"BMPString", []attr{{0, oidO, asn1.TagBMPString, "\x00A\x00 \x00 \x03\xa9\x00Z"}}, "a8db0d4e"},
	{"UniversalString", []attr{{0, oidO, tagUniversalString, "\x00\x00\x00A\x00\x00\x00 \x00\x00\x03\xa9"}}, "a43ae8b7"},
	{"IA5String", []attr{{0, oidE, asn1.TagIA5String, "Root@Example.COM"}}, "ef70c3db"},
	{"NumericString stays as it is", []attr{{0, oidO, asn1.TagNumericString, "1  2 "}}, "235b5129"},
	{"BIT STRING stays as it is", []attr{{0, oidCN, asn1.TagUTF8String, "x"}, {1, oidID, asn1.TagBitString, "\x00 \xff"}}, "766f0904"},
	{"several attributes in one relative name", []attr{{0, oidO, asn1.TagUTF8String, "Zeta"}, {0, oidCN, asn1.TagUTF8String, "alpha"}, {1, oidOU, asn1.TagUTF8String, "One"}}, "f5d5a6f4"},
}

func TestSubjectHashIsOpenSSLs(t *testing.T) {
	for _, tc := range names {
		if got, err := subjectHash(rawName(t, tc.attrs)); err != nil || got != tc.hash {
			t.Errorf("%s: %s, %v; OpenSSL says %s", tc.name, got, err, tc.hash)
		}
	}
	for name, der := range map[string][]byte{"empty": {}, "no sequence": {0x31, 0}, "cut": {0x30, 9, 0x31}, "more behind": {0x30, 0, 0}, "no set inside": {0x30, 2, 0x30, 0},
		"odd BMPString": rawName(t, []attr{{0, oidO, asn1.TagBMPString, "abc"}}), "UTF8String that is not": rawName(t, []attr{{0, oidO, asn1.TagUTF8String, "\xff"}})} {
		if got, err := subjectHash(der); err == nil {
			t.Errorf("%s: got %s", name, got)
		}
	}
}

// opensslHash asks the openssl program.
func opensslHash(t testing.TB, subject []byte) string {
	t.Helper()
	openssl, err := exec.LookPath("openssl")
	if err != nil {
		t.Skip("no openssl program to compare with")
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), RawSubject: subject, NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<31, 0)}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	p := filepath.Join(t.TempDir(), "c.pem")
	if err := os.WriteFile(p, encode(der), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(openssl, "x509", "-noout", "-subject_hash", "-in", p).CombinedOutput()
	if err != nil {
		t.Fatalf("openssl: %v: %s", err, out)
	}
	return strings.TrimSpace(string(out))
}

func TestSubjectHashAgreesWithTheOpenSSLProgram(t *testing.T) {
	for _, tc := range names {
		if got := opensslHash(t, rawName(t, tc.attrs)); got != tc.hash {
			t.Errorf("%s: OpenSSL says %s, the table %s", tc.name, got, tc.hash)
		}
	}
	r := mathrand.New(mathrand.NewPCG(1, 2))
	alphabet := []rune("abcXYZ019 \t\n.-'äÖßΩ中 ")
	oids := []asn1.ObjectIdentifier{oidCN, oidC, oidO, oidOU}
	for i := range 40 {
		var attrs []attr
		for set := range r.IntN(5) {
			for range 1 + r.IntN(2) {
				var s strings.Builder
				for range r.IntN(20) {
					s.WriteRune(alphabet[r.IntN(len(alphabet))])
				}
				attrs = append(attrs, attr{set, oids[r.IntN(len(oids))], asn1.TagUTF8String, s.String()})
			}
		}
		name := rawName(t, attrs)
		want := opensslHash(t, name)
		if got, err := subjectHash(name); err != nil || got != want {
			t.Errorf("name %d %s: %s, %v; OpenSSL says %s", i, fmt.Sprint(attrs), got, err, want)
		}
	}
}

func FuzzSubjectHashNeverPanics(f *testing.F) {
	for _, tc := range names {
		f.Add(rawName(f, tc.attrs))
	}
	f.Fuzz(func(t *testing.T, der []byte) {
		if hash, err := subjectHash(der); err == nil && len(hash) != 8 {
			t.Errorf("hash %q", hash)
		}
	})
}
