package trust

import (
	"bytes"
	"encoding/asn1"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf16"
)

// What RFC 7292 and the JDK name things in a PKCS#12 file.
var (
	oidData         = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 7, 1}
	oidCertBag      = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 12, 10, 1, 3}
	oidX509Cert     = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 22, 1}
	oidFriendlyName = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 20}
	// Java trusts a certificate in such a file only if it has this attribute
	// (PKCS12KeyStore.java), with the purposes it is trusted for.
	oidTrustedKeyUsage = asn1.ObjectIdentifier{2, 16, 840, 1, 113894, 746875, 1, 1}
	oidAnyPurpose      = asn1.ObjectIdentifier{2, 5, 29, 37, 0}
)

// pkcs12 is a keystore of the form PKCS#12. Of its parts only those that are not
// encrypted are looked into: the password-less files of newer JDKs are one such
// part. Into that a certificate is put, or into a new one of its kind, so that
// nothing has to be decrypted, and the entries there are stay byte for byte.
type pkcs12 struct {
	version asn1.RawValue
	parts   []asn1.RawValue // the ContentInfos
	open    int             // the first part that is not encrypted, -1 for none
	bags    []byte          // the SafeBags in it, one after another
	content []byte          // what the seal is over: the SEQUENCE of parts
	seal    *pkcs12Seal
	certs   map[string]int // trusted certificates that can be seen: DER → how often
	aliases map[string]bool
}

func parsePKCS12(data []byte) (*pkcs12, error) {
	bad := func(what string) error { return fmt.Errorf("is no PKCS#12 file in DER: %s", what) }
	outer, err := elements(data, 1)
	if err != nil || len(outer) != 1 || outer[0].Tag != asn1.TagSequence {
		return nil, bad("not one SEQUENCE")
	}
	fields, err := elements(outer[0].Bytes, 3)
	if err != nil || len(fields) < 2 || fields[0].Tag != asn1.TagInteger {
		return nil, bad("no version and content")
	}
	s := &pkcs12{version: fields[0], open: -1, certs: map[string]int{}, aliases: map[string]bool{}}
	kind, content, err := contentInfo(fields[1])
	if err != nil || !kind.Equal(oidData) {
		return nil, bad("its content is no data that a password seals")
	}
	if s.content, err = octets(content); err != nil {
		return nil, bad("its content is no OCTET STRING")
	}
	safe, err := elements(s.content, 1)
	if err != nil || len(safe) != 1 || safe[0].Tag != asn1.TagSequence {
		return nil, bad("its content is no SEQUENCE")
	}
	if s.parts, err = elements(safe[0].Bytes, maxStoreEntries); err != nil {
		return nil, bad("its parts: " + err.Error())
	}
	for i, p := range s.parts {
		if err := s.part(i, p); err != nil {
			return nil, bad("a part: " + err.Error())
		}
	}
	if len(fields) == 3 {
		if s.seal, err = parseSeal(fields[2]); err != nil {
			return nil, bad(err.Error())
		}
		if !s.seal.open(s.content) {
			return nil, errPassword
		}
	}
	return s, nil
}

// part notes the certificates of one ContentInfo that is not encrypted.
func (s *pkcs12) part(i int, p asn1.RawValue) error {
	kind, content, err := contentInfo(p)
	if err != nil || !kind.Equal(oidData) {
		return err
	}
	bags, err := octets(content)
	if err != nil {
		return err
	}
	outer, err := elements(bags, 1)
	if err != nil || len(outer) != 1 || outer[0].Tag != asn1.TagSequence {
		return errors.Join(errors.New("not one SEQUENCE"), err)
	}
	list, err := elements(outer[0].Bytes, maxStoreEntries)
	if err != nil {
		return err
	}
	if s.open < 0 {
		s.open, s.bags = i, outer[0].Bytes
	}
	for _, b := range list {
		if err := s.bag(b); err != nil {
			return err
		}
	}
	return nil
}

// bag notes one SafeBag: a certificate counts when Java would trust it.
func (s *pkcs12) bag(b asn1.RawValue) error {
	fields, err := elements(b.Bytes, 3)
	if err != nil || len(fields) < 2 {
		return errors.Join(errors.New("a bag without kind and value"), err)
	}
	trusted := false
	if len(fields) == 3 {
		attributes, err := elements(fields[2].Bytes, 64)
		if err != nil {
			return err
		}
		for _, a := range attributes {
			var attribute struct {
				Kind   asn1.ObjectIdentifier
				Values asn1.RawValue
			}
			if _, err := asn1.Unmarshal(a.FullBytes, &attribute); err != nil {
				return err
			}
			switch {
			case attribute.Kind.Equal(oidTrustedKeyUsage):
				trusted = true
			case attribute.Kind.Equal(oidFriendlyName):
				s.aliases[strings.ToLower(friendlyName(attribute.Values.Bytes))] = true
			}
		}
	}
	if kind, err := oid(fields[0]); err != nil || !kind.Equal(oidCertBag) {
		return err
	}
	value, err := elements(fields[1].Bytes, 1)
	if err != nil || len(value) != 1 {
		return errors.Join(errors.New("a certificate bag that is not one"), err)
	}
	kind, content, err := contentInfo(value[0])
	if err != nil || !kind.Equal(oidX509Cert) {
		return err
	}
	der, err := octets(content)
	if err == nil && trusted {
		s.certs[string(der)]++
	}
	return err
}

// friendlyName decodes a BMPString, for comparing.
func friendlyName(values []byte) string {
	var v asn1.RawValue
	if _, err := asn1.Unmarshal(values, &v); err != nil {
		return ""
	}
	var units []uint16
	for b := v.Bytes; len(b) >= 2; b = b[2:] {
		units = append(units, uint16(b[0])<<8|uint16(b[1]))
	}
	return string(utf16.Decode(units))
}

func (s *pkcs12) holds(der []byte) bool { return s.certs[string(der)] > 0 }
func (s *pkcs12) roots() int            { return len(s.certs) }

// with adds a bag of one trusted certificate, unencrypted. A seal is made anew.
func (s *pkcs12) with(der []byte, alias string, _ time.Time) ([]byte, error) {
	var name []byte
	for _, u := range utf16.Encode([]rune(freeAlias(s.aliases, alias))) {
		name = append(name, byte(u>>8), byte(u))
	}
	attributes := [][]byte{
		sequence(mustOID(oidFriendlyName), tlv(asn1.TagSet, tlv(asn1.TagBMPString, name))),
		sequence(mustOID(oidTrustedKeyUsage), tlv(asn1.TagSet, mustOID(oidAnyPurpose))),
	}
	if bytes.Compare(attributes[0], attributes[1]) > 0 { // a SET is sorted in DER
		attributes[0], attributes[1] = attributes[1], attributes[0]
	}
	bag := sequence(mustOID(oidCertBag), explicit(sequence(mustOID(oidX509Cert), explicit(tlv(asn1.TagOctetString, der)))),
		tlv(asn1.TagSet, bytes.Join(attributes, nil)))
	part := func(bags ...[]byte) []byte {
		return sequence(mustOID(oidData), explicit(tlv(asn1.TagOctetString, sequence(bags...))))
	}
	var parts [][]byte
	for i, p := range s.parts {
		if i == s.open {
			parts = append(parts, part(s.bags, bag))
			continue
		}
		parts = append(parts, p.FullBytes)
	}
	if s.open < 0 {
		parts = append(parts, part(bag))
	}
	content := sequence(parts...)
	fields := [][]byte{s.version.FullBytes, sequence(mustOID(oidData), explicit(tlv(asn1.TagOctetString, content)))}
	if s.seal != nil {
		fields = append(fields, s.seal.over(content))
	}
	return sequence(fields...), nil
}
