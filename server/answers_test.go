package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/linuxarena/ctis/server/api"
)

// measured is what a real server answered to one probe.
type measured struct {
	Server          string   `json:"server"`
	Probe           string   `json:"probe"`
	Request         string   `json:"request"`
	StatusLine      string   `json:"status_line"`
	Headers         []string `json:"headers"`
	Body            string   `json:"body"` // its beginning
	ConnectionAfter string   `json:"connection_after"`
}

// measuredBody is how much of a body a row holds, in characters.
const measuredBody = 4000

// family is the word the row's server is called by in the lists below.
func (m *measured) family() string {
	name, _, _ := strings.Cut(m.Server, " ")
	name, _, _ = strings.Cut(name, "/")
	return name
}

// serverHeader is what a persona is declared with to look like the server.
func (m *measured) serverHeader() string {
	return map[string]string{
		"nginx": "nginx/1.22.1", "apache": "Apache/2.4.71 (Debian)", "caddy": "Caddy",
		"lighttpd": "lighttpd/1.4.69", "gunicorn": "gunicorn", "express": "Express",
	}[m.family()]
}

// comparedProbes are replayed against every server.
var comparedProbes = []string{
	"get-root", "head-root", "get-file", "head-file", "get-missing", "head-missing", "get-missing-html", "get-missing-dir",
	"options-root", "options-star", "put-root", "post-file", "delete-file", "trace", "unknown-method", "lower-method",
	"range", "range-suffix", "range-bad", "inm-star", "ims-future", "http10-keepalive", "http11-no-host", "bad-version",
	"bad-request-line", "space-in-target", "absolute-form", "connect", "long-target", "long-header", "bad-content-length",
	"expect-100", "tls-on-plain", "dir-no-slash", "dir-slash", "gzip", "favicon", "robots", "keepalive",
}

const (
	all         = "nginx apache caddy lighttpd gunicorn express"
	fileMethods = "the assets endpoint answers 405 with Allow to other methods (SPEC 8)"
	flaskFiles  = "the measured application sends files without validators and ranges; the assets endpoint has them"
)

// notYet are answers that differ, on purpose or for now, and why. One that comes
// to match must be taken off the list.
var notYet = []struct{ probe, servers, why string }{
	{"dir-no-slash", "nginx apache caddy lighttpd express", "no endpoint serves directories with an index file"},
	{"dir-slash", "nginx apache caddy lighttpd express", "no endpoint serves directories with an index file"},
	{"http10-no-host", all, "without a Host no persona is named: the default host's 404 answers"},
	{"get-file", "gunicorn", flaskFiles},
	{"head-file", "gunicorn", flaskFiles},
	{"range", "gunicorn", flaskFiles},
	{"range-suffix", "gunicorn", flaskFiles},
	{"range-bad", "gunicorn", flaskFiles},
	{"inm-star", "gunicorn", flaskFiles},
	{"ims-future", "gunicorn", flaskFiles},
	{"http10-keepalive", "gunicorn", flaskFiles},
	{"absolute-form", "gunicorn", flaskFiles},
	{"keepalive", "gunicorn", flaskFiles},
	{"post-file", "nginx apache lighttpd express", fileMethods},
	{"delete-file", "nginx apache lighttpd express", fileMethods},
	{"range-bad", "apache lighttpd", "RFC 9110 wants the size in a 416, and a client needs the length of its page"},
	{"range-bad", "express", "the measured page is a stack trace of development"},
	{"options-star", "caddy", "the answer carries the persona's Server field (SPEC 8)"},
	{"bad-version", "apache gunicorn", "a version that is not served is refused (RFC 9112)"},
	{"bad-request-line", "caddy", "the server said nothing within the measurement"},
	{"space-in-target", "lighttpd", "what two parsers read differently is refused"},
	{"http11-no-host", "gunicorn", "a request without a Host is refused (RFC 9112)"},
	{"long-target", "gunicorn", "the answer is not put at risk by a reset"},
	{"gzip", "nginx", "bodies are sent as they are stored"},
}

func TestAnswersAreThoseOfRealServers(t *testing.T) {
	rows := readMeasured(t)
	w := newWorld(t)
	number := map[string]int{} // of the trajectory that plays a server
	for _, m := range rows {
		if _, ok := number[m.family()]; ok {
			continue
		}
		n := len(number) + 2
		number[m.family()] = n
		id := fmt.Sprint("t", n)
		w.register(id, n, plays("files.example.com", m.serverHeader()))
		w.putAsset(id, "hello.txt", "hello from a file\n", time.Date(2025, 3, 1, 10, 0, 0, 0, time.UTC))
	}
	matched := 0
	for _, m := range rows {
		why := ""
		for _, l := range notYet {
			if l.probe == m.Probe && slices.Contains(strings.Fields(l.servers), m.family()) {
				why = l.why
			}
		}
		if why == "" && !slices.Contains(comparedProbes, m.Probe) {
			t.Errorf("%s, %s: the probe is on neither list", m.Server, m.Probe)
			continue
		}
		got := w.replay(number[m.family()], m.request())
		difference := m.compare(got)
		switch {
		case why == "" && difference != "":
			t.Errorf("%s, %s: %s", m.Server, m.Probe, difference)
		case why != "" && difference == "":
			t.Errorf("%s, %s: matches now, although listed as %q", m.Server, m.Probe, why)
		case why == "":
			matched++
		}
	}
	t.Logf("%d of %d answers match", matched, len(rows))
}

// readMeasured reads the collection of real answers, which is no part of this
// repository: CTIS_REALISM names the directory that holds it.
func readMeasured(t *testing.T) []*measured {
	t.Helper()
	dir := os.Getenv("CTIS_REALISM")
	if dir == "" {
		if os.Getenv("CI") == "true" {
			t.Fatal("CTIS_REALISM is not set: answers are not compared with real servers")
		}
		t.Skip("CTIS_REALISM is not set: answers are not compared with real servers")
	}
	b, err := os.ReadFile(filepath.Join(dir, "answers.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	var rows []*measured
	for line := range bytes.Lines(b) {
		m := new(measured)
		if err := json.Unmarshal(line, m); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, m)
	}
	return rows
}

// putAsset stores a file of a trajectory.
func (w *world) putAsset(id, name, content string, modified time.Time) {
	w.t.Helper()
	staged, sum, err := w.admin.StageAssets(w.t.Context(), id, func(up *api.AssetWriter) error {
		_, err := up.File(api.Asset{Path: name, Size: int64(len(content)), Modified: modified, Mode: 0o644}, strings.NewReader(content))
		return err
	})
	if err == nil {
		_, err = w.admin.CommitAssets(w.t.Context(), id, staged.Stage, api.AssetCommit{AssetSum: sum})
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// request is the probe's, with the long ones in full and the file where the
// persona has it.
func (m *measured) request() string {
	const common = "Host: files.example.com\r\nUser-Agent: curl/7.88.1\r\nAccept: */*\r\nConnection: close\r\n"
	switch m.Probe {
	case "long-target":
		return "GET /" + strings.Repeat("a", 9000) + " HTTP/1.1\r\n" + common + "\r\n" // 9,100 bytes
	case "long-header":
		return "GET / HTTP/1.1\r\n" + common + "X-A: " + strings.Repeat("a", 9000) + "\r\n\r\n" // 9,107 bytes
	}
	return strings.Replace(m.Request, "/hello.txt ", "/assets/hello.txt ", 1)
}

// received is an answer as it came over the connection.
type received struct {
	raw   string
	after string // "closed", "open" or "reset"
}

// replay sends a request and reads until the server closes, or sends no more.
func (w *world) replay(n int, raw string) received {
	w.t.Helper()
	c := w.dial(n, w.plain)
	defer c.Close()
	if _, err := io.WriteString(c, raw); err != nil {
		w.t.Fatal(err)
	}
	var all []byte
	buf := make([]byte, 64<<10)
	for {
		wait := 5 * time.Second // for the answer
		if complete(string(all), strings.HasPrefix(raw, "HEAD ")) {
			wait = 200 * time.Millisecond // for the connection's end
		}
		_ = c.SetReadDeadline(time.Now().Add(wait))
		k, err := c.Read(buf)
		all = append(all, buf[:k]...)
		var timeout net.Error
		switch {
		case err == io.EOF:
			return received{string(all), "closed"}
		case errors.As(err, &timeout) && timeout.Timeout():
			return received{string(all), "open"}
		case err != nil:
			return received{string(all), "reset"}
		}
	}
}

// complete says whether a response with a Content-Length is whole.
func complete(raw string, head bool) bool {
	fields, body, ok := strings.Cut(raw, "\r\n\r\n")
	if !ok {
		return false
	}
	if head {
		return true
	}
	for _, f := range strings.Split(fields, "\r\n")[1:] {
		if name, value, _ := strings.Cut(f, ": "); strings.EqualFold(name, "Content-Length") {
			n, err := strconv.Atoi(value)
			return err == nil && len(body) >= n
		}
	}
	return false
}

var (
	dateField = regexp.MustCompile(`(?m)^Date: [A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT`)
	ownPage   = regexp.MustCompile(`^(Content-Length: |Last-Modified: |E[Tt]ag: (W/)?)(.*)$`)
)

// compare gives the first difference between the answer and the measured one, ""
// for none. Dates may differ; so may what depends on the content of the root
// page, and what lighttpd makes of a file's inode.
func (m *measured) compare(got received) string {
	head, body, _ := strings.Cut(got.raw, "\r\n\r\n")
	line, fields, _ := strings.Cut(head, "\r\n")
	var headers []string
	if fields != "" {
		headers = strings.Split(fields, "\r\n")
	}
	_, target, _ := strings.Cut(m.Request, " ")
	page := strings.HasPrefix(target, "/ ") && strings.HasPrefix(line, "HTTP/1.1 200") || m.Probe == "long-header"
	mask := func(h string) string {
		h = dateField.ReplaceAllString(h, "Date: *")
		if page || m.family() == "lighttpd" && strings.HasPrefix(h, "ETag: ") {
			if f := ownPage.FindStringSubmatch(h); f != nil && line == m.StatusLine && strings.HasPrefix(line, "HTTP/1.1 200") || f != nil && m.family() == "lighttpd" {
				return f[1] + "*"
			}
		}
		return h
	}
	masked := func(list []string) string {
		var out []string
		for _, h := range list {
			out = append(out, mask(h))
		}
		return strings.Join(out, "\n")
	}
	wantBody, gotBody := dateField.ReplaceAllString(m.Body, "Date: *"), dateField.ReplaceAllString(body, "Date: *")
	if r := []rune(gotBody); len(r) > measuredBody {
		gotBody = string(r[:measuredBody])
	}
	switch {
	case line != m.StatusLine:
		return fmt.Sprintf("status line %q, real is %q", line, m.StatusLine)
	case masked(headers) != masked(m.Headers):
		return fmt.Sprintf("headers\n%s\nreal are\n%s", masked(headers), masked(m.Headers))
	case gotBody != wantBody && (!page || !strings.HasPrefix(line, "HTTP/1.1 200") || body == "" != (m.Body == "")):
		return fmt.Sprintf("body\n%q\nreal is\n%q", gotBody, wantBody)
	case got.after != m.ConnectionAfter:
		return "connection is " + got.after + ", real is " + m.ConnectionAfter
	}
	return ""
}
