package wire

import (
	"bytes"
	"html"
	"strconv"
	"strings"
	"time"

	"github.com/linuxarena/ctis/templates/pages"
)

// DateFormat is that of the Date field, in GMT (RFC 9110 §5.6.7).
const DateFormat = "Mon, 02 Jan 2006 15:04:05 GMT"

// RewriteHead turns the response head that net/http wrote, its empty line
// included, into the one serverHeader's family would send, appended to dst.
// Interim responses (1xx) but 101 pass unchanged. status is 0 when head is none.
func RewriteHead(dst, head []byte, serverHeader string, t Turn) (out []byte, status int) {
	text := string(head)
	line, next := cutLine(text, 0)
	status = statusOf(line)
	if status == 0 || status < 200 && status != 101 {
		return append(dst, head...), status
	}
	fields := make([][2]string, 0, 12)
	for next < len(text) {
		line, next = cutLine(text, next)
		name, value, ok := strings.Cut(line, ":")
		if !ok {
			continue
		}
		value = strings.Trim(value, " ")
		if strings.EqualFold(name, "Connection") && hasToken(value, "close") {
			t.Close = true
		}
		if strings.EqualFold(name, "Connection") && hasToken(value, "keep-alive") && t.Minor == 0 {
			t.Close, t.Asked = false, true
		}
		fields = append(fields, [2]string{name, value})
	}
	return AppendHead(dst, serverHeader, status, DialectOf(serverHeader).Arrange(fields, t)), status
}

// AppendHead writes a status line and arranged fields. Every family answers an
// HTTP/1.0 request with a status line of HTTP/1.1.
func AppendHead(dst []byte, serverHeader string, status int, fields [][2]string) []byte {
	dst = append(dst, "HTTP/1.1 "...)
	dst = strconv.AppendInt(dst, int64(status), 10)
	dst = append(append(append(dst, ' '), pages.Reason(serverHeader, status)...), '\r', '\n')
	for _, f := range fields {
		dst = append(append(append(append(append(dst, f[0]...), ':', ' '), f[1]...), '\r'), '\n')
	}
	return append(dst, '\r', '\n')
}

func statusOf(line string) int {
	if len(line) < len("HTTP/1.1 200") || !strings.HasPrefix(line, "HTTP/1.") || line[8] != ' ' {
		return 0
	}
	n, err := strconv.Atoi(line[9:12])
	if err != nil || n < 100 {
		return 0
	}
	return n
}

// StatusOf reads the status out of the beginning of a response, 0 if it is none.
func StatusOf(b []byte) int { return statusOf(string(b[:min(len(b), 16)])) }

// Answer is a complete response made without net/http: an error page of
// serverHeader's family, after which the connection is closed.
type Answer struct {
	Status int
	Fields [][2]string
	Body   []byte
}

// ErrorAnswer makes the answer to a request that is refused with status, which
// may be one of nginx's own.
func ErrorAnswer(serverHeader string, status int, now time.Time) Answer {
	return ErrorAnswerFor(serverHeader, status, pages.Facts{}, now)
}

// ErrorAnswerFor is ErrorAnswer with what the page says about the request.
func ErrorAnswerFor(serverHeader string, status int, f pages.Facts, now time.Time) Answer {
	page := pages.ErrorFor(serverHeader, WireStatus(status), f)
	switch status {
	case StatusHeaderTooLarge:
		page.Body = explain(page.Body, "Request Header Or Cookie Too Large")
	case StatusPlainToTLS:
		page.Body = explain(page.Body, "The plain HTTP request was sent to HTTPS port")
	}
	fields := [][2]string{
		{"Server", serverHeader},
		{"Date", now.UTC().Format(DateFormat)},
		{"Content-Length", strconv.Itoa(len(page.Body))},
	}
	if page.ContentType != "" {
		fields = append(fields, [2]string{"Content-Type", page.ContentType})
	}
	return Answer{
		Status: WireStatus(status),
		Fields: DialectOf(serverHeader).Arrange(fields, Turn{Minor: 1, Close: true}),
		Body:   page.Body,
	}
}

// Append writes the answer's bytes; without its body when it answers a HEAD.
func (a Answer) Append(dst []byte, serverHeader string, head bool) []byte {
	dst = AppendHead(dst, serverHeader, a.Status, a.Fields)
	if head {
		return dst
	}
	return append(dst, a.Body...)
}

// explain makes nginx's page for 400 into the one for its more special causes.
// Pages of other families say nothing about them and stay as they are.
func explain(page []byte, text string) []byte {
	const head = "<center><h1>400 Bad Request</h1></center>\r\n"
	if !bytes.Contains(page, []byte(head)) {
		return page
	}
	text = html.EscapeString(text)
	out := bytes.Replace(page, []byte(head), []byte(head+"<center>"+text+"</center>\r\n"), 1)
	return bytes.Replace(out, []byte("<title>400 Bad Request<"), []byte("<title>400 "+text+"<"), 1)
}
