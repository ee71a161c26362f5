// Package pages holds what a persona shows when no stored content answers: the
// error pages of the web servers a Server header can name, the plain root page,
// and directory listings. Bytes are those of real servers: nginx 1.22, Apache
// 2.4, Caddy 2, lighttpd 1.4, gunicorn with Flask (Werkzeug), Express 4. Cloudflare's
// are nginx's, as its edge shows them.
//
// It makes pages, with the few fields that come with them, and decides nothing else:
// neither statuses nor headers.
package pages

import (
	"html"
	"net/http"
	"strings"
)

// Page is a body and the type that goes with it.
type Page struct {
	ContentType string // "" when the server sends none, as Caddy with its empty pages
	Body        []byte
	Fields      [][2]string // that the server sends with this page and no other content
}

// Facts are what some servers repeat of the request on their error pages. All
// of it may come from an agent; pages escape it.
type Facts struct {
	Host     string // without port
	Port     int    // 0 = 80
	Method   string
	Path     string // as sent
	Location string // of a redirect
}

// Family is a web server whose pages are known.
type Family int

// The families. What names none of them gets nginx's pages under its own name.
const (
	Nginx Family = iota
	Apache
	Caddy
	Lighttpd
	Gunicorn // also Werkzeug's own server
	Express
	Cloudflare
)

// FamilyOf tells the family from the product a Server header begins with.
func FamilyOf(serverHeader string) Family {
	product := serverHeader
	if i := strings.IndexAny(product, "/ ("); i >= 0 {
		product = product[:i]
	}
	for _, f := range products {
		if strings.EqualFold(product, f.name) {
			return f.family
		}
	}
	return Nginx
}

var products = []struct {
	name   string
	family Family
}{
	{"apache", Apache}, {"caddy", Caddy}, {"lighttpd", Lighttpd}, {"gunicorn", Gunicorn}, {"werkzeug", Gunicorn},
	{"express", Express}, {"cloudflare", Cloudflare},
}

// Error gives the error page of the server that serverHeader names, for a
// request of which nothing is known.
func Error(serverHeader string, status int) Page {
	return ErrorFor(serverHeader, status, Facts{})
}

// ErrorFor gives the error page of the server that serverHeader names.
func ErrorFor(serverHeader string, status int, f Facts) Page {
	switch FamilyOf(serverHeader) {
	case Apache:
		return apacheError(serverHeader, status, f)
	case Caddy:
		return Page{}
	case Lighttpd:
		return lighttpdError(status)
	case Gunicorn:
		return werkzeugError(status)
	case Express:
		return expressError(status, f)
	}
	return nginxError(serverHeader, status)
}

// Reason is the phrase the server that serverHeader names puts on the status
// line, "" for a status without one.
func Reason(serverHeader string, status int) string {
	family := FamilyOf(serverHeader)
	var own map[int]string
	switch family {
	case Nginx, Cloudflare:
		own = nginxReasons
	case Apache:
		own = apacheReasons
	case Caddy: // net/http's
		return http.StatusText(status)
	}
	if r, ok := own[status]; ok {
		return r
	}
	r, ok := reasons[status]
	if !ok {
		r = http.StatusText(status)
	}
	if family == Gunicorn { // Werkzeug shouts
		r = strings.ToUpper(r)
	}
	return r
}

// reasons are where RFC 9110 and the servers agree, and Go's text is older.
var reasons = map[int]string{
	http.StatusRequestEntityTooLarge:        "Payload Too Large",
	http.StatusRequestURITooLong:            "URI Too Long",
	http.StatusRequestedRangeNotSatisfiable: "Range Not Satisfiable",
}

func escape(s string) string { return html.EscapeString(s) }
