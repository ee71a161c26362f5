package trust

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/asn1"
	"errors"
	"fmt"
	"hash"
	"unicode/utf16"
)

// maxRounds bounds what a file can have this program compute: Java makes 10,000,
// OpenSSL 2048.
const maxRounds = 300_000

// pkcs12Seal is a PKCS#12 file's MacData: a digest over its content, keyed by the
// password.
type pkcs12Seal struct {
	algorithm asn1.RawValue
	new       func() hash.Hash
	digest    []byte
	salt      []byte
	rounds    int
	roundsDER []byte // as it was written; nil where it was left out
	password  []byte // the one that fits, as it enters the key
}

var sealHashes = map[string]func() hash.Hash{
	"1.3.14.3.2.26":          sha1.New,
	"2.16.840.1.101.3.4.2.1": sha256.New,
	"2.16.840.1.101.3.4.2.2": sha512.New384,
	"2.16.840.1.101.3.4.2.3": sha512.New,
}

func parseSeal(v asn1.RawValue) (*pkcs12Seal, error) {
	fields, err := elements(v.Bytes, 3)
	if err != nil || len(fields) < 2 {
		return nil, errors.New("its seal is not whole")
	}
	info, err := elements(fields[0].Bytes, 2)
	if err != nil || len(info) != 2 {
		return nil, errors.New("its seal has no digest")
	}
	algorithm, err := elements(info[0].Bytes, 2)
	if err != nil || len(algorithm) == 0 {
		return nil, errors.New("its seal has no algorithm")
	}
	id, err := oid(algorithm[0])
	if err != nil {
		return nil, errors.New("its seal has no algorithm")
	}
	s := &pkcs12Seal{algorithm: info[0], new: sealHashes[id.String()], rounds: 1}
	if s.new == nil {
		return nil, fmt.Errorf("its seal is of algorithm %s, which is not known", id)
	}
	if s.digest, err = octets(info[1].FullBytes); err != nil {
		return nil, errors.New("its seal has no digest")
	}
	if s.salt, err = octets(fields[1].FullBytes); err != nil || len(s.salt) == 0 || len(s.salt) > 1024 {
		return nil, errors.New("its seal has no salt of usual length")
	}
	if len(fields) == 3 {
		s.roundsDER = fields[2].FullBytes
		if _, err := asn1.Unmarshal(s.roundsDER, &s.rounds); err != nil || s.rounds < 1 || s.rounds > maxRounds {
			return nil, fmt.Errorf("its seal takes more than %d rounds, or none", maxRounds)
		}
	}
	return s, nil
}

// open finds the password. An empty one is written as two zero bytes by most, and
// as none by some.
func (s *pkcs12Seal) open(content []byte) bool {
	var tries [][]byte
	for _, p := range storePasswords {
		var b []byte
		for _, u := range utf16.Encode([]rune(p)) {
			b = append(b, byte(u>>8), byte(u))
		}
		tries = append(tries, append(b, 0, 0))
	}
	for _, s.password = range append(tries, nil) {
		if hmac.Equal(s.mac(content), s.digest) {
			return true
		}
	}
	return false
}

// over is the MacData for a changed content: same algorithm, salt and rounds.
func (s *pkcs12Seal) over(content []byte) []byte {
	return sequence(sequence(s.algorithm.FullBytes, tlv(asn1.TagOctetString, s.mac(content))), tlv(asn1.TagOctetString, s.salt), s.roundsDER)
}

func (s *pkcs12Seal) mac(content []byte) []byte {
	m := hmac.New(s.new, s.key())
	m.Write(content)
	return m.Sum(nil)
}

// key derives the digest's key (RFC 7292, appendix B.2, with the id 3). It is as
// long as one hash, so that the appendix's step for further blocks never comes.
func (s *pkcs12Seal) key() []byte {
	h := s.new()
	block := h.BlockSize()
	h.Write(bytes.Repeat([]byte{3}, block))
	h.Write(filled(s.salt, block))
	h.Write(filled(s.password, block))
	key := h.Sum(nil)
	for range s.rounds - 1 {
		h.Reset()
		h.Write(key)
		key = h.Sum(key[:0])
	}
	return key
}

// filled repeats b up to the next multiple of block bytes.
func filled(b []byte, block int) []byte {
	n := (len(b) + block - 1) / block * block
	if n == 0 {
		return nil
	}
	return bytes.Repeat(b, (n+len(b)-1)/len(b))[:n]
}
