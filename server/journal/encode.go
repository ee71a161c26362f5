package journal

import (
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/linuxarena/ctis/server/api"
)

// Lines are encoded by hand: this is on the path of every request, and
// encoding/json spends longer on a record than the disk does. The rule here is:
// the bytes are those of encoding/json without HTML escaping, which bodies full
// of <, > and & would only suffer from. A test compares the two over records
// filled field by field, so that a field added to the types is missed there.

// appendRecord appends r as a JSON object.
func appendRecord(b []byte, r *api.Record) ([]byte, error) {
	b = append(b, `{"seq":`...)
	b = strconv.AppendUint(b, r.Seq, 10)
	b = appendString(append(b, `,"prev":`...), r.Prev)
	b = appendString(append(b, `,"id":`...), r.ID)
	b = r.Time.AppendJSON(append(b, `,"time":`...))
	b = appendString(append(b, `,"trajectory":`...), r.Trajectory)
	b = appendString(append(b, `,"kind":`...), r.Kind)
	b = appendString(append(b, `,"client":{"ip":`...), r.Client.IP)
	b = strconv.AppendUint(append(b, `,"port":`...), uint64(r.Client.Port), 10)
	b = appendString(append(b, `,"service":`...), r.Client.Service)
	b = appendTLS(append(b, `},"tls":`...), r.TLS)
	b = appendRequest(append(b, `,"request":`...), r.Request)
	b = appendString(append(b, `,"persona":`...), r.Persona)
	b = appendString(append(b, `,"endpoint":`...), r.Endpoint)
	b = appendString(append(b, `,"rule":`...), r.Rule)
	b = appendEffect(b, r.RuleEffect)
	b, err := appendEnd(b, r.Response, r.DurationMS, r.Error)
	if r.Raw != nil {
		b = appendBody(append(b, `,"raw":`...), r.Raw)
	}
	b = appendTunnel(b, r.Tunnel)
	b = appendExposed(b, r.Exposed)
	if r.Dropped != 0 {
		b = strconv.AppendUint(append(b, `,"dropped":`...), r.Dropped, 10)
	}
	if r.OutcomeUnknown {
		b = append(b, `,"outcome_unknown":true`...)
	}
	return append(b, '}'), err
}

// appendOutcome appends o as a JSON object.
func appendOutcome(b []byte, o *api.Outcome) ([]byte, error) {
	b = append(b, `{"seq":`...)
	b = strconv.AppendUint(b, o.Seq, 10)
	b = appendString(append(b, `,"prev":`...), o.Prev)
	b = strconv.AppendBool(append(b, `,"outcome":`...), o.Outcome)
	b, err := appendEnd(b, o.Response, o.DurationMS, o.Error)
	return append(appendTunnel(b, o.Tunnel), '}'), err
}

func appendEffect(b []byte, e *api.RuleEffect) []byte {
	if e == nil {
		return b
	}
	b = appendString(append(b, fieldEffect...), e.Host)
	b = strconv.AppendInt(append(b, `,"revision":`...), int64(e.Revision), 10)
	b = append(b, `,"counted":`...)
	if e.Counted == nil {
		b = append(b, "null"...)
	} else {
		b = append(b, '[')
		for i, n := range e.Counted {
			if i > 0 {
				b = append(b, ',')
			}
			b = strconv.AppendInt(b, int64(n), 10)
		}
		b = append(b, ']')
	}
	if e.State != "" {
		b = appendString(append(b, `,"state":`...), e.State)
	}
	if e.Step != 0 {
		b = strconv.AppendUint(append(b, `,"step":`...), e.Step, 10)
	}
	return append(b, '}')
}

func appendTunnel(b []byte, t *api.Tunnel) []byte {
	if t == nil {
		return b
	}
	b = appendBody(append(b, `,"tunnel":{"sent":`...), &t.Sent)
	return append(appendReceived(append(b, `,"received":`...), &t.Received), '}')
}

func appendExposed(b []byte, x *api.ExposedFacts) []byte {
	if x == nil {
		return b
	}
	b = appendString(append(b, `,"exposed":{"target":`...), x.Target)
	b = appendString(append(b, `,"upstream":`...), x.Upstream)
	b = strconv.AppendInt(append(b, `,"received":`...), x.Received, 10)
	b = strconv.AppendInt(append(b, `,"sent":`...), x.Sent, 10)
	b = appendString(append(b, `,"container":`...), x.Container)
	b = appendString(append(b, `,"request_id":`...), x.RequestID)
	b = x.Ended.AppendJSON(append(b, `,"ended":`...))
	return append(b, '}')
}

// appendEnd appends what ends an exchange, the same in both kinds of line.
func appendEnd(b []byte, r *api.Response, durationMS float64, failure string) ([]byte, error) {
	b = appendResponse(append(b, `,"response":`...), r)
	b, err := appendFloat(append(b, `,"duration_ms":`...), durationMS)
	return appendString(append(b, `,"error":`...), failure), err
}

func appendTLS(b []byte, t *api.TLS) []byte {
	if t == nil {
		return append(b, "null"...)
	}
	b = appendString(append(b, `{"version":`...), t.Version)
	b = appendString(append(b, `,"sni":`...), t.SNI)
	b = appendString(append(b, `,"alpn":`...), t.ALPN)
	return append(b, '}')
}

func appendRequest(b []byte, q *api.Request) []byte {
	if q == nil {
		return append(b, "null"...)
	}
	b = appendString(append(b, `{"method":`...), q.Method)
	b = appendString(append(b, `,"host":`...), q.Host)
	b = appendString(append(b, `,"target":`...), q.Target)
	b = appendString(append(b, `,"proto":`...), q.Proto)
	b = appendHeaders(append(b, `,"headers":`...), q.Headers)
	b = appendBody(append(b, `,"body":`...), &q.Body)
	return append(appendCharset(b, q.Charset), '}')
}

func appendResponse(b []byte, p *api.Response) []byte {
	if p == nil {
		return append(b, "null"...)
	}
	b = strconv.AppendInt(append(b, `{"status":`...), int64(p.Status), 10)
	b = appendHeaders(append(b, `,"headers":`...), p.Headers)
	b = appendReceived(append(b, `,"body":`...), &p.Body)
	return append(appendCharset(b, p.Charset), '}')
}

// appendReceived leaves out what is empty, as nearly every response is not kept.
func appendReceived(b []byte, d *api.Received) []byte {
	b = strconv.AppendInt(append(b, `{"size":`...), d.Size, 10)
	b = appendString(append(b, `,"sha256":`...), d.SHA256)
	if d.Encoding != "" {
		b = appendString(append(b, `,"encoding":`...), d.Encoding)
	}
	if d.Content != "" {
		b = appendString(append(b, `,"content":`...), d.Content)
	}
	if d.Truncated {
		b = append(b, `,"truncated":true`...)
	}
	return append(b, '}')
}

func appendCharset(b []byte, charset string) []byte {
	if charset == "" {
		return b
	}
	return appendString(append(b, `,"charset":`...), charset)
}

func appendHeaders(b []byte, h [][2]string) []byte {
	if h == nil {
		return append(b, "null"...)
	}
	b = append(b, '[')
	for i := range h {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(append(b, '['), h[i][0])
		b = appendString(append(b, ','), h[i][1])
		b = append(b, ']')
	}
	return append(b, ']')
}

func appendBody(b []byte, d *api.Body) []byte {
	b = strconv.AppendInt(append(b, `{"size":`...), d.Size, 10)
	b = appendString(append(b, `,"sha256":`...), d.SHA256)
	b = appendString(append(b, `,"encoding":`...), d.Encoding)
	b = appendString(append(b, `,"content":`...), d.Content)
	b = strconv.AppendBool(append(b, `,"truncated":`...), d.Truncated)
	return append(b, '}')
}

// appendFloat writes f as ECMAScript does, which is what encoding/json follows.
func appendFloat(b []byte, f float64) ([]byte, error) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return b, fmt.Errorf("JSON has no number for %v", f)
	}
	if abs := math.Abs(f); abs == 0 || abs >= 1e-6 && abs < 1e21 {
		return strconv.AppendFloat(b, f, 'f', -1, 64), nil
	}
	b = strconv.AppendFloat(b, f, 'e', -1, 64)
	if n := len(b); n >= 4 && b[n-4] == 'e' && b[n-3] == '-' && b[n-2] == '0' {
		b[n-2] = b[n-1] // e-09 is e-9 there
		b = b[:n-1]
	}
	return b, nil
}

// plain marks the ASCII characters that stand for themselves in a JSON string.
var plain = func() (t [utf8.RuneSelf]bool) {
	for c := byte(' '); c < 0x80; c++ {
		t[c] = c != '"' && c != '\\'
	}
	return t
}()

// plainPrefix gives a number of bytes at the start of s that are plain, eight at
// a time: mostly all of s but the last few. Its arithmetic errs only towards
// less.
func plainPrefix(s string) int {
	const (
		each = 0x0101010101010101
		high = 0x80 * each
	)
	n := 0
	for ; n+8 <= len(s); n += 8 {
		w := uint64(s[n]) | uint64(s[n+1])<<8 | uint64(s[n+2])<<16 | uint64(s[n+3])<<24 |
			uint64(s[n+4])<<32 | uint64(s[n+5])<<40 | uint64(s[n+6])<<48 | uint64(s[n+7])<<56
		// A byte's high bit is set here where the byte is none of ASCII, below a
		// space, a quotation mark, or a backslash.
		if (w|(w-' '*each)|((w^'"'*each)-each)|((w^'\\'*each)-each))&high != 0 {
			break
		}
	}
	return n
}

// appendString writes s as a JSON string. What is not UTF-8 in it becomes
// U+FFFD; see charset.go for how that is kept from happening.
func appendString(b []byte, s string) []byte {
	const hexDigits = "0123456789abcdef"
	b = append(b, '"')
	done := 0
	for i := plainPrefix(s); i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			i++
			if plain[c] {
				continue
			}
			b = append(b, s[done:i-1]...)
			switch c {
			case '"', '\\':
				b = append(b, '\\', c)
			case '\b':
				b = append(b, `\b`...)
			case '\f':
				b = append(b, `\f`...)
			case '\n':
				b = append(b, `\n`...)
			case '\r':
				b = append(b, `\r`...)
			case '\t':
				b = append(b, `\t`...)
			default:
				b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&0xf])
			}
			done = i
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			b = append(append(b, s[done:i]...), `\ufffd`...)
			done = i + n
		case r == '\u2028' || r == '\u2029': // line ends to JavaScript
			b = append(append(b, s[done:i]...), `\u202`...)
			b = append(b, hexDigits[r&0xf])
			done = i + n
		}
		i += n
	}
	return append(append(b, s[done:]...), '"')
}
