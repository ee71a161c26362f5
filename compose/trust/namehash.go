package trust

import (
	"bytes"
	"crypto/md5"
	"crypto/sha1"
	"encoding/asn1"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"unicode/utf16"
	"unicode/utf8"
)

// tagUniversalString is UniversalString, which encoding/asn1 has no name for.
// VisibleString is left out on purpose: OpenSSL reads no name that has one.
const tagUniversalString = 28

// subjectHash is OpenSSL's X509_NAME_hash of a subject in DER: what
// "openssl x509 -subject_hash" prints and what files in a hashed certificate
// directory are named after. The rules are those of x509_name_canon and
// asn1_string_canon in OpenSSL's crypto/x509/x_name.c, unchanged since 1.0.0:
// every string becomes UTF-8, lower case in ASCII only, with white space
// trimmed and runs of it made one space; relative names are encoded one after
// another without the outer SEQUENCE; the hash is the first four bytes of the
// SHA-1, read as a little-endian number.
func subjectHash(rawSubject []byte) (string, error) {
	var name asn1.RawValue
	if rest, err := asn1.Unmarshal(rawSubject, &name); err != nil {
		return "", err
	} else if len(rest) > 0 || name.Tag != asn1.TagSequence || !name.IsCompound {
		return "", errors.New("not one SEQUENCE")
	}
	var canon []byte
	for rest := name.Bytes; len(rest) > 0; {
		var set asn1.RawValue
		var err error
		if rest, err = asn1.Unmarshal(rest, &set); err != nil {
			return "", err
		}
		rdn, err := canonicalSet(set)
		if err != nil {
			return "", err
		}
		canon = append(canon, rdn...)
	}
	sum := sha1.Sum(canon)
	return fmt.Sprintf("%08x", binary.LittleEndian.Uint32(sum[:4])), nil
}

// oldSubjectHash is the hash of a subject as it was before OpenSSL 1.0, which
// "openssl x509 -subject_hash_old" prints and GnuTLS goes by: the first four bytes
// of the MD5 of the subject in DER, read as a little-endian number.
func oldSubjectHash(rawSubject []byte) string {
	sum := md5.Sum(rawSubject)
	return fmt.Sprintf("%08x", binary.LittleEndian.Uint32(sum[:4]))
}

// canonicalSet encodes one relative name: a SET, its members in DER's order.
func canonicalSet(set asn1.RawValue) ([]byte, error) {
	if set.Tag != asn1.TagSet || !set.IsCompound {
		return nil, errors.New("relative name is not a SET")
	}
	var members [][]byte
	for rest := set.Bytes; len(rest) > 0; {
		var attribute struct {
			Type  asn1.ObjectIdentifier
			Value asn1.RawValue
		}
		var err error
		if rest, err = asn1.Unmarshal(rest, &attribute); err != nil {
			return nil, err
		}
		if attribute.Value, err = canonicalString(attribute.Value); err != nil {
			return nil, err
		}
		member, err := asn1.Marshal(attribute)
		if err != nil {
			return nil, err
		}
		members = append(members, member)
	}
	slices.SortFunc(members, bytes.Compare)
	return asn1.Marshal(asn1.RawValue{Class: asn1.ClassUniversal, Tag: asn1.TagSet, IsCompound: true, Bytes: bytes.Join(members, nil)})
}

// canonicalString brings a string value to its canonical form; values of other
// types stay as they are.
func canonicalString(v asn1.RawValue) (asn1.RawValue, error) {
	if v.Class != asn1.ClassUniversal {
		return v, nil
	}
	var text []byte
	switch v.Tag {
	case asn1.TagUTF8String:
		if !utf8.Valid(v.Bytes) {
			return v, errors.New("UTF8String is not UTF-8")
		}
		text = v.Bytes
	case asn1.TagPrintableString, asn1.TagIA5String, asn1.TagT61String:
		for _, b := range v.Bytes { // OpenSSL takes each byte for a Latin-1 character
			text = utf8.AppendRune(text, rune(b))
		}
	case asn1.TagBMPString:
		if len(v.Bytes)%2 != 0 {
			return v, errors.New("BMPString of odd length")
		}
		var units []uint16
		for i := 0; i < len(v.Bytes); i += 2 {
			units = append(units, binary.BigEndian.Uint16(v.Bytes[i:]))
		}
		text = []byte(string(utf16.Decode(units)))
	case tagUniversalString:
		if len(v.Bytes)%4 != 0 {
			return v, errors.New("UniversalString whose length is no multiple of 4")
		}
		for i := 0; i < len(v.Bytes); i += 4 {
			text = utf8.AppendRune(text, rune(binary.BigEndian.Uint32(v.Bytes[i:])))
		}
	default:
		return v, nil
	}
	return asn1.RawValue{Class: asn1.ClassUniversal, Tag: asn1.TagUTF8String, Bytes: fold(text)}, nil
}

// fold lowers ASCII letters, trims ASCII white space and makes runs of it one
// space.
func fold(text []byte) []byte {
	var out []byte
	for _, word := range bytes.FieldsFunc(text, func(r rune) bool { return r == ' ' || (r >= '\t' && r <= '\r') }) {
		if out != nil {
			out = append(out, ' ')
		}
		for _, b := range word {
			if b >= 'A' && b <= 'Z' {
				b += 'a' - 'A'
			}
			out = append(out, b)
		}
	}
	return out
}
