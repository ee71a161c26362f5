package trust

import (
	"bytes"
	"encoding/asn1"
	"errors"
	"fmt"
)

// elements cuts DER into the values it is made of, at most so many.
func elements(der []byte, most int) ([]asn1.RawValue, error) {
	var all []asn1.RawValue
	for len(der) > 0 {
		if len(all) == most {
			return nil, fmt.Errorf("more than %d values", most)
		}
		var v asn1.RawValue
		rest, err := asn1.Unmarshal(der, &v)
		if err != nil {
			return nil, err
		}
		all, der = append(all, v), rest
	}
	return all, nil
}

// contentInfo takes apart a SEQUENCE of a kind and its value, which is wrapped in
// [0]: PKCS#7's ContentInfo, PKCS#12's CertBag. Value is nil where it is left out.
func contentInfo(v asn1.RawValue) (kind asn1.ObjectIdentifier, value []byte, err error) {
	fields, err := elements(v.Bytes, 2)
	if err != nil || len(fields) == 0 || v.Tag != asn1.TagSequence {
		return nil, nil, errors.Join(errors.New("not a kind and its value"), err)
	}
	if kind, err = oid(fields[0]); err != nil {
		return nil, nil, err
	}
	if len(fields) == 2 {
		value = fields[1].Bytes
	}
	return kind, value, nil
}

func oid(v asn1.RawValue) (asn1.ObjectIdentifier, error) {
	var id asn1.ObjectIdentifier
	_, err := asn1.Unmarshal(v.FullBytes, &id)
	return id, err
}

// octets is the content of one OCTET STRING. One in pieces is BER, not DER.
func octets(der []byte) ([]byte, error) {
	var b []byte
	rest, err := asn1.Unmarshal(der, &b)
	if err == nil && len(rest) > 0 {
		err = errors.New("more than one OCTET STRING")
	}
	return b, err
}

// tlv encodes one value of the universal class; SEQUENCE and SET are compound.
func tlv(tag int, content []byte) []byte {
	return encodeRaw(asn1.RawValue{Tag: tag, IsCompound: tag == asn1.TagSequence || tag == asn1.TagSet, Bytes: content})
}

func sequence(parts ...[]byte) []byte { return tlv(asn1.TagSequence, bytes.Join(parts, nil)) }

// explicit wraps a value in [0].
func explicit(content []byte) []byte {
	return encodeRaw(asn1.RawValue{Class: asn1.ClassContextSpecific, Tag: 0, IsCompound: true, Bytes: content})
}

func mustOID(id asn1.ObjectIdentifier) []byte {
	der, err := asn1.Marshal(id)
	if err != nil {
		panic(err) // a constant of this package
	}
	return der
}

func encodeRaw(v asn1.RawValue) []byte {
	der, err := asn1.Marshal(v)
	if err != nil {
		panic(err) // bytes with a tag in front always encode
	}
	return der
}
