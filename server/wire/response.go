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
	return AppendHeadTo(dst, serverHeader, t.Minor, status, DialectOf(serverHeader).Arrange(fields, t)), status
}

// AppendHead writes a status line of HTTP/1.1 and arranged fields.
func AppendHead(dst []byte, serverHeader string, status int, fields [][2]string) []byte {
	return AppendHeadTo(dst, serverHeader, 1, status, fields)
}

// AppendHeadTo is AppendHead in answer to a request of HTTP/1.minor, to which some
// families say HTTP/1.0.
func AppendHeadTo(dst []byte, serverHeader string, minor, status int, fields [][2]string) []byte {
	version := "HTTP/1.1 "
	if minor == 0 && answersHTTP10(serverHeader) {
		version = "HTTP/1.0 "
	}
	return appendHead(dst, version, status, pages.Reason(serverHeader, status), fields)
}

func appendHead(dst []byte, version string, status int, reason string, fields [][2]string) []byte {
	dst = append(dst, version...)
	dst = strconv.AppendInt(dst, int64(status), 10)
	dst = append(append(append(dst, ' '), reason...), '\r', '\n')
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
		explainApache(serverHeader, &page, "Size of a request header field exceeds server limit.")
	case StatusPlainToTLS:
		page.Body = explain(page.Body, "The plain HTTP request was sent to HTTPS port")
		explainApache(serverHeader, &page, "Reason: You're speaking plain HTTP to an SSL-enabled server port.<br />\n Instead use the HTTPS scheme to access this URL, please.<br />\n")
	}
	fields := [][2]string{
		{Identity(serverHeader), serverHeader},
		{"Date", now.UTC().Format(DateFormat)},
		{"Content-Length", strconv.Itoa(len(page.Body))},
	}
	if page.ContentType != "" {
		fields = append(fields, [2]string{"Content-Type", page.ContentType})
	}
	fields = append(fields, page.Fields...)
	return Answer{
		Status: WireStatus(status),
		Fields: DialectOf(serverHeader).Arrange(fields, Turn{Minor: 1, Close: true}),
		Body:   page.Body,
	}
}

// Append writes the answer's bytes; without its body when it answers a HEAD.
func (a Answer) Append(dst []byte, serverHeader string, head bool) []byte {
	if a.Silent {
		return dst
	}
	version, reason := "HTTP/1.1 ", a.Reason
	if a.Old {
		version = "HTTP/1.0 "
	}
	if reason == "" {
		reason = pages.Reason(serverHeader, a.Status)
	}
	dst = appendHead(dst, version, a.Status, reason, a.Fields)
	if head {
		return dst
	}
	return append(dst, a.Body...)
}

// explainApache is explain for Apache, which adds its causes to the paragraph. text
// is HTML.
func explainApache(serverHeader string, page *pages.Page, text string) {
	if pages.FamilyOf(serverHeader) != pages.Apache {
		return
	}
	const paragraph = "could not understand.<br />\n"
	page.Body = bytes.Replace(page.Body, []byte(paragraph), []byte(paragraph+text), 1)
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
