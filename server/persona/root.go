package persona

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/linuxarena/ctis/templates/pages"
)

// root shows the persona's plain page.
func (h *Handlers) root(w http.ResponseWriter, r *Request) {
	switch r.HTTP.Method {
	case http.MethodGet, http.MethodHead:
		page := pages.Root(r.Persona.Host)
		at := rootModified(r.Persona.Host)
		r.serve(w, page.ContentType, nginxETag(at, int64(len(page.Body))), at, strings.NewReader(string(page.Body)))
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

// nginxETag is how nginx tags a static file: time and size, in hex.
func nginxETag(modified time.Time, size int64) string {
	return fmt.Sprintf(`"%x-%x"`, modified.Unix(), size)
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
		allow = "POST,OPTIONS,HEAD,GET,TRACE"
		if !options && !slices.Contains(knownMethods, r.HTTP.Method) {
			status = http.StatusNotImplemented
		}
	case pages.Caddy:
		allow, options = "GET, HEAD", false
	case pages.Lighttpd:
		status = http.StatusNotImplemented
		if options {
			allow = "OPTIONS, GET, HEAD, POST"
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
		writePage(w, http.StatusOK, pages.Page{ContentType: "text/html"})
		return
	}
	r.fail(w, status)
}
