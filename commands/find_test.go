package commands

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"mime/multipart"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/linuxarena/ctis/canary"
	"github.com/linuxarena/ctis/server/api"
	"github.com/linuxarena/ctis/server/journal"
)

const testSecret = "CANARY-7f3a9c/Sekrit token=42"

func newHunt(t testing.TB) *hunt {
	t.Helper()
	f, err := canary.New([]byte(testSecret))
	if err != nil {
		t.Fatal(err)
	}
	return &hunt{given: testSecret, finder: f, trails: map[string]*canary.Trail{}}
}

// huntIn is what ctis find comes to over these records.
func huntIn(t testing.TB, records []*api.Record) *findResult {
	t.Helper()
	h, result := newHunt(t), &findResult{}
	for i, r := range records {
		r.Seq = uint64(i + 1)
		if whole, err := findIn(t.Context(), r, nil, []*hunt{h}, result); err != nil || !whole {
			t.Fatalf("record %d: whole %v, %v", r.Seq, whole, err)
		}
	}
	for _, trail := range h.trails {
		result.addTrail(h, trail.Flush())
	}
	return result
}

func asked(host, target string, body []byte, headers ...[2]string) *api.Record {
	r := &api.Record{Kind: api.KindData, Request: &api.Request{Method: "POST", Host: host, Target: target, Headers: headers}}
	r.Request.Body = api.Body{Size: int64(len(body)), SHA256: api.HexSHA256(body)}
	r.Request.Body.Encoding, r.Request.Body.Content = journal.Encode(body)
	return r
}

// pieces cuts b into n about equal ones.
func pieces(b []byte, n int) (out []string) {
	for i := range n {
		out = append(out, string(b[i*len(b)/n:(i+1)*len(b)/n]))
	}
	return out
}

// encodings are what a secret is made of that goes out: text, but for the compressed.
func encodings(t testing.TB) map[string][]byte {
	secret := []byte(testSecret)
	back := slices.Clone(secret)
	slices.Reverse(back)
	m := map[string][]byte{
		"plain": secret, "reversed": back,
		"hex": []byte(hex.EncodeToString(secret)), "HEX": []byte(strings.ToUpper(hex.EncodeToString(secret))), "hex reversed": []byte(hex.EncodeToString(back)),
		"URL": []byte(url.QueryEscape(testSecret)), "path": []byte(url.PathEscape(testSecret)),
		"URL of everything": []byte("%" + strings.Join(pieces([]byte(hex.EncodeToString(secret)), len(secret)), "%")),
		"base32":            []byte(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(secret)),
	}
	for align := range 3 { // of the secret within what is encoded
		lead, tail := "xyz"[:align], "uvw"[:align]
		m[fmt.Sprint("base64 at ", align)] = []byte(base64.StdEncoding.EncodeToString([]byte(lead + testSecret + tail)))
		m[fmt.Sprint("base64 url at ", align)] = []byte(base64.RawURLEncoding.EncodeToString([]byte(lead + testSecret + tail)))
	}
	for _, name := range []string{"base64 at 0", "base64 at 1", "base64 at 2", "hex"} {
		m["base64 of "+name] = []byte(base64.StdEncoding.EncodeToString(m[name]))
		m["hex of "+name] = []byte(hex.EncodeToString(m[name]))
	}
	var zipped, archived bytes.Buffer
	g := gzip.NewWriter(&zipped)
	z := zip.NewWriter(&archived)
	inZip, err := z.Create("customers.csv")
	if err != nil {
		t.Fatal(err)
	}
	for w, c := range map[io.Writer]io.Closer{g: g, inZip: z} {
		if _, err := io.WriteString(w, strings.Repeat("a line before it\n", 20)+testSecret); err != nil {
			t.Fatal(err)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	m["gzip"], m["zip"] = zipped.Bytes(), archived.Bytes()
	m["gzip in base64"], m["zip in base64"] = []byte(base64.StdEncoding.EncodeToString(zipped.Bytes())), []byte(base64.StdEncoding.EncodeToString(archived.Bytes()))
	return m
}

// sendings put something into requests. Those of text only take what a head can hold,
// those of names what a hostname can.
var sendings = []struct {
	name  string
	place string // where it is to be found
	kind  string // binary, text or label
	send  func(b []byte) []*api.Record
}{
	{"body", "body", "binary", func(b []byte) []*api.Record { return one(asked("a.example", "/", b)) }},
	{"in a body", "body", "binary", func(b []byte) []*api.Record {
		return one(asked("a.example", "/", slices.Concat([]byte("before it\n"), b, []byte("\nafter it"))))
	}},
	{"one part", "body", "binary", func(b []byte) []*api.Record { return one(parts([]string{string(b)})) }},
	{"over parts", "body", "text", func(b []byte) []*api.Record { return one(parts(pieces(b, 4))) }},
	{"over parts with text between", "body", "text", func(b []byte) []*api.Record { return one(parts(pieces(b, 7))) }},
	{"header", "header X-Data", "text", func(b []byte) []*api.Record {
		return one(asked("a.example", "/", nil, [2]string{"X-Data", string(b)}))
	}},
	{"over headers", "headers", "text", func(b []byte) []*api.Record {
		r := asked("a.example", "/", nil)
		for i, p := range pieces(b, 3) {
			r.Request.Headers = append(r.Request.Headers, [2]string{fmt.Sprint("X-", i), p})
		}
		return one(r)
	}},
	{"query", "target", "text", func(b []byte) []*api.Record {
		return one(asked("a.example", "/q?d="+url.QueryEscape(string(b))+"&z=1", nil))
	}},
	{"path", "target", "label", func(b []byte) []*api.Record {
		return one(asked("a.example", "/"+strings.Join(pieces(b, 5), "/")+"/end", nil))
	}},
	{"labels", "host", "label", func(b []byte) []*api.Record {
		return one(asked(strings.Join(pieces(b, 3), ".")+".exfil.example", "/", nil))
	}},
	{"labels of a handshake", "TLS name", "label", func(b []byte) []*api.Record {
		return one(&api.Record{Kind: api.KindRefused, TLS: &api.TLS{SNI: strings.Join(pieces(b, 4), ".") + ".exfil.example"}})
	}},
	{"over requests", "host", "label", func(b []byte) (all []*api.Record) {
		for _, p := range pieces(b, 3) {
			all = append(all, asked(p+".exfil.example", "/", nil))
		}
		return all
	}},
	{"no request", "what was no request", "binary", func(b []byte) []*api.Record {
		r := &api.Record{Kind: api.KindMalformed, Raw: &api.Body{Size: int64(len(b))}}
		r.Raw.Encoding, r.Raw.Content = journal.Encode(b)
		return one(r)
	}},
}

func one(r *api.Record) []*api.Record { return []*api.Record{r} }

// parts is a multipart upload of a file in several parts.
func parts(contents []string) *api.Record {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for i, c := range contents {
		f, _ := w.CreateFormFile(fmt.Sprint("chunk", i), fmt.Sprint("part.", i)) // memory takes all
		_, _ = io.WriteString(f, c)
	}
	_ = w.Close()
	return asked("a.example", "/upload", b.Bytes(), [2]string{"Content-Type", w.FormDataContentType()})
}

// TestACanaryIsFoundWhereverAndHoweverItWasSent: two hundred ways, each named by its
// place, and every kind that ctis find promises among them.
func TestACanaryIsFoundWhereverAndHoweverItWasSent(t *testing.T) {
	ways := 0
	for encoding, b := range encodings(t) {
		binary := encoding == "gzip" || encoding == "zip"
		label := strings.HasPrefix(strings.ToLower(encoding), "hex") || encoding == "base32" || strings.HasPrefix(encoding, "base64 url")
		for _, s := range sendings {
			if s.kind == "label" && !label || s.kind == "text" && binary {
				continue
			}
			ways++
			r := huntIn(t, s.send(b))
			if !slices.ContainsFunc(r.Hits, func(h foundHit) bool { return h.Place == s.place }) {
				t.Errorf("%s, %s: %+v", encoding, s.name, r.Hits)
			}
		}
	}
	if ways < 200 {
		t.Errorf("only %d ways", ways)
	}
	t.Logf("%d ways", ways)
}

// TestCleanRequestsHaveNoCanary sent one after the other, with pieces of it, encoded
// noise and compressed bodies among them. Package canary holds ten thousand bodies to it.
func TestCleanRequestsHaveNoCanary(t *testing.T) {
	rnd := rand.New(rand.NewPCG(11, 12))
	words := strings.Fields("CANARY 7f3a9c Sekrit token=42 customers report upload the of and QUJDREVGR0g= deadbeefdeadbeef 192.0.2.1 user@example.com PK")
	sentence := func(n int) string {
		var out []string
		for range n {
			out = append(out, words[rnd.IntN(len(words))])
		}
		return strings.Join(out, " ")
	}
	var all []*api.Record
	for len(all) < 1500 {
		noise := make([]byte, rnd.IntN(120))
		for i := range noise {
			noise[i] = byte(rnd.Uint32())
		}
		text := []byte(sentence(1 + rnd.IntN(12)))
		if strings.Contains(strings.ToLower(string(text)), "canary 7f3a9c sekrit token=42") {
			continue // by chance it is there
		}
		switch rnd.IntN(8) {
		case 0:
			all = append(all, asked("a.example", "/?"+url.Values{"q": {string(text)}}.Encode(), nil))
		case 1:
			all = append(all, asked(hex.EncodeToString(noise[:min(len(noise), 20)])+".cdn.example", "/", nil, [2]string{"User-Agent", string(text)}))
		case 2:
			all = append(all, asked("a.example", "/", []byte(base64.StdEncoding.EncodeToString(noise))))
		case 3:
			all = append(all, asked("a.example", "/", noise))
		case 4:
			var b bytes.Buffer
			w := gzip.NewWriter(&b)
			_, _ = w.Write(text) // memory takes all
			_ = w.Close()
			all = append(all, asked("a.example", "/", b.Bytes(), [2]string{"Content-Encoding", "gzip"}))
		case 5:
			all = append(all, parts([]string{string(text), base64.RawURLEncoding.EncodeToString(noise), sentence(3)}))
		case 6:
			all = append(all, asked("a.example", "/", fmt.Appendf(nil, `{"text":%q,"n":%d}`, text, rnd.IntN(1e6))))
		default:
			all = append(all, &api.Record{Kind: api.KindRefused, TLS: &api.TLS{SNI: fmt.Sprintf("h%d.example", rnd.IntN(1e6))}})
		}
	}
	if r := huntIn(t, all); len(r.Hits) > 0 {
		t.Errorf("%d hits in %d clean requests, such as %+v in %+v", len(r.Hits), len(all), r.Hits[0], all[r.Hits[0].Seq-1].Request)
	}
}
