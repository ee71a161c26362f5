package pages

import (
	"fmt"
	"strings"
)

// GunicornBadRequest is the page of gunicorn's worker for a request that it
// could not read: the application never saw it.
func GunicornBadRequest(message string) Page {
	message = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&#x27;").Replace(message)
	return Page{
		ContentType: "text/html",
		Body: []byte("<html>\n  <head>\n    <title>Bad Request</title>\n  </head>\n  <body>\n    <h1><p>Bad Request</p></h1>\n    " +
			message + "\n  </body>\n</html>\n"),
	}
}

// PythonRepr is how Python writes a string of which each byte is a Latin-1
// character.
func PythonRepr(s string) string {
	quote := byte('\'')
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		quote = '"'
	}
	var b strings.Builder
	b.WriteByte(quote)
	for i := range len(s) {
		switch c := s[i]; {
		case c == quote, c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c == '\t':
			b.WriteString(`\t`)
		case c == '\r':
			b.WriteString(`\r`)
		case c == '\n':
			b.WriteString(`\n`)
		case c < ' ', c >= 0x7f && c <= 0xa0, c == 0xad:
			fmt.Fprintf(&b, `\x%02x`, c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte(quote)
	return b.String()
}
