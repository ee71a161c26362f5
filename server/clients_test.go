package server

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// Requests as the official client libraries of two providers write them (openai and
// anthropic for Python over httpx, openai for Node over undici), with the key that a
// harness gives an agent that has none.
var clientRequests = map[string]string{
	"openai for Python, a stream": crlf(`POST /v1/chat/completions HTTP/1.1
Host: api.vendor.example
Accept-Encoding: gzip, deflate, br, zstd
Connection: keep-alive
Accept: application/json
Content-Type: application/json
User-Agent: OpenAI/Python 1.99.9
X-Stainless-Lang: python
X-Stainless-Package-Version: 1.99.9
X-Stainless-OS: Linux
X-Stainless-Arch: x64
X-Stainless-Runtime: CPython
X-Stainless-Runtime-Version: 3.12.11
X-Api-Key: unused
X-Stainless-Async: false
x-stainless-retry-count: 0
x-stainless-read-timeout: 600
Content-Length: SIZE

`) + `{"messages":[{"role":"user","content":"h\u00e9llo \"w\""}],"model":"gpt-4o","stream":true  }`,
	"openai for Python, an upload": crlf(`POST /v1/files HTTP/1.1
Host: api.vendor.example
Accept-Encoding: gzip, deflate
Connection: keep-alive
Accept: application/json
User-Agent: OpenAI/Python 1.99.9
X-Api-Key: unused
Content-Length: SIZE
Content-Type: multipart/form-data; boundary=de6ef8f0a1b2c3d4e5f60718293a4b5c

--de6ef8f0a1b2c3d4e5f60718293a4b5c
Content-Disposition: form-data; name="purpose"

fine-tune
--de6ef8f0a1b2c3d4e5f60718293a4b5c
Content-Disposition: form-data; name="file"; filename="a.jsonl"

`) + "{\"x\":\x00\xff}\r\n" + "--de6ef8f0a1b2c3d4e5f60718293a4b5c--\r\n",
	"anthropic for Python": crlf(`POST /v1/messages HTTP/1.1
Host: api.vendor.example
Accept-Encoding: gzip, deflate
Connection: keep-alive
Accept: application/json
Content-Type: application/json
User-Agent: Anthropic/Python 0.68.0
anthropic-version: 2023-06-01
x-api-key: unused
x-stainless-retry-count: 0
Content-Length: SIZE

{}`),
	"openai for Node, sent in chunks": crlf(`POST /v1/audio/transcriptions HTTP/1.1
host: api.vendor.example
connection: keep-alive
x-api-key: unused
content-type: multipart/form-data; boundary=----formdata-undici-011111111111
accept: application/json
accept-language: *
sec-fetch-mode: cors
user-agent: OpenAI/JS 5.0.0
accept-encoding: br, gzip, deflate
transfer-encoding: chunked

`) + chunk("------formdata-undici-011111111111\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nwhisper-1\r\n") +
		chunk("------formdata-undici-011111111111--\r\n") + chunk(""),
}

func crlf(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") }

func chunk(s string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(s), s) }

// sized states the length of the body where the head leaves it open.
func sized(raw string) string {
	_, body, _ := strings.Cut(raw, "\r\n\r\n")
	return strings.Replace(raw, "SIZE", fmt.Sprint(len(body)), 1)
}

func TestRequestsOfClientLibrariesReachTheUpstreamAsTheyAre(t *testing.T) {
	type seen struct {
		head http.Header
		body string
		line string
	}
	var mu sync.Mutex
	var last seen
	b := withUpstream(t, "api.vendor.example", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		mu.Lock()
		last = seen{r.Header.Clone(), string(body), r.Method + " " + r.RequestURI}
		mu.Unlock()
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("X-Request-Id", "req_1")
		w.Header().Set("X-Ratelimit-Remaining-Requests", "9")
		for _, e := range []string{`{"delta":"a"}`, "[DONE]"} {
			fmt.Fprintf(w, "event: message\ndata: %s\n\n", e)
			w.(http.Flusher).Flush()
		}
	})
	for name, raw := range clientRequests {
		raw = sized(raw)
		c := tls.Client(b.dial(2, b.tls), &tls.Config{RootCAs: b.roots, ServerName: "api.vendor.example"})
		if _, err := io.WriteString(c, raw); err != nil {
			t.Fatal(err)
		}
		r, got := readResponse(t, bufio.NewReader(c), "POST")
		if r.StatusCode != http.StatusOK || r.Header.Get("X-Request-Id") != "req_1" || r.Header.Get("Content-Type") != "text/event-stream" ||
			r.Header.Get("X-Ratelimit-Remaining-Requests") != "9" || got != "event: message\ndata: {\"delta\":\"a\"}\n\nevent: message\ndata: [DONE]\n\n" {
			t.Errorf("%s: %s %v %q", name, r.Status, r.Header, got)
		}
		_ = c.Close()
		want, err := http.ReadRequest(bufio.NewReader(strings.NewReader(raw)))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		body, err := io.ReadAll(want.Body)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		mu.Lock()
		if last.line != want.Method+" "+want.RequestURI || last.body != string(body) {
			t.Errorf("%s: the upstream got %s with %q, not %q", name, last.line, last.body, body)
		}
		for field, values := range want.Header {
			switch field {
			case "Connection", "Transfer-Encoding":
				continue // of one connection
			case "Accept-Encoding":
				values = []string{"identity"}
			case "X-Api-Key":
				values = []string{upstreamKey}
			case "Content-Length":
				values = []string{fmt.Sprint(len(body))}
			}
			if fmt.Sprint(last.head[field]) != fmt.Sprint(values) {
				t.Errorf("%s: the upstream got %s %q, not %q", name, field, last.head[field], values)
			}
		}
		if media, params, err := mime.ParseMediaType(last.head.Get("Content-Type")); err != nil || media == "multipart/form-data" {
			if _, err := multipart.NewReader(strings.NewReader(last.body), params["boundary"]).ReadForm(1 << 20); err != nil {
				t.Errorf("%s: the form cannot be read: %v", name, err)
			}
		}
		mu.Unlock()
	}
}

// The libraries try again by themselves, after what the upstream says; nobody on the
// way does it for them, or keeps them from it.
func TestRetriesAreTheClientLibrarysOwn(t *testing.T) {
	var mu sync.Mutex
	var counts []string
	b := withUpstream(t, "api.vendor.example", func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		counts = append(counts, r.Header.Get("X-Stainless-Retry-Count"))
		switch len(counts) {
		case 1:
			w.Header().Set("Retry-After-Ms", "20")
			w.Header().Set("X-Should-Retry", "true")
			w.WriteHeader(http.StatusTooManyRequests)
		case 2:
			panic(http.ErrAbortHandler)
		default:
			_ = json.NewEncoder(w).Encode(map[string]string{"id": "ok"})
		}
	})
	c := b.client(2, false)
	for i, want := range []int{http.StatusTooManyRequests, http.StatusBadGateway, http.StatusOK} {
		q, err := http.NewRequest("POST", "https://api.vendor.example/v1/chat/completions", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("X-Stainless-Retry-Count", fmt.Sprint(i))
		q.Header.Set("Idempotency-Key", "stainless-python-retry-1")
		r, _ := b.doRequest(c, q)
		if r.StatusCode != want || i == 0 && (r.Header.Get("Retry-After-Ms") != "20" || r.Header.Get("X-Should-Retry") != "true") {
			t.Errorf("try %d: %s %v", i, r.Status, r.Header)
		}
	}
	if fmt.Sprint(counts) != "[0 1 2]" {
		t.Errorf("the upstream was asked %q", counts)
	}
}
