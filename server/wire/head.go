package wire

import (
	"bytes"
	"strconv"
	"strings"
)

// Head is a request head as it was sent.
type Head struct {
	Method string
	Target string // byte for byte
	Proto  string
	Minor  int         // HTTP/1.Minor
	Fields [][2]string // order and case as sent, white space around values removed
	Host   string      // value of the Host field
	// Authority is the host of an absolute-form target, which counts instead of
	// the Host field (RFC 9112 §3.2.2).
	Authority string
	Length    int64 // Content-Length; 0 without
	Chunked   bool
	Close     bool // the connection is to be closed after the answer
	KeepAlive bool // the client asks for the opposite in words
	drop      []span
}

type span struct{ from, to int }

// EndOfHead gives the length of the head at the start of b, its empty line
// included, or 0 if b does not hold all of it. Bytes before from are known to
// hold no end. A line may end in a bare LF, as nginx and RFC 9112 §2.2 allow.
func EndOfHead(b []byte, from int) int {
	for i := max(0, from-2); i < len(b); {
		k := bytes.IndexByte(b[i:], '\n')
		if k < 0 {
			return 0
		}
		i += k + 1
		switch {
		case i < len(b) && b[i] == '\n':
			return i + 1
		case i+1 < len(b) && b[i] == '\r' && b[i+1] == '\n':
			return i + 2
		}
	}
	return 0
}

// LeadingBlank counts the line ends before the request line, which servers
// ignore (RFC 9112 §2.2).
func LeadingBlank(b []byte) int {
	n := 0
	for n < len(b) && (b[n] == '\r' || b[n] == '\n') {
		n++
	}
	return n
}

// ParseHead reads a whole head as EndOfHead delimits it. With a refusal, the
// head holds what could be read before it, or is nil when not even the request
// line could.
//
// What passes here, net/http's parser takes too, with the same framing: a fuzz
// test keeps it so. Everything two parsers could read differently is refused
// (RFC 9112 §11.2).
func ParseHead(b []byte) (*Head, *Refusal) { return parseHead(b, strict) }

func parseHead(b []byte, takes tolerance) (*Head, *Refusal) {
	text := string(b) // once, so that what is kept are parts of it
	line, next := cutLine(text, 0)
	h, refusal := parseRequestLine(line, takes)
	if h == nil {
		return nil, refusal
	}
	total := 0
	h.Fields = make([][2]string, 0, strings.Count(text[next:], "\n"))
	for next < len(text) {
		from := next
		line, next = cutLine(text, from)
		if len(line) == 0 {
			break
		}
		total += len(line)
		r := h.field(line, from, next)
		if refusal == nil {
			refusal = r
		}
		if len(line) > takes.line && refusal == nil {
			refusal = &Refusal{Status: StatusHeaderTooLarge, Reason: "header field longer than " + strconv.Itoa(takes.line) + " bytes", Cause: CauseLongField}
		}
	}
	if refusal == nil && total > takes.block {
		refusal = &Refusal{Status: StatusHeaderTooLarge, Reason: "header longer than " + strconv.Itoa(takes.block) + " bytes", Cause: CauseLongHeader}
	}
	if refusal == nil {
		refusal = h.check()
	}
	return h, refusal
}

// Forward gives the bytes that net/http gets to parse: raw without the fields
// that would make it answer by itself where the imitated servers do not look at
// them.
func (h *Head) Forward(raw []byte) []byte {
	if len(h.drop) == 0 {
		return raw
	}
	out := make([]byte, 0, len(raw))
	at := 0
	for _, s := range h.drop {
		out = append(out, raw[at:s.from]...)
		at = s.to
	}
	return append(out, raw[at:]...)
}

// cutLine gives the line at from without its end, and where the next begins.
func cutLine(s string, from int) (line string, next int) {
	k := strings.IndexByte(s[from:], '\n')
	if k < 0 {
		return s[from:], len(s)
	}
	line = s[from : from+k]
	if len(line) > 0 && line[len(line)-1] == '\r' {
		line = line[:len(line)-1]
	}
	return line, from + k + 1
}

// field takes one header line.
func (h *Head) field(line string, from, to int) *Refusal {
	if line[0] == ' ' || line[0] == '\t' {
		return &Refusal{Status: 400, Reason: "folded header line", Cause: CauseField, Detail: line}
	}
	name, value, ok := strings.Cut(line, ":")
	if !ok {
		return &Refusal{Status: 400, Reason: "header line without a colon", Cause: CauseField, Detail: line}
	}
	value = strings.Trim(value, " \t")
	h.Fields = append(h.Fields, [2]string{name, value})
	if !IsToken(name) {
		return &Refusal{Status: 400, Reason: "header field name is no token", Cause: CauseField, Detail: name}
	}
	for i := 0; i < len(value); i++ {
		if c := value[i]; c < ' ' && c != '\t' || c == 0x7f {
			return &Refusal{Status: 400, Reason: "control character in the value of header field " + strconv.Quote(name), Cause: CauseValue, Detail: name}
		}
	}
	switch {
	case h.Host == "" && strings.EqualFold(name, "Host"):
		h.Host = value
	case strings.EqualFold(name, "Expect") && !strings.EqualFold(value, "100-continue"), strings.EqualFold(name, "Trailer"):
		h.drop = append(h.drop, span{from, to})
	}
	return nil
}

// check settles what the fields mean together: host, framing, connection.
func (h *Head) check() *Refusal {
	var hosts, lengths, codings int
	for _, f := range h.Fields {
		switch {
		case strings.EqualFold(f[0], "Host"):
			hosts++
		case strings.EqualFold(f[0], "Content-Length"):
			lengths++
			n, err := strconv.ParseInt(f[1], 10, 64)
			if err != nil || !digit(f[1][0]) {
				return &Refusal{Status: 400, Reason: "content-length is no number", Cause: CauseLength, Detail: f[0]}
			}
			h.Length = n
		case strings.EqualFold(f[0], "Transfer-Encoding"):
			codings++
			if !strings.EqualFold(f[1], "chunked") {
				return &Refusal{Status: 501, Reason: "transfer-encoding other than chunked", Cause: CauseCoding, Detail: f[0]}
			}
			h.Chunked = true
		case strings.EqualFold(f[0], "Connection"):
			h.Close = h.Close || hasToken(f[1], "close")
			h.KeepAlive = h.KeepAlive || hasToken(f[1], "keep-alive")
		}
	}
	h.Close = h.Close || h.Minor == 0 && !h.KeepAlive
	switch {
	case hosts > 1:
		return &Refusal{Status: 400, Reason: "more than one host field", Cause: CauseHosts, Detail: "Host"}
	case hosts == 0 && h.Minor >= 1:
		return &Refusal{Status: 400, Reason: "http/1.1 request without a host field", Cause: CauseNoHost, Detail: "Host"}
	case hosts == 1 && !validHost(h.Host):
		return &Refusal{Status: 400, Reason: "host field is no valid host", Cause: CauseBadHost, Detail: "Host"}
	case lengths > 1:
		return &Refusal{Status: 400, Reason: "more than one content-length field", Cause: CauseLength, Detail: "Content-Length"}
	case codings > 1:
		return &Refusal{Status: 400, Reason: "more than one transfer-encoding field", Cause: CauseField, Detail: "Transfer-Encoding"}
	case codings > 0 && lengths > 0:
		return &Refusal{Status: 400, Reason: "both content-length and transfer-encoding"}
	case codings > 0 && h.Minor == 0:
		return &Refusal{Status: 400, Reason: "transfer-encoding in an http/1.0 request"}
	}
	return nil
}
