package gateway

import (
	"bufio"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"io"
	"slices"
	"strings"
)

// Upstreams that get a key are asked for bodies as they are, so that the key can be
// seen in them. Some compress all the same; what they use is undone here where it can
// be, and refused where it cannot: a body nobody looked into may hold the key.

// coding is how a body is compressed: "" for not at all. More than one, or one that is
// not known, is given as it is written.
func coding(fields [][2]string) string {
	var all []string
	for _, f := range fields {
		if !strings.EqualFold(f[0], "Content-Encoding") {
			continue
		}
		for c := range strings.SplitSeq(f[1], ",") {
			c = strings.ToLower(strings.Trim(c, " \t"))
			if c != "" && c != "identity" {
				all = append(all, c)
			}
		}
	}
	return strings.Join(all, ", ")
}

// decoders make a reader of what a body holds.
var decoders = map[string]func(io.Reader) (io.Reader, error){
	"gzip":    gunzip,
	"x-gzip":  gunzip,
	"deflate": inflate,
}

func gunzip(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) }

// inflate takes both what the word means (RFC 9110 §8.4.1.2: zlib) and what some send.
func inflate(r io.Reader) (io.Reader, error) {
	br := bufio.NewReader(r)
	head, err := br.Peek(2)
	if err != nil {
		return nil, err
	}
	if head[0]&0x0f == 8 && (int(head[0])<<8|int(head[1]))%31 == 0 {
		return zlib.NewReader(br)
	}
	return flate.NewReader(br), nil
}

// decoded are the fields of a response whose body is passed on uncompressed.
func decoded(fields [][2]string) [][2]string {
	return slices.DeleteFunc(slices.Clone(fields), func(f [2]string) bool {
		return strings.EqualFold(f[0], "Content-Encoding") || strings.EqualFold(f[0], "Content-Length")
	})
}
