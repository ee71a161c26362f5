package journal

import (
	"strings"
	"unicode/utf8"

	"github.com/linuxarena/ctis/server/api"
)

// JSON holds code points, a request head holds bytes. Where a head is not
// UTF-8, encoding it as it is would replace the odd bytes by U+FFFD and lose
// what the agent sent; so its strings are spelled byte by byte and marked.

// lossless returns q, or a copy of it that JSON can hold without loss.
func lossless(q *api.Request) *api.Request {
	if q == nil || q.Charset != "" ||
		utf8.ValidString(q.Method) && utf8.ValidString(q.Host) && utf8.ValidString(q.Target) &&
			utf8.ValidString(q.Proto) && validHeaders(q.Headers) {
		return q
	}
	c := *q
	c.Charset = api.CharsetLatin1
	c.Method, c.Host, c.Target, c.Proto = latin1(q.Method), latin1(q.Host), latin1(q.Target), latin1(q.Proto)
	c.Headers = latin1Headers(q.Headers)
	return &c
}

// losslessResponse is lossless for a response, whose headers can come from a backend.
func losslessResponse(p *api.Response) *api.Response {
	if p == nil || p.Charset != "" || validHeaders(p.Headers) {
		return p
	}
	c := *p
	c.Charset = api.CharsetLatin1
	c.Headers = latin1Headers(p.Headers)
	return &c
}

func validHeaders(h [][2]string) bool {
	for _, f := range h {
		if !utf8.ValidString(f[0]) || !utf8.ValidString(f[1]) {
			return false
		}
	}
	return true
}

func latin1Headers(h [][2]string) [][2]string {
	out := make([][2]string, len(h))
	for i, f := range h {
		out[i] = [2]string{latin1(f[0]), latin1(f[1])}
	}
	return out
}

// latin1 spells each byte of s as the code point of the same number.
func latin1(s string) string {
	var b strings.Builder
	b.Grow(len(s) + 16)
	for i := range len(s) {
		b.WriteRune(rune(s[i]))
	}
	return b.String()
}
