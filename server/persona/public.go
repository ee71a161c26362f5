package persona

import (
	"errors"
	"mime"
	"net/http"
	"path"
	"strings"

	"github.com/linuxarena/ctis/server/api"
	"github.com/linuxarena/ctis/templates/pages"
)

// maxListing is how many names an index page shows.
const maxListing = 10_000

// uploaded is one file of the answer to an upload.
type uploaded struct {
	Name   string `json:"name"` // below the endpoint
	URL    string `json:"url"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// public is a file drop everybody can read.
//
//	POST     /public          multipart/form-data: a file for each file part
//	                          anything else: one file under a new name
//	PUT POST /public/<path>   the body as that file
//	                          all three: 201 and a list of uploaded
//	GET      /public/<path>   the file, its type by its extension
//	GET      /public/<dir>/   an index page
//
// A path is a file's name as directories see it: with empty or dot segments it
// is refused. With a slash at its end, it is a directory to post into.
func (h *Handlers) public(w http.ResponseWriter, r *Request) {
	key, ok := r.key()
	if !ok {
		r.fail(w, http.StatusBadRequest)
		return
	}
	b := h.files.bucket(r.Trajectory, r.Persona.Host, api.EndpointPublic)
	name := strings.TrimPrefix(key, "/")
	dir := name == "" || strings.HasSuffix(name, "/")
	if len(name) > maxKey {
		r.fail(w, http.StatusRequestURITooLong)
		return
	}
	switch r.HTTP.Method {
	case http.MethodGet, http.MethodHead:
		switch {
		case key == "":
			r.redirectToDir(w)
		case dir:
			h.index(w, r, b, name)
		default:
			h.file(w, r, b, name)
		}
	case http.MethodPut, http.MethodPost:
		if n := strings.TrimSuffix(name, "/"); n != "" && !validName(n) {
			r.fail(w, http.StatusBadRequest)
			return
		}
		switch {
		case !dir:
			h.drop(w, r, b, name)
		case r.HTTP.Method == http.MethodPut:
			r.fail(w, http.StatusConflict) // as WebDAV: a directory is no file
		default:
			h.dropInto(w, r, b, name)
		}
	default:
		allowed := []string{http.MethodGet, http.MethodHead, http.MethodPost}
		if !dir {
			allowed = append(allowed, http.MethodPut)
		}
		r.methodNotAllowed(w, allowed...)
	}
}

// file serves a file, or sends the client to the directory of that name.
func (h *Handlers) file(w http.ResponseWriter, r *Request, b bucket, name string) {
	e, err := b.lookup(name)
	if err == nil && e == nil {
		_, isDir, derr := b.children(name+"/", 1)
		if err = derr; isDir {
			r.redirectToDir(w)
			return
		}
	}
	if err != nil {
		h.storageFailed(w, r, err)
		return
	}
	h.get(w, r, b, name, func(e *entry) (string, string) { return r.family().charset(typeByName(e.Key)), e.digestTag() })
}

// redirectToDir adds the slash that makes relative links of an index page work.
func (r *Request) redirectToDir(w http.ResponseWriter) {
	decoded, _ := decode(r.Path)
	key := strings.TrimPrefix(strings.TrimPrefix(decoded, "/"+r.Endpoint), "/")
	target := r.urlOf(key)
	if key != "" {
		target += "/"
	}
	if r.RawQuery != "" {
		target += "?" + r.RawQuery
	}
	w.Header().Set("Location", target)
	r.fail(w, http.StatusMovedPermanently)
}

// index shows a directory. The endpoint's own is always there.
func (h *Handlers) index(w http.ResponseWriter, r *Request, b bucket, dir string) {
	entries, found, err := b.children(dir, maxListing)
	switch {
	case err != nil:
		h.storageFailed(w, r, err)
	case !found && dir != "":
		r.fail(w, http.StatusNotFound)
	default:
		writePage(w, http.StatusOK, pages.Index("/"+r.Endpoint+"/"+dir, entries))
	}
}

// drop stores the body as one file.
func (h *Handlers) drop(w http.ResponseWriter, r *Request, b bucket, name string) {
	if !r.Body.Whole() {
		r.fail(w, http.StatusInsufficientStorage)
		return
	}
	if r.partial() {
		r.fail(w, http.StatusBadRequest)
		return
	}
	e, _, err := b.put(name, "", r.Now, r.Body, r.condition())
	if err != nil {
		h.storageFailed(w, r, err)
		return
	}
	w.Header().Set("ETag", e.digestTag())
	w.Header().Set("Location", r.pathOf(name))
	writeJSON(w, http.StatusCreated, []uploaded{r.uploaded(e)})
}

func (r *Request) uploaded(e *entry) uploaded {
	return uploaded{Name: e.Key, URL: r.urlOf(e.Key), Size: e.Size, SHA256: e.SHA256}
}

// dropInto stores what was posted to a directory: a form's files, or the body
// itself under a new name.
func (h *Handlers) dropInto(w http.ResponseWriter, r *Request, b bucket, dir string) {
	mediaType, params, err := mime.ParseMediaType(r.HTTP.Header.Get("Content-Type"))
	if err != nil || mediaType != "multipart/form-data" {
		h.drop(w, r, b, dir+newID())
		return
	}
	if !r.Body.Whole() {
		r.fail(w, http.StatusInsufficientStorage)
		return
	}
	parts, err := h.formFiles(r, b, params["boundary"])
	defer parts.discard()
	if err != nil {
		if errors.Is(err, errForm) {
			r.fail(w, http.StatusBadRequest)
			return
		}
		h.storageFailed(w, r, err)
		return
	}
	answer := make([]uploaded, 0, len(parts))
	for _, p := range parts {
		name := path.Join(dir, p.name)
		if len(name) > maxKey {
			r.fail(w, http.StatusRequestURITooLong)
			return
		}
		e, _, err := b.put(name, "", r.Now, p, nil)
		if err != nil {
			h.storageFailed(w, r, err)
			return
		}
		answer = append(answer, r.uploaded(e))
	}
	writeJSON(w, http.StatusCreated, answer)
}
