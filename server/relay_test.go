package server

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/linuxarena/ctis/server/api"
)

// program is a backend at 127.1.n.9 that is scripted byte for byte.
type program struct {
	t        *testing.T
	listener net.Listener
	address  netip.AddrPort
}

// script answers one connection: r has what was sent, whole once it is called.
type script func(c *net.TCPConn, r *bufio.Reader)

func newProgram(t *testing.T, n int, s script) *program {
	t.Helper()
	l, err := net.Listen("tcp4", fmt.Sprintf("127.1.%d.9:0", n))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	p := &program{t: t, listener: l, address: l.Addr().(*net.TCPAddr).AddrPort()}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close() //nolint:errcheck // its script is over
				s(c.(*net.TCPConn), bufio.NewReader(c))
			}()
		}
	}()
	return p
}

// takeHead reads a request's head and gives its lines.
func takeHead(r *bufio.Reader) (lines []string) {
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return lines
		}
		if line = strings.TrimSuffix(line, "\r\n"); line == "" {
			return lines
		}
		lines = append(lines, line)
	}
}

// lengthOf is the stated length of a body, -1 without.
func lengthOf(lines []string) int64 {
	n := int64(-1)
	for _, l := range lines {
		if _, err := fmt.Sscanf(strings.ToLower(l), "content-length: %d", &n); err == nil {
			return n
		}
	}
	return -1
}

// echo answers with the request it got, byte for byte. It understands Content-Length only.
func echo(c *net.TCPConn, r *bufio.Reader) {
	lines := takeHead(r)
	body := make([]byte, max(0, lengthOf(lines)))
	if _, err := io.ReadFull(r, body); err != nil {
		return
	}
	said := strings.Join(lines, "\n") + "\n\n" + string(body)
	_, _ = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nServer: Echo\r\nX-Powered-By: Own/1\r\nContent-Length: %d\r\n\r\n%s", len(said), said)
}

// says answers whatever comes with raw bytes.
func says(raw string) script {
	return func(c *net.TCPConn, r *bufio.Reader) {
		lines := takeHead(r)
		_, _ = io.CopyN(io.Discard, r, max(0, lengthOf(lines)))
		_, _ = io.WriteString(c, raw)
	}
}

func (p *program) pin(n int) api.Pin {
	return api.Pin{Container: fmt.Sprint("container", n), Network: fmt.Sprint("net", n), Address: p.address.Addr()}
}

// persona is one whose backend is the program.
func (p *program) persona(host string, n int, endpoints ...string) api.Persona {
	return api.Persona{Host: host, ServerHeader: "nginx/1.22.1", Endpoints: endpoints,
		Backend: &api.Backend{Service: "api", Port: p.address.Port(), Pin: p.pin(n)}}
}

// withBackend runs a world with one persona, a.example, whose endpoints v1 and
// webhook a backend has.
func withBackend(t *testing.T, s script, change ...func(*Options)) *world {
	t.Helper()
	w := newWorld(t, change...)
	w.register("t2", 2, newProgram(t, 2, s).persona("a.example", 2, "v1", "webhook"))
	return w
}

func TestABackendGetsMethodTargetAndBodyByteForByte(t *testing.T) {
	w := withBackend(t, echo)
	forwarded := "\nX-Forwarded-For: 127.1.2.5\nX-Forwarded-Proto: http\nX-Forwarded-Host: a.example\nConnection: close\n\n"
	for _, c := range []struct{ sent, got string }{
		{"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n", "GET / HTTP/1.1\nHost: a.example" + forwarded},
		{"GET /?a=%zz&b;c HTTP/1.1\r\nHost: a.example\r\n\r\n", "GET /?a=%zz&b;c HTTP/1.1\nHost: a.example" + forwarded},
		{"GET /v1/a%2Fb/%2e/./x//y?q=a+b%20c?d HTTP/1.1\r\nHost: a.example\r\n\r\n", "GET /v1/a%2Fb/%2e/./x//y?q=a+b%20c?d HTTP/1.1\nHost: a.example" + forwarded},
		{"GET /v1/a/../b%c3%bc\xfc|{}^ HTTP/1.1\r\nHost: a.example\r\n\r\n", "GET /v1/a/../b%c3%bc\xfc|{}^ HTTP/1.1\nHost: a.example" + forwarded},
		{"FROB-IT /v1 HTTP/1.1\r\nhOST: A.Example:80\r\nx-Zeta:  1\r\nX-alpha:\tv \r\nx-Zeta: 2\r\nx-empty:\r\nX-Raw: \xff\xfe\r\n\r\n",
			"FROB-IT /v1 HTTP/1.1\nhOST: a.example\nx-Zeta: 1\nX-alpha: v\nx-Zeta: 2\nx-empty: \nX-Raw: \xff\xfe" + strings.Replace(forwarded, "Host: a.example", "Host: A.Example:80", 1)},
		// The path of an absolute form; its authority counts.
		{"GET http://A.example:80/v1/x?y HTTP/1.1\r\nHost: other\r\n\r\n", "GET /v1/x?y HTTP/1.1\nHost: a.example" + strings.Replace(forwarded, "Host: a.example", "Host: A.example:80", 1)},
		{"GET HTTP://a.example?x HTTP/1.1\r\nHost: a.example\r\n\r\n", "GET /?x HTTP/1.1\nHost: a.example" + forwarded},
		// Bodies arrive with Content-Length, however they came, and only then.
		{"POST /v1 HTTP/1.1\r\nHost: a.example\r\ncontent-length: 3\r\nX-After: 1\r\n\r\na\x00b", "POST /v1 HTTP/1.1\nHost: a.example\ncontent-length: 3\nX-After: 1" + forwarded + "a\x00b"},
		{"POST /v1 HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\nTrailer: X-T\r\nX-After: 1\r\n\r\n2;x=y\r\nab\r\n1\r\nc\r\n0\r\nX-T: 1\r\n\r\n",
			"POST /v1 HTTP/1.1\nHost: a.example\nContent-Length: 3\nX-After: 1" + forwarded + "abc"},
		{"GET /v1 HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "GET /v1 HTTP/1.1\nHost: a.example\nContent-Length: 0" + forwarded},
		{"DELETE /v1 HTTP/1.1\r\nHost: a.example\r\n\r\n", "DELETE /v1 HTTP/1.1\nHost: a.example" + forwarded},
		{"PUT /v1 HTTP/1.1\r\nHost: a.example\r\nContent-Length: 0\r\n\r\n", "PUT /v1 HTTP/1.1\nHost: a.example\nContent-Length: 0" + forwarded},
		{"PATCH /v1 HTTP/1.1\r\nHost: a.example\r\n\r\n", "PATCH /v1 HTTP/1.1\nHost: a.example" + strings.Replace(forwarded, "\nX-F", "\nContent-Length: 0\nX-F", 1)},
		{"POST /v1 HTTP/1.1\r\nHost: a.example\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nok", "POST /v1 HTTP/1.1\nHost: a.example\nContent-Length: 2" + forwarded + "ok"},
		// What concerns one connection stays on it; what forwards is ours, and no
		// Connection field takes it away.
		{"GET /v1 HTTP/1.1\r\nHost: a.example\r\nConnection: \r\nConnection: keep-alive, X-Own, x-forwarded-for ,HOST, content-length,authorization\r\nKeep-Alive: 5\r\nX-Own: 1\r\nAuthorization: x\r\nTE: trailers\r\nProxy-Connection: keep-alive\r\nProxy-Authorization: x\r\nHTTP2-Settings: AAA\r\nUpgrade: h2c\r\n\r\n",
			"GET /v1 HTTP/1.1\nHost: a.example" + forwarded},
		{"GET /v1 HTTP/1.1\r\nHost: a.example\r\nx-forwarded-FOR: 9.9.9.9\r\nX_Forwarded_For: 9.9.9.9\r\nForwarded: for=9.9.9.9\r\nX-Forwarded-Port: 1\r\nX-Real-IP: 9.9.9.9\r\nVia: 1.1 own\r\nCookie: a=1\r\n\r\n",
			"GET /v1 HTTP/1.1\nHost: a.example\nVia: 1.1 own\nCookie: a=1" + forwarded},
		{"GET /v1 HTTP/1.1\r\nHost: a.example\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n", "GET /v1 HTTP/1.1\nHost: a.example" + forwarded},
		{"GET /webhook/x HTTP/1.1\r\nHost: a.example\r\n\r\n", "GET /webhook/x HTTP/1.1\nHost: a.example" + forwarded},
	} {
		conn := w.dial(2, w.plain)
		br := bufio.NewReader(conn)
		for i := range 2 { // and the connection stays in step
			if _, err := io.WriteString(conn, c.sent); err != nil {
				t.Fatal(err)
			}
			r, got := readResponse(t, br, "")
			for r.StatusCode == http.StatusContinue {
				r, got = readResponse(t, br, "")
			}
			if r.StatusCode != 200 || got != c.got || r.Header.Get("Server") != "nginx/1.22.1" || r.Header.Get("X-Powered-By") != "Own/1" {
				t.Fatalf("%d: %q: status %d, %q\n got %q\nwant %q", i, c.sent, r.StatusCode, r.Header, got, c.got)
			}
		}
		_ = conn.Close()
	}
	for _, r := range w.records("t2") {
		if r.Kind != api.KindBackend || r.Response == nil || r.Response.Status != 200 || r.Error != "" || r.OutcomeUnknown {
			t.Errorf("%+v %+v", r, r.Response)
		}
	}
}

func TestABackendGetsOverHTTP2WhatItGetsOverHTTP1(t *testing.T) {
	w := withBackend(t, echo)
	r, err := http.NewRequest("POST", "https://a.example/v1/a%2Fb?x=%20", io.NopCloser(strings.NewReader("hello"))) // of unknown length
	if err != nil {
		t.Fatal(err)
	}
	r.Header["Cookie"] = []string{"a=1", "b=2"}
	r.Header.Set("X-Forwarded-Proto", "gopher")
	r.Header.Set("User-Agent", "test")
	resp, got := w.doRequest(w.client(2, true), r)
	if resp.ProtoMajor != 2 || resp.Header.Get("Server") != "nginx/1.22.1" {
		t.Errorf("%s, %q", resp.Proto, resp.Header)
	}
	for _, want := range []string{"POST /v1/a%2Fb?x=%20 HTTP/1.1\n", "\nCookie: a=1; b=2\n", "\nX-Forwarded-Proto: https\n", "\nHost: a.example\n", "\nContent-Length: 5\n", "\n\nhello"} {
		if !strings.Contains("\n"+got, want) || strings.Count(got, "Cookie") != 1 || strings.Contains(got, "gopher") {
			t.Errorf("no %q in %q", want, got)
		}
	}
	if rec := w.records("t2")[0]; rec.Kind != api.KindBackend || rec.Endpoint != "v1" || rec.Request.Target != "/v1/a%2Fb?x=%20" || rec.Response.Body.Size != int64(len(got)) {
		t.Errorf("%+v", rec)
	}
}

func TestOnlyDeclaredPrefixesReachABackend(t *testing.T) {
	var calls atomic.Int64
	w := withBackend(t, func(c *net.TCPConn, r *bufio.Reader) { calls.Add(1); echo(c, r) })
	for target, reaches := range map[string]bool{
		"/": true, "/?x": true, "/v1": true, "/v1/": true, "/v1?x": true, "/v1//": true, "/webhook": true,
		"/data": false, "/v10": false, "/V1": false, "/v1%2fx": false, "//v1": false, "/%76%31": false,
		"/v1/../x": false, "/v1/%2e%2e/x": false, "/v1;a/x": false, "/.": false, "/%2F": false,
	} {
		before := calls.Load()
		answer := w.send(2, w.plain, "GET "+target+" HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n")
		if got := calls.Load() > before; got != reaches || strings.HasPrefix(answer, "HTTP/1.1 404 Not Found\r\nServer: nginx/1.22.1\r\n") == reaches {
			t.Errorf("%s reaches the backend: %v; answer %q", target, got, answer)
		}
	}
	for _, r := range w.records("t2", api.KindNotFound) {
		if r.Response.Status != 404 || r.Endpoint != "" {
			t.Errorf("%+v", r)
		}
	}
}

func TestResponsesOfABackend(t *testing.T) {
	var said atomic.Pointer[string]
	w := withBackend(t, func(c *net.TCPConn, r *bufio.Reader) { says(*said.Load())(c, r) })
	n := 0
	long := strings.Repeat("0123456789abcdef", 20<<10/16)
	for name, c := range map[string]struct {
		said   string
		status int
		body   string
		error  string // in the record
	}{
		"stated length":              {"HTTP/1.1 201 Made\r\nContent-Length: 2\r\n\r\nhi", 201, "hi", ""},
		"to the end of a connection": {"HTTP/1.0 200 OK\r\n\r\nhello", 200, "hello", ""},
		"chunked":                    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n3;x=y\r\n yo\r\n0\r\n\r\n", 200, "hello yo", ""},
		"long":                       {fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", 5*len(long), strings.Repeat(long, 5)), 200, strings.Repeat(long, 5), ""},
		"no reason":                  {"HTTP/1.1 299\r\nContent-Length: 0\r\n\r\n", 299, "", ""},
		"bare line feeds":            {"HTTP/1.1 200 OK\nContent-Length: 2\n\nhi", 200, "hi", ""},
		"no content":                 {"HTTP/1.1 204 No Content\r\nContent-Length: 4\r\n\r\nnone", 204, "", ""},
		"interim first":              {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nLink: </x>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", 200, "hi", ""},
		"more than was stated":       {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhiHTTP/1.1 200 OK\r\n\r\n", 200, "hi", ""},
		"its own error":              {"HTTP/1.1 503 No\r\nContent-Length: 3\r\n\r\nown", 503, "own", ""},

		"nothing":              {"", 502, "nginx/1.22.1", "closed the connection before the end of its response's head"},
		"half a head":          {"HTTP/1.1 200 OK\r\nContent-Le", 502, "nginx/1.22.1", "closed the connection before the end of its response's head"},
		"no http":              {"SSH-2.0-x\r\n\r\n", 502, "nginx/1.22.1", "no HTTP/1 response"},
		"no status":            {"HTTP/1.1 OK\r\n\r\n", 502, "nginx/1.22.1", "no status"},
		"both framings":        {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 502, "nginx/1.22.1", "both content-length and transfer-encoding"},
		"two lengths":          {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nhi", 502, "nginx/1.22.1", "more than one content-length"},
		"signed length":        {"HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nhi", 502, "nginx/1.22.1", "no number"},
		"other coding":         {"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 502, "nginx/1.22.1", "other than chunked"},
		"chunked in 1.0":       {"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 502, "nginx/1.22.1", "HTTP/1.0"},
		"folded header":        {"HTTP/1.1 200 OK\r\nX: a\r\n b\r\n\r\n", 502, "nginx/1.22.1", "malformed header"},
		"huge header":          {"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("a", 70<<10) + "\r\n\r\n", 502, "nginx/1.22.1", "more than 65536 bytes"},
		"endless interim":      {strings.Repeat("HTTP/1.1 102 P\r\n\r\n", 40), 502, "nginx/1.22.1", "without end"},
		"unasked switch":       {"HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n", 502, "nginx/1.22.1", "not asked for"},
		"chunks that are none": {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\nxyz\r\n", 0, "", "chunked response"},
		"a body cut short":     {"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhi", 0, "", "within its response"},
	} {
		t.Run(name, func(t *testing.T) {
			said.Store(&c.said)
			for _, h2 := range []bool{false, true} {
				scheme := map[bool]string{false: "http", true: "https"}[h2]
				status, content, err := fetch(w.client(2, h2), scheme+"://a.example/v1")
				switch {
				case c.status == 0: // its head was passed on as it came: all that is left is to break off
					if err == nil {
						t.Errorf("http/2 %v: the response looks whole: %d %q", h2, status, content)
					}
				case err != nil || status != c.status || c.error == "" && content != c.body || !strings.Contains(content, c.body):
					t.Errorf("http/2 %v: status %d, %d bytes, %v", h2, status, len(content), err)
				}
				n++
				rec := w.await("t2", n)[n-1]
				if rec.Kind != api.KindBackend || rec.OutcomeUnknown || rec.Response == nil || c.error == "" && rec.Error != "" || !strings.Contains(rec.Error, c.error) || c.error != "" && !strings.HasPrefix(rec.Error, `backend "api" (127.1.2.9:`) {
					t.Errorf("record %+v", rec)
				} else if kept := w.kept("t2", rec.Response.Body); c.error == "" && kept != c.body || c.status == 0 && kept != "hi" {
					t.Errorf("http/2 %v: %d bytes are kept: %.20q", h2, len(kept), kept)
				}
			}
		})
	}
}

// fetch reads a response to its end.
func fetch(c *http.Client, url string) (status int, content string, err error) {
	r, err := c.Get(url)
	if err != nil {
		return 0, "", err
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	return r.StatusCode, string(b), err
}

func TestAResponseIsRecordedAsItWasSent(t *testing.T) {
	w := withBackend(t, says("HTTP/1.1 200 OK\r\nx-ZETA: 1\r\nServer: Own\r\nX-alpha: 2\r\nVia: 1.1 own\r\nConnection: close, x-gone\r\nX-Gone: 1\r\nkeep-alive: 5\r\nSet-Cookie: a\r\nset-cookie: b\r\ncontent-TYPE: text/x\r\nContent-Length: 2\r\n\r\nhi"))
	answer := w.send(2, w.plain, "GET /v1 HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n")
	head, content, _ := strings.Cut(answer, "\r\n\r\n")
	lines := strings.Split(head, "\r\n")
	date := ""
	for _, l := range lines {
		if strings.HasPrefix(l, "Date: ") {
			date = l
		}
	}
	want := []string{"HTTP/1.1 200 OK", "Server: nginx/1.22.1", date, "Content-Type: text/x", "Content-Length: 2", "Connection: close", "x-ZETA: 1", "X-alpha: 2", "Via: 1.1 own", "Set-Cookie: a", "Set-Cookie: b"}
	if strings.Join(lines, "\n") != strings.Join(want, "\n") || content != "hi" {
		t.Errorf("\n got %q\nwant %q", lines, want)
	}
	rec := w.records("t2")[0]
	var recorded []string
	for _, f := range rec.Response.Headers {
		recorded = append(recorded, f[0]+": "+f[1])
	}
	if strings.Join(recorded, "\n") != strings.Join(lines[1:], "\n") || rec.Response.Body.SHA256 != api.HexSHA256([]byte("hi")) {
		t.Errorf("recorded %q", recorded)
	}
}

func TestHEADAndItsLengthPass(t *testing.T) {
	for _, length := range []string{"", "Content-Length: 1234\r\n"} {
		w := withBackend(t, says("HTTP/1.1 200 OK\r\n"+length+"ETag: \"x\"\r\n\r\n"))
		answer := w.send(2, w.plain, "HEAD /v1 HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n")
		if !strings.HasPrefix(answer, "HTTP/1.1 200 OK\r\n") || strings.Contains(answer, "Content-Length") != (length != "") || strings.Contains(answer, "Transfer-Encoding") || !strings.HasSuffix(answer, "\r\n\r\n") {
			t.Errorf("%q", answer)
		}
		if rec := w.records("t2")[0]; rec.Response.Body.Size != 0 || rec.Error != "" {
			t.Errorf("%+v", rec.Response)
		}
	}
}

func TestTheRequestIsRecordedBeforeTheBackendHearsOfIt(t *testing.T) {
	heard := make(chan []string, 1)
	w := newWorld(t)
	w.register("t2", 2, newProgram(t, 2, func(c *net.TCPConn, r *bufio.Reader) {
		heard <- w.storedLines("t2")
		echo(c, r)
	}).persona("a.example", 2, "v1"))
	w.do(w.client(2, false), "POST", "http://a.example/v1", "evidence")
	if lines := <-heard; len(lines) != 1 || !strings.Contains(lines[0], `"content":"evidence"`) || !strings.Contains(lines[0], `"response":null`) {
		t.Errorf("%q", lines)
	}
}

func TestResponsesStreamAsTheyCome(t *testing.T) {
	for _, framing := range []string{"Transfer-Encoding: chunked\r\n", "", "Content-Length: 21\r\n"} {
		next := make(chan struct{})
		w := withBackend(t, func(c *net.TCPConn, r *bufio.Reader) {
			takeHead(r)
			version := "1.1"
			if framing == "" {
				version = "1.0"
			}
			_, _ = fmt.Fprintf(c, "HTTP/%s 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n%s\r\n", version, framing)
			for i := range 3 {
				<-next
				event := fmt.Sprintf("data%d\n\n", i)
				if strings.HasPrefix(framing, "T") {
					event = fmt.Sprintf("%x\r\n%s\r\n", len(event), event)
				}
				_, _ = io.WriteString(c, event)
			}
			<-next
			if strings.HasPrefix(framing, "T") {
				_, _ = io.WriteString(c, "0\r\nX-Last: yes\r\n\r\n")
			}
		})
		for i, h2 := range []bool{false, true} {
			resp, err := w.client(2, h2).Get("https://a.example/v1") // the head arrives alone
			if err != nil {
				t.Fatal(err)
			}
			br := bufio.NewReader(resp.Body)
			for k := range 3 {
				next <- struct{}{}
				if line, err := br.ReadString('\n'); err != nil || line != fmt.Sprintf("data%d\n", k) {
					t.Fatalf("%q %v", line, err)
				}
				if _, err := br.ReadString('\n'); err != nil {
					t.Fatal(err)
				}
			}
			next <- struct{}{}
			if _, err := io.ReadAll(br); err != nil {
				t.Fatal(err)
			}
			if chunked := strings.HasPrefix(framing, "T"); chunked != (resp.Trailer.Get("X-Last") == "yes") {
				t.Errorf("http/2 %v: trailers %q", h2, resp.Trailer)
			}
			rec := w.await("t2", i+1)[i]
			if rec.Response == nil || rec.Response.Body.Size != 21 || rec.Error != "" {
				t.Errorf("%+v %+v", rec, rec.Response)
			}
		}
	}
}

// On HTTP/2 a write's deadline would end a stream that only waits.
func TestAStreamMayRestLongerThanAWriteMayTake(t *testing.T) {
	next := make(chan struct{})
	w := withBackend(t, func(c *net.TCPConn, r *bufio.Reader) {
		takeHead(r)
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\none\n")
		<-next
		_, _ = io.WriteString(c, "two\n")
	}, func(o *Options) {
		o.Limits.WriteProgress, o.Limits.BodyProgress = 50*time.Millisecond, 50*time.Millisecond
	})
	for _, h2 := range []bool{false, true} {
		resp, err := w.client(2, h2).Post("https://a.example/v1", "text/plain", strings.NewReader("x"))
		if err != nil {
			t.Fatal(err)
		}
		br := bufio.NewReader(resp.Body)
		if line, err := br.ReadString('\n'); err != nil || line != "one\n" {
			t.Fatalf("%q %v", line, err)
		}
		time.AfterFunc(200*time.Millisecond, func() { next <- struct{}{} })
		if line, err := br.ReadString('\n'); err != nil || line != "two\n" {
			t.Errorf("http/2 %v: %q %v", h2, line, err)
		}
		_ = resp.Body.Close()
	}
}

func TestAClientThatLeavesEndsItsBackendsWork(t *testing.T) {
	for _, began := range []bool{false, true} {
		arrived, left := make(chan struct{}), make(chan error)
		w := withBackend(t, func(c *net.TCPConn, r *bufio.Reader) {
			takeHead(r)
			if began {
				_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\nsome")
			}
			close(arrived)
			_, err := r.ReadByte()
			left <- err
		})
		for i, h2 := range []bool{false, true} {
			if i == 1 {
				arrived = make(chan struct{})
			}
			ctx, cancel := context.WithCancel(context.Background())
			r, err := http.NewRequestWithContext(ctx, "GET", "https://a.example/v1", nil)
			if err != nil {
				t.Fatal(err)
			}
			go func() { <-arrived; cancel() }()
			if resp, err := w.client(2, h2).Do(r); err == nil {
				_, _ = io.ReadAll(resp.Body)
				_ = resp.Body.Close()
			}
			select {
			case <-left:
			case <-time.After(10 * time.Second):
				t.Fatal("the backend still has the request")
			}
			if rec := w.await("t2", i+1)[i]; !strings.Contains(rec.Error, "client left") {
				t.Errorf("began %v: %+v", began, rec)
			}
			cancel()
		}
	}
}

func TestABackendThatIsNotThere(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Limits.Answer = 100 * time.Millisecond })
	gone := newProgram(t, 2, echo)
	_ = gone.listener.Close()
	silent := newProgram(t, 2, func(_ *net.TCPConn, r *bufio.Reader) { _, _ = io.Copy(io.Discard, r) })
	reset := newProgram(t, 2, func(c *net.TCPConn, r *bufio.Reader) { takeHead(r); _ = c.SetLinger(0) })
	unknown := gone.persona("unknown.example", 2, "v1")
	unknown.Backend.Service, unknown.Backend.Pin.Address = "other", netip.Addr{}
	w.register("t2", 2, gone.persona("gone.example", 2, "v1"), silent.persona("silent.example", 2, "v1"), reset.persona("reset.example", 2, "v1"), unknown)
	for i, c := range []struct {
		host   string
		status int
		error  string
	}{
		{"gone.example", 502, "refused the connection"},
		{"silent.example", 504, "timed out before the end of its response's head"},
		{"reset.example", 502, "reset the connection"},
		{"unknown.example", 502, `backend "other" is not pinned`},
	} {
		conn := w.dial(2, w.plain)
		br := bufio.NewReader(conn)
		_, _ = fmt.Fprintf(conn, "POST /v1 HTTP/1.1\r\nHost: %s\r\nContent-Length: 2\r\n\r\nhi", c.host)
		r, page := readResponse(t, br, "POST")
		if r.StatusCode != c.status || !strings.Contains(page, fmt.Sprintf("%d ", c.status)) || !strings.Contains(page, "nginx/1.22.1") || r.Close {
			t.Errorf("%s: %d, close %v: %q", c.host, r.StatusCode, r.Close, page)
		}
		rec := w.records("t2")[i]
		if rec.Kind != api.KindBackend || rec.Response == nil || rec.Response.Status != c.status || !strings.Contains(rec.Error, c.error) || rec.Request.Body.Content != "hi" {
			t.Errorf("%s: %+v", c.host, rec)
		}
	}
}

func TestABackendMayAnswerBeforeItHasTheWholeRequest(t *testing.T) {
	w := withBackend(t, func(c *net.TCPConn, r *bufio.Reader) {
		lines := takeHead(r)
		_, _ = io.WriteString(c, "HTTP/1.1 401 No\r\nContent-Length: 2\r\n\r\nno")
		_, _ = io.CopyN(io.Discard, r, lengthOf(lines)) // or a reset would take the answer back
	})
	c := w.client(2, true)
	for range 2 { // the client's connection stays good
		r, got := w.do(c, "POST", "https://a.example/v1", strings.Repeat("x", 8<<20))
		if r.StatusCode != 401 || got != "no" {
			t.Errorf("%d %q", r.StatusCode, got)
		}
	}
}

func TestABackendIsCalledFromTheSimulatorsAddressInItsNetwork(t *testing.T) {
	w := newWorld(t)
	peers := make(chan string, 2)
	tell := func(c *net.TCPConn, r *bufio.Reader) {
		peers <- c.RemoteAddr().(*net.TCPAddr).IP.String()
		echo(c, r)
	}
	w.register("t2", 2, newProgram(t, 2, tell).persona("a.example", 2, "v1"))
	w.register("t3", 3, newProgram(t, 3, tell).persona("a.example", 3, "v1"))
	for n, want := range map[int]string{2: "127.0.0.2", 3: "127.0.0.3"} {
		w.do(w.client(n, false), "GET", "http://a.example/v1", "")
		if got := <-peers; got != want {
			t.Errorf("trajectory %d called from %s", n, got)
		}
	}
}

func TestPinsMoveAndSurviveARestart(t *testing.T) {
	w := newWorld(t)
	first := newProgram(t, 2, says("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfirst"))
	w.register("t2", 2, first.persona("a.example", 2, "v1"), first.persona("b.example", 2, "v1"))
	l, err := net.Listen("tcp4", netip.AddrPortFrom(netip.MustParseAddr("127.1.2.10"), first.address.Port()).String())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "second") })) //nolint:errcheck // ends with its listener
	get := func(host string) string {
		_, got := w.do(w.client(2, false), "GET", "http://"+host+"/v1", "")
		return got
	}
	if got := get("a.example"); got != "first" {
		t.Fatalf("%q", got)
	}
	moved := api.Pin{Container: "new", Network: "net2", Address: netip.MustParseAddr("127.1.2.10")}
	ctx := context.Background()
	if err := w.admin.SetPins(ctx, "t2", api.Pins{"api": moved}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		for _, host := range []string{"a.example", "b.example"} {
			if got := get(host); got != "second" {
				t.Errorf("%s: %q", host, got)
			}
		}
		s, err := w.admin.Status(ctx)
		if err != nil || s.Trajectories[0].Pins["api"] != moved {
			t.Errorf("%+v %v", s, err)
		}
		w.stop()
		w.start()
	}
	for name, pins := range map[string]api.Pins{
		"another trajectory's address": {"api": {Container: "x", Network: "net2", Address: netip.MustParseAddr("127.1.3.9")}},
		"another network":              {"api": {Container: "x", Network: "net3", Address: netip.MustParseAddr("127.1.2.9")}},
		"the simulator itself":         {"api": {Container: "x", Network: "net2", Address: netip.MustParseAddr("127.0.0.2")}},
		"no container":                 {"api": {Network: "net2", Address: netip.MustParseAddr("127.1.2.9")}},
		"nobody's backend":             {"web": moved},
	} {
		if err := w.admin.SetPins(ctx, "t2", pins); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	if got := get("a.example"); got != "second" {
		t.Errorf("after refusals: %q", got)
	}
}

// countingReader gives zeros, and tells how much memory is in use while it does.
type countingReader struct{ left, most int64 }

func (c *countingReader) Read(p []byte) (int, error) {
	if c.left == 0 {
		return 0, io.EOF
	}
	if c.left%(16<<20) == 0 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		c.most = max(c.most, int64(m.HeapInuse+m.StackInuse))
	}
	n := min(int64(len(p)), c.left, 32<<10)
	clear(p[:n])
	c.left -= n
	return int(n), nil
}

func TestALongBodyTakesNoMemory(t *testing.T) {
	const size = 96 << 20
	got := make(chan int64, 1)
	w := withBackend(t, func(c *net.TCPConn, r *bufio.Reader) {
		n, _ := io.CopyN(io.Discard, r, lengthOf(takeHead(r)))
		got <- n
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
	}, func(o *Options) { o.BodyLimit = 1 << 20 })
	for _, h2 := range []bool{false, true} {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		before := int64(m.HeapInuse + m.StackInuse)
		body := &countingReader{left: size}
		r, err := http.NewRequest("POST", "https://a.example/v1", io.NopCloser(body))
		if err != nil {
			t.Fatal(err)
		}
		c := w.client(2, h2)
		c.Timeout = 0 // this is no test of speed
		if resp, _ := w.doRequest(c, r); resp.StatusCode != 200 || <-got != size {
			t.Fatalf("status %d", resp.StatusCode)
		}
		if more := body.most - before; more > 64<<20 {
			t.Errorf("http/2 %v: %d MiB more in use", h2, more>>20)
		}
	}
}

func TestLongBodiesArePassedOnWholeBeyondWhatTheJournalKeeps(t *testing.T) {
	sums := make(chan string, 1)
	hashing := func(c *net.TCPConn, r *bufio.Reader) {
		lines := takeHead(r)
		h := sha256.New()
		n, _ := io.CopyN(h, r, lengthOf(lines))
		sums <- fmt.Sprintf("%d %s", n, hex.EncodeToString(h.Sum(nil)))
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
	}
	for _, limit := range []func(*Options){
		func(o *Options) { o.BodyLimit = 100 << 10 },
		func(o *Options) { o.Quota = 40 << 10 }, // not even a short one is kept
	} {
		w := withBackend(t, hashing, limit)
		for _, size := range []int{60 << 10, 3 << 20} {
			content := bytes.Repeat([]byte("0123456789abcdef"), size/16)
			sum := sha256.Sum256(content)
			want := fmt.Sprintf("%d %s", size, hex.EncodeToString(sum[:]))
			for _, h2 := range []bool{false, true} {
				r, err := http.NewRequest("PUT", "https://a.example/v1", io.NopCloser(bytes.NewReader(content)))
				if err != nil {
					t.Fatal(err)
				}
				if resp, _ := w.doRequest(w.client(2, h2), r); resp.StatusCode != 200 {
					t.Fatalf("status %d", resp.StatusCode)
				}
				if got := <-sums; got != want {
					t.Errorf("the backend got %s, not %s", got, want)
				}
				records := w.records("t2")
				if b := records[len(records)-1].Request.Body; b.Size != int64(size) || b.SHA256 != hex.EncodeToString(sum[:]) || size > 1<<20 && (!b.Truncated || b.Encoding != api.EncodingNone) {
					t.Errorf("%+v", b)
				}
			}
		}
		if left := spools(t, w); len(left) > 0 {
			t.Errorf("left %q", left)
		}
	}
}
