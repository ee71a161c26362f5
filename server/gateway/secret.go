package gateway

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// secret is a key and the forms in which an upstream may repeat it. Beside the key
// itself these are what stands for it in JSON, in a URL, in HTML, in hex and in base64,
// where any text may come before and behind it.
type secret struct {
	forms [][]byte // longest first, none empty
	// most is the length of the longest.
	most int
}

// minCoded is the length in bytes from which a key's coded forms are looked for:
// those of a shorter one are found by chance.
const minCoded = 8

// newSecret is nil for no key. prefix is what is sent before it: a key of Basic
// authentication stands for a name and a password, which are secret as well.
func newSecret(key, prefix string) *secret {
	if key == "" {
		return nil
	}
	forms := formsOf(key)
	if strings.EqualFold(strings.TrimSpace(prefix), "Basic") {
		pair, err := base64.StdEncoding.DecodeString(key)
		_, password, _ := strings.Cut(string(pair), ":")
		for _, part := range []string{string(pair), password} {
			if err == nil && len(part) >= minCoded {
				maps.Copy(forms, formsOf(part))
			}
		}
	}
	s := &secret{}
	for f := range forms {
		s.forms = append(s.forms, []byte(f))
		s.most = max(s.most, len(f))
	}
	slices.SortFunc(s.forms, func(a, b []byte) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return bytes.Compare(a, b)
	})
	return s
}

// formsOf are the forms of a text.
func formsOf(key string) map[string]bool {
	forms := map[string]bool{key: true}
	if len(key) >= minCoded {
		for _, escaped := range []string{url.QueryEscape(key), url.PathEscape(key)} {
			forms[escaped] = true
			forms[escapes.ReplaceAllStringFunc(escaped, strings.ToLower)] = true
		}
		forms[hex.EncodeToString([]byte(key))] = true
		forms[strings.ToUpper(hex.EncodeToString([]byte(key)))] = true
		forms[strings.ReplaceAll(key, "/", `\/`)] = true // as PHP writes JSON
		if quoted, err := json.Marshal(key); err == nil {
			forms[string(quoted[1:len(quoted)-1])] = true
		}
		forms[strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&#39;").Replace(key)] = true
		for _, coding := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
			for _, core := range cores(key, coding) {
				forms[core] = true
			}
		}
	}
	return forms
}

// escapes are those of URLs.
var escapes = regexp.MustCompile(`%[0-9A-F]{2}`)

// cores are what a key is in base64 wherever it stands in the coded text: it may begin
// at each of three places in a group, and the characters it shares with its neighbours
// are left out.
func cores(key string, coding *base64.Encoding) []string {
	var list []string
	for before := range 3 {
		text := coding.EncodeToString([]byte(strings.Repeat("\x00", before) + key))
		from := []int{0, 2, 3}[before]
		to := (before + len(key)) * 8 / 6 // whole characters
		list = append(list, text[from:to])
	}
	return list
}

// mask replaces the secret in b, in place and in the same length, and says whether
// there was any.
func (s *secret) mask(b []byte) bool {
	found := false
	for _, f := range s.forms {
		for from := 0; ; {
			i := bytes.Index(b[from:], f)
			if i < 0 {
				break
			}
			from += i
			blot(b[from : from+len(f)])
			from += len(f)
			found = true
		}
	}
	return found
}

// maskText is mask for a header's value.
func (s *secret) maskText(v string) string {
	for _, f := range s.forms {
		if strings.Contains(v, string(f)) {
			b := []byte(v)
			s.mask(b)
			return string(b)
		}
	}
	return v
}

// pending is how many bytes at the end of b may be the beginning of the secret.
func (s *secret) pending(b []byte) int {
	for n := min(s.most-1, len(b)); n > 0; n-- {
		tail := b[len(b)-n:]
		for _, f := range s.forms {
			if n < len(f) && bytes.HasPrefix(f, tail) {
				return n
			}
		}
	}
	return 0
}

func blot(b []byte) {
	for i := range b {
		b[i] = '*'
	}
}

// maskFields replaces the secret in names and values.
func (s *secret) maskFields(fields [][2]string) [][2]string {
	if s == nil {
		return fields
	}
	for i, f := range fields {
		fields[i] = [2]string{s.maskText(f[0]), s.maskText(f[1])}
	}
	return fields
}
