package persona

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/linuxarena/ctis/templates/pages"
)

// writeJSON answers with v, without HTML escaping and without a newline.
func writeJSON(w http.ResponseWriter, status int, v any) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err) // the types of this package all encode
	}
	writeJSONText(w, status, bytes.TrimSuffix(b.Bytes(), []byte("\n")))
}

// writeJSONText answers with a body that is JSON already.
func writeJSONText(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // the peer may be gone; the record says so
}

// serve answers GET and HEAD with stored content: ranges and conditional
// requests are net/http's where RFC 9110 is followed, refusals the persona's own.
func (r *Request) serve(w http.ResponseWriter, contentType, etag string, modified time.Time, content io.ReadSeeker) {
	if modified.After(r.Now) {
		modified = r.Now // RFC 9110 §8.8.2.1
	}
	h, f := w.Header(), r.family()
	h.Set("Content-Type", contentType)
	h.Set("ETag", etag)
	h.Set("Last-Modified", modified.UTC().Format(http.TimeFormat))
	f.staticFields(h)
	g := &guard{ResponseWriter: w, r: r, family: f, contentType: contentType, modified: h.Get("Last-Modified")}
	size, err := content.Seek(0, io.SeekEnd)
	if err != nil {
		r.fail(w, http.StatusInternalServerError)
		return
	}
	q, several := r.asServeContentTakesIt(size)
	if several != nil {
		g.several = r.partsOf(content, size, several, contentType)
	}
	http.ServeContent(g, q, "", modified, content)
}

// guard puts the persona's pages in the place of net/http's error texts.
type guard struct {
	http.ResponseWriter
	r           *Request
	family      family
	contentType string
	modified    string
	several     *byteRanges // to send when a range may be
	refused     bool        // what net/http writes is not sent
}

func (g *guard) WriteHeader(status int) {
	h := g.Header()
	switch {
	case status == http.StatusRequestedRangeNotSatisfiable && g.family.is(pages.Caddy):
		h.Del("Accept-Ranges") // the answer is net/http's own, which is what Caddy serves files with
	case status >= 400:
		g.refused = true
		for _, name := range []string{"X-Content-Type-Options", "Accept-Ranges", "Etag", "Last-Modified", "Cache-Control"} {
			h.Del(name)
		}
		g.r.fail(g.ResponseWriter, status)
		return
	case status == http.StatusNotModified:
		g.family.notModified(h, g.contentType, g.modified)
	case status == http.StatusPartialContent && g.family.is(pages.Nginx), g.family.is(pages.Lighttpd) && !g.r.ranged():
		h.Del("Accept-Ranges")
	}
	if status == http.StatusPartialContent && g.several != nil {
		g.refused = true
		_ = g.several.write(g.ResponseWriter) // the peer may be gone; the record says so
		return
	}
	g.ResponseWriter.WriteHeader(status)
}

func (g *guard) Write(p []byte) (int, error) {
	if g.refused {
		return 0, http.ErrBodyNotAllowed // it need not read on
	}
	return g.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (g *guard) Unwrap() http.ResponseWriter { return g.ResponseWriter }
