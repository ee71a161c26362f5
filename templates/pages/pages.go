// Package pages holds what a persona shows when no stored content answers: the
// error pages of the web servers a Server header can name, the plain root page,
// and directory listings. Bytes are those of real servers: nginx 1.22, Apache
// 2.4, Caddy 2, lighttpd 1.4, gunicorn with Flask (Werkzeug), Express 4.
//
// It makes pages and decides nothing: neither statuses nor headers.
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
	Gunicorn
	Express
)

// FamilyOf tells the family from the product a Server header begins with.
func FamilyOf(serverHeader string) Family {
	product := strings.ToLower(serverHeader)
	if i := strings.IndexAny(product, "/ ("); i >= 0 {
		product = product[:i]
	}
	switch product {
	case "apache":
		return Apache
	case "caddy":
		return Caddy
	case "lighttpd":
		return Lighttpd
	case "gunicorn", "werkzeug":
		return Gunicorn
	case "express":
		return Express
	}
	return Nginx
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
	case Nginx:
		own = nginxReasons
	case Apache:
		own = apacheReasons
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
