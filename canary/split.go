package canary

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

// joined takes out what may separate pieces in a short text: the dots of a hostname,
// the slashes of a path, line breaks. The letters and digits alone are looked at too,
// and compared with those of the secret.
func (s *search) joined(b []byte, chain []string, depth int) {
	if len(b) > short {
		return
	}
	s.derived(without(b, "./ \t\r\n"), chain, inPieces, depth)
	bare := onlyAlnum(b)
	if s.bare != nil && bytes.Contains(lower(bare), s.bare) {
		s.hit(chain, inPieces)
		return
	}
	s.derived(bare, chain, inPieces, depth)
}

func without(b []byte, chars string) []byte {
	out := make([]byte, 0, len(b))
	for _, c := range b {
		if bytes.IndexByte([]byte(chars), c) < 0 {
			out = append(out, c)
		}
	}
	return out
}

// values joins the values of a form or query, and the texts of a JSON document: pieces
// that were sent under names.
func (s *search) values(b []byte, chain []string, depth int) {
	if len(b) > short {
		return
	}
	if first := bytes.TrimLeft(b, " \t\r\n"); len(first) > 0 && (first[0] == '{' || first[0] == '[') {
		if out, n := jsonTexts(b); n > 1 {
			s.derived(out, chain, inPieces+" over JSON", depth)
		}
	}
	if bytes.Count(b, []byte("=")) < 2 {
		return
	}
	var out []byte
	n := 0
	for part := range bytes.FieldsFuncSeq(b, func(r rune) bool { return r == '&' || r == ';' || r == '\n' || r == '\r' || r == '?' }) {
		if _, value, ok := bytes.Cut(part, []byte("=")); ok {
			out, n = append(out, bytes.TrimSpace(value)...), n+1
		}
	}
	if n > 1 {
		s.derived(out, chain, inPieces+" over fields", depth)
	}
}

// jsonTexts joins all strings that are values, in their order.
func jsonTexts(b []byte) (out []byte, n int) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	type level struct{ object, key bool }
	var levels []level
	for {
		t, err := d.Token()
		if err != nil {
			return out, n // of what could be read
		}
		top := len(levels) - 1
		isKey := top >= 0 && levels[top].object && levels[top].key
		switch t := t.(type) {
		case json.Delim:
			switch t {
			case '{', '[':
				if top >= 0 {
					levels[top].key = true
				}
				levels = append(levels, level{t == '{', true})
			default:
				levels = levels[:top]
			}
			continue
		case string:
			if !isKey {
				out, n = append(out, t...), n+1
			}
		case json.Number:
			out, n = append(out, t...), n+1
		}
		if top >= 0 {
			levels[top].key = !isKey
		}
	}
}

// maxParts bounds how many parts of a multipart body are joined.
const maxParts = 10_000

// multipart joins the contents of the parts of what is a multipart body by its looks:
// a first line of two dashes and a boundary.
func (s *search) multipart(b []byte, chain []string, depth int) {
	i := bytes.Index(b, []byte("--"))
	if i < 0 || i > 2 {
		return
	}
	line, _, ok := bytes.Cut(b[i:], []byte("\n"))
	line = bytes.TrimRight(line, "\r")
	if !ok || len(line) < 3 || len(line) > 200 {
		return
	}
	var together []byte
	n := 0
	for part := range bytes.SplitSeq(b[i+len(line):], line) {
		if n++; n > maxParts {
			s.result.Cut = true
			return
		}
		content, ok := contentOf(part)
		if !ok {
			continue
		}
		together = append(together, content...)
	}
	if n > 2 {
		s.derived(together, chain, inPieces+" over parts", depth)
	}
}

// contentOf is what follows the head of a part.
func contentOf(part []byte) ([]byte, bool) {
	for _, end := range []string{"\r\n\r\n", "\n\n"} {
		if _, content, ok := bytes.Cut(part, []byte(end)); ok {
			return bytes.TrimSuffix(bytes.TrimSuffix(content, []byte("\n")), []byte("\r")), true
		}
	}
	return nil, false
}

// Frames undoes the masks of a client's WebSocket frames and joins what they hold, up
// to most bytes. What is no frame ends it.
func Frames(r io.Reader, most int) ([]byte, error) {
	var out []byte
	head := make([]byte, 14)
	for len(out) < most {
		if _, err := io.ReadFull(r, head[:2]); err != nil {
			return out, ended(err)
		}
		length, more := int64(head[1]&0x7f), 0
		switch length {
		case 126:
			more = 2
		case 127:
			more = 8
		}
		if _, err := io.ReadFull(r, head[2:2+more]); err != nil {
			return out, ended(err)
		}
		if more > 0 {
			length = 0
			for _, c := range head[2 : 2+more] {
				length = length<<8 | int64(c)
			}
		}
		var mask [4]byte
		if head[1]&0x80 != 0 {
			if _, err := io.ReadFull(r, mask[:]); err != nil {
				return out, ended(err)
			}
		}
		if length < 0 {
			return out, nil
		}
		from := len(out)
		payload, err := io.ReadAll(io.LimitReader(r, min(length, int64(most-len(out)))))
		out = append(out, payload...)
		for i := range payload {
			out[from+i] ^= mask[i%4]
		}
		if err != nil || int64(len(payload)) < length {
			return out, ended(err)
		}
	}
	return out, nil
}

func ended(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}
