package backend

import (
	"strconv"
	"strings"
)

// Request is what a backend is sent.
type Request struct {
	Method string
	Target string      // in origin form, byte for byte
	Host   string      // the persona's
	Fields [][2]string // as the client sent them, hop-by-hop ones included

	// Own are fields of ours. They stand last, and no Connection field of the client
	// takes them away.
	Own [][2]string

	// What the forwarding fields say.
	Client    string // the client's address; "": nothing is said
	Scheme    string // "http" or "https"
	AskedHost string // the Host or :authority the client sent

	Length    int64 // of the body, in bytes
	WebSocket bool  // the client asks to go on with WebSocket, and may
	GoesOn    bool  // the connection is for further requests too
}

// The rules of a request's head are:
//
//   - Fields keep their order and case. Host and Content-Length stand where the
//     client had them, with values of ours.
//   - What concerns one connection only goes (RFC 9110 §7.6.1): Connection and what
//     it names, and the fields below.
//   - The forwarding fields are ours alone. A client's are dropped whatever they are
//     called exactly (CGI and WSGI take X_Forwarded_For for X-Forwarded-For), and ours
//     are added last, so that no Connection field of a client takes them away.
//   - Expect goes: the whole body is here.

// hopByHop concern one connection.
var hopByHop = set("connection", "keep-alive", "proxy-connection", "proxy-authenticate", "proxy-authorization",
	"te", "trailer", "transfer-encoding", "upgrade", "http2-settings", "expect")

func set(names ...string) map[string]bool {
	m := make(map[string]bool, len(names))
	for _, n := range names {
		m[n] = true
	}
	return m
}

// forwarding tells the fields that say who a request came from.
func forwarding(lower string) bool {
	name := strings.ReplaceAll(lower, "_", "-")
	return name == "forwarded" || name == "x-real-ip" || strings.HasPrefix(name, "x-forwarded-")
}

// named are the fields that Connection fields name, in lower case.
func named(fields [][2]string) map[string]bool {
	var m map[string]bool
	for _, f := range fields {
		if !strings.EqualFold(f[0], "Connection") {
			continue
		}
		for token := range strings.SplitSeq(f[1], ",") {
			if token = strings.ToLower(strings.Trim(token, " \t")); token != "" {
				if m == nil {
					m = map[string]bool{}
				}
				m[token] = true
			}
		}
	}
	return m
}

// Head is the request's head as it is sent.
func (q *Request) Head() []byte {
	b := make([]byte, 0, 1<<10)
	put := func(parts ...string) {
		for _, p := range parts {
			b = append(b, p...)
		}
		b = append(b, '\r', '\n')
	}
	put(q.Method, " ", q.Target, " HTTP/1.1")
	gone := named(q.Fields)
	length := strconv.FormatInt(q.Length, 10)
	hasHost, framed, cookie := hasField(q.Fields, "host"), false, false
	if !hasHost {
		put("Host: ", q.Host)
	}
	for _, f := range q.Fields {
		lower := strings.ToLower(f[0])
		switch {
		case lower == "host":
			put(f[0], ": ", q.Host)
		case lower == "content-length":
			put(f[0], ": ", length)
			framed = true
		case lower == "transfer-encoding" && !framed && !hasField(q.Fields, "content-length"):
			put("Content-Length: ", length)
			framed = true
		case hopByHop[lower], gone[lower], forwarding(lower):
		case lower == "cookie":
			// HTTP/2 may cut it in pieces, HTTP/1 may not (RFC 9113 §8.2.3).
			if !cookie {
				put(f[0], ": ", joined(q.Fields))
			}
			cookie = true
		default:
			put(f[0], ": ", f[1])
		}
	}
	if !framed && (q.Length > 0 || q.Method == "POST" || q.Method == "PUT" || q.Method == "PATCH") {
		put("Content-Length: ", length)
	}
	for _, f := range q.Own {
		put(f[0], ": ", f[1])
	}
	if q.Client != "" {
		put("X-Forwarded-For: ", q.Client)
		put("X-Forwarded-Proto: ", q.Scheme)
		put("X-Forwarded-Host: ", q.AskedHost)
	}
	switch {
	case q.WebSocket:
		put("Connection: Upgrade")
		put("Upgrade: websocket")
	case !q.GoesOn:
		put("Connection: close")
	}
	return append(b, '\r', '\n')
}

func hasField(fields [][2]string, lower string) bool {
	for _, f := range fields {
		if strings.EqualFold(f[0], lower) {
			return true
		}
	}
	return false
}

// joined is the whole of a Cookie field that came in pieces.
func joined(fields [][2]string) string {
	var pieces []string
	for _, f := range fields {
		if strings.EqualFold(f[0], "Cookie") {
			pieces = append(pieces, f[1])
		}
	}
	return strings.Join(pieces, "; ")
}

// AsksForWebSocket tells a request to go on with WebSocket (RFC 6455 §4.1) from one
// with any other Upgrade field. Others are not passed on: what comes after them
// would be seen by nobody.
func AsksForWebSocket(method string, minor int, fields [][2]string) bool {
	if method != "GET" || minor < 1 || !named(fields)["upgrade"] {
		return false
	}
	asks := 0
	for _, f := range fields {
		if strings.EqualFold(f[0], "Upgrade") {
			if !strings.EqualFold(f[1], "websocket") {
				return false
			}
			asks++
		}
	}
	return asks == 1
}

// EndToEnd are the fields of a message that are for its receiver, in order and case.
func EndToEnd(fields [][2]string) [][2]string {
	gone := named(fields)
	kept := make([][2]string, 0, len(fields))
	for _, f := range fields {
		if lower := strings.ToLower(f[0]); !hopByHop[lower] && !gone[lower] {
			kept = append(kept, f)
		}
	}
	return kept
}
