package pages

import (
	"fmt"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"
)

// Entry is one line of a directory listing.
type Entry struct {
	Name    string // one path segment, without a slash
	Dir     bool
	Size    int64 // bytes; of a file
	ModTime time.Time
}

// indexName is how many characters of a name nginx shows.
const indexName = 50

// Index lists dir, an absolute path with a slash at its end, the way nginx's
// autoindex does.
func Index(dir string, entries []Entry) Page {
	var b strings.Builder
	title := "Index of " + escape(dir)
	b.WriteString("<html>\r\n<head><title>" + title + "</title></head>\r\n<body>\r\n<h1>" + title + "</h1><hr><pre><a href=\"../\">../</a>\r\n")
	for _, e := range entries {
		name, size := e.Name, fmt.Sprint(e.Size)
		href := hrefOf(name)
		if e.Dir {
			name, href, size = name+"/", href+"/", "-"
		}
		pad := ""
		if n := utf8.RuneCountInString(name); n > indexName {
			name = string([]rune(name)[:indexName-3]) + "..>"
		} else {
			pad = strings.Repeat(" ", indexName-n)
		}
		b.WriteString("<a href=\"" + href + "\">" + escape(name) + "</a>" + pad + " " +
			e.ModTime.UTC().Format("02-Jan-2006 15:04") + " " + fmt.Sprintf("%19s", size) + "\r\n")
	}
	b.WriteString("</pre><hr></body>\r\n</html>\r\n")
	return Page{ContentType: "text/html; charset=utf-8", Body: []byte(b.String())}
}

// hrefOf is a relative reference to one segment. A colon in the first segment
// would read as a scheme (javascript:), so it is escaped.
func hrefOf(name string) string {
	return strings.ReplaceAll(url.PathEscape(name), ":", "%3A")
}
