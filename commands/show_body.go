package commands

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/linuxarena/ctis/evidence"
	"github.com/linuxarena/ctis/server/api"
)

// maxParts bounds how many parts of a multipart body are shown, and how deep they nest.
const (
	maxParts = 1000
	maxNest  = 3
)

// maxDecoded bounds, in bytes, what is shown of a body that was compressed: a few bytes
// can become any number.
const maxDecoded = 64 << 20

// showBody writes a body as what it is, with its content codings undone. Of one longer
// than most bytes (0: any), the beginning is written and the rest is counted.
func (a *app) showBody(ctx context.Context, b *api.Body, headers [][2]string, bodies evidence.Bodies, most int64) error {
	if b.Size == 0 {
		return nil
	}
	out := a.streams.Out
	fmt.Fprintln(out)
	r, err := evidence.OpenBody(ctx, b, bodies)
	if errors.Is(err, evidence.ErrNotKept) {
		_, err = fmt.Fprintf(out, "body of %d bytes, SHA-256 %s, not kept whole\n", b.Size, b.SHA256)
		return err
	}
	if err != nil {
		return err
	}
	defer r.Close()
	if codings := strings.Join(evidence.Codings(headers), ", "); codings != "" {
		content, whole, err := decodedBody(headers, r, most)
		if err == nil {
			fmt.Fprintf(out, "decoded from %s, in which it has %d bytes\n", harmless(codings), b.Size)
			_, err = io.WriteString(out, prettyBody(content, headerOf(headers, "Content-Type"), whole, 0))
			if err == nil && !whole {
				_, err = fmt.Fprintf(out, "… the first %d bytes; --max 0 shows more, --raw gives the bytes as they were sent\n", len(content))
			}
			return err
		}
		fmt.Fprintf(out, "not decoded from %s, but as it was sent: %s\n", harmless(codings), harmless(err.Error()))
		again, err := evidence.OpenBody(ctx, b, bodies)
		if err != nil {
			return err
		}
		defer again.Close()
		r = again
	}
	if most == 0 {
		most = b.Size
	}
	content, err := io.ReadAll(io.LimitReader(r, most))
	if err != nil {
		return fmt.Errorf("read body %q: %w", b.SHA256, err)
	}
	whole := int64(len(content)) >= b.Size
	if _, err := io.WriteString(out, prettyBody(content, headerOf(headers, "Content-Type"), whole, 0)); err != nil || whole {
		return err
	}
	_, err = fmt.Fprintf(out, "… %d of %d bytes; --max 0 shows all, --raw gives the bytes\n", len(content), b.Size)
	return err
}

// decodedBody reads up to most bytes of a body with its codings undone; whole tells that
// this is all.
func decodedBody(headers [][2]string, body io.Reader, most int64) (content []byte, whole bool, err error) {
	d, err := evidence.Decode(headers, body)
	if err != nil {
		return nil, false, err
	}
	defer d.Close()
	if most == 0 || most > maxDecoded {
		most = maxDecoded
	}
	content, err = io.ReadAll(io.LimitReader(d, most+1))
	if err != nil {
		return nil, false, err
	}
	if int64(len(content)) > most {
		return content[:most], false, nil
	}
	return content, true, nil
}

func headerOf(headers [][2]string, name string) string {
	for _, h := range headers {
		if strings.EqualFold(h[0], name) {
			return h[1]
		}
	}
	return ""
}

// prettyBody is a body for people, ending in a line break. What its type says is
// believed only as far as the bytes bear it out.
func prettyBody(b []byte, contentType string, whole bool, depth int) string {
	media, params, _ := mime.ParseMediaType(contentType) // what cannot be read is no type
	if whole && strings.HasPrefix(media, "multipart/") && params["boundary"] != "" && depth < maxNest {
		if s, ok := prettyParts(b, params["boundary"], depth); ok {
			return s
		}
	}
	if media == "application/x-www-form-urlencoded" && whole && isText(b) {
		if s, ok := prettyForm(string(b)); ok {
			return s
		}
	}
	first := bytes.TrimLeft(b, " \t\r\n")
	if whole && len(first) > 0 && (first[0] == '{' || first[0] == '[') && utf8.Valid(b) {
		var out bytes.Buffer
		if json.Indent(&out, b, "", "  ") == nil {
			return lines(out.String())
		}
	}
	if isText(b) {
		return lines(string(b))
	}
	return hex.Dump(b) // which shows printable ASCII alone
}

// lines is text with its line breaks, harmless on a terminal.
func lines(s string) string {
	return strings.TrimSuffix(printable(strings.ReplaceAll(s, "\r\n", "\n")), "\n") + "\n"
}

// isText tells text from binary: UTF-8 (its end may be cut off) with hardly a control
// character.
func isText(b []byte) bool {
	odd, n := 0, 0
	for i := 0; i < len(b); n++ {
		r, size := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && size == 1 {
			if len(b)-i < utf8.UTFMax && !utf8.FullRune(b[i:]) {
				break
			}
			return false
		}
		if r == 0 {
			return false
		}
		if unicode.IsControl(r) && r != '\n' && r != '\r' && r != '\t' {
			odd++
		}
		i += size
	}
	return odd*20 <= n
}

func prettyForm(s string) (string, bool) {
	var b strings.Builder
	for part := range strings.SplitSeq(s, "&") {
		name, value, _ := strings.Cut(part, "=")
		n, err1 := url.QueryUnescape(name)
		v, err2 := url.QueryUnescape(value)
		if err1 != nil || err2 != nil {
			return "", false
		}
		fmt.Fprintf(&b, "%s = %s\n", harmless(n), harmless(v))
	}
	return b.String(), true
}

func prettyParts(b []byte, boundary string, depth int) (string, bool) {
	var out strings.Builder
	r := multipart.NewReader(bytes.NewReader(b), boundary)
	for n := 1; ; n++ {
		p, err := r.NextRawPart()
		if errors.Is(err, io.EOF) && n > 1 {
			return out.String(), true
		}
		if err != nil || n > maxParts {
			return "", false // shown as it came
		}
		content, err := io.ReadAll(p)
		if err != nil {
			return "", false
		}
		fmt.Fprintf(&out, "── part %d, %d bytes\n", n, len(content))
		for _, name := range []string{"Content-Disposition", "Content-Type", "Content-Transfer-Encoding"} {
			if v := p.Header.Get(name); v != "" {
				fmt.Fprintf(&out, "%s: %s\n", name, harmless(v))
			}
		}
		if len(content) > 0 {
			out.WriteString(prettyBody(content, p.Header.Get("Content-Type"), true, depth+1))
		}
	}
}
