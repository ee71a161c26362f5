package evidence

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/linuxarena/ctis/server/api"
)

// shape is an object of HAR 1.2: what its fields are. A name with "?" may be missing,
// and any field whose name begins with "_" is one's own.
type shape map[string]check

type check func(at string, v any) []string

func complain(at, format string, args ...any) []string {
	return []string{at + ": " + fmt.Sprintf(format, args...)}
}

func (s shape) check(at string, v any) (bad []string) {
	m, ok := v.(map[string]any)
	if !ok {
		return complain(at, "%T is no object", v)
	}
	known := map[string]bool{}
	for name, c := range s {
		bare := strings.TrimSuffix(name, "?")
		known[bare] = true
		if field, ok := m[bare]; ok {
			bad = append(bad, c(at+"."+bare, field)...)
		} else if bare == name {
			bad = append(bad, complain(at, "has no %s", name)...)
		}
	}
	for name := range m {
		if !known[name] && !strings.HasPrefix(name, "_") {
			bad = append(bad, complain(at, "has %s, which the format does not know", name)...)
		}
	}
	return bad
}

func text(at string, v any) []string {
	if _, ok := v.(string); !ok {
		return complain(at, "%v is no string", v)
	}
	return nil
}

func truth(at string, v any) []string {
	if _, ok := v.(bool); !ok {
		return complain(at, "%v is no boolean", v)
	}
	return nil
}

func number(least float64, whole bool) check {
	return func(at string, v any) []string {
		if n, ok := v.(float64); !ok || n < least || whole && n != math.Trunc(n) {
			return complain(at, "%v is no such number", v)
		}
		return nil
	}
}

func instant(at string, v any) []string {
	if _, err := time.Parse(time.RFC3339Nano, fmt.Sprint(v)); err != nil {
		return complain(at, "%v is no ISO 8601 time with a zone", v)
	}
	return nil
}

func address(at string, v any) []string {
	u, err := url.Parse(fmt.Sprint(v))
	odd := func(c rune) bool { return c <= ' ' || c >= 0x7f } // which some readers give up at
	if err != nil || strings.ContainsFunc(fmt.Sprint(v), odd) || !u.IsAbs() || u.Host == "" || u.Fragment != "" {
		return complain(at, "%v is no absolute URL without a fragment", v)
	}
	return nil
}

func list(of shape) check {
	return func(at string, v any) (bad []string) {
		all, ok := v.([]any)
		if !ok {
			return complain(at, "%T is no list", v)
		}
		for i, one := range all {
			bad = append(bad, of.check(fmt.Sprintf("%s[%d]", at, i), one)...)
		}
		return bad
	}
}

// The format, field by field (HAR 1.2 Spec, "HAR Data Structure").
var (
	pairShape    = shape{"name": text, "value": text, "comment?": text}
	cookieShape  = shape{"name": text, "value": text, "path?": text, "domain?": text, "expires?": instant, "httpOnly?": truth, "secure?": truth, "comment?": text}
	creatorShape = shape{"name": text, "version": text, "comment?": text}
	requestShape = shape{
		"method": text, "url": address, "httpVersion": text, "cookies": list(cookieShape), "headers": list(pairShape), "queryString": list(pairShape),
		"postData?":   shape{"mimeType": text, "params": list(shape{"name": text, "value?": text, "fileName?": text, "contentType?": text, "comment?": text}), "text": text, "comment?": text}.check,
		"headersSize": number(-1, true), "bodySize": number(-1, true), "comment?": text,
	}
	responseShape = shape{
		"status": number(0, true), "statusText": text, "httpVersion": text, "cookies": list(cookieShape), "headers": list(pairShape),
		"content":     shape{"size": number(0, true), "compression?": number(math.Inf(-1), true), "mimeType": text, "text?": text, "encoding?": text, "comment?": text}.check,
		"redirectURL": text, "headersSize": number(-1, true), "bodySize": number(-1, true), "comment?": text,
	}
	cacheShape = shape{"expires?": text, "lastAccess": text, "eTag": text, "hitCount": number(0, true), "comment?": text}
	entryShape = shape{
		"pageref?": text, "startedDateTime": instant, "time": number(0, false), "request": requestShape.check, "response": responseShape.check,
		"cache":   shape{"beforeRequest?": cacheShape.check, "afterRequest?": cacheShape.check, "comment?": text}.check,
		"timings": shape{"blocked?": number(-1, false), "dns?": number(-1, false), "connect?": number(-1, false), "send": number(0, false), "wait": number(0, false), "receive": number(0, false), "ssl?": number(-1, false), "comment?": text}.check,

		"serverIPAddress?": text, "connection?": text, "comment?": text,
	}
	harShape = shape{"log": shape{"version": text, "creator": creatorShape.check, "browser?": creatorShape.check,
		"pages?":  list(shape{"startedDateTime": instant, "id": text, "title": text, "pageTimings": shape{"onContentLoad?": number(-1, false), "onLoad?": number(-1, false), "comment?": text}.check, "comment?": text}),
		"entries": list(entryShape), "comment?": text}.check}
)

// answered is a record of an exchange whose response was kept.
func answered(c *chain, body []byte, headers ...[2]string) *api.Record {
	r := post("/v1?a=1&a=%20+&b", inline("sent"))
	r.Kind, r.DurationMS = api.KindBackend, 1.25
	b := c.file(body)
	r.Response = &api.Response{Status: 200, Headers: headers, Body: api.Received(b)}
	return r
}

// TestAHARIsOneFieldByField, and what readers take for a response's content is, byte for
// byte, what the server encoded.
func TestAHARIsOneFieldByField(t *testing.T) {
	c := newChain(t)
	plain, accents, binary := []byte(`{"a":[1,2]}`), []byte("caffè"), []byte{0, 0xff, 0x1f}
	typed := func(s string) [2]string { return [2]string{"Content-Type", s} }
	coding := func(s string) [2]string { return [2]string{"Content-Encoding", s} }
	long := bytes.Repeat([]byte("words and words, "), 1000)
	type want struct {
		content  []byte
		base64   bool
		comment  string // of the content
		encoding string // that is left in the header
	}
	var records []*api.Record
	var wants []want
	add := func(r *api.Record, w want) { records, wants = append(records, r), append(wants, w) }
	add(answered(c, plain, typed("application/json")), want{content: plain})
	add(answered(c, nil), want{content: []byte{}})
	add(answered(c, accents, typed("text/plain; charset=UTF-8")), want{content: accents})
	add(answered(c, accents, typed("application/vnd.x+json")), want{content: accents})
	add(answered(c, accents, typed("text/plain")), want{content: accents, base64: true}) // of which readers think what they like
	add(answered(c, plain, typed("text/plain; charset=utf-16")), want{content: plain, base64: true})
	add(answered(c, binary, typed("image/png")), want{content: binary, base64: true})
	for name, with := range coded {
		bare := strings.ToLower(strings.TrimSpace(name))
		left := bare
		if bare == "x-gzip" {
			left = ""
		}
		add(answered(c, encode(t, with, long), typed("text/html"), coding(bare)), want{content: long, encoding: left})
	}
	twice := encode(t, coded["gzip"], encode(t, coded["br"], long))
	add(answered(c, twice, coding("br"), coding("gzip")), want{content: long})
	add(answered(c, plain, typed("application/json"), coding("gzip")), want{content: plain, comment: "not what its Content-Encoding says"})
	add(answered(c, plain, coding("rot13")), want{content: plain, comment: "not what its Content-Encoding says"})
	add(answered(c, bytes.Repeat([]byte("x"), HARBody+1)), want{comment: "left out"})
	add(answered(c, encode(t, coded["gzip"], make([]byte, HARBody+1)), coding("gzip")), want{comment: "left out", encoding: "gzip"})
	cut := answered(c, nil)
	cut.Response.Body = api.Received{Size: 9, SHA256: sum(plain), Encoding: api.EncodingNone, Truncated: true}
	add(cut, want{comment: "not kept whole"})
	own := answered(c, nil)
	own.Response.Body = api.Received{Size: 9, SHA256: sum(plain)}
	add(own, want{comment: "not kept"})
	none := answered(c, nil)
	none.Response, none.OutcomeUnknown = nil, true
	add(none, want{})
	cookies := answered(c, plain, [2]string{"set-cookie", "sid=a%20b; Path=/; Domain=x.example; Expires=Wed, 21 Oct 2026 07:28:00 GMT; HttpOnly; Secure"}, [2]string{"Set-Cookie", "\x01"}, [2]string{"Location", "/next"})
	cookies.Request.Headers, cookies.Request.Proto, cookies.Response.Status = [][2]string{{"Cookie", "a=1; b=2"}, {"X-Odd", "\u00ff\u2028"}}, "HTTP/2.0", 302
	add(cookies, want{content: plain})
	// What the simulator and those who make HTTP strange leave behind.
	add(&api.Record{Kind: api.KindRule, Error: "connection reset by rule 1", Request: &api.Request{Method: "GET", Host: "a.example:8080", Target: "/\u00fc?x=%zz&=&&y=1#z", Proto: "HTTP/1.0", Charset: api.CharsetLatin1}, DurationMS: 0.001}, want{})

	var out bytes.Buffer
	h, err := NewHAR(&out, c)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range records {
		r.Seq, r.Time = uint64(i+1), api.Time{Time: time.Unix(1e9, int64(i)*1234567)}
		if err := h.Add(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	var har any
	if err := json.Unmarshal(out.Bytes(), &har); err != nil {
		t.Fatal(err)
	}
	for _, bad := range harShape.check("", har) {
		t.Error(bad)
	}
	var read struct {
		Log struct{ Entries []harEntry }
	}
	if err := json.Unmarshal(out.Bytes(), &read); err != nil || len(read.Log.Entries)+int(h.Left) != len(records) {
		t.Fatalf("%d entries and %d left of %d, %v", len(read.Log.Entries), h.Left, len(records), err)
	}
	for _, e := range read.Log.Entries {
		i := e.Ctis.Seq - 1
		r, w, content := records[i], wants[i], e.Response.Content
		if started, err := time.Parse(time.RFC3339Nano, e.Started); err != nil || started.Sub(r.Time.Time).Abs() > time.Microsecond || !strings.HasSuffix(e.Started, "Z") {
			t.Errorf("record %d: %s is not %v", r.Seq, e.Started, r.Time)
		}
		if sum := e.Timings.Send + e.Timings.Wait + e.Timings.Receive; sum != e.Time {
			t.Errorf("record %d: timings of %v in %v", r.Seq, sum, e.Time)
		}
		if (content.Text == nil) != (w.content == nil) || !strings.Contains(content.Comment, w.comment) || (content.Comment == "") != (w.comment == "") || (content.Encoding == "base64") != w.base64 {
			t.Errorf("record %d: %.300q (%q), %q", r.Seq, fmt.Sprint(content.Text), content.Encoding, content.Comment)
			continue
		}
		left := ""
		for _, f := range e.Response.Headers {
			if strings.EqualFold(f.Name, "content-encoding") {
				left = f.Value
			}
		}
		if left != w.encoding {
			t.Errorf("record %d: its header says %q", r.Seq, left)
		}
		if w.content == nil {
			continue
		}
		got := []byte(*content.Text)
		if w.base64 {
			if got, err = base64.StdEncoding.DecodeString(*content.Text); err != nil {
				t.Error(err)
			}
		}
		if !bytes.Equal(got, w.content) || content.Size != int64(len(got)) || e.Response.BodySize != r.Response.Body.Size || content.Compression != max(0, content.Size-e.Response.BodySize) {
			t.Errorf("record %d: %d bytes %.60q, %+v", r.Seq, len(got), got, content.Size)
		}
	}
	if h.Left > 0 {
		t.Errorf("%d records are in no entry", h.Left)
	}
	e := read.Log.Entries[0]
	if fmt.Sprint(e.Request.QueryString) != "[{a 1} {a   } {b }]" || e.Request.PostData.Text != "sent" {
		t.Errorf("%+v", e.Request)
	}
	if last := read.Log.Entries[len(read.Log.Entries)-1]; last.Request.URL != "http://a.example:8080/%FC?x=%zz&=&&y=1%23z" || last.Ctis.Target != "/\u00fc?x=%zz&=&&y=1#z" || !strings.Contains(last.Comment, "%-codes") {
		t.Errorf("%+v", last)
	}
	for _, e := range read.Log.Entries {
		if records[e.Ctis.Seq-1] != cookies {
			continue
		}
		if fmt.Sprint(e.Request.Cookies) != "[{a 1    false false} {b 2    false false}]" || len(e.Response.Cookies) != 1 ||
			e.Response.Cookies[0] != (harCookie{"sid", "a%20b", "/", "x.example", "2026-10-21T07:28:00Z", true, true}) ||
			e.Response.RedirectURL != "/next" || e.Response.StatusText != "Found" || e.Request.HTTPVersion != "HTTP/2" || e.Response.HTTPVersion != "HTTP/2" {
			t.Errorf("%+v %+v", e.Request, e.Response)
		}
	}
}
