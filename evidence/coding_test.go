package evidence

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"io"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
)

// coded are ways to encode a body, by the name of the coding and what tells two apart.
var coded = map[string]func(io.Writer) io.WriteCloser{
	"gzip":    func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) },
	"X-Gzip":  func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) },
	"deflate": func(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) },
	"deflate ": func(w io.Writer) io.WriteCloser { // as some send it
		f, _ := flate.NewWriter(w, 9)
		return f
	},
	"br":   func(w io.Writer) io.WriteCloser { return brotli.NewWriter(w) },
	"zstd": func(w io.Writer) io.WriteCloser { z, _ := zstd.NewWriter(w); return z },
}

func encode(t *testing.T, with func(io.Writer) io.WriteCloser, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := with(&out)
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestEveryCodingIsUndone(t *testing.T) {
	want := bytes.Repeat([]byte("what was said "), 1000)
	for name, with := range coded {
		headers := [][2]string{{"content-encoding", " " + name + " ,identity"}}
		once := encode(t, with, want)
		for _, c := range []struct {
			body    []byte
			headers [][2]string
		}{{once, headers}, {encode(t, coded["gzip"], once), append(headers, [2]string{"Content-Encoding", "gzip"})}} {
			r, err := Decode(c.headers, bytes.NewReader(c.body))
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			got, err := io.ReadAll(r)
			if err != nil || !bytes.Equal(got, want) || r.Close() != nil {
				t.Errorf("%v: %d bytes, %v", c.headers, len(got), err)
			}
		}
		cut, err := Decode(headers, bytes.NewReader(once[:len(once)-5]))
		if err == nil {
			_, err = io.ReadAll(cut)
		}
		if err == nil {
			t.Errorf("%s: a body that is cut off looks whole", name)
		}
	}
	if r, err := Decode(nil, strings.NewReader("as it is")); err != nil {
		t.Error(err)
	} else if got, err := io.ReadAll(r); string(got) != "as it is" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	for _, bad := range []string{"compress", "gzip", "deflate", "gzip, gzip, gzip, gzip, gzip"} {
		if _, err := Decode([][2]string{{"Content-Encoding", bad}}, strings.NewReader("")); err == nil {
			t.Errorf("%s: nothing is wrong", bad)
		}
	}
}
