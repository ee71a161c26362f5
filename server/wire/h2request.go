package wire

import (
	"net/textproto"
	"strconv"
	"strings"
)

// ParseH2 reads the fields of an HTTP/2 request, pseudo-header fields included;
// ended says that no body follows. The head it gives holds what could be read,
// also with a refusal, in the order received: names in their canonical form,
// except those that break the rules, which stay as they are. declared is the
// Content-Length, -1 without.
//
// What passes here, net/http takes too. Nearly all that does not is answered
// 400, as nginx does, where RFC 9113 §8.1.1 also allows to reset the stream.
func ParseH2(fields [][2]string, ended bool) (h *Head, declared int64, refusal *Refusal) {
	p := h2Parser{head: &Head{Proto: "HTTP/2.0", Minor: 1, Fields: make([][2]string, 0, len(fields))}, declared: -1}
	for _, f := range fields {
		p.size += len(f[0]) + len(f[1]) + len(": ")
		p.value(f)
		if strings.HasPrefix(f[0], ":") {
			p.pseudo(f)
		} else {
			p.regular(f)
		}
	}
	p.check(ended)
	return p.head, p.declared, p.refusal
}

// ParseH2Trailers is ParseH2 for the fields after a body.
func ParseH2Trailers(fields [][2]string) ([][2]string, *Refusal) {
	p := h2Parser{head: &Head{Fields: make([][2]string, 0, len(fields))}}
	for _, f := range fields {
		p.size += len(f[0]) + len(f[1]) + len(": ")
		p.value(f)
		p.name(f)
	}
	if p.size > MaxBlock {
		p.refuse(StatusHeaderTooLarge, "trailers longer than "+strconv.Itoa(MaxBlock)+" bytes")
	}
	return p.head.Fields, p.refusal
}

type h2Parser struct {
	head     *Head
	scheme   string
	seen     [4]bool // pseudo-header fields, as pseudo numbers them
	after    bool    // a regular field came
	hosts    int
	size     int
	declared int64
	refusal  *Refusal
}

func (p *h2Parser) refuse(status int, reason string) {
	if p.refusal == nil {
		p.refusal = &Refusal{Status: status, Reason: reason}
	}
}

func (p *h2Parser) value(f [2]string) {
	for i := range len(f[1]) {
		if c := f[1][i]; c < ' ' && c != '\t' || c == 0x7f {
			p.refuse(400, "control character in the value of header field "+strconv.Quote(clipName(f[0])))
			return
		}
	}
}

// pseudo takes a pseudo-header field. One that has no place in a request is
// kept beside the regular ones.
func (p *h2Parser) pseudo(f [2]string) {
	names := [...]string{":method", ":scheme", ":authority", ":path"}
	values := [...]*string{&p.head.Method, &p.scheme, &p.head.Authority, &p.head.Target}
	for i, name := range names {
		if f[0] != name {
			continue
		}
		if p.after {
			p.refuse(400, "pseudo-header field "+name+" after a regular one")
		}
		if !p.seen[i] {
			p.seen[i], *values[i] = true, f[1]
			return
		}
		p.refuse(400, "more than one pseudo-header field "+name)
	}
	p.refuse(400, "unknown pseudo-header field "+strconv.Quote(clipName(f[0])))
	p.head.Fields = append(p.head.Fields, f)
}

// name keeps a regular field, and checks its name.
func (p *h2Parser) name(f [2]string) {
	switch {
	case !IsToken(f[0]):
		p.refuse(400, "header field name is no token")
	case hasUpper(f[0]):
		p.refuse(400, "header field name with capitals")
	default:
		f[0] = textproto.CanonicalMIMEHeaderKey(f[0])
	}
	p.head.Fields = append(p.head.Fields, f)
}

func (p *h2Parser) regular(f [2]string) {
	p.after = true
	p.name(f)
	switch f[0] {
	case "connection", "proxy-connection", "keep-alive", "transfer-encoding", "upgrade":
		p.refuse(400, "field "+f[0]+" in an http/2 request") // RFC 9113 §8.2.2
	case "te":
		if f[1] != "trailers" {
			p.refuse(400, "field te other than trailers in an http/2 request")
		}
	case "host":
		if p.hosts++; p.hosts == 1 {
			p.head.Host = f[1]
		}
	case "content-length":
		n, err := strconv.ParseInt(f[1], 10, 64)
		switch {
		case err != nil || !digit(f[1][0]):
			p.refuse(400, "content-length is no number")
		case p.declared >= 0:
			p.refuse(400, "more than one content-length field")
		default:
			p.declared, p.head.Length = n, n
		}
	}
}

// check settles what the fields mean together.
func (p *h2Parser) check(ended bool) {
	h := p.head
	if p.size > MaxBlock {
		p.refuse(StatusHeaderTooLarge, "header longer than "+strconv.Itoa(MaxBlock)+" bytes")
	}
	for i := range len(h.Method) {
		if c := h.Method[i]; (c < 'A' || c > 'Z') && c != '-' && c != '_' {
			p.refuse(400, "method has other characters than capitals")
		}
	}
	switch {
	case h.Method == "":
		p.refuse(400, "request has no :method")
	case h.Method == "CONNECT":
		p.refuse(400, "method CONNECT")
	case p.scheme != "http" && p.scheme != "https":
		p.refuse(400, "request has no :scheme that is served")
		if p.scheme != "" {
			h.Fields = append(h.Fields, [2]string{":scheme", p.scheme})
		}
	case h.Target == "":
		p.refuse(400, "request has no :path")
	case h.Target[0] != '/':
		p.refuse(400, "request target is no path")
	}
	if h.Target != "" && h.Target[0] == '/' {
		if r := h.checkTarget(strict); r != nil {
			p.refuse(r.Status, r.Reason)
		}
	}
	switch {
	case h.Authority == "" && h.Host == "":
		p.refuse(400, "request without :authority and host field")
	case h.Authority != "" && !validHost(h.Authority):
		p.refuse(400, ":authority is no valid host")
	case p.hosts > 1:
		p.refuse(400, "more than one host field")
	case p.hosts == 1 && !validHost(h.Host):
		p.refuse(400, "host field is no valid host")
	case ended && p.declared > 0:
		p.refuse(400, "content-length without a body")
	}
}

func hasUpper(s string) bool {
	for i := range len(s) {
		if s[i] >= 'A' && s[i] <= 'Z' {
			return true
		}
	}
	return false
}

// clipName keeps reasons short.
func clipName(s string) string { return s[:min(len(s), 100)] }
