package wire

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
)

func TestHeadKeepsOrderCaseAndTargetAsSent(t *testing.T) {
	raw := "POST //a/%2F/../b?x=%zz&y HTTP/1.1\r\nhOsT: Files.Example.COM:80\r\nX-b: 1\r\nX-A:  two words \t\r\nx-b: 3\r\nContent-Length: 4\r\n\r\n"
	h, refusal := ParseHead([]byte(raw))
	if refusal != nil {
		t.Fatal(refusal)
	}
	if h.Target != "//a/%2F/../b?x=%zz&y" || h.Method != "POST" || h.Minor != 1 || h.Length != 4 || h.Host != "Files.Example.COM:80" {
		t.Errorf("head is %+v", h)
	}
	want := [][2]string{{"hOsT", "Files.Example.COM:80"}, {"X-b", "1"}, {"X-A", "two words"}, {"x-b", "3"}, {"Content-Length", "4"}}
	if len(h.Fields) != len(want) {
		t.Fatalf("fields are %q", h.Fields)
	}
	for i := range want {
		if h.Fields[i] != want[i] {
			t.Errorf("field %d is %q, want %q", i, h.Fields[i], want[i])
		}
	}
}

// refused are heads that nothing may serve, with the status nginx answers.
var refused = []struct {
	name, raw string
	status    int
}{
	{"garbage", "GARBAGE\r\n\r\n", 400},
	{"http/0.9", "GET /\r\n\r\n", 400},
	{"lower-case method", "get / HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"method with a slash", "GE/T / HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"space in the target", "GET /a b HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"two spaces", "GET  / HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"tab for a space", "GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"version 9.9", "GET / HTTP/9.9\r\nHost: a\r\n\r\n", 505},
	{"http/2 preface", "PRI * HTTP/2.0\r\n\r\n", 505},
	{"version 0.9", "GET / HTTP/0.9\r\nHost: a\r\n\r\n", 400},
	{"version in lower case", "GET / http/1.1\r\nHost: a\r\n\r\n", 400},
	{"no version number", "GET / HTTP/x.y\r\nHost: a\r\n\r\n", 400},
	{"connect", "CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n", 400},
	{"options star", "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"other scheme", "GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"user in the url", "GET http://u:p@a/ HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"no host in the url", "GET http:///x HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"bad escape", "GET /%zz HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"control in the target", "GET /\x01 HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"no host", "GET / HTTP/1.1\r\nAccept: */*\r\n\r\n", 400},
	{"empty host", "GET / HTTP/1.1\r\nHost:\r\n\r\n", 400},
	{"two hosts", "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400},
	{"slash in the host", "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", 400},
	{"space before the colon", "GET / HTTP/1.1\r\nHost: a\r\nX : 1\r\n\r\n", 400},
	{"no colon", "GET / HTTP/1.1\r\nHost: a\r\nnonsense\r\n\r\n", 400},
	{"no field name", "GET / HTTP/1.1\r\nHost: a\r\n: x\r\n\r\n", 400},
	{"folded line", "GET / HTTP/1.1\r\nHost: a\r\nX: 1\r\n  2\r\n\r\n", 400},
	{"folded first line", "GET / HTTP/1.1\r\n Host: a\r\n\r\n", 400},
	{"control in a value", "GET / HTTP/1.1\r\nHost: a\r\nX: a\x00b\r\n\r\n", 400},
	{"bare carriage return in a value", "GET / HTTP/1.1\r\nHost: a\r\nX: a\rY: b\r\n\r\n", 400},
	{"length no number", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: abc\r\n\r\n", 400},
	{"length with a sign", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +4\r\n\r\n", 400},
	{"negative length", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n", 400},
	{"length too large", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\n", 400},
	{"empty length", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\n", 400},
	{"length list", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4, 4\r\n\r\n", 400},
	{"differing lengths", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\n", 400},
	{"length and coding", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
	{"two codings", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
	{"unknown coding", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n", 501},
	{"hidden coding", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n", 501},
	{"coding in http/1.0", "POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
	{"long target", "GET /" + strings.Repeat("a", MaxLine) + " HTTP/1.1\r\nHost: a\r\n\r\n", 414},
	{"long field", "GET / HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("a", MaxLine) + "\r\n\r\n", StatusHeaderTooLarge},
	{"many fields", "GET / HTTP/1.1\r\nHost: a\r\n" + strings.Repeat("X: "+strings.Repeat("a", 1000)+"\r\n", 40) + "\r\n", StatusHeaderTooLarge},
	{"tls on the plain port", "\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00\r\n\r\n", 400},
}

func TestHeadThatTwoParsersCouldReadDifferentlyIsRefused(t *testing.T) {
	for _, c := range refused {
		t.Run(c.name, func(t *testing.T) {
			if end := EndOfHead([]byte(c.raw), 0); end != len(c.raw) {
				t.Fatalf("head ends at %d of %d", end, len(c.raw))
			}
			_, refusal := ParseHead([]byte(c.raw))
			if refusal == nil || refusal.Status != c.status || refusal.Reason == "" {
				t.Errorf("refusal is %+v, want status %d", refusal, c.status)
			}
		})
	}
}

func TestHeadIsReadAsFarAsPossibleWhenRefused(t *testing.T) {
	h, refusal := ParseHead([]byte("GET /x HTTP/1.1\r\nHost: a\r\nbroken\r\nSecret: s3\r\n\r\n"))
	if refusal == nil || h == nil || h.Host != "a" || h.Fields[len(h.Fields)-1] != [2]string{"Secret", "s3"} {
		t.Errorf("head %+v, refusal %v", h, refusal)
	}
}

func TestForwardLeavesOutOnlyWhatNetHTTPAnswersItself(t *testing.T) {
	raw := []byte("GET / HTTP/1.1\r\nHost: a\r\nExpect: soup\r\nX: 1\r\nTrailer: Content-Length\r\n\r\n")
	h, refusal := ParseHead(raw)
	if refusal != nil {
		t.Fatal(refusal)
	}
	if got := string(h.Forward(raw)); got != "GET / HTTP/1.1\r\nHost: a\r\nX: 1\r\n\r\n" {
		t.Errorf("forwarded %q", got)
	}
	if len(h.Fields) != 4 {
		t.Errorf("fields are %q", h.Fields)
	}
}

func TestEndOfHeadIsFoundHoweverTheBytesArrive(t *testing.T) {
	for _, raw := range []string{"A\r\n\r\n", "A\n\n", "A\r\nB: c\r\n\r\n", "A\nB\n\r\n"} {
		b, seen := []byte(raw+"rest"), 0
		got := 0
		for i := 1; i <= len(b) && got == 0; i++ {
			got = EndOfHead(b[:i], seen)
			seen = i
		}
		if got != len(raw) {
			t.Errorf("%q ends at %d, want %d", raw, got, len(raw))
		}
	}
}

func TestSplitTarget(t *testing.T) {
	for target, want := range map[string][2]string{
		"/":                      {"/", ""},
		"/a%2Fb?q=?x":            {"/a%2Fb", "q=?x"},
		"//h/x":                  {"//h/x", ""},
		"http://h":               {"/", ""},
		"http://h?q":             {"/", "q"},
		"https://h:8/p/../q?a=b": {"/p/../q", "a=b"},
		"/x?u=http://h/p":        {"/x", "u=http://h/p"},
	} {
		if p, q := SplitTarget(target); p != want[0] || q != want[1] {
			t.Errorf("%q is %q and %q", target, p, q)
		}
	}
}

func TestNormalHost(t *testing.T) {
	for in, want := range map[string]string{
		"A.Example": "a.example", "a:80": "a", "a.": "a", "a.:443": "a", "[::1]:80": "::1", "::1": "::1", "ü.example": "", "": "", "a b": "",
	} {
		if got := NormalHost(in); got != want {
			t.Errorf("%q is %q, want %q", in, got, want)
		}
	}
}

// FuzzHeadAgreesWithNetHTTP: what passes here, net/http takes too, and reads as
// a message of the same length.
func FuzzHeadAgreesWithNetHTTP(f *testing.F) {
	for _, c := range refused {
		f.Add([]byte(c.raw))
	}
	f.Add([]byte("GET http://h:80/a?b HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nTrailer: a\r\n\r\n"))
	f.Add([]byte("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n"))
	f.Add([]byte("CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n"))
	f.Add([]byte("geT /?x HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n"))
	f.Add([]byte("POST / HTTP/1.0\nContent-Length: 10\n\n"))
	f.Add([]byte("PUT /%41 HTTP/1.1\r\nHost: [::1]:8\r\nTransfer-Encoding: Chunked\r\nConnection: a, Close\r\n\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		b = b[LeadingBlank(b):]
		end := EndOfHead(b, 0)
		if end == 0 {
			return
		}
		for _, server := range []string{"nginx", "Apache", "Caddy", "lighttpd", "gunicorn", "Express"} {
			h, refusal := ParseHeadFor(b[:end], server)
			if _, asNginx := ParseHead(b[:end]); refusal != nil && asNginx == nil {
				t.Fatalf("%s refuses what nginx takes: %v", server, refusal)
			}
			if refusal == nil {
				agree(t, b[:end], h)
			}
		}
	})
}

// agree fails unless net/http reads a head as it was read here.
func agree(t *testing.T, b []byte, h *Head) {
	t.Helper()
	if r := Hopeless(b); r != nil {
		t.Fatalf("a good head is hopeless: %v", r)
	}
	forward := h.Forward(b)
	r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(forward)))
	if err != nil {
		t.Fatalf("net/http refuses %q: %v", forward, err)
	}
	if h.Chunked != (len(r.TransferEncoding) == 1) || !h.Chunked && r.ContentLength != h.Length || h.Chunked && r.ContentLength != -1 {
		t.Fatalf("framing of %q: %d/%v here, %d/%q there", forward, h.Length, h.Chunked, r.ContentLength, r.TransferEncoding)
	}
	if r.Method != h.Method || r.RequestURI != h.Target || r.ProtoMinor != h.Minor || r.Close != h.Close {
		t.Fatalf("%q is read as %q %q 1.%d close=%v, here %+v", forward, r.Method, r.RequestURI, r.ProtoMinor, r.Close, h)
	}
}

// FuzzBodyAgreesWithNetHTTP: a chunked body that ends here ends at the same byte
// for net/http, however the bytes are cut.
func FuzzBodyAgreesWithNetHTTP(f *testing.F) {
	for _, s := range []string{"0\r\n\r\n", "5\r\nhello\r\n0\r\n\r\nGET", "5;a=b\r\nhello\r\n0\r\nX: y\r\n\r\n", "5 \t\r\nhello\r\n0\r\n\r\n",
		"g\r\n", "5\nhello", "ffffffffffffffff\r\n", "0\r\n X: y\r\n\r\n", "1\r\nab\r\n"} {
		f.Add([]byte(s), uint8(3))
	}
	f.Fuzz(func(t *testing.T, b []byte, step uint8) {
		var body Body
		body.Reset(&Head{Chunked: true})
		n := 0
		for n < len(b) && !body.Done() {
			k, refusal := body.Scan(b[n:min(len(b), n+1+int(step))])
			n += k
			if refusal != nil {
				return
			}
		}
		if !body.Done() {
			return
		}
		const head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
		rest := bufio.NewReaderSize(io.MultiReader(strings.NewReader(head), bytes.NewReader(b)), 4096)
		r, err := http.ReadRequest(rest)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			if strings.Contains(err.Error(), "too much non-data") {
				return // net/http's own limit on overhead, answered by the server as malformed
			}
			t.Fatalf("net/http refuses %q: %v", b, err)
		}
		after, err := io.ReadAll(rest)
		if err != nil {
			t.Fatal(err)
		}
		if len(after) != len(b)-n {
			t.Fatalf("%q ends after %d bytes here and %d there", b, n, len(b)-len(after))
		}
	})
}
