package journal

import (
	"bytes"
	"encoding/json"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/linuxarena/ctis/server/api"
)

// asEncodingJSON is what the encoder's bytes are measured by.
func asEncodingJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// strings in which the two could differ: every escape, the ends of the UTF-8
// lengths, surrogates, and bytes that are no UTF-8.
var awkward = []string{
	"", "plain", `say "no" \ yes`, "\x00\x01\x1f\x7f\b\f\n\r\t", "<a href='x'>&amp;</a>",
	"\u2028\u2029", "\u2027\u202a\ufffd\uffff", "é€𝄞\U0010ffff", "\x80", "a\xffb", "\xed\xa0\x80", "\xf0\x9d\x84", "\xc0\xaf", "end\xe2\x80",
}

func randomString(r *rand.Rand) string {
	if r.IntN(2) == 0 {
		return awkward[r.IntN(len(awkward))]
	}
	b := make([]byte, r.IntN(40))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return string(b)
}

// randomise sets every field at random, also those that did not exist when this was
// written.
func randomise(t *testing.T, r *rand.Rand, v reflect.Value) {
	if v.Type() == reflect.TypeFor[api.Time]() {
		at := time.Unix(r.Int64N(1<<34), r.Int64N(1e9)).In(time.FixedZone("", r.IntN(7200)))
		v.Set(reflect.ValueOf(api.Time{Time: at}))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			randomise(t, r, v.Field(i))
		}
	case reflect.Pointer:
		if r.IntN(3) > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			randomise(t, r, v.Elem())
		}
	case reflect.Slice:
		if n := r.IntN(4); n > 0 {
			v.Set(reflect.MakeSlice(v.Type(), n-1, n))
			for i := range v.Len() {
				randomise(t, r, v.Index(i))
			}
		}
	case reflect.Array:
		for i := range v.Len() {
			randomise(t, r, v.Index(i))
		}
	case reflect.String:
		v.SetString(randomString(r))
	case reflect.Bool:
		v.SetBool(r.IntN(2) == 0)
	case reflect.Uint16, reflect.Uint64:
		v.SetUint(r.Uint64() >> r.IntN(65))
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(r.Uint64()) >> r.IntN(64))
	case reflect.Float64:
		v.SetFloat(math.Float64frombits(r.Uint64()))
		if f := v.Float(); r.IntN(2) == 0 || math.IsNaN(f) || math.IsInf(f, 0) {
			v.SetFloat(float64(r.Int64N(1e9)) / 1000)
		}
	default:
		t.Fatalf("no values are made for %v", v.Type())
	}
}

func TestLinesAreWhatEncodingJSONWrites(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 20000 {
		var r api.Record
		randomise(t, rnd, reflect.ValueOf(&r).Elem())
		compare(t, &r, func() ([]byte, error) { return appendRecord(nil, &r) })
		var o api.Outcome
		randomise(t, rnd, reflect.ValueOf(&o).Elem())
		compare(t, &o, func() ([]byte, error) { return appendOutcome(nil, &o) })
	}
	for _, f := range []float64{0, math.Copysign(0, -1), 1e-6, 9.99e-7, 1e-9, 1e21, 1e20, 1e100, -1e-7, 0.4, math.MaxFloat64, math.SmallestNonzeroFloat64} {
		compare(t, f, func() ([]byte, error) { return appendFloat(nil, f) })
	}
	for _, f := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		if _, err := appendRecord(nil, &api.Record{DurationMS: f}); err == nil {
			t.Errorf("%v was encoded", f)
		}
	}
}

func TestEveryByteAtEveryPlaceIsEscapedAsByEncodingJSON(t *testing.T) {
	for c := range 256 {
		for at := range 20 {
			s := []byte("plain text, 20 long.")
			s[at] = byte(c)
			compare(t, string(s), func() ([]byte, error) { return appendString(nil, string(s)), nil })
		}
	}
}

func compare(t *testing.T, v any, encode func() ([]byte, error)) {
	t.Helper()
	want, err := asEncodingJSON(v)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := encode(); err != nil || !bytes.Equal(got, want) {
		t.Fatalf("got  %s (%v)\nwant %s", got, err, want)
	}
}

func FuzzString(f *testing.F) {
	for _, s := range awkward {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		compare(t, s, func() ([]byte, error) { return appendString(nil, s), nil })
	})
}
