package evidence

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/linuxarena/ctis/server/api"
)

// HARBody is the size in bytes up to which a body is in a HAR; of a longer one size and
// digest are. Programs that read HAR hold all of it in memory.
const HARBody = 1 << 20

// HAR writes records as an HTTP archive (HAR 1.2). What is no HTTP exchange (gaps, what
// could not be parsed, refused connections, targets that make no URL) cannot be in one:
// it is counted, and the archive says so.
//
// Besides the format's own fields, an entry has _ctis: number, kind and service, and
// what else cannot be said otherwise.
type HAR struct {
	w       *bufio.Writer
	bodies  Bodies
	Entries uint64
	Left    uint64 // records that are no entry
}

// NewHAR begins an archive.
func NewHAR(w io.Writer, bodies Bodies) (*HAR, error) {
	h := &HAR{w: bufio.NewWriterSize(w, 64<<10), bodies: bodies}
	_, err := h.w.WriteString(`{"log":{"version":"1.2","creator":{"name":"ctis","version":"1"},"pages":[],"entries":[`)
	return h, err
}

// Add writes a record.
func (h *HAR) Add(ctx context.Context, r *api.Record) error {
	if !inHAR(r) {
		h.Left++
		return nil
	}
	e, err := h.entry(ctx, r)
	if err != nil {
		return err
	}
	b, err := json.Marshal(e)
	if err != nil {
		return err
	}
	if h.Entries++; h.Entries > 1 {
		b = append([]byte(","), b...)
	}
	_, err = h.w.Write(append(b, '\n'))
	return err
}

// Close ends the archive; what it is written to stays open.
func (h *HAR) Close() error {
	comment, _ := json.Marshal(fmt.Sprintf("records that are no HTTP exchange and not in this archive: %d", h.Left)) // a string
	_, err := fmt.Fprintf(h.w, `],"comment":%s}}`+"\n", comment)
	return errors.Join(err, h.w.Flush())
}

// inHAR tells whether a record can be an entry: readers take its URL apart, and give up
// the whole archive where they cannot.
func inHAR(r *api.Record) bool {
	if r.Request == nil || r.Request.Method == "" {
		return false
	}
	u, err := url.Parse(harURL(r))
	if err != nil || u.Scheme != "http" && u.Scheme != "https" {
		return false
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return false
		}
	}
	_, err = netip.ParseAddr(u.Hostname())
	return err == nil || len(u.Hostname()) <= 253 && hostname.MatchString(u.Hostname())
}

// harURL is a record's URL as readers take it: what no URL holds as it is, other than
// ASCII above all, is percent-encoded. A # begins no fragment in a request.
func harURL(r *api.Record) string {
	var b strings.Builder
	for _, c := range AsSent(URL(r), r.Request.Charset) {
		if c <= ' ' || c >= 0x7f || c == '#' {
			fmt.Fprintf(&b, "%%%02X", c)
			continue
		}
		b.WriteByte(c)
	}
	return b.String()
}

// hostname is a name as DNS has them.
var hostname = regexp.MustCompile(`^[A-Za-z0-9_-]{1,63}(\.[A-Za-z0-9_-]{1,63})*\.?$`)

func (h *HAR) entry(ctx context.Context, r *api.Record) (*harEntry, error) {
	q := r.Request
	e := &harEntry{
		Started: r.Time.UTC().Format("2006-01-02T15:04:05.000000Z07:00"), // what readers of ISO dates take
		Time:    r.DurationMS,
		Timings: harTimings{Send: 0, Wait: r.DurationMS, Receive: 0},
		Request: harRequest{
			Method: q.Method, URL: harURL(r), HTTPVersion: version(q.Proto), Cookies: sentCookies(q.Headers),
			Headers: pairs(q.Headers), QueryString: query(q.Target), HeadersSize: -1, BodySize: q.Body.Size,
		},
		Response: harResponse{
			HTTPVersion: version(q.Proto), Cookies: []harCookie{}, Headers: []harPair{}, HeadersSize: -1, BodySize: -1,
			Content: harContent{MimeType: "x-unknown"},
		},
		Comment: strings.Join(remarks(r), "; "),
		Ctis:    harCtis{Seq: r.Seq, ID: r.ID, Kind: r.Kind, Service: r.Client.Service, BodySHA256: q.Body.SHA256},
	}
	if e.Request.URL != URL(r) {
		e.Ctis.Target = q.Target
	}
	if p := r.Response; p != nil {
		e.Response.Status, e.Response.StatusText, e.Response.BodySize = p.Status, http.StatusText(p.Status), p.Body.Size
		e.Response.Headers, e.Response.Cookies = pairs(p.Headers), receivedCookies(p.Headers)
		e.Response.RedirectURL = header(p.Headers, "Location")
		e.Ctis.ResponseSHA256 = p.Body.SHA256
		if err := h.content(ctx, e, p); err != nil {
			return nil, err
		}
	}
	return e, h.body(ctx, e, q)
}

// version is a protocol as browsers write it in archives.
func version(proto string) string {
	if proto == "HTTP/2.0" {
		return "HTTP/2"
	}
	return proto
}

// readable are the codings that readers of archives know. They apply what a response's
// header says to its content, and give up the whole archive where they cannot.
var readable = []string{"gzip", "deflate", "br", "zstd"}

// content puts a response's body into the entry, with its codings undone as the format
// has it, where it was kept.
func (h *HAR) content(ctx context.Context, e *harEntry, p *api.Response) error {
	c := &e.Response.Content
	*c = harContent{Size: p.Body.Size, MimeType: header(p.Headers, "Content-Type")}
	codings := Codings(p.Headers)
	if len(codings) > 1 || len(codings) == 1 && !slices.Contains(readable, codings[0]) {
		h.dropCoding(e)
	}
	b, undone, left, err := h.answer(ctx, p)
	if err != nil {
		return err
	}
	if left != "" {
		c.Comment = left + "; its SHA-256 is in _ctis"
		return nil
	}
	if !undone && len(codings) > 0 {
		h.dropCoding(e)
		c.Comment = "as it was sent: it is not what its Content-Encoding says"
	}
	c.Size, c.Compression = int64(len(b)), max(0, int64(len(b))-p.Body.Size)
	text := string(b)
	if !plainText(b, c.MimeType) {
		text, c.Encoding = base64.StdEncoding.EncodeToString(b), "base64"
	}
	c.Text = &text
	return nil
}

// dropCoding leaves a response's Content-Encoding out of its entry, and says so.
func (h *HAR) dropCoding(e *harEntry) {
	kept := e.Response.Headers[:0]
	for _, f := range e.Response.Headers {
		if strings.EqualFold(f.Name, "Content-Encoding") {
			e.remark(fmt.Sprintf("response header left out, which readers would undo: %s: %q", f.Name, f.Value))
			continue
		}
		kept = append(kept, f)
	}
	e.Response.Headers = kept
}

func (e *harEntry) remark(s string) {
	if e.Comment != "" {
		e.Comment += "; "
	}
	e.Comment += s
}

// answer reads a response's body; undone tells that its codings are. What is left out
// says why.
func (h *HAR) answer(ctx context.Context, p *api.Response) (b []byte, undone bool, left string, err error) {
	body := (*api.Body)(&p.Body)
	switch {
	case body.Truncated:
		return nil, false, "not kept whole", nil
	case body.Encoding == "" && body.Size > 0:
		return nil, false, "not kept", nil
	case body.Size > HARBody:
		return nil, false, fmt.Sprintf("%d bytes left out", body.Size), nil
	}
	r, err := OpenBody(ctx, body, h.bodies)
	if err != nil {
		return nil, false, "", err
	}
	sent, err := io.ReadAll(io.LimitReader(r, HARBody))
	if err := errors.Join(err, r.Close()); err != nil {
		return nil, false, "", err
	}
	if len(sent) == 0 {
		return sent, true, "", nil
	}
	d, err := Decode(p.Headers, bytes.NewReader(sent))
	if err != nil {
		return sent, false, "", nil //nolint:nilerr // it is told as it is
	}
	b, err = io.ReadAll(io.LimitReader(d, HARBody+1))
	_ = d.Close() // of memory
	switch {
	case err != nil:
		return sent, false, "", nil //nolint:nilerr // likewise
	case len(b) > HARBody:
		return nil, false, "left out, being longer than it was sent", nil
	}
	return b, true, "", nil
}

// plainText tells bytes that readers get back from text, whatever they take the type's
// charset for.
func plainText(b []byte, contentType string) bool {
	media, params, _ := mime.ParseMediaType(contentType) // what cannot be read is no type
	charset := strings.ToLower(params["charset"])
	if charset == "utf-8" || charset == "utf8" || charset == "" && (media == "application/json" || strings.HasSuffix(media, "+json")) {
		return utf8.Valid(b)
	}
	if charset != "" && charset != "us-ascii" && charset != "iso-8859-1" && charset != "windows-1252" {
		return len(b) == 0
	}
	return !slices.ContainsFunc(b, func(c byte) bool { return c >= utf8.RuneSelf })
}

func sentCookies(headers [][2]string) []harCookie {
	out := []harCookie{}
	for _, f := range headers {
		if !strings.EqualFold(f[0], "Cookie") {
			continue
		}
		list, _ := http.ParseCookie(f[1]) // what is none stays in the headers
		for _, c := range list {
			out = append(out, harCookie{Name: c.Name, Value: c.Value})
		}
	}
	return out
}

func receivedCookies(headers [][2]string) []harCookie {
	out := []harCookie{}
	for _, f := range headers {
		if !strings.EqualFold(f[0], "Set-Cookie") {
			continue
		}
		c, err := http.ParseSetCookie(f[1])
		if err != nil {
			continue // likewise
		}
		cookie := harCookie{Name: c.Name, Value: c.Value, Path: c.Path, Domain: c.Domain, HTTPOnly: c.HttpOnly, Secure: c.Secure}
		if !c.Expires.IsZero() {
			cookie.Expires = c.Expires.UTC().Format(time.RFC3339)
		}
		out = append(out, cookie)
	}
	return out
}

func remarks(r *api.Record) (out []string) {
	if r.Error != "" {
		out = append(out, r.Error)
	}
	if r.OutcomeUnknown {
		out = append(out, "outcome unknown: the simulator was stopped in it")
	}
	if harURL(r) != URL(r) {
		out = append(out, "the URL has %-codes for bytes that were sent as they are; the target as it was sent is in _ctis")
	}
	if r.Request.Charset != "" {
		out = append(out, "bytes that are not UTF-8 stand as the code points of the same number")
	}
	return out
}

// body puts a request's body where it can be. postData holds text; a body with a
// Content-Encoding is left out of it too, since readers undo that encoding.
func (h *HAR) body(ctx context.Context, e *harEntry, q *api.Request) error {
	if q.Body.Size == 0 {
		return nil
	}
	left := ""
	switch {
	case q.Body.Truncated:
		left = "body was not kept whole"
	case q.Body.Size > HARBody:
		left = fmt.Sprintf("body of %d bytes left out", q.Body.Size)
	default:
		r, err := OpenBody(ctx, &q.Body, h.bodies)
		if err != nil {
			return err
		}
		b, err := io.ReadAll(io.LimitReader(r, HARBody))
		if err := errors.Join(err, r.Close()); err != nil {
			return err
		}
		if utf8.Valid(b) && header(q.Headers, "Content-Encoding") == "" {
			e.Request.PostData = &harPostData{MimeType: header(q.Headers, "Content-Type"), Params: []harPair{}, Text: string(b)}
			return nil
		}
		left, e.Ctis.BodyBase64 = "body is in _ctis, as base64", base64.StdEncoding.EncodeToString(b)
	}
	e.remark(left)
	return nil
}

func pairs(headers [][2]string) []harPair {
	out := make([]harPair, 0, len(headers))
	for _, h := range headers {
		out = append(out, harPair{h[0], h[1]})
	}
	return out
}

// query takes a target's query apart; what cannot be decoded stays as it was sent.
func query(target string) []harPair {
	out := []harPair{}
	_, q, _ := strings.Cut(target, "?")
	for part := range strings.SplitSeq(q, "&") {
		if part == "" {
			continue
		}
		name, value, _ := strings.Cut(part, "=")
		for _, s := range []*string{&name, &value} {
			if d, err := url.QueryUnescape(*s); err == nil {
				*s = d
			}
		}
		out = append(out, harPair{name, value})
	}
	return out
}

func header(headers [][2]string, name string) string {
	for _, h := range headers {
		if strings.EqualFold(h[0], name) {
			return h[1]
		}
	}
	return ""
}
