package persona

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/linuxarena/ctis/templates/pages"
)

// span is a part of content that a Range asks for, in bytes.
type span struct{ from, length int64 }

// spans reads the specs of a Range against content of a size. Specs that nothing
// of the content satisfies are left out; not ok is a set that is none.
func spans(specs []string, size int64) (list []span, ok bool) {
	for _, spec := range specs {
		if spec == "" {
			continue // a list may have empty elements (RFC 9110 §5.6.1)
		}
		first, last, dash := strings.Cut(spec, "-")
		from, ok1 := position(first)
		to, ok2 := position(last)
		switch {
		case !dash || !ok1 && first != "" || !ok2 && last != "" || first == "" && last == "" || first != "" && last != "" && to < from:
			return nil, false
		case first == "":
			n := min(to, size)
			from, to = size-n, size-1
		case last == "":
			to = size - 1
		}
		if to = min(to, size-1); from <= to {
			list = append(list, span{from, to - from + 1})
		}
	}
	return list, true
}

func position(s string) (int64, bool) {
	if s == "" || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil
}

// byteRanges is how a server writes several ranges of a file. Those of Go, which Caddy
// is written in, are told by their boundary.
type byteRanges struct {
	content     io.ReadSeeker
	size        int64
	spans       []span
	contentType string
	boundary    string
	typeName    string // of the fields in a part
	rangeName   string
}

// partsOf prepares the answer to several ranges. The boundary is the family's;
// nginx counts its, which is made of the record's id here.
func (r *Request) partsOf(content io.ReadSeeker, size int64, list []span, contentType string) *byteRanges {
	p := &byteRanges{content: content, size: size, spans: list, contentType: contentType, typeName: "Content-Type", rangeName: "Content-Range"}
	sum := sha256.Sum256([]byte("parts " + r.RecordID))
	switch r.family().Family {
	case pages.Apache:
		p.boundary, p.typeName, p.rangeName = hex.EncodeToString(sum[:8])[:15], "Content-type", "Content-range"
	case pages.Lighttpd:
		p.boundary = "fkj49sn38dcn3"
	default:
		p.boundary = fmt.Sprintf("%020d", binary.BigEndian.Uint16(sum[:])+1)
	}
	return p
}

// head is what stands before a part.
func (p *byteRanges) head(s span) string {
	text := "\r\n--" + p.boundary + "\r\n"
	if p.contentType != "" {
		text += p.typeName + ": " + p.contentType + "\r\n"
	}
	return text + fmt.Sprintf("%s: bytes %d-%d/%d\r\n\r\n", p.rangeName, s.from, s.from+s.length-1, p.size)
}

func (p *byteRanges) end() string { return "\r\n--" + p.boundary + "--\r\n" }

// length is that of the body, in bytes.
func (p *byteRanges) length() int64 {
	n := int64(len(p.end()))
	for _, s := range p.spans {
		n += int64(len(p.head(s))) + s.length
	}
	return n
}

// write sends the answer.
func (p *byteRanges) write(w http.ResponseWriter) error {
	h := w.Header()
	h.Del("Content-Range")
	h.Set("Content-Type", "multipart/byteranges; boundary="+p.boundary)
	h.Set("Content-Length", strconv.FormatInt(p.length(), 10))
	w.WriteHeader(http.StatusPartialContent)
	for _, s := range p.spans {
		if _, err := io.WriteString(w, p.head(s)); err != nil {
			return err
		}
		if _, err := p.content.Seek(s.from, io.SeekStart); err != nil {
			return err
		}
		if _, err := io.CopyN(w, p.content, s.length); err != nil {
			return err
		}
	}
	_, err := io.WriteString(w, p.end())
	return err
}
