package backend

import (
	"bufio"
	"errors"
	"io"
	"strconv"
	"strings"

	"github.com/linuxarena/ctis/server/wire"
)

// maxHead bounds a response's head, and its trailers, in bytes.
const maxHead = 64 << 10

// head is a response's head as it was sent.
type head struct {
	minor  int // HTTP/1.minor
	status int
	fields [][2]string // order and case as sent, white space around values removed
}

// readHead reads one head. Lines may end in a bare LF; everything else that two
// readers could take differently is refused.
func readHead(br *bufio.Reader) (*head, error) {
	left := maxHead
	line, err := readLine(br, &left)
	if err != nil {
		return nil, err
	}
	h := &head{}
	if err := h.statusLine(line); err != nil {
		return nil, err
	}
	h.fields, err = readFields(br, &left)
	return h, err
}

func (h *head) statusLine(line string) error {
	version, rest, _ := strings.Cut(line, " ")
	digits, _, _ := strings.Cut(rest, " ")
	status, err := strconv.Atoi(digits)
	switch {
	case version != "HTTP/1.1" && version != "HTTP/1.0":
		return bad("answered with something that is no HTTP/1 response")
	case len(digits) != 3 || err != nil || status < 100:
		return bad("answered with a status line that has no status")
	}
	h.minor, h.status = int(version[7]-'0'), status
	return nil
}

// readFields reads header lines up to the empty one.
func readFields(br *bufio.Reader, left *int) ([][2]string, error) {
	fields := [][2]string{}
	for {
		line, err := readLine(br, left)
		if err != nil {
			return nil, err
		}
		if line == "" {
			return fields, nil
		}
		name, value, ok := strings.Cut(line, ":")
		value = strings.Trim(value, " \t")
		if !ok || !wire.IsToken(name) || strings.ContainsFunc(value, forbidden) {
			return nil, bad("answered with a malformed header line")
		}
		fields = append(fields, [2]string{name, value})
	}
}

func forbidden(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }

// readLine reads a line without its end.
func readLine(br *bufio.Reader, left *int) (string, error) {
	var line []byte
	for {
		piece, err := br.ReadSlice('\n')
		if *left -= len(piece); *left < 0 {
			return "", bad("answered with a header of more than " + strconv.Itoa(maxHead) + " bytes")
		}
		line = append(line, piece...)
		switch {
		case err == nil:
			line = line[:len(line)-1]
			if n := len(line); n > 0 && line[n-1] == '\r' {
				line = line[:n-1]
			}
			return string(line), nil
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && len(line) > 0:
			return "", io.ErrUnexpectedEOF
		default:
			return "", err
		}
	}
}

// framing is how the end of a response's body is found (RFC 9112 §6.3).
type framing struct {
	chunked bool
	length  int64 // -1: to the end of the connection
}

// framing refuses what could be read in two ways.
func (h *head) framing(method string) (framing, error) {
	f := framing{length: -1}
	lengths, codings := 0, 0
	for _, field := range h.fields {
		switch {
		case strings.EqualFold(field[0], "Content-Length"):
			lengths++
			n, err := strconv.ParseInt(field[1], 10, 64)
			if err != nil || strings.Trim(field[1], "0123456789") != "" {
				return f, bad("answered with a content-length that is no number")
			}
			f.length = n
		case strings.EqualFold(field[0], "Transfer-Encoding"):
			codings++
			if !strings.EqualFold(field[1], "chunked") {
				return f, bad("answered with a transfer-encoding other than chunked")
			}
			f.chunked = true
		}
	}
	switch {
	case lengths > 0 && codings > 0:
		return f, bad("answered with both content-length and transfer-encoding")
	case lengths > 1:
		return f, bad("answered with more than one content-length")
	case codings > 1:
		return f, bad("answered with more than one transfer-encoding")
	case codings > 0 && h.minor == 0:
		return f, bad("answered with transfer-encoding in HTTP/1.0")
	}
	if method == "HEAD" || h.status < 200 || h.status == 204 || h.status == 304 {
		f = framing{}
	}
	return f, nil
}
