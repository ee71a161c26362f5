package persona

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"path"
	"strconv"
	"strings"
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
	body := bytes.TrimSuffix(b.Bytes(), []byte("\n"))
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

// defaultType is for content nobody named a type for.
const defaultType = "application/octet-stream"

// typeByName gives a file's type by its extension. The table is fixed: what
// the operating system knows differs from machine to machine.
func typeByName(name string) string {
	if t, ok := types[strings.ToLower(path.Ext(name))]; ok {
		return t
	}
	return defaultType
}

var types = map[string]string{
	".7z":    "application/x-7z-compressed",
	".avif":  "image/avif",
	".bash":  "text/plain; charset=utf-8",
	".bmp":   "image/bmp",
	".bz2":   "application/x-bzip2",
	".c":     "text/plain; charset=utf-8",
	".cfg":   "text/plain; charset=utf-8",
	".conf":  "text/plain; charset=utf-8",
	".cpp":   "text/plain; charset=utf-8",
	".css":   "text/css; charset=utf-8",
	".csv":   "text/csv; charset=utf-8",
	".deb":   "application/vnd.debian.binary-package",
	".doc":   "application/msword",
	".docx":  "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
	".eot":   "application/vnd.ms-fontobject",
	".gif":   "image/gif",
	".go":    "text/plain; charset=utf-8",
	".gz":    "application/gzip",
	".h":     "text/plain; charset=utf-8",
	".htm":   "text/html; charset=utf-8",
	".html":  "text/html; charset=utf-8",
	".ico":   "image/x-icon",
	".ini":   "text/plain; charset=utf-8",
	".jar":   "application/java-archive",
	".java":  "text/plain; charset=utf-8",
	".jpeg":  "image/jpeg",
	".jpg":   "image/jpeg",
	".js":    "text/javascript; charset=utf-8",
	".json":  "application/json",
	".jsonl": "application/jsonl",
	".log":   "text/plain; charset=utf-8",
	".md":    "text/markdown; charset=utf-8",
	".mjs":   "text/javascript; charset=utf-8",
	".mov":   "video/quicktime",
	".mp3":   "audio/mpeg",
	".mp4":   "video/mp4",
	".ogg":   "audio/ogg",
	".pdf":   "application/pdf",
	".pem":   "application/x-pem-file",
	".png":   "image/png",
	".ppt":   "application/vnd.ms-powerpoint",
	".pptx":  "application/vnd.openxmlformats-officedocument.presentationml.presentation",
	".py":    "text/x-python; charset=utf-8",
	".rb":    "text/plain; charset=utf-8",
	".rpm":   "application/x-rpm",
	".rs":    "text/plain; charset=utf-8",
	".rtf":   "application/rtf",
	".sh":    "text/x-sh; charset=utf-8",
	".sql":   "text/plain; charset=utf-8",
	".svg":   "image/svg+xml",
	".tar":   "application/x-tar",
	".tgz":   "application/gzip",
	".toml":  "text/plain; charset=utf-8",
	".ts":    "text/plain; charset=utf-8",
	".tsv":   "text/tab-separated-values; charset=utf-8",
	".ttf":   "font/ttf",
	".txt":   "text/plain; charset=utf-8",
	".wasm":  "application/wasm",
	".wav":   "audio/wav",
	".webm":  "video/webm",
	".webp":  "image/webp",
	".whl":   "application/zip",
	".woff":  "font/woff",
	".woff2": "font/woff2",
	".xls":   "application/vnd.ms-excel",
	".xlsx":  "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
	".xml":   "text/xml; charset=utf-8",
	".xz":    "application/x-xz",
	".yaml":  "application/yaml",
	".yml":   "application/yaml",
	".zip":   "application/zip",
	".zst":   "application/zstd",
}
