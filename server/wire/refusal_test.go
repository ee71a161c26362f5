package wire

import (
	"strings"
	"testing"
	"time"

	"github.com/linuxarena/ctis/templates/pages"
)

// What the families make of a head nginx refuses. "" takes it.
func TestFamiliesRefuseInTheirOwnWords(t *testing.T) {
	const host = "Host: a\r\n\r\n"
	for raw, want := range map[string]map[string]string{
		"get / HTTP/1.1\r\n" + host:     {"Apache": "", "Caddy": "", "lighttpd": "", "gunicorn": "", "Express": "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"},
		"OPTIONS * HTTP/1.1\r\n" + host: {"Apache": "", "Caddy": "", "lighttpd": "", "gunicorn": "", "Express": ""},
		"GET / HTTP/9.9\r\n" + host: {
			"Caddy":    "HTTP/1.1 505 HTTP Version Not Supported: unsupported protocol version\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n505 HTTP Version Not Supported: unsupported protocol version",
			"lighttpd": "HTTP/1.0 505 HTTP Version Not Supported\r\n", "gunicorn": "Invalid HTTP Version &#x27;Invalid HTTP Version: &#x27;HTTP/9.9&#x27;&#x27;",
		},
		"CONNECT a:443 HTTP/1.1\r\n" + host:                     {"Apache": "", "Caddy": "", "gunicorn": "", "lighttpd": "HTTP/1.1 400 ", "Express": "silent"},
		"CONNECT / HTTP/1.1\r\n" + host:                         {"Apache": "", "nginx": ""},
		"CONNECT a HTTP/1.1\r\n" + host:                         {"Apache": "HTTP/1.1 400 ", "Caddy": "HTTP/1.1 400 "},
		"CONNECT u@a:443 HTTP/1.1\r\n" + host:                   {"Apache": "HTTP/1.1 400 ", "Caddy": "HTTP/1.1 400 "},
		"GET * HTTP/1.1\r\n" + host:                             {"Apache": "HTTP/1.1 400 ", "Express": "HTTP/1.1 400 "},
		"POST / HTTP/1.1\r\nTransfer-Encoding: gzip\r\n" + host: {"Caddy": "HTTP/1.1 501 Not Implemented\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\nUnsupported transfer encoding"},
		"GET / HTTP/1.1\r\nHost: b\r\n" + host:                  {"Caddy": "400 Bad Request: too many Host headers"},
		"GET / HTTP/1.1\r\nX: " + strings.Repeat("a", 17<<10) + "\r\n" + host: {
			"Caddy": "", "Express": "HTTP/1.1 431 Request Header Fields Too Large\r\nConnection: close\r\n\r\n", "lighttpd": "HTTP/1.0 431 ",
			"Apache": "Size of a request header field exceeds server limit.</p>",
		},
		"GET / HTTP/1.1\r\nX: " + strings.Repeat("a", 62<<10) + "\r\n" + host: {"Caddy": "HTTP/1.1 431 Request Header Fields Too Large\r\n"},
		"<'\"> / x\r\n" + host: {"gunicorn": "    Invalid Method &#x27;Invalid HTTP method: &#x27;&lt;\\&#x27;&quot;&gt;&#x27;&#x27;\n"},
	} {
		for server, answer := range want {
			h, refusal := ParseHeadFor([]byte(raw), server)
			if refusal == nil {
				if answer != "" {
					t.Errorf("%s takes %.80q", server, raw)
				}
				continue
			}
			a := RefusalAnswer(server, refusal, pages.Facts{Host: "a"}, time.Unix(0, 0))
			got := string(a.Append(nil, server, false))
			if answer == "" || answer == "silent" != a.Silent || !a.Silent && !strings.Contains(got, answer) {
				t.Errorf("%s, %.80q: %v, head %+v; answers %q", server, raw, refusal, h != nil, got)
			}
			if strings.HasPrefix(answer, "HTTP") && !strings.HasPrefix(got, answer) {
				t.Errorf("%s, %.80q: answers %q", server, raw, got)
			}
		}
	}
}

func TestPortOf(t *testing.T) {
	for in, want := range map[[2]string]int{
		{"a", "http"}: 80, {"a", "https"}: 443, {"a:8080", "http"}: 8080, {"a:", "http"}: 80, {"a:x", "https"}: 443, {"a:0", "http"}: 80,
		{"a:70000", "http"}: 80, {"[::1]", "http"}: 80, {"[::1]:81", "http"}: 81, {"", "https"}: 443,
	} {
		if got := PortOf(in[0], in[1]); got != want {
			t.Errorf("%q: %d, want %d", in, got, want)
		}
	}
}
