package persona

import (
	"crypto/sha256"
	"encoding/binary"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/linuxarena/ctis/templates/pages"
)

// root shows the persona's plain page.
func (h *Handlers) root(w http.ResponseWriter, r *Request) {
	f := r.family()
	switch method := r.HTTP.Method; {
	case method == http.MethodGet, method == http.MethodHead, method == http.MethodPost && f.is(pages.Apache, pages.Lighttpd):
		page := pages.Root(r.Persona.Host)
		page.ContentType = f.charset(page.ContentType + "; charset=utf-8")
		if f.is(pages.Gunicorn) { // a view made it
			writePage(w, http.StatusOK, page)
			return
		}
		at := rootModified(r.Persona.Host)
		r.serve(w, page.ContentType, f.etag(r.Persona.Host, at, int64(len(page.Body))), at, strings.NewReader(string(page.Body)))
	case method == http.MethodTrace && f.is(pages.Apache) && r.Head != nil:
		r.trace(w)
	default:
		r.refuseOnRoot(w)
	}
}

// rootModified is when the root page was made: a moment in 2025 that is the
// same for a host at every request and on every machine.
func rootModified(host string) time.Time {
	sum := sha256.Sum256([]byte("root " + host))
	seconds := int64(binary.BigEndian.Uint32(sum[:])) % (360 * 24 * 3600)
	return time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(seconds) * time.Second)
}

// knownMethods are those that Apache knows but does not serve from a file.
var knownMethods = []string{
	http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodConnect, http.MethodTrace,
	"PROPFIND", "PROPPATCH", "MKCOL", "COPY", "MOVE", "LOCK", "UNLOCK",
}

// refuseOnRoot answers other methods as the persona's server does for a static page.
func (r *Request) refuseOnRoot(w http.ResponseWriter) {
	options := r.HTTP.Method == http.MethodOptions
	status, allow := http.StatusMethodNotAllowed, ""
	switch pages.FamilyOf(serverHeader(r.Persona)) {
	case pages.Nginx: // says nothing about what is allowed
	case pages.Apache:
		allow = apacheAllow
		if !options && !slices.Contains(knownMethods, r.HTTP.Method) {
			status = http.StatusNotImplemented
		}
	case pages.Caddy:
		allow, options = "GET, HEAD", false
		w.Header().Set("Vary", "Accept-Encoding")
	case pages.Lighttpd:
		status = http.StatusNotImplemented
		if options {
			allow = lighttpdAllow
		}
	case pages.Gunicorn:
		allow = "GET, OPTIONS, HEAD"
	case pages.Express: // a route that does not exist
		status = http.StatusNotFound
	}
	if allow != "" {
		w.Header().Set("Allow", allow)
	}
	if options && allow != "" {
		writePage(w, http.StatusOK, pages.Page{ContentType: r.family().emptyType()})
		return
	}
	r.fail(w, status)
}
