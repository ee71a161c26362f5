package persona

import (
	"fmt"
	"hash/adler32"
	"hash/fnv"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/linuxarena/ctis/templates/pages"
)

// family is how the persona's web server serves files: what differs between
// servers although RFC 9110 leaves it open.
type family struct{ pages.Family }

func (r *Request) family() family { return family{pages.FamilyOf(serverHeader(r.Persona))} }

func (f family) is(families ...pages.Family) bool { return slices.Contains(families, f.Family) }

// charset writes a type that text goes with the way the server does: most
// say nothing about characters.
func (f family) charset(contentType string) string {
	switch f.Family {
	case pages.Caddy, pages.Gunicorn:
		return contentType
	case pages.Express:
		return strings.Replace(contentType, "; charset=utf-8", "; charset=UTF-8", 1)
	}
	return strings.TrimSuffix(contentType, "; charset=utf-8")
}

// allow lists methods, OPTIONS at the end; Werkzeug has it before HEAD.
func (f family) allow(methods []string) string {
	if head := slices.Index(methods, http.MethodHead); head >= 0 && f.is(pages.Gunicorn) {
		last := len(methods) - 1
		methods = slices.Insert(methods[:last], head, methods[last])
	}
	return strings.Join(methods, ", ")
}

// emptyType is the type of an answer to OPTIONS that has no content.
func (f family) emptyType() string {
	switch f.Family {
	case pages.Lighttpd:
		return ""
	case pages.Gunicorn:
		return "text/html; charset=utf-8"
	}
	return "text/html"
}

// etag tags a file the way the server does, which all but lighttpd make of time
// and size alone.
func (f family) etag(name string, modified time.Time, size int64) string {
	switch f.Family {
	case pages.Apache: // size and microseconds
		return fmt.Sprintf(`"%x-%x"`, size, modified.UnixMicro())
	case pages.Caddy: // nanoseconds and size, in base 36
		return `"` + strconv.FormatInt(modified.UnixNano(), 36) + "-" + strconv.FormatInt(size, 36) + `"`
	case pages.Lighttpd: // a hash of inode, size and time
		h := fnv.New32a()
		_, _ = fmt.Fprint(h, name, size, modified.UnixNano()) // a hash takes everything
		return `"` + strconv.FormatUint(uint64(h.Sum32()), 10) + `"`
	case pages.Gunicorn: // Flask: seconds, size and a checksum of the path
		return fmt.Sprintf(`"%d.0-%d-%d"`, modified.Unix(), size, adler32.Checksum([]byte(name)))
	case pages.Express: // size and milliseconds, weak
		return fmt.Sprintf(`W/"%x-%x"`, size, modified.UnixMilli())
	}
	return fmt.Sprintf(`"%x-%x"`, modified.Unix(), size) // nginx
}

// staticFields are sent with every file.
func (f family) staticFields(h http.Header) {
	switch f.Family {
	case pages.Caddy:
		h.Set("Vary", "Accept-Encoding")
	case pages.Express:
		h.Set("Cache-Control", "public, max-age=0")
	}
}

// notModified completes the fields of a 304. net/http has taken those that are
// not needed out, as it does for Caddy; the others send more.
func (f family) notModified(h http.Header, contentType, modified string) {
	switch f.Family {
	case pages.Caddy:
		h.Del("Last-Modified")
		return
	case pages.Lighttpd:
		h.Set("Content-Type", contentType)
	case pages.Apache, pages.Express:
		h.Set("Accept-Ranges", "bytes")
	}
	h.Set("Last-Modified", modified)
}

// hasLongName says whether a path has a segment that no file can be called.
func hasLongName(path string) bool {
	const nameMax = 255 // bytes, on Linux
	decoded, _ := decode(path)
	for segment := range strings.SplitSeq(decoded, "/") {
		if len(segment) > nameMax {
			return true
		}
	}
	return false
}

// trace sends a request back as it came, without its body (RFC 9110 §9.3.8).
func (r *Request) trace(w http.ResponseWriter) {
	text := r.Head.Method + " " + r.Head.Target + " " + r.Head.Proto + "\r\n"
	for _, f := range r.Head.Fields {
		text += f[0] + ": " + f[1] + "\r\n"
	}
	w.Header().Set("Content-Type", "message/http")
	_, _ = io.WriteString(w, text+"\r\n")     // the peer may be gone; the record says so
	_ = http.NewResponseController(w).Flush() // its length is not stated
}

// server answers a request that is for the server and no resource of it:
// OPTIONS *, and CONNECT, which none of them does.
func (r *Request) server(w http.ResponseWriter) {
	connect := r.HTTP.Method == http.MethodConnect
	switch f := r.family(); {
	case connect && f.is(pages.Apache):
		w.Header().Set("Allow", apacheAllow)
		r.fail(w, http.StatusMethodNotAllowed)
	case connect && f.is(pages.Caddy):
		w.Header().Set("Location", "/")
		writePage(w, http.StatusPermanentRedirect, pages.Page{})
	case !connect && f.is(pages.Apache, pages.Caddy):
		writePage(w, http.StatusOK, pages.Page{})
	case !connect && f.is(pages.Lighttpd):
		w.Header().Set("Allow", lighttpdAllow)
		writePage(w, http.StatusOK, pages.Page{})
	default:
		r.fail(w, http.StatusNotFound)
	}
}

// What they say is allowed, whatever the resource.
const (
	apacheAllow   = "POST,OPTIONS,HEAD,GET,TRACE"
	lighttpdAllow = "OPTIONS, GET, HEAD, POST"
)
