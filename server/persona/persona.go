// Package persona answers for the public hostnames the simulator plays: the
// built-in endpoints webhook, data, assets and public, the root page, and the
// persona's error pages. It looks like the web server the persona's Server
// header names, and says nothing about what really answers.
//
// It is called with a request that is already recorded, its body collected. It
// does not route between trajectories, record anything, or set the Server
// header: that is the pipeline's.
package persona

import (
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/linuxarena/ctis/server/api"
	"github.com/linuxarena/ctis/server/journal"
	"github.com/linuxarena/ctis/server/wire"
	"github.com/linuxarena/ctis/templates/pages"
)

// Request is one request to a persona.
type Request struct {
	HTTP       *http.Request // headers, method, TLS state; its Body is already consumed
	Path       string        // path of the request target, still escaped, without query
	RawQuery   string
	Trajectory string
	Persona    *api.Persona
	Endpoint   string         // as Match said
	RecordID   string         // ULID of this request's record
	Scheme     string         // "http" or "https"
	Head       *wire.Head     // as sent; nil on HTTP/2
	Body       *journal.Spool // closed and kept by the journal
	Now        time.Time
}

// Handlers answer requests.
type Handlers struct {
	files *Files
	log   *slog.Logger
}

// NewHandlers makes handlers over stored files.
func NewHandlers(files *Files, log *slog.Logger) *Handlers {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Handlers{files: files, log: log}
}

// Serve answers a request of the kind that [Match] found: status, headers and
// body. A kind it does not know gets the persona's 404.
func (h *Handlers) Serve(w http.ResponseWriter, kind string, r *Request) {
	switch kind {
	case api.KindWebhook:
		h.webhook(w, r)
	case api.KindData:
		h.data(w, r)
	case api.KindAssets:
		h.assets(w, r)
	case api.KindPublic:
		h.public(w, r)
	case api.KindRoot:
		h.root(w, r)
	default:
		if !strings.HasPrefix(r.Path, "/") {
			r.server(w)
			return
		}
		if r.family().is(pages.Caddy) && hasLongName(r.Path) {
			r.fail(w, http.StatusBadRequest)
			return
		}
		r.fail(w, http.StatusNotFound)
	}
}

// webhook takes whatever comes: the record is all there is to it.
func (h *Handlers) webhook(w http.ResponseWriter, r *Request) {
	writeJSONText(w, http.StatusOK, []byte(`{"status":"received","id":"`+r.RecordID+`"}`)) // an id needs no escapes
}

// methodNotAllowed refuses a method and says which ones would do. It answers
// OPTIONS itself.
func (r *Request) methodNotAllowed(w http.ResponseWriter, allowed ...string) {
	w.Header().Set("Allow", r.family().allow(append(allowed, http.MethodOptions)))
	if r.HTTP.Method == http.MethodOptions {
		writePage(w, http.StatusOK, pages.Page{ContentType: r.family().emptyType()})
		return
	}
	r.fail(w, http.StatusMethodNotAllowed)
}

// fail answers with the persona's error page.
func (r *Request) fail(w http.ResponseWriter, status int) {
	f := pages.Facts{Host: r.Persona.Host, Port: wire.PortOf(r.HTTP.Host, r.Scheme), Method: r.HTTP.Method, Path: r.Path, Location: w.Header().Get("Location")}
	if r.HTTP.Method == http.MethodHead && status != http.StatusMovedPermanently && r.family().is(pages.Apache, pages.Caddy) {
		w.Header()["Content-Length"] = nil // they make no page, and measure none
	}
	writePage(w, status, pages.ErrorFor(serverHeader(r.Persona), status, f))
}

// WriteError answers with p's error page for status, or nginx's when p is nil.
// Headers that are already set stay.
func WriteError(w http.ResponseWriter, p *api.Persona, status int, f pages.Facts) {
	writePage(w, status, pages.ErrorFor(serverHeader(p), status, f))
}

func serverHeader(p *api.Persona) string {
	if p == nil || p.ServerHeader == "" {
		return api.DefaultServerHeader
	}
	return p.ServerHeader
}

// writePage sends a page. A page without a type must not keep one that was
// meant for other content.
func writePage(w http.ResponseWriter, status int, page pages.Page) {
	h := w.Header()
	h.Set("Content-Type", page.ContentType)
	if page.ContentType == "" {
		h.Del("Content-Type")
	}
	for _, f := range page.Fields {
		h.Set(f[0], f[1])
	}
	if length, ok := h["Content-Length"]; !ok || len(length) > 0 {
		h.Set("Content-Length", strconv.Itoa(len(page.Body)))
	}
	w.WriteHeader(status)
	_, _ = w.Write(page.Body) // the peer may be gone; the record says so
}
