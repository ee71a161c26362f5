package wire

import (
	"strconv"
	"time"

	"github.com/linuxarena/ctis/templates/pages"
)

// Refusal says why received bytes are not served, and with which status nginx
// answers them.
type Refusal struct {
	Status int
	Reason string // for the record
	Cause  Cause
	Detail string // what of the request some servers repeat on their page
}

func (r *Refusal) Error() string { return r.Reason }

// Cause is what is wrong with a request head, as far as servers tell it apart.
type Cause uint8

// The causes. Their zero value is everything that no server has words for.
const (
	CauseOther      Cause = iota
	CauseLine             // the request line is none; Detail is the line
	CauseSpaces           // too many spaces in it, or no version at its end; Detail is what stands there
	CauseTLS              // it begins as a TLS record does; Detail is the line
	CauseMethod           // Detail is the method
	CauseVersion          // that is not served; Detail is the version
	CauseConnect          // CONNECT with an authority
	CauseLongLine         // the request line
	CauseField            // a line that is no header field; Detail is it, or its name
	CauseValue            // of the field Detail
	CauseLongField        // one
	CauseLongHeader       // all fields together
	CauseNoHost           // in HTTP/1.1
	CauseHosts            // more than one
	CauseBadHost          //
	CauseLength           // Content-Length; Detail is its name as sent
	CauseCoding           // Transfer-Encoding that is not served
)

// Answer is a complete response made without net/http, after which the
// connection is closed.
type Answer struct {
	Status int
	Reason string // on the status line; "" is the family's usual phrase
	Old    bool   // the status line says HTTP/1.0
	Silent bool   // nothing is sent: the connection is closed without a word
	Fields [][2]string
	Body   []byte
}

// RefusalAnswer makes the answer of serverHeader's family to a head that its
// parser does not take. What is not measured of a family follows its source.
func RefusalAnswer(serverHeader string, r *Refusal, f pages.Facts, now time.Time) Answer {
	switch pages.FamilyOf(serverHeader) {
	case pages.Caddy:
		if r.Status == StatusPlainToTLS {
			return Answer{Status: 400, Old: true, Body: []byte("Client sent an HTTP request to an HTTPS server.\n")}
		}
		return goAnswer(r)
	case pages.Gunicorn, pages.Express:
		switch {
		case r.Status == StatusPlainToTLS:
			return Answer{Silent: true} // their TLS ends the connection
		case pages.FamilyOf(serverHeader) == pages.Express:
			return nodeAnswer(r, now)
		}
		return gunicornAnswer(r)
	case pages.Lighttpd:
		switch r.Cause {
		case CauseLongLine, CauseLongField, CauseLongHeader:
			a := ErrorAnswerFor(serverHeader, 431, f, now)
			a.Old = true // it gives up before it has looked at the version
			return a
		case CauseTLS, CauseLine, CauseVersion:
			a := ErrorAnswerFor(serverHeader, r.Status, f, now)
			a.Old = true
			return a
		}
	}
	return ErrorAnswerFor(serverHeader, r.Status, f, now)
}

// goTexts are what net/http, which Caddy is made of, says about some causes.
var goTexts = map[Cause]string{
	CauseNoHost:  "missing required Host header",
	CauseHosts:   "too many Host headers",
	CauseBadHost: "malformed Host header",
	CauseValue:   "invalid header value",
	CauseVersion: "unsupported protocol version",
}

// goAnswer names neither server nor time, and repeats the status line as body.
func goAnswer(r *Refusal) Answer {
	status := r.Status
	switch r.Cause {
	case CauseLongLine, CauseLongField, CauseLongHeader:
		status = 431
	}
	a := Answer{Status: WireStatus(status), Fields: [][2]string{{"Content-Type", "text/plain; charset=utf-8"}, {"Connection", "close"}}}
	a.Reason = pages.Reason("Caddy", a.Status)
	if text := goTexts[r.Cause]; text != "" {
		a.Reason += ": " + text
	}
	a.Body = []byte(strconv.Itoa(a.Status) + " " + a.Reason)
	if r.Cause == CauseCoding {
		a.Body = []byte("Unsupported transfer encoding")
	}
	return a
}

// gunicornAnswer is the page of gunicorn's worker, which is not the application's.
func gunicornAnswer(r *Refusal) Answer {
	page := pages.GunicornBadRequest(gunicornText(r))
	return Answer{Status: 400, Reason: "Bad Request", Body: page.Body, Fields: [][2]string{
		{"Connection", "close"}, {"Content-Type", page.ContentType}, {"Content-Length", strconv.Itoa(len(page.Body))},
	}}
}

// gunicornText is how gunicorn words a cause (gunicorn/http/errors.py and
// Worker.handle_error of release 20.1).
func gunicornText(r *Refusal) string {
	quoted := pages.PythonRepr(r.Detail)
	switch r.Cause {
	case CauseMethod:
		return "Invalid Method 'Invalid HTTP method: " + quoted + "'"
	case CauseSpaces, CauseVersion:
		return "Invalid HTTP Version 'Invalid HTTP Version: " + quoted + "'"
	case CauseLongLine:
		return "Request Line is too large (8192 > 4094)"
	case CauseLongField, CauseLongHeader:
		return "Error parsing headers: 'limit request headers fields size'"
	case CauseField:
		return "Invalid HTTP header name: " + quoted
	case CauseLength:
		return "Invalid HTTP Header: 'CONTENT-LENGTH'"
	case CauseNoHost, CauseHosts, CauseBadHost, CauseValue, CauseCoding:
		return "Invalid HTTP Header: " + quoted
	}
	return "Invalid Request Line 'Invalid HTTP request line: " + quoted + "'"
}

// nodeAnswer is what Node's parser has answered before Express hears of the
// request: a status line, and that the connection is closed.
func nodeAnswer(r *Refusal, now time.Time) Answer {
	a := Answer{Status: 400, Fields: [][2]string{{"Connection", "close"}}}
	switch r.Cause {
	case CauseLongLine, CauseLongField, CauseLongHeader:
		a.Status = 431
	case CauseConnect:
		return Answer{Silent: true} // nobody listens for 'connect'
	case CauseNoHost: // found after parsing, by the server
		a.Fields = append(a.Fields, [2]string{"Date", now.UTC().Format(DateFormat)}, [2]string{"Transfer-Encoding", "chunked"})
		a.Body = []byte("0\r\n\r\n")
	}
	return a
}

// NodeKnows reports whether Node's parser knows a method; it refuses the others
// (llhttp, HTTP_METHOD_MAP).
func NodeKnows(method string) bool { return nodeMethods[method] }

var nodeMethods = map[string]bool{
	"DELETE": true, "GET": true, "HEAD": true, "POST": true, "PUT": true, "CONNECT": true, "OPTIONS": true, "TRACE": true,
	"COPY": true, "LOCK": true, "MKCOL": true, "MOVE": true, "PROPFIND": true, "PROPPATCH": true, "SEARCH": true, "UNLOCK": true,
	"BIND": true, "REBIND": true, "UNBIND": true, "ACL": true, "REPORT": true, "MKACTIVITY": true, "CHECKOUT": true, "MERGE": true,
	"M-SEARCH": true, "NOTIFY": true, "SUBSCRIBE": true, "UNSUBSCRIBE": true, "PATCH": true, "PURGE": true, "MKCALENDAR": true,
	"LINK": true, "UNLINK": true, "SOURCE": true, "QUERY": true,
}
