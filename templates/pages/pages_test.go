package pages_test

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/linuxarena/ctis/templates/pages"
)

// answer is what a real server said to one probe.
type answer struct {
	Server     string   `json:"server"`
	Probe      string   `json:"probe"`
	Request    string   `json:"request"`
	StatusLine string   `json:"status_line"`
	Headers    []string `json:"headers"`
	Body       string   `json:"body"`
}

// answers reads the collection of real answers, which is no part of this
// repository: CTIS_REALISM names the directory that holds it.
func answers(t *testing.T) []answer {
	t.Helper()
	dir := os.Getenv("CTIS_REALISM")
	if dir == "" {
		if os.Getenv("CI") == "true" {
			t.Fatal("CTIS_REALISM is not set: the pages are not compared with real servers")
		}
		t.Skip("CTIS_REALISM is not set: the pages are not compared with real servers")
	}
	f, err := os.Open(filepath.Join(dir, "answers.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var all []answer
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var a answer
		if err := json.Unmarshal(lines.Bytes(), &a); err != nil {
			t.Fatal(err)
		}
		all = append(all, a)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

func (a answer) header(name string) string {
	for _, h := range a.Headers {
		if k, v, _ := strings.Cut(h, ": "); strings.EqualFold(k, name) {
			return v
		}
	}
	return ""
}

// own are answers below the error pages: of a parser that tells what it could
// not read, of a development stack trace, of a proxy that was not configured.
func own(a answer) bool {
	switch a.Probe {
	case "long-header": // nginx and Apache name the cause
		return !strings.HasPrefix(a.Server, "lighttpd")
	case "range-bad":
		return strings.HasPrefix(a.Server, "express") || strings.HasPrefix(a.Server, "caddy")
	case "expect-100":
		return strings.HasPrefix(a.Server, "gunicorn") // the page comes in the second response
	}
	if strings.HasPrefix(a.Server, "gunicorn") && a.header("Server") == "" || strings.HasPrefix(a.Server, "express") && a.header("X-Powered-By") == "" {
		return true
	}
	return strings.HasPrefix(a.Server, "caddy") && a.header("Server") == ""
}

func TestErrorPagesAreThoseOfRealServers(t *testing.T) {
	compared := make(map[string]int)
	for _, a := range answers(t) {
		_, rest, _ := strings.Cut(a.StatusLine, " ")
		code, reason, _ := strings.Cut(rest, " ")
		status, err := strconv.Atoi(code)
		if err != nil || status < 400 || own(a) {
			continue
		}
		header := a.header("Server")
		if header == "" {
			header = "Express"
		}
		method, rest, _ := strings.Cut(a.Request, " ")
		target, _, _ := strings.Cut(rest, " ")
		facts := pages.Facts{Host: "files.example.com", Method: method, Path: target}
		if a.Probe == "connect" {
			facts.Port = 443
		}
		if got := pages.Reason(header, status); got != reason {
			t.Errorf("%s, %s: reason %q, real is %q", a.Server, a.Probe, got, reason)
		}
		page := pages.ErrorFor(header, status, facts)
		if page.ContentType != a.header("Content-Type") {
			t.Errorf("%s, %s: type %q, real is %q", a.Server, a.Probe, page.ContentType, a.header("Content-Type"))
		}
		if method != "HEAD" && !strings.Contains(a.Request, "…") && string(page.Body) != a.Body {
			t.Errorf("%s, %s: page\n%q, real is\n%q", a.Server, a.Probe, page.Body, a.Body)
		}
		if n := a.header("Content-Length"); method != "GET" && n != "" && len(page.Body) != atoi(t, n) {
			t.Errorf("%s, %s: %d bytes, real are %s", a.Server, a.Probe, len(page.Body), n)
		}
		compared[a.Server]++
	}
	if len(compared) != 6 {
		t.Errorf("compared %v, want pages of six servers", compared)
	}
}

func atoi(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestServerHeadersNameTheirFamily(t *testing.T) {
	tests := map[string]pages.Family{
		"nginx": pages.Nginx, "nginx/1.22.1": pages.Nginx, "NGINX": pages.Nginx,
		"Apache": pages.Apache, "apache/2.4.71 (Debian)": pages.Apache, "Apache (Debian)": pages.Apache,
		"Apache-Coyote/1.1": pages.Nginx,
		"Caddy":             pages.Caddy, "lighttpd/1.4.69": pages.Lighttpd,
		"gunicorn": pages.Gunicorn, "gunicorn/20.1.0": pages.Gunicorn, "Werkzeug/2.2.2 Python/3.11.2": pages.Gunicorn,
		"cloudflare": pages.Cloudflare, "Cloudflare": pages.Cloudflare, "Cloudflare-nginx": pages.Nginx,
		"Express": pages.Express, "BeanGuard": pages.Nginx, "": pages.Nginx,
	}
	for header, want := range tests {
		if got := pages.FamilyOf(header); got != want {
			t.Errorf("%q is of family %d, want %d", header, got, want)
		}
	}
}

func TestAnUnknownServerPutsItsNameOnThePage(t *testing.T) {
	page := string(pages.Error("Bean<Guard>/2", 404).Body)
	if !strings.Contains(page, "<hr><center>Bean&lt;Guard&gt;/2</center>\r\n") || strings.Contains(page, "nginx") {
		t.Errorf("page %q", page)
	}
}

func TestNoPageCarriesMarkupOfTheRequest(t *testing.T) {
	const evil = `<script>"'&`
	facts := pages.Facts{Host: evil, Method: evil, Path: evil, Location: evil}
	for _, header := range []string{"nginx", "Apache", "Caddy", "lighttpd", "gunicorn", "Express", "cloudflare", evil} {
		for status := 300; status < 600; status++ {
			if page := pages.ErrorFor(header, status, facts); strings.Contains(string(page.Body), "<script") || strings.Contains(string(page.Body), `"'`) {
				t.Fatalf("%q, %d: %s", header, status, page.Body)
			}
		}
	}
	for _, page := range []pages.Page{pages.Root(evil), pages.GunicornBadRequest(pages.PythonRepr(evil)), pages.Index("/"+evil+"/", []pages.Entry{{Name: evil}})} {
		if strings.Contains(string(page.Body), "<script") {
			t.Errorf("page %s", page.Body)
		}
	}
	if page := pages.Index("/", []pages.Entry{{Name: "javascript:alert(1)"}}); strings.Contains(string(page.Body), `href="javascript:`) {
		t.Errorf("a name became a scheme: %s", page.Body)
	}
}

func TestIndexIsThatOfNginx(t *testing.T) {
	at := time.Date(2025, 3, 1, 10, 0, 0, 0, time.UTC)
	got := string(pages.Index("/public/", []pages.Entry{
		{Name: "dir", Dir: true, ModTime: at},
		{Name: "a b&c.txt", Size: 18, ModTime: at},
		{Name: strings.Repeat("é", 60), Size: 7, ModTime: at},
	}).Body)
	want := "<html>\r\n<head><title>Index of /public/</title></head>\r\n<body>\r\n<h1>Index of /public/</h1><hr><pre><a href=\"../\">../</a>\r\n" +
		`<a href="dir/">dir/</a>                                               01-Mar-2025 10:00                   -` + "\r\n" +
		`<a href="a%20b&c.txt">a b&amp;c.txt</a>                                          01-Mar-2025 10:00                  18` + "\r\n" +
		`<a href="` + strings.Repeat("%C3%A9", 60) + `">` + strings.Repeat("é", 47) + `..&gt;</a> 01-Mar-2025 10:00                   7` + "\r\n" +
		"</pre><hr></body>\r\n</html>\r\n"
	if got != want {
		t.Errorf("index\n%s\nwant\n%s", got, want)
	}
}

// What Python 3 prints for these characters.
func TestPythonRepr(t *testing.T) {
	for in, want := range map[string]string{
		"":             `''`,
		"GARBAGE":      `'GARBAGE'`,
		"it's":         `"it's"`,
		`a"b`:          `'a"b'`,
		`'"`:           `'\'"'`,
		`a\b`:          `'a\\b'`,
		"\x16\x03\x00": `'\x16\x03\x00'`,
		"\t\r\n\x7f":   `'\t\r\n\x7f'`,
		"\xa0\xad\xe9": "'\\xa0\\xad\xe9'",
	} {
		if got := pages.PythonRepr(in); got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
}
