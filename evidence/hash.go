package evidence

import (
	"crypto/sha256"
	"encoding/hex"
	"hash"
)

// hashing is a SHA-256 that counts.
type hashing struct {
	h    hash.Hash
	size int64
}

func newHash() *hashing { return &hashing{h: sha256.New()} }

func (h *hashing) Write(b []byte) (int, error) {
	h.size += int64(len(b))
	return h.h.Write(b)
}

func (h *hashing) sum() string { return hex.EncodeToString(h.h.Sum(nil)) }

func sum(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}
