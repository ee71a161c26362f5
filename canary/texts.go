package canary

import (
	"bytes"
	"html"
	"strconv"
)

func unhex(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

// marked undoes what stands as a mark and two hex digits.
func marked(b []byte, mark byte) (out []byte, any bool) {
	if bytes.IndexByte(b, mark) < 0 {
		return nil, false
	}
	out = make([]byte, 0, len(b))
	for i := 0; i < len(b); i++ {
		if b[i] == mark && i+2 < len(b) {
			if hi, lo := unhex(b[i+1]), unhex(b[i+2]); hi >= 0 && lo >= 0 {
				out, any = append(out, byte(hi<<4|lo)), true
				i += 2
				continue
			}
		}
		out = append(out, b[i])
	}
	return out, any
}

// percent undoes URL encoding, of some characters or of all, with spaces as + or not.
func (s *search) percent(b []byte, chain []string, depth int) {
	out, any := marked(b, '%')
	if any {
		s.derived(out, chain, "URL encoding", depth)
	}
	if bytes.IndexByte(b, '+') < 0 || !any && bytes.IndexByte(s.secret, ' ') < 0 {
		return
	}
	spaced := bytes.ReplaceAll(b, []byte("+"), []byte(" "))
	if out, any := marked(spaced, '%'); any {
		spaced = out
	}
	s.derived(spaced, chain, "form encoding", depth)
}

// quoted undoes quoted-printable: by its soft line breaks, or where every equals sign
// has its two digits.
func (s *search) quoted(b []byte, chain []string, depth int) {
	soft := bytes.ReplaceAll(bytes.ReplaceAll(b, []byte("=\r\n"), nil), []byte("=\n"), nil)
	marks := 0
	for i, c := range soft {
		if c != '=' {
			continue
		}
		if i+2 < len(soft) && (unhex(soft[i+1]) < 0 || unhex(soft[i+2]) < 0) {
			marks = 0
			break
		}
		marks++
	}
	out := soft
	if marks > 0 {
		out, _ = marked(soft, '=')
	}
	if marks > 0 || len(soft) < len(b) {
		s.derived(out, chain, "quoted-printable", depth)
	}
}

// entities undoes what HTML and XML make of characters.
func (s *search) entities(b []byte, chain []string, depth int) {
	if bytes.IndexByte(b, '&') < 0 || bytes.IndexByte(b, ';') < 0 {
		return
	}
	if out := html.UnescapeString(string(b)); out != string(b) {
		s.derived([]byte(out), chain, "HTML entities", depth)
	}
	if out, any := numbered(b); any {
		s.derived(out, chain, "HTML entities for bytes", depth)
	}
}

// numbered undoes entities that are numbers of bytes: &#31; and &#x1f;.
func numbered(b []byte) (out []byte, any bool) {
	for {
		before, rest, ok := bytes.Cut(b, []byte("&#"))
		out = append(out, before...)
		if !ok {
			return out, any
		}
		digits, after, ok := bytes.Cut(rest[:min(len(rest), 8)], []byte(";"))
		base := 10
		if len(digits) > 0 && digits[0]|0x20 == 'x' {
			digits, base = digits[1:], 16
		}
		v, err := strconv.ParseUint(string(digits), base, 8)
		if !ok || err != nil {
			out, b = append(out, "&#"...), rest
			continue
		}
		out, any = append(out, byte(v)), true
		b = rest[min(len(rest), 8)-len(after):]
	}
}

// escapes undoes what JSON, and languages like C, make of characters.
func (s *search) escapes(b []byte, chain []string, depth int) {
	if bytes.IndexByte(b, '\\') < 0 {
		return
	}
	s.unescape(b, chain, depth, "escapes", false)
	if bytes.Contains(b, []byte(`\u00`)) {
		s.unescape(b, chain, depth, "escapes for bytes", true)
	}
}

// unescape undoes escapes, where raw is set with \u00ff for the byte.
func (s *search) unescape(b []byte, chain []string, depth int, name string, raw bool) {
	out := make([]byte, 0, len(b))
	number := func(i, n, base, bits int) (rune, bool) {
		if i+n > len(b) {
			return 0, false
		}
		v, err := strconv.ParseUint(string(b[i:i+n]), base, bits)
		return rune(v), err == nil
	}
	for i := 0; i < len(b); i++ {
		if b[i] != '\\' || i+1 == len(b) {
			out = append(out, b[i])
			continue
		}
		i++
		switch c := b[i]; c {
		case 'n':
			out = append(out, '\n')
		case 'r':
			out = append(out, '\r')
		case 't':
			out = append(out, '\t')
		case 'u':
			r, ok := number(i+1, 4, 16, 16)
			if !ok {
				out = append(out, '\\', c)
				continue
			}
			i += 4
			if r >= 0xd800 && r < 0xdc00 && i+2 < len(b) && b[i+1] == '\\' && b[i+2] == 'u' {
				if low, ok := number(i+3, 4, 16, 16); ok && low >= 0xdc00 && low < 0xe000 {
					r, i = 0x10000+(r-0xd800)<<10+(low-0xdc00), i+6
				}
			}
			if raw && r < 0x100 {
				out = append(out, byte(r))
			} else {
				out = append(out, string(r)...)
			}
		case 'x':
			v, ok := number(i+1, 2, 16, 8)
			if !ok {
				out = append(out, '\\', c)
				continue
			}
			out, i = append(out, byte(v)), i+2
		case '0', '1', '2', '3':
			if v, ok := number(i, 3, 8, 8); ok {
				out, i = append(out, byte(v)), i+2
			} else {
				out = append(out, '\\', c)
			}
		default:
			out = append(out, c) // \" \\ \/ and what needs none
		}
	}
	s.derived(out, chain, name, depth)
}

// noNULs takes the NULs out of what may be UTF-16 or UTF-32 of something encoded.
func (s *search) noNULs(b []byte, chain []string, depth int) {
	if n := bytes.Count(b, []byte{0}); n*3 >= len(b) && n < len(b) {
		s.derived(bytes.ReplaceAll(b, []byte{0}, nil), chain, "UTF-16", depth)
	}
}

// turned looks at short texts from behind.
func (s *search) turned(b []byte, chain []string, depth int) {
	if len(b) <= short && depth <= 2 {
		s.derived(reversed(b), chain, inReverse, depth)
	}
}
