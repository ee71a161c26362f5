package persona

import (
	"crypto/rand"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/linuxarena/ctis/server/api"
)

// maxType bounds a stored Content-Type in bytes; a longer one is not believed.
const maxType = 1 << 10

// listPage is how many entries a list shows at once.
const listPage = 1000

// stored is the answer to an upload.
type stored struct {
	ID     string `json:"id"`
	URL    string `json:"url"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// data is a key-value store over HTTP.
//
//	POST   /data        stores the body under a new id: 201, Location, stored
//	GET    /data        list of listed, by key, a page at a time (Link: rel="next")
//	PUT    /data/<key>  201 for a new key, 200 for a replaced one: stored
//	                    412 when If-Match, If-None-Match or If-Unmodified-Since say no
//	GET    /data/<key>  the bytes with the type they were stored with
//	DELETE /data/<key>  204
func (h *Handlers) data(w http.ResponseWriter, r *Request) {
	key, ok := r.key()
	if !ok {
		r.fail(w, http.StatusBadRequest)
		return
	}
	b := h.files.bucket(r.Trajectory, r.Persona.Host, api.EndpointData)
	if key == "" || key == "/" {
		switch r.HTTP.Method {
		case http.MethodGet, http.MethodHead:
			h.list(w, r, b)
		case http.MethodPost:
			h.store(w, r, b, newID(), nil)
		default:
			r.methodNotAllowed(w, http.MethodGet, http.MethodHead, http.MethodPost)
		}
		return
	}
	if key = key[1:]; len(key) > maxKey {
		r.fail(w, http.StatusRequestURITooLong)
		return
	}
	switch r.HTTP.Method {
	case http.MethodGet, http.MethodHead:
		h.get(w, r, b, key, func(e *entry) (string, string) { return e.Type, e.digestTag() })
	case http.MethodPut:
		if r.partial() {
			r.fail(w, http.StatusBadRequest)
			return
		}
		h.store(w, r, b, key, r.condition())
	case http.MethodDelete:
		switch found, err := b.remove(key, r.condition()); {
		case err != nil:
			h.storageFailed(w, r, err)
		case !found:
			r.fail(w, http.StatusNotFound)
		default:
			w.WriteHeader(http.StatusNoContent)
		}
	default:
		r.methodNotAllowed(w, http.MethodGet, http.MethodHead, http.MethodPut, http.MethodDelete)
	}
}

// newID is short enough for an address and cannot be guessed: 26 characters of
// base 32, 130 bits.
func newID() string { return strings.ToLower(rand.Text()) }

// store keeps the request's body under key.
func (h *Handlers) store(w http.ResponseWriter, r *Request, b bucket, key string, only condition) {
	if !r.Body.Whole() {
		r.fail(w, http.StatusInsufficientStorage)
		return
	}
	contentType := r.HTTP.Header.Get("Content-Type")
	if contentType == "" || len(contentType) > maxType || !utf8.ValidString(contentType) {
		contentType = defaultType
	}
	e, replaced, err := b.put(key, contentType, r.Now, r.Body, only)
	if err != nil {
		h.storageFailed(w, r, err)
		return
	}
	w.Header().Set("ETag", e.digestTag())
	status := http.StatusCreated
	if replaced {
		status = http.StatusOK
	} else {
		w.Header().Set("Location", r.pathOf(key))
	}
	writeJSON(w, status, stored{ID: key, URL: r.urlOf(key), Size: e.Size, SHA256: e.SHA256})
}

// listed is one entry of the list.
type listed struct {
	ID          string    `json:"id"` // the key, as an upload's answer calls it
	Key         string    `json:"key"`
	URL         string    `json:"url"`
	Size        int64     `json:"size"`
	SHA256      string    `json:"sha256"`
	ContentType string    `json:"content_type"`
	Modified    time.Time `json:"modified"`
}

func (h *Handlers) list(w http.ResponseWriter, r *Request, b bucket) {
	after := ""
	if q, err := url.ParseQuery(r.RawQuery); err == nil {
		after = q.Get("after")
	}
	entries, err := b.list(after, listPage+1)
	if err != nil {
		h.storageFailed(w, r, err)
		return
	}
	if len(entries) > listPage {
		entries = entries[:listPage]
		next := "/" + r.Endpoint + "?after=" + url.QueryEscape(entries[listPage-1].Key)
		w.Header().Set("Link", "<"+next+`>; rel="next"`)
	}
	all := make([]listed, 0, len(entries)) // [] and not null when there is nothing
	for _, e := range entries {
		all = append(all, listed{e.Key, e.Key, r.urlOf(e.Key), e.Size, e.SHA256, e.Type, e.Modified.UTC()})
	}
	writeJSON(w, http.StatusOK, all)
}

// get serves what is stored under key; describe gives its type and entity tag.
func (h *Handlers) get(w http.ResponseWriter, r *Request, b bucket, key string, describe func(*entry) (contentType, etag string)) {
	e, content, err := b.open(key)
	if err != nil {
		h.storageFailed(w, r, err)
		return
	}
	if content == nil {
		r.fail(w, http.StatusNotFound)
		return
	}
	defer content.Close() // only read from
	contentType, etag := describe(e)
	r.serve(w, contentType, etag, e.Modified, content)
}

// storageFailed answers when files could not be read or written.
func (h *Handlers) storageFailed(w http.ResponseWriter, r *Request, err error) {
	switch {
	case errors.Is(err, errCondition):
		r.fail(w, http.StatusPreconditionFailed)
		return
	case isFull(err):
		r.fail(w, http.StatusInsufficientStorage)
		return
	}
	h.log.Error("persona storage", "trajectory", r.Trajectory, "host", r.Persona.Host, "err", err)
	r.fail(w, http.StatusInternalServerError)
}
