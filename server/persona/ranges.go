package persona

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/linuxarena/ctis/templates/pages"
)

// ranged says whether the server answers ranges of the request. lighttpd does
// not for HTTP/1.0, nor for a file that something was posted to.
func (r *Request) ranged() bool {
	return !r.family().is(pages.Lighttpd) || r.HTTP.ProtoAtLeast(1, 1) && r.HTTP.Method != http.MethodPost
}

// asServeContentTakesIt gives the request to [http.ServeContent] so that it
// answers as RFC 9110 has it, where it does not by itself:
//
//   - A range unit it does not know is ignored (§14.2), in whatever case bytes is
//     written (§14.1); so is a Range that is not GET's, or that is there twice.
//   - A suffix of no bytes is not satisfiable (§14.1.2).
//
// Of several ranges it gets one, with which it settles the conditions; several
// says what is to be sent then. It also leaves out a date that lies ahead for
// servers that do not believe it.
func (r *Request) asServeContentTakesIt(size int64) (q *http.Request, several []span) {
	h := r.HTTP.Header
	if h.Get("Range") == "" && h.Get("If-Modified-Since") == "" && len(h["If-Match"]) < 2 && len(h["If-None-Match"]) < 2 && r.HTTP.Method != http.MethodPost {
		return r.HTTP, nil
	}
	clone := *r.HTTP
	q = &clone
	q.Header = h.Clone()
	value, several := r.usableRange(size)
	if value != "" {
		q.Header.Set("Range", value)
	} else {
		q.Header.Del("Range")
	}
	for _, name := range []string{"If-Match", "If-None-Match"} {
		if values := h[name]; len(values) > 1 { // net/http reads the first alone
			q.Header.Set(name, strings.Join(values, ", "))
		}
	}
	if since, err := http.ParseTime(h.Get("If-Modified-Since")); err == nil && since.After(r.Now.Add(time.Second)) && r.family().is(pages.Nginx, pages.Apache) {
		q.Header.Del("If-Modified-Since")
	}
	if q.Method == http.MethodPost {
		q.Method = http.MethodGet // served as a file all the same
	}
	return q, several
}

// usableRange is the Range that counts, "" for none, and what it asks for where
// that is several.
func (r *Request) usableRange(size int64) (value string, several []span) {
	values := r.HTTP.Header.Values("Range")
	if len(values) != 1 || r.HTTP.Method != http.MethodGet || !r.ranged() {
		return "", nil
	}
	unit, set, ok := strings.Cut(values[0], "=")
	if !ok || !strings.EqualFold(strings.TrimSpace(unit), "bytes") {
		return "", nil
	}
	specs := strings.Split(set, ",")
	for i := range specs {
		specs[i] = strings.Trim(specs[i], " \t")
	}
	list, ok := spans(specs, size)
	switch {
	case !ok, len(list) == 0: // neither can be satisfied
		return "bytes=" + strconv.FormatInt(size, 10) + "-", nil
	case len(list) == 1:
		return one(list[0]), nil
	}
	total := int64(0)
	for _, s := range list {
		if total += s.length; total > size { // costs more than it saves, or is meant to cost
			return "", nil
		}
	}
	switch {
	case r.family().is(pages.Caddy):
		return "bytes=" + strings.Join(specs, ","), nil
	case r.family().is(pages.Express):
		return "", nil // it knows one range only
	}
	return one(list[0]), list
}

func one(s span) string { return fmt.Sprintf("bytes=%d-%d", s.from, s.from+s.length-1) }
