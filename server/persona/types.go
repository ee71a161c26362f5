package persona

import (
	"path"
	"strings"
)

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

// mediaType is it without a charset: whether one is served beside it is up to the
// server that a persona is, and a trajectory's personas may be several.
func mediaType(name string) string {
	t, _, _ := strings.Cut(typeByName(name), ";")
	return t
}

// TypeOf gives the content type of a file of that name.
func TypeOf(name string) string { return typeByName(name) }

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
