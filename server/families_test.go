package server

import (
	"bufio"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/linuxarena/ctis/server/api"
)

// On HTTP/2 pages and fields are the same, but for what is said of the connection.
func TestPagesOverHTTP2AreThoseOfTheServer(t *testing.T) {
	w := newWorld(t)
	for i, c := range []struct {
		header, method, path string
		status               int
		fields               string // what the server adds, in order
		body                 string // a part
	}{
		{"nginx/1.22.1", "GET", "/nope", 404, "server date content-type content-length", "<center>nginx/1.22.1</center>"},
		{"nginx", "PUT", "/", 405, "server date content-type content-length", "405 Not Allowed"},
		{"Apache/2.4.71 (Debian)", "DELETE", "/", 405, "date server allow content-length content-type", "Port 443</address>"},
		{"Caddy", "PUT", "/", 405, "", ""},
		{"lighttpd/1.4.69", "GET", "/nope", 404, "content-type content-length date server", "<h1>404 Not Found</h1>"},
		{"gunicorn", "PUT", "/", 405, "server date content-type allow content-length", "<h1>Method Not Allowed</h1>"},
		{"Express", "GET", "/nope", 404, "x-powered-by content-security-policy x-content-type-options content-type content-length date", "Cannot GET /nope"},
		{"cloudflare", "GET", "/nope", 404, "date content-type content-length server cf-ray", "<center>cloudflare</center>"},
	} {
		id := fmt.Sprint("t", i+2)
		w.register(id, i+2, plays("a.example", c.header))
		r, body := w.do(w.client(i+2, true), c.method, "https://a.example"+c.path, "")
		if r.ProtoMajor != 2 || r.StatusCode != c.status || !strings.Contains(body, c.body) {
			t.Errorf("%s: %s %d %q", c.header, r.Proto, r.StatusCode, body)
		}
		if (c.header == "Express") != (r.Header.Get("Server") == "") || r.Header.Get("Connection") != "" {
			t.Errorf("%s: %v", c.header, r.Header)
		}
		var names []string
		for _, f := range w.await(id, 1)[0].Response.Headers {
			names = append(names, strings.ToLower(f[0]))
		}
		if got := strings.Join(names, " "); c.fields != "" && got != c.fields {
			t.Errorf("%s: fields %q, want %q", c.header, got, c.fields)
		}
	}
}

func TestCloudflareNumbersItsAnswers(t *testing.T) {
	w := newWorld(t)
	w.register("t2", 2, plays("a.example", "cloudflare"))
	const one = "GET /nope HTTP/1.1\r\nHost: a.example\r\n"
	answer := w.send(2, w.plain, one+"\r\n"+one+"Connection: close\r\n\r\n")
	rays := regexp.MustCompile(`\r\nServer: cloudflare\r\nCF-RAY: ([0-9a-f]{16}-FRA)\r\n\r\n`).FindAllStringSubmatch(answer, -1)
	if len(rays) != 2 || rays[0][1] == rays[1][1] || !strings.HasPrefix(answer, "HTTP/1.1 404 Not Found\r\nDate: ") || strings.Contains(answer, "nginx") {
		t.Errorf("%q", answer)
	}
}

func TestGunicornTakesAnyMethodForTheOneInCapitalsAndClosesAlways(t *testing.T) {
	w := newWorld(t)
	w.register("t2", 2, plays("a.example", "gunicorn"))
	answer := w.send(2, w.plain, "head /nope HTTP/1.1\r\nHost: a.example\r\n\r\n")
	if !strings.HasPrefix(answer, "HTTP/1.1 404 NOT FOUND\r\n") || !strings.HasSuffix(answer, "\r\n\r\n") || !strings.Contains(answer, "\r\nConnection: close\r\n") {
		t.Errorf("%q", answer)
	}
	if r := w.await("t2", 1)[0]; r.Request.Method != "head" || r.Response.Body.Size != 0 {
		t.Errorf("%+v %+v", r.Request, r.Response)
	}
}

// A webhook takes any method, whatever the imitated parser thinks of it.
func TestWebhookTakesMethodsTheImitatedParserDoesNotKnow(t *testing.T) {
	w := newWorld(t)
	w.register("t2", 2, plays("a.example", "Express"))
	answer := w.send(2, w.plain, "FROB /webhook/x HTTP/1.1\r\nHost: a.example\r\n\r\n"+"FROB /nope HTTP/1.1\r\nHost: a.example\r\n\r\n")
	br := bufio.NewReader(strings.NewReader(answer))
	if first, _ := readResponse(t, br, "FROB"); first.StatusCode != 200 || first.Header.Get("X-Powered-By") != "Express" || first.Header.Get("Server") != "" {
		t.Errorf("%q", answer)
	}
	if rest, _ := io.ReadAll(br); string(rest) != "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n" {
		t.Errorf("after the first answer comes %q", rest)
	}
	records := w.await("t2", 2)
	if records[0].Kind != api.KindWebhook || records[1].Kind != api.KindNotFound || records[1].Response.Status != 400 || records[1].Error == "" {
		t.Errorf("%+v", records)
	}
}

func TestPlainHTTPOnATLSPortIsAnsweredAsTheServerDoes(t *testing.T) {
	w := newWorld(t)
	for i, c := range [][2]string{
		{"nginx", "The plain HTTP request was sent to HTTPS port"},
		{"Apache/2.4", "speaking plain HTTP to an SSL-enabled server port"},
		{"Caddy", "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"},
		{"gunicorn", ""}, {"Express", ""},
	} {
		id := fmt.Sprint("t", i+2)
		w.register(id, i+2, plays("a.example", c[0]))
		answer := w.send(i+2, w.tls, "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n")
		if !strings.Contains(answer, c[1]) || c[1] == "" && answer != "" {
			t.Errorf("%s: %q", c[0], answer)
		}
		if r := w.await(id, 1)[0]; r.Kind != api.KindMalformed || r.Raw == nil || (c[1] == "") != (r.Response == nil) {
			t.Errorf("%s: %+v", c[0], r)
		}
	}
}

// What is for the server and no resource of it goes the ordinary way where the
// imitated server takes it: recorded as sent, and the connection stays.
func TestRequestsForTheServerItselfAreRecordedAsSent(t *testing.T) {
	w := newWorld(t)
	w.register("t2", 2, plays("a.example", "Apache/2.4.71 (Debian)"))
	sent := []struct {
		method, target, host, body string
		status                     int
	}{
		{"OPTIONS", "*", "a.example", "", 200},
		{"CONNECT", "a.example:443", "a.example:443", "", 405},
		{"CONNECT", "b.example:443", "a.example", "", 405},
		{"tRACE", "/", "a.example", "", 501},
		{"FROB", "/webhook?a=%2F", "a.example", "secret", 200},
		{"GET", "http://a.example/webhook", "b.example", "", 200},
	}
	raw := ""
	for _, s := range sent {
		raw += s.method + " " + s.target + " HTTP/1.1\r\nHost: " + s.host + "\r\nContent-Length: " + strconv.Itoa(len(s.body)) + "\r\n\r\n" + s.body
	}
	w.send(2, w.plain, raw+"GET /nope HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n")
	records := w.await("t2", len(sent)+1)
	for i, s := range sent {
		r := records[i]
		if r.Kind == api.KindMalformed || r.Persona != "a.example" || r.Request.Method != s.method || r.Request.Target != s.target || r.Request.Body.Content != s.body || r.Response.Status != s.status {
			t.Errorf("%s %s: %+v %+v %+v", s.method, s.target, r, r.Request, r.Response)
		}
	}
}

// A file that is longer than a response that is held, in parts.
func TestManyRangesOfALongFileAreStreamed(t *testing.T) {
	w := newWorld(t)
	w.register("t2", 2, plays("a.example", ""))
	w.do(w.client(2, false), "PUT", "http://a.example/data/big", strings.Repeat("x", 1<<20))
	answer := w.send(2, w.plain, "GET /data/big HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\nRange: bytes=0-99999,200000-299999\r\n\r\n")
	r, body := readResponse(t, bufio.NewReader(strings.NewReader(answer)), "GET")
	if r.StatusCode != 206 || r.ContentLength != int64(len(body)) || strings.Count(body, "x") != 200_000 || !strings.HasPrefix(r.Header.Get("Content-Type"), "multipart/byteranges; boundary=0") {
		t.Errorf("%d %v, %d bytes", r.StatusCode, r.Header, len(body))
	}
	if got := w.await("t2", 2)[1].Response; got.Status != 206 || got.Body.Size != int64(len(body)) {
		t.Errorf("%+v", got)
	}
}

// In front of a backend, the server named decides about heads and connection, and
// changes no method.
func TestBackendsBehindEachFamily(t *testing.T) {
	w := newWorld(t)
	for i, c := range []struct{ server, method, identity, connection string }{
		{"gunicorn", "get", "Server: gunicorn\r\n", "\r\nConnection: close\r\n"},
		{"Express", "FROB", "X-Powered-By: Express\r\n", "\r\nConnection: keep-alive\r\n"},
		{"Apache", "get", "Server: Apache\r\n", ""},
	} {
		n := i + 2
		id := fmt.Sprint("t", n)
		p := newProgram(t, n, echo).persona("a.example", n, "v1")
		p.ServerHeader = c.server
		w.register(id, n, p)
		got := w.replay(n, c.method+" /v1/x HTTP/1.1\r\nHost: a.example\r\n\r\n")
		if !strings.HasPrefix(got.raw, "HTTP/1.1 200 OK\r\n") || !strings.Contains(got.raw, c.identity) || strings.Contains(got.raw, "Server: Echo") ||
			!strings.Contains(got.raw, c.connection) || !strings.Contains(got.raw, "\r\n\r\n"+c.method+" /v1/x HTTP/1.1\n") {
			t.Errorf("%s: %q", c.server, got.raw)
		}
		if r := w.await(id, 1)[0]; r.Request.Method != c.method || r.Kind != api.KindBackend {
			t.Errorf("%s: %+v %+v", c.server, r, r.Request)
		}
	}
}
