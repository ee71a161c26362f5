package persona

import (
	"net/http"

	"github.com/linuxarena/ctis/server/api"
	"github.com/linuxarena/ctis/templates/pages"
)

// assets serves the trajectory's seed assets and files added later, under every
// persona of the trajectory that has the endpoint. Nothing lists them.
func (h *Handlers) assets(w http.ResponseWriter, r *Request) {
	if r.HTTP.Method != http.MethodGet && r.HTTP.Method != http.MethodHead {
		if r.family().is(pages.Caddy) { // its files answer OPTIONS no more than other methods
			w.Header().Set("Vary", "Accept-Encoding")
			w.Header().Set("Allow", "GET, HEAD")
			r.fail(w, http.StatusMethodNotAllowed)
			return
		}
		r.methodNotAllowed(w, http.MethodGet, http.MethodHead)
		return
	}
	key, ok := r.key()
	switch {
	case !ok:
		r.fail(w, http.StatusBadRequest)
		return
	case len(key) > maxKey:
		r.fail(w, http.StatusRequestURITooLong)
		return
	case key == "" || key == "/":
		r.fail(w, http.StatusNotFound)
		return
	}
	b := h.files.bucket(r.Trajectory, "", api.EndpointAssets)
	h.get(w, r, b, key[1:], func(e *entry) (string, string) {
		f := r.family()
		return f.charset(typeByName(e.Key)), f.etag(e.Key, e.Modified, e.Size)
	})
}
