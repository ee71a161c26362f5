package trust

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// keystore is a file of trusted authorities in one of the forms Java reads.
type keystore interface {
	holds(der []byte) bool // a certificate, among those that are trusted
	roots() int            // certificates that can be seen and are trusted
	// with is the file with one more trusted certificate under an alias like the
	// one given, and all it had unchanged.
	with(der []byte, alias string, made time.Time) ([]byte, error)
}

// parseKeystore reads a keystore, whichever form it has. Its errors read as what
// is said of a file: "ends in the middle of an entry".
func parseKeystore(data []byte) (keystore, error) {
	if len(data) >= 4 {
		switch binary.BigEndian.Uint32(data) {
		case magicJKS, magicJCEKS:
			return parseJKS(data)
		}
	}
	if len(data) > 0 && data[0] == 0x30 { // a SEQUENCE in DER
		return parsePKCS12(data)
	}
	return nil, errors.New("is no keystore of a form that is known (JKS, PKCS#12)")
}

// freeAlias is a name no entry has yet: Java shows one entry for each.
func freeAlias(taken map[string]bool, alias string) string {
	for n, try := 2, alias; ; n++ {
		if !taken[try] {
			return try
		}
		try = fmt.Sprintf("%s-%d", alias, n)
	}
}
