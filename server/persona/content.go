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
// requests are net/http's, refusals the persona's own.
func (r *Request) serve(w http.ResponseWriter, contentType, etag string, modified time.Time, content io.ReadSeeker) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("ETag", etag)
	g := &guard{ResponseWriter: w, r: r, modified: modified.UTC().Format(http.TimeFormat)}
	http.ServeContent(g, r.HTTP, "", modified, content)
}

// guard puts the persona's pages in the place of net/http's error texts.
type guard struct {
	http.ResponseWriter
	r        *Request
	modified string
	refused  bool
}

func (g *guard) WriteHeader(status int) {
	h := g.Header()
	switch {
	case status >= 400:
		g.refused = true
		for _, name := range []string{"X-Content-Type-Options", "Accept-Ranges", "Etag", "Last-Modified"} {
			h.Del(name)
		}
		g.r.fail(g.ResponseWriter, status)
		return
	case status == http.StatusNotModified && pages.FamilyOf(serverHeader(g.r.Persona)) != pages.Caddy:
		h.Set("Last-Modified", g.modified) // net/http leaves it out, most servers do not
	}
	g.ResponseWriter.WriteHeader(status)
}

func (g *guard) Write(p []byte) (int, error) {
	if g.refused {
		return len(p), nil
	}
	return g.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (g *guard) Unwrap() http.ResponseWriter { return g.ResponseWriter }
