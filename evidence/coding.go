package evidence

import (
	"bufio"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
)

// maxCodings bounds how many codings of one body are undone.
const maxCodings = 4

// zstdWindow bounds, in bytes, the memory of decoding zstd: what browsers accept
// (RFC 9659).
const zstdWindow = 8 << 20

// Codings are the content codings of a body, in the order in which they were applied;
// none that changes nothing.
func Codings(headers [][2]string) (all []string) {
	for _, h := range headers {
		if !strings.EqualFold(h[0], "Content-Encoding") {
			continue
		}
		for c := range strings.SplitSeq(h[1], ",") {
			c = strings.ToLower(strings.Trim(c, " \t"))
			if c != "" && c != "identity" {
				all = append(all, c)
			}
		}
	}
	return all
}

// Decode undoes the content codings of a body, which is read as the result is. A coding
// that is not known is an error at once, bytes that are not what they are said to be one
// of reading. Memory is bounded, and how much comes out is not: that is for the reader to
// bound. To close it does not close body.
func Decode(headers [][2]string, body io.Reader) (io.ReadCloser, error) {
	codings := Codings(headers)
	if len(codings) > maxCodings {
		return nil, fmt.Errorf("the body is said to be encoded %d times over, and at most %d are undone", len(codings), maxCodings)
	}
	out := io.NopCloser(body)
	for _, c := range slices.Backward(codings) {
		undo, ok := decoders[c]
		if !ok {
			return nil, errors.Join(fmt.Errorf("there is no decoder for %q", c), out.Close())
		}
		from := out
		next, err := undo(from)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("the body is no %s: %w", c, err), from.Close())
		}
		out = closing{next, func() error { return errors.Join(next.Close(), from.Close()) }}
	}
	return out, nil
}

type closing struct {
	io.Reader
	close func() error
}

func (c closing) Close() error { return c.close() }

var decoders = map[string]func(io.Reader) (io.ReadCloser, error){
	"gzip": gunzip, "x-gzip": gunzip,
	"deflate": inflate,
	"br":      func(r io.Reader) (io.ReadCloser, error) { return io.NopCloser(brotli.NewReader(r)), nil },
	"zstd": func(r io.Reader) (io.ReadCloser, error) {
		d, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(zstdWindow))
		if err != nil {
			return nil, err
		}
		return d.IOReadCloser(), nil
	},
}

func gunzip(r io.Reader) (io.ReadCloser, error) { return gzip.NewReader(r) }

// inflate takes both what the word means (RFC 9110 §8.4.1.2: zlib) and what some send.
func inflate(r io.Reader) (io.ReadCloser, error) {
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
