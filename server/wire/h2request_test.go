package wire

import (
	"bytes"
	"net/url"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

func TestParseH2KeepsOrderAndWhatHasNoPlace(t *testing.T) {
	h, declared, r := ParseH2([][2]string{
		{":method", "POST"}, {":scheme", "https"}, {":authority", "a.example"}, {":path", "/x?y"},
		{"x-b", "1"}, {"content-length", "3"}, {"x-a", "2"},
	}, false)
	want := [][2]string{{"X-B", "1"}, {"Content-Length", "3"}, {"X-A", "2"}}
	if r != nil || declared != 3 || h.Method != "POST" || h.Target != "/x?y" || h.Authority != "a.example" || !slices.Equal(h.Fields, want) {
		t.Errorf("%+v, %d, %v", h, declared, r)
	}
	h, _, r = ParseH2([][2]string{{":method", "GET"}, {"x", "1"}, {":path", "/"}, {":path", "/2"}, {":odd", "3"}, {"X-Up", "4"}, {":scheme", "ftp"}}, true)
	want = [][2]string{{"X", "1"}, {":path", "/2"}, {":odd", "3"}, {"X-Up", "4"}, {":scheme", "ftp"}}
	if r == nil || h.Target != "/" || !slices.Equal(h.Fields, want) {
		t.Errorf("%+v, %v", h, r)
	}
}

func TestFramesAreWrittenAsTheyAreRead(t *testing.T) {
	block := bytes.Repeat([]byte{0x82}, 40000)
	raw := AppendBlock(nil, 7, block, true)
	var got []byte
	for n := 0; len(raw) > 0; n++ {
		f := ParseFrame(raw)
		first, last := n == 0, len(raw) == FrameSize+f.Length
		if (f.Type == FrameHeaders) != first || first != f.Has(FlagEndStream) || f.Has(FlagEndHeaders) != last || f.Stream != 7 || f.Length > MinFrame {
			t.Errorf("frame %d is %+v", n, f)
		}
		got = append(got, raw[FrameSize:FrameSize+f.Length]...)
		raw = raw[FrameSize+f.Length:]
	}
	if !bytes.Equal(got, block) {
		t.Errorf("%d bytes of %d", len(got), len(block))
	}
	if f := ParseFrame(AppendGoAway(nil, 5, EnhanceYourCalm)); f != (Frame{8, FrameGoAway, 0, 0}) {
		t.Errorf("%+v", f)
	}
}

// FuzzParseH2: what is accepted here, the reader of x/net accepts, which
// net/http uses too, and so does what net/http asks of it.
func FuzzParseH2(f *testing.F) {
	f.Add("GET", "https", "/", "a.example", "x", "1", "te", "trailers")
	f.Add("POST", "http", "//a?%zz#", "[::1]:80", "content-length", "5", "host", "b.example")
	f.Add("OPTIONS", "https", "/%41:@", "a", "cookie", "a=1", "expect", "100-continue")
	f.Fuzz(func(t *testing.T, method, scheme, path, authority, n1, v1, n2, v2 string) {
		fields := [][2]string{{":method", method}, {":scheme", scheme}, {":path", path}, {":authority", authority}, {n1, v1}, {n2, v2}}
		h, _, refusal := ParseH2(fields, true)
		if refusal != nil {
			return
		}
		var block []byte
		for _, field := range fields {
			block = AppendField(block, field[0], field[1])
		}
		framer := http2.NewFramer(nil, bytes.NewReader(AppendBlock(nil, 1, block, true)))
		framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
		frame, err := framer.ReadFrame()
		if err != nil {
			t.Fatalf("%q: %v, %v", fields, err, framer.ErrorDetail())
		}
		if m, ok := frame.(*http2.MetaHeadersFrame); !ok || len(m.Fields) != len(fields) || m.Truncated {
			t.Fatalf("%q: %+v", fields, frame)
		}
		if _, err := url.ParseRequestURI(h.Target); err != nil || strings.Contains(authority, "@") {
			t.Fatalf("%q: %v", fields, err)
		}
	})
}
