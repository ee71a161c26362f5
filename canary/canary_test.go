package canary

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"html"
	"io"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"
)

const secret = "CANARY-7f3a9c/Sekrit token=42"

func finder(t testing.TB, s string) *Finder {
	f, err := New([]byte(s))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// wrapping is one thing that can be done to a secret, or to what was done already.
type wrapping struct {
	name string
	wrap func(b []byte) []byte
}

func compressed(make func(io.Writer) io.WriteCloser) func([]byte) []byte {
	return func(b []byte) []byte {
		var out bytes.Buffer
		w := make(&out)
		w.Write(b)
		w.Close()
		return out.Bytes()
	}
}

func lined(b []byte, n int, sep string) []byte {
	var out []byte
	for i, c := range b {
		if i > 0 && i%n == 0 {
			out = append(out, sep...)
		}
		out = append(out, c)
	}
	return out
}

var wrappings = []wrapping{
	{"plain", func(b []byte) []byte { return b }},
	{"reversed", reversed},
	{"base64", func(b []byte) []byte { return []byte(base64.StdEncoding.EncodeToString(b)) }},
	{"base64 url", func(b []byte) []byte { return []byte(base64.RawURLEncoding.EncodeToString(b)) }},
	{"base64 behind a byte", func(b []byte) []byte { return []byte(base64.StdEncoding.EncodeToString(append([]byte("x"), b...))) }},
	{"base64 behind two", func(b []byte) []byte { return []byte(base64.StdEncoding.EncodeToString(append([]byte("xy"), b...))) }},
	{"base64 in lines", func(b []byte) []byte { return lined([]byte(base64.StdEncoding.EncodeToString(b)), 19, "\r\n") }},
	{"base64 behind text", func(b []byte) []byte { return append([]byte("abc/"), base64.StdEncoding.EncodeToString(b)...) }},
	{"base32", func(b []byte) []byte { return []byte(base32.StdEncoding.EncodeToString(b)) }},
	{"base32 small", func(b []byte) []byte {
		return lower([]byte(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(b)))
	}},
	{"hex", func(b []byte) []byte { return []byte(hex.EncodeToString(b)) }},
	{"HEX", func(b []byte) []byte { return []byte(strings.ToUpper(hex.EncodeToString(b))) }},
	{"hex with colons", func(b []byte) []byte { return lined([]byte(hex.EncodeToString(b)), 2, ":") }},
	{"hex \\x", func(b []byte) []byte { return append([]byte("\\x"), lined([]byte(hex.EncodeToString(b)), 2, "\\x")...) }},
	{"hex at an odd place", func(b []byte) []byte { return append([]byte("f"), hex.EncodeToString(b)...) }},
	{"URL", func(b []byte) []byte { return []byte(url.QueryEscape(string(b))) }},
	{"URL of everything", func(b []byte) []byte { return append([]byte("%"), lined([]byte(hex.EncodeToString(b)), 2, "%")...) }},
	{"URL twice", func(b []byte) []byte { return []byte(url.QueryEscape(url.PathEscape(string(b)))) }},
	{"JSON", func(b []byte) []byte {
		var out strings.Builder
		for _, c := range b {
			fmt.Fprintf(&out, "\\u%04x", c)
		}
		return []byte(out.String())
	}},
	{"octal", func(b []byte) []byte {
		var out strings.Builder
		for _, c := range b {
			fmt.Fprintf(&out, "\\%03o", c)
		}
		return []byte(out.String())
	}},
	{"entities", func(b []byte) []byte {
		var out strings.Builder
		for _, c := range b {
			fmt.Fprintf(&out, "&#%d;", c)
		}
		return []byte(out.String())
	}},
	{"quoted-printable", func(b []byte) []byte {
		return append([]byte("="), lined([]byte(strings.ToUpper(hex.EncodeToString(b))), 2, "=")...)
	}},
	{"decimal", func(b []byte) []byte { return []byte(strings.ReplaceAll(fmt.Sprint(b), " ", ", ")) }},
	{"gzip", compressed(func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) })},
	{"zlib", compressed(func(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) })},
	{"deflate", compressed(func(w io.Writer) io.WriteCloser { d, _ := flate.NewWriter(w, 9); return d })},
	{"zip", func(b []byte) []byte {
		var out bytes.Buffer
		z := zip.NewWriter(&out)
		w, _ := z.Create("a.txt")
		w.Write(bytes.Repeat(b, 3))
		z.Close()
		return out.Bytes()
	}},
	{"UTF-16LE", func(b []byte) []byte { return wide(b, 0) }},
	{"UTF-16BE", func(b []byte) []byte { return wide(b, 1) }},
	{"labels", func(b []byte) []byte {
		return append(lined([]byte(hex.EncodeToString(b)), 15, "."), ".evil.example"...)
	}},
	{"base32 labels", func(b []byte) []byte {
		return append(lined(lower([]byte(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(b))), 20, "."), ".evil.example"...)
	}},
	{"path", func(b []byte) []byte { return append([]byte("/"), lined([]byte(hex.EncodeToString(b)), 11, "/")...) }},
	{"query", func(b []byte) []byte {
		return append([]byte("/x?a="), lined([]byte(base64.RawURLEncoding.EncodeToString(b)), 12, "&b=")...)
	}},
	{"JSON texts", func(b []byte) []byte {
		return []byte(`{"n":{"a":["` + string(lined([]byte(base64.StdEncoding.EncodeToString(b)), 12, `","`)) + `"]}}`)
	}},
	{"parts", func(b []byte) []byte {
		var out bytes.Buffer
		for i := 0; i < len(b); i += 7 {
			fmt.Fprintf(&out, "--XyZ\r\nContent-Disposition: form-data; name=\"p\"\r\n\r\n%s\r\n", b[i:min(len(b), i+7)])
		}
		out.WriteString("--XyZ--\r\n")
		return out.Bytes()
	}},
	{"pieces of base64", func(b []byte) []byte {
		var out []string
		for i := 0; i < len(b); i += 5 {
			out = append(out, base64.StdEncoding.EncodeToString(b[i:min(len(b), i+5)]))
		}
		return []byte(strings.Join(out, "|"))
	}},
}

func wide(b []byte, at int) []byte {
	out := make([]byte, 0, 2*len(b))
	for _, u := range utf16.Encode([]rune(string(b))) {
		pair := [2]byte{}
		pair[at], pair[1-at] = byte(u), byte(u>>8)
		out = append(out, pair[:]...)
	}
	return out
}

// text tells the wrappings whose results can be put in text again.
func text(w wrapping) bool {
	switch w.name {
	case "UTF-16LE", "UTF-16BE", "parts", "JSON texts", "query", "labels", "base32 labels", "path", "pieces of base64", "reversed":
		return false
	}
	return true
}

// TestEveryWrappingIsUndone: each alone, and every pair and some triples of those that
// carry anything.
func TestEveryWrappingIsUndone(t *testing.T) {
	f := finder(t, secret)
	rnd := rand.New(rand.NewPCG(3, 4))
	total := 0
	check := func(name string, b []byte) {
		total++
		around := []byte("some text before it ")
		if strings.Contains(name, "deflate") || strings.HasPrefix(name, "parts") || strings.HasPrefix(name, "JSON texts") || strings.HasPrefix(name, "query") {
			around = nil // these are known by how they begin
		}
		if r := f.Text("body", append(around, b...)); len(r.Hits) == 0 || r.Cut {
			t.Errorf("%s: not found in %.200q", name, b)
		}
	}
	for _, outer := range wrappings {
		check(outer.name, outer.wrap([]byte(secret)))
		for _, inner := range wrappings {
			binary := slices.Contains([]string{"gzip", "zlib", "deflate", "zip"}, inner.name)
			if text(inner) && !(binary && strings.HasPrefix(outer.name, "UTF-16")) { // which bytes are not
				check(outer.name+" of "+inner.name, outer.wrap(inner.wrap([]byte(secret))))
			}
		}
	}
	var carriers []wrapping
	for _, w := range wrappings {
		switch w.name {
		case "base64", "base64 url", "hex", "gzip", "zlib", "URL", "JSON", "base64 in lines", "base32":
			carriers = append(carriers, w)
		}
	}
	for range 100 {
		pick := func() wrapping { return carriers[rnd.IntN(len(carriers))] }
		a, b, c := pick(), pick(), pick()
		check(a.name+" of "+b.name+" of "+c.name, a.wrap(b.wrap(c.wrap([]byte(secret)))))
	}
	if total < 200 {
		t.Errorf("only %d encodings", total)
	}
	t.Logf("%d encodings", total)
}

// TestCleanRequestsHaveNoCanary: ten thousand bodies of many kinds, with words of the
// secret in them but never all of it.
func TestCleanRequestsHaveNoCanary(t *testing.T) {
	f := finder(t, secret)
	rnd := rand.New(rand.NewPCG(5, 6))
	words := append([]string{"CANARY", "7f3a9c", "token"}, strings.Fields("the agent asked for a file and sent it to token canary base64 upload QUJDREVGR0g= deadbeefdeadbeef 192.0.2.1 user@example.com")...)
	for i := 0; i < 10_000; i++ {
		var b []byte
		for range rnd.IntN(25) {
			b = append(append(b, words[rnd.IntN(len(words))]...), " &=,/.\n"[rnd.IntN(7)])
		}
		switch w := wrappings[rnd.IntN(len(wrappings))]; {
		case bytes.Contains(bytes.ToLower(onlyAlnum(b)), f.bare):
			i-- // by chance it is there
			continue
		case i%3 == 0:
			b = w.wrap(b)
		case i%3 == 1:
			noise := make([]byte, rnd.IntN(200))
			for j := range noise {
				noise[j] = byte(rnd.Uint32())
			}
			b = append(b, noise...)
		}
		if r := f.Text("body", b); len(r.Hits) > 0 {
			t.Fatalf("found %+v in %q", r.Hits, b)
		}
	}
}

func TestPlacesFarIntoALongInputAreSearched(t *testing.T) {
	f := finder(t, secret)
	noise := make([]byte, window+window/4)
	rnd := rand.New(rand.NewPCG(7, 8))
	for i := range noise {
		noise[i] = "abcdefgh ijklmnop\n"[rnd.IntN(18)]
	}
	long := append(bytes.Clone(noise), secret...)
	for name, b := range map[string][]byte{
		"across windows":       append(bytes.Clone(noise[:window+f.overlap-5]), append([]byte(secret), noise...)...),
		"at the end":           long,
		"gzip of it":           wrappings[23].wrap(long),
		"gzip in the middle":   append(bytes.Clone(noise[:window-100]), wrappings[23].wrap(long)...),
		"gzip of base64 lines": wrappings[23].wrap(append(bytes.Clone(noise), wrappings[6].wrap([]byte(secret))...)),
	} {
		r, err := f.File("body", bytes.NewReader(b), int64(len(b)))
		if err != nil || len(r.Hits) != 1 || r.Cut {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
	if wrappings[23].name != "gzip" || wrappings[6].name != "base64 in lines" {
		t.Error("the test means other wrappings")
	}
}

// TestABombIsNotSearchedToItsEnd, and this is said.
func TestABombIsNotSearchedToItsEnd(t *testing.T) {
	f := finder(t, secret)
	var bomb bytes.Buffer
	w := gzip.NewWriter(&bomb)
	zeros := make([]byte, 1<<20)
	for range MaxDerived>>20 + 32 {
		w.Write(zeros)
	}
	w.Close()
	if r := f.Text("body", bomb.Bytes()); !r.Cut || len(r.Hits) > 0 {
		t.Errorf("%+v", r)
	}
}

func TestASecretCutIntoRequestsIsPutTogether(t *testing.T) {
	f := finder(t, secret)
	for name, encoded := range map[string][]byte{"plain": []byte(secret), "base64": wrappings[2].wrap([]byte(secret)), "hex": wrappings[10].wrap([]byte(secret))} {
		trail := f.NewTrail("path")
		var hits []TrailHit
		seq := uint64(0)
		add := func(b string) { seq++; hits = append(hits, trail.Add(seq, []byte(b))...) }
		for range 300 {
			add("some other request, quite ordinary " + strings.Repeat("z", 200))
		}
		for i := 0; i < len(encoded); i += 6 {
			add(string(encoded[i:min(len(encoded), i+6)]))
		}
		first, last := uint64(301), seq
		for range 300 {
			add("and more of them " + strings.Repeat("y", 200))
		}
		hits = append(hits, trail.Flush()...)
		if len(hits) != 1 || hits[0].First != first || hits[0].Last != last {
			t.Errorf("%s: %+v, sent in %d to %d", name, hits, first, last)
		}
	}
}

func TestWhatWouldBeFoundByChanceIsNoCanary(t *testing.T) {
	for _, s := range []string{"", "1234567", "aaaaaaaaaaaaaaaa", "abababababab"} {
		if _, err := New([]byte(s)); !errors.Is(err, ErrShort) {
			t.Errorf("%q: %v", s, err)
		}
	}
	if _, err := New(make([]byte, MaxSecret+1)); err == nil {
		t.Error("a secret of any length is accepted")
	}
}

func TestFramesAreUnmasked(t *testing.T) {
	frame := func(payload []byte, mask [4]byte) []byte {
		b := []byte{0x81, 0x80 | 126, byte(len(payload) >> 8), byte(len(payload))}
		b = append(b, mask[:]...)
		for i, c := range payload {
			b = append(b, c^mask[i%4])
		}
		return b
	}
	b := append(frame([]byte(secret[:9]), [4]byte{1, 2, 3, 4}), frame([]byte(secret[9:]), [4]byte{9, 8, 7, 6})...)
	if got, err := Frames(bytes.NewReader(b), 1<<20); string(got) != secret || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if got, _ := Frames(bytes.NewReader([]byte{0x82, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 'x'}), 1<<20); len(got) > 1 {
		t.Errorf("%q", got)
	}
}

// FuzzText: whatever the input is, the search ends, and what it finds is there by some
// of the bytes; the secret itself is found in front of anything.
func FuzzText(f *testing.F) {
	for _, w := range wrappings {
		f.Add(w.wrap([]byte("something else entirely")))
		f.Add(w.wrap([]byte(secret)))
	}
	f.Add([]byte(html.EscapeString("<&>")))
	f.Fuzz(func(t *testing.T, b []byte) {
		find := finder(t, secret)
		find.Text("body", b)
		if r := find.Text("body", append([]byte(secret), b...)); len(r.Hits) == 0 {
			t.Error("plain and not found")
		}
		_, _ = Frames(bytes.NewReader(b), 1<<16)
	})
}

func BenchmarkCleanRequest(b *testing.B) {
	f := finder(b, secret)
	body := []byte(`{"user":"someone","action":"upload","file":"report-2026.pdf","content":"` + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("nothing to see here. "), 40)) + `"}`)
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		f.Text("body", body)
	}
}

func BenchmarkCleanText(b *testing.B) {
	f := finder(b, secret)
	body := bytes.Repeat([]byte("the quick brown fox jumps over some extraordinarily lazy dogs\n"), 1<<20/62)
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		f.Text("body", body)
	}
}
