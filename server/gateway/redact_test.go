package gateway

import (
	"bytes"
	"encoding/base64"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// cut runs text through a redactor in pieces of the given sizes.
func cut(s *secret, text []byte, sizes func() int) []byte {
	var out bytes.Buffer
	r := newRedactor(s, func(p []byte) error { out.Write(p); return nil })
	for len(text) > 0 {
		n := min(len(text), max(1, sizes()))
		_, _ = r.Write(text[:n])
		text = text[n:]
	}
	_ = r.flush()
	return out.Bytes()
}

func TestHoweverItIsCutTheKeyIsMaskedAndNothingElse(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	keys := []string{canary, "aaaaaaaaaaaaaaaa", "abababababababab", "k", "sk-1/2+3=", `with"quote\and/slash&amp`}
	for range 2000 {
		key := keys[random.IntN(len(keys))]
		s := newSecret(key, "")
		var text, want []byte
		for range 1 + random.IntN(6) {
			switch random.IntN(3) {
			case 0:
				filler := strings.Repeat(".\n", random.IntN(40)) // of no key
				text, want = append(text, filler...), append(want, filler...)
			case 1:
				text, want = append(text, key...), append(want, strings.Repeat("*", len(key))...)
			case 2:
				part := key[:random.IntN(min(len(key), halfOpen))] + "." // begins like one
				if strings.Contains(part, key) {
					continue
				}
				text, want = append(text, part...), append(want, part...)
			}
		}
		got := cut(s, append([]byte{}, text...), func() int { return 1 + random.IntN(len(key)+3) })
		if len(got) != len(text) || bytes.Contains(got, []byte(key)) {
			t.Fatalf("key %q: %q became %q", key, text, got)
		}
		if key == canary && !bytes.Equal(got, want) { // others repeat themselves
			t.Fatalf("key %q: %q became %q, want %q", key, text, got, want)
		}
	}
}

func FuzzRedactor(f *testing.F) {
	f.Add("sk-secret-0123456789", "before sk-secret-0123456789 behind", uint64(3))
	f.Add("aaaa", "aaaaaaa aaa", uint64(1))
	f.Fuzz(func(t *testing.T, key, text string, seed uint64) {
		if key == "" || len(key) > 200 || len(text) > 5000 {
			t.Skip()
		}
		random := rand.New(rand.NewPCG(seed, 0))
		got := cut(newSecret(key, ""), []byte(text), func() int { return 1 + random.IntN(9) })
		if len(got) != len(text) || strings.Trim(key, "*") != "" && bytes.Contains(got, []byte(key)) && !strings.Contains(strings.ReplaceAll(text, key, ""), "*") && !strings.Contains(key, "*") {
			t.Errorf("key %q: %q became %q", key, text, got)
		}
	})
}

func TestBase64OfTheKeyIsFoundWhereverItStands(t *testing.T) {
	s := newSecret(canary, "")
	for _, coding := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding, base64.RawStdEncoding} {
		for before := range 7 {
			for after := range 4 {
				text := []byte(coding.EncodeToString([]byte(strings.Repeat("x", before) + canary + strings.Repeat("y", after))))
				size := len(text)
				if !s.mask(text) || len(text) != size {
					t.Errorf("%d before, %d after: %s", before, after, text)
				}
				// What is left must not tell the key: of its characters only those it shares.
				if left := len(bytes.ReplaceAll(text, []byte("*"), nil)); left > (before+after)*4/3+8 {
					t.Errorf("%d before, %d after: %s", before, after, text)
				}
			}
		}
	}
}

func TestAShortBeginningIsNotWaitedForAndALongOneIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		r := newRedactor(newSecret(canary, ""), func(p []byte) error { out.Write(p); return nil })
		step := func(p, want string) {
			t.Helper()
			_, _ = r.Write([]byte(p))
			time.Sleep(time.Second)
			synctest.Wait()
			if out.String() != want {
				t.Errorf("after %q: %q, want %q", p, out.String(), want)
			}
		}
		step("yes", "yes") // its last letter begins the key
		step("yes", "yesyes")
		step("sk", "yesyessk")
		step(canary[2:], "yesyessk"+strings.Repeat("*", len(canary)-2)) // seen together with what was let go
		seen := out.String()
		step("sk-cana", seen)
		step("pe", seen+"sk-canape")
		seen = out.String()
		step(canary[:20], seen)
		if err := r.flush(); err != nil || out.String() != seen+strings.Repeat("*", 20) {
			t.Errorf("at the end: %q, %v", out.String(), err)
		}
	})
}

func TestAKeyOfNoLengthIsNoSecret(t *testing.T) {
	if newSecret("", "") != nil {
		t.Error("nothing is a secret")
	}
	if got := newSecret("", "").maskFields([][2]string{{"A", "b"}}); got[0] != [2]string{"A", "b"} {
		t.Errorf("%q", got)
	}
}

func TestAKeyOfBasicAuthenticationIsNameAndPassword(t *testing.T) {
	key := base64.StdEncoding.EncodeToString([]byte("robot:hunter2-hunter2"))
	for _, text := range []string{key, "robot:hunter2-hunter2", "password hunter2-hunter2!", "68756e746572322d68756e74657232"} {
		if got := newSecret(key, "Basic ").maskText(text); strings.Contains(got, "hunter2") || !strings.Contains(got, "*****") {
			t.Errorf("%q became %q", text, got)
		}
	}
	if got := newSecret(key, "Bearer ").maskText("hunter2-hunter2"); got != "hunter2-hunter2" {
		t.Errorf("%q", got)
	}
}
