package trust

import (
	"bytes"
	"crypto/sha1"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf16"
)

// Java's own keystore formats, as the JDK's JavaKeyStore.java and
// JceKeyStore.java write them: big-endian, strings in "modified UTF-8" after
// their length, and at the end a digest of the password and all before.
const (
	magicJKS   = 0xFEEDFEED
	magicJCEKS = 0xCECECECE

	jksKey    = 1 // a private key, encrypted, and its certificate chain
	jksCert   = 2 // a certificate that is trusted
	jksPhrase = "Mighty Aphrodite"
)

// maxStoreEntries bounds the entries of a keystore, and the certificates of one
// chain: systems trust a few hundred authorities.
const maxStoreEntries = 20_000

// errPassword says that a keystore is sealed with a password nobody told.
var errPassword = errors.New("is sealed with another password than Java's own (changeit)")

// storePasswords are what keystores of trusted authorities are sealed with: what
// the JDK and every distribution use, and none.
var storePasswords = [...]string{"changeit", ""}

// jks is a keystore of the form JKS or JCEKS.
type jks struct {
	data     []byte // whole
	version  uint32
	certs    map[string]int // trusted certificates: DER → how often
	aliases  map[string]bool
	password string
}

// parseJKS reads a keystore without believing any length in it, and finds the
// password it is sealed with.
func parseJKS(data []byte) (*jks, error) {
	if len(data) < 12+sha1.Size {
		return nil, errors.New("is too short for a keystore")
	}
	body := data[:len(data)-sha1.Size]
	r := &jksReader{rest: body[4:]}
	s := &jks{data: data, version: r.u32(), certs: map[string]int{}, aliases: map[string]bool{}}
	if s.version != 1 && s.version != 2 {
		return nil, fmt.Errorf("is a keystore of version %d, which is not known", s.version)
	}
	count := r.u32()
	if count > maxStoreEntries {
		return nil, fmt.Errorf("holds %d entries, more than a keystore of authorities has", count)
	}
	for range count {
		tag := r.u32()
		s.aliases[strings.ToLower(string(r.text()))] = true
		r.take(8) // when it was made
		switch tag {
		case jksCert:
			s.certs[string(r.certificate(s.version))]++
		case jksKey:
			r.take(int(r.u32()))
			chain := r.u32()
			for i := uint32(0); i < chain && r.err == nil; i++ {
				r.certificate(s.version)
			}
		default:
			if r.err == nil {
				r.err = fmt.Errorf("holds an entry of kind %d, which is not known", tag)
			}
		}
		if r.err != nil {
			return nil, r.err
		}
	}
	if len(r.rest) > 0 {
		return nil, errors.New("has something behind its last entry")
	}
	for _, s.password = range storePasswords {
		if subtle.ConstantTimeCompare(jksDigest(s.password, body), data[len(body):]) == 1 {
			return s, nil
		}
	}
	return nil, errPassword
}

func (s *jks) holds(der []byte) bool { return s.certs[string(der)] > 0 }
func (s *jks) roots() int            { return len(s.certs) }

// with is the store with one more trusted certificate. Every byte of the entries
// it has stays; only their number and the digest are new.
func (s *jks) with(der []byte, alias string, made time.Time) ([]byte, error) {
	alias = freeAlias(s.aliases, alias)
	body := bytes.Clone(s.data[:len(s.data)-sha1.Size])
	binary.BigEndian.PutUint32(body[8:], binary.BigEndian.Uint32(body[8:])+1)
	body = binary.BigEndian.AppendUint32(body, jksCert)
	body = append(binary.BigEndian.AppendUint16(body, uint16(len(alias))), alias...)
	body = binary.BigEndian.AppendUint64(body, uint64(made.UnixMilli()))
	if s.version == 2 {
		const kind = "X.509"
		body = append(binary.BigEndian.AppendUint16(body, uint16(len(kind))), kind...)
	}
	body = append(binary.BigEndian.AppendUint32(body, uint32(len(der))), der...)
	return append(body, jksDigest(s.password, body)...), nil
}

func jksDigest(password string, body []byte) []byte {
	h := sha1.New()
	for _, unit := range utf16.Encode([]rune(password)) {
		h.Write([]byte{byte(unit >> 8), byte(unit)})
	}
	h.Write([]byte(jksPhrase))
	h.Write(body)
	return h.Sum(nil)
}

// jksReader takes fields off the front; after the first that is not whole, all
// are empty and err says so.
type jksReader struct {
	rest []byte
	err  error
}

func (r *jksReader) take(n int) []byte {
	if r.err != nil || n < 0 || n > len(r.rest) {
		if r.err == nil {
			r.err = errors.New("ends in the middle of an entry")
		}
		return nil
	}
	field := r.rest[:n]
	r.rest = r.rest[n:]
	return field
}

func (r *jksReader) u32() uint32 {
	if b := r.take(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

func (r *jksReader) text() []byte {
	if b := r.take(2); b != nil {
		return r.take(int(binary.BigEndian.Uint16(b)))
	}
	return nil
}

func (r *jksReader) certificate(version uint32) []byte {
	if version == 2 {
		r.text() // its kind
	}
	return r.take(int(r.u32()))
}
