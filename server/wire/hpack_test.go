package wire

import (
	"bytes"
	encoding "encoding/hex"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/net/http2/hpack"
)

func unhexed(t *testing.T, s string) []byte {
	t.Helper()
	b, err := encoding.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The examples of RFC 7541, appendices C.2 to C.4.
func TestDecoderReadsTheExamplesOfTheRFC(t *testing.T) {
	first := [][2]string{{":method", "GET"}, {":scheme", "http"}, {":path", "/"}, {":authority", "www.example.com"}}
	second := append(append([][2]string{}, first...), [2]string{"cache-control", "no-cache"})
	third := [][2]string{{":method", "GET"}, {":scheme", "https"}, {":path", "/index.html"}, {":authority", "www.example.com"}, {"custom-key", "custom-value"}}
	for _, blocks := range [][]struct {
		raw  string
		want [][2]string
	}{
		{{"400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572", [][2]string{{"custom-key", "custom-header"}}}},
		{{"040c 2f73 616d 706c 652f 7061 7468", [][2]string{{":path", "/sample/path"}}}},
		{{"1008 7061 7373 776f 7264 0673 6563 7265 74", [][2]string{{"password", "secret"}}}},
		{
			{"8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d", first},
			{"8286 84be 5808 6e6f 2d63 6163 6865", second},
			{"8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65", third},
		},
		{
			{"8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff", first},
			{"8286 84be 5886 a8eb 1064 9cbf", second},
			{"8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf", third},
		},
	} {
		d := NewDecoder()
		for _, b := range blocks {
			got, cut, err := d.Decode(unhexed(t, b.raw), 1<<16)
			if err != nil || cut || !reflect.DeepEqual(got, b.want) {
				t.Errorf("%s: %q, %v, %v", b.raw, got, cut, err)
			}
		}
	}
}

func TestDecoderRefusesWhatIsNoBlock(t *testing.T) {
	for name, raw := range map[string]string{
		"index 0":                      "80",
		"index beyond both tables":     "be",
		"unfinished number":            "ff",
		"endless number":               "ff ff ff ff ff ff ff",
		"huge number":                  "ff 80 80 80 80 80 01",
		"string beyond the block":      "00 05 61",
		"name without a value":         "00 01 61",
		"padding of zeros":             "00 01 61 81 1c", // "1c" is no code with its rest in ones
		"padding of a whole byte":      "00 01 61 82 1f ff",
		"eos in a string":              "00 01 61 84 ff ff ff ff",
		"resizing after a field":       "82 20",
		"table larger than offered":    "3f e2 1f",
		"literal name from no entry":   "7f 01 01 61",
		"literal that ends after name": "41",
	} {
		if got, _, err := NewDecoder().Decode(unhexed(t, raw), 1<<16); err == nil {
			t.Errorf("%s: decoded to %q", name, got)
		}
	}
}

func TestDecoderKeepsItsTableAndItsFieldsBounded(t *testing.T) {
	d := NewDecoder()
	var block []byte
	long := strings.Repeat("v", 3900)
	var enc bytes.Buffer
	e := hpack.NewEncoder(&enc)
	if err := e.WriteField(hpack.HeaderField{Name: "x-big", Value: long}); err != nil {
		t.Fatal(err)
	}
	block = append(enc.Bytes(), bytes.Repeat([]byte{0xbe}, 10000)...)
	fields, cut, err := d.Decode(block, 64<<10)
	size := 0
	for _, f := range fields {
		size += len(f[0]) + len(f[1])
	}
	if err != nil || !cut || size > 64<<10 || size < 63<<10 || fields[0] != [2]string{"x-big", long} {
		t.Errorf("%d fields of %d bytes, %v, %v", len(fields), size, cut, err)
	}
	if fields, cut, err = d.Decode(make([]byte, 3*50000), 64<<10); err != nil || !cut || len(fields) > 32<<10+1 {
		t.Errorf("%d empty fields, %v, %v", len(fields), cut, err)
	}
	for i := range 1000 {
		enc.Reset()
		if err := e.WriteField(hpack.HeaderField{Name: fmt.Sprint("x-", i), Value: "v"}); err != nil {
			t.Fatal(err)
		}
		if _, _, err := d.Decode(enc.Bytes(), 64<<10); err != nil {
			t.Fatal(err)
		}
		if d.size > 4096 || len(d.dynamic) > 4096/32 {
			t.Fatalf("table holds %d bytes in %d entries", d.size, len(d.dynamic))
		}
	}
	if _, _, err := d.Decode([]byte{0x20}, 1); err != nil || len(d.dynamic) != 0 || d.size != 0 {
		t.Errorf("resized to nothing, the table holds %d: %v", d.size, err)
	}
}

// FuzzDecoder compares with the decoder of x/net, which net/http uses too, over
// two blocks of one connection.
func FuzzDecoder(f *testing.F) {
	f.Add([]byte{0x82, 0x86, 0x84, 0x41, 0x01, 'a'}, []byte{0xbe, 0x20})
	f.Add([]byte{0x20, 0x3f, 0xe1, 0x1f, 0x82}, []byte{0x00, 0x81, 0xff, 0x81, 0x1f})
	f.Add([]byte{0x40, 0x03, 'a', 'b', 'c', 0x83, 0xff, 0xff, 0xff}, []byte{0xff, 0x80, 0x80, 0x01})
	f.Fuzz(func(t *testing.T, one, two []byte) {
		ours, theirs := NewDecoder(), hpack.NewDecoder(4096, nil)
		for _, block := range [][]byte{one, two} {
			got, _, err := ours.Decode(block, 1<<30)
			want, wantErr := theirs.DecodeFull(block)
			// x/net takes a change of the table's size in some places more, and
			// numbers that are larger.
			if err == nil && wantErr != nil {
				t.Fatalf("%x: decoded to %q, x/net says %v", block, got, wantErr)
			}
			if err != nil {
				return
			}
			if len(got) != len(want) {
				t.Fatalf("%x: %q and %v", block, got, want)
			}
			for i := range got {
				if got[i] != [2]string{want[i].Name, want[i].Value} {
					t.Fatalf("%x: %q and %v", block, got, want)
				}
			}
		}
	})
}

// FuzzEncoders reads with x/net what is encoded here, and here what x/net
// encodes, with changing tables.
func FuzzEncoders(f *testing.F) {
	f.Add("server", "nginx", "x-new", "\x00\xff~", uint32(0))
	f.Add(":status", "404", "etag", strings.Repeat("ab", 100), uint32(4096))
	f.Fuzz(func(t *testing.T, n1, v1, n2, v2 string, table uint32) {
		fields := [][2]string{{n1, v1}, {n2, v2}, {n1, v1}, {":status", "200"}, {":status", "299"}}
		theirs := hpack.NewDecoder(4096, nil)
		ours := NewDecoder()
		plain, update := []byte(nil), AppendTableUpdate(nil)
		for _, field := range fields {
			plain = AppendField(plain, field[0], field[1])
			update = AppendResponseField(update, field[0], field[1])
		}
		var buf bytes.Buffer
		e := hpack.NewEncoder(&buf)
		e.SetMaxDynamicTableSize(table % 5000)
		for _, field := range fields {
			if err := e.WriteField(hpack.HeaderField{Name: field[0], Value: field[1], Sensitive: len(field[1]) == 3}); err != nil {
				t.Fatal(err)
			}
		}
		for _, block := range [][]byte{plain, update} {
			got, err := theirs.DecodeFull(block)
			if err != nil || len(got) != len(fields) {
				t.Fatalf("%x: %v, %v", block, got, err)
			}
			for i := range got {
				if fields[i] != [2]string{got[i].Name, got[i].Value} {
					t.Fatalf("%x: %v", block, got)
				}
			}
		}
		for range 2 {
			got, cut, err := ours.Decode(buf.Bytes(), 1<<30)
			if err != nil || cut || !reflect.DeepEqual(got, fields) {
				t.Fatalf("%x: %q, %v", buf.Bytes(), got, err)
			}
		}
	})
}
