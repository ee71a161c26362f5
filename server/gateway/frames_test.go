package gateway

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// frame makes one frame. The first byte is as RFC 6455 §5.2 draws it; mask is empty for
// none.
func frame(first byte, mask, holds string) []byte {
	b := []byte{first}
	set := byte(0)
	if mask != "" {
		set = 0x80
	}
	switch n := len(holds); {
	case n < 126:
		b = append(b, set|byte(n))
	case n < 1<<16:
		b = binary.BigEndian.AppendUint16(append(b, set|126), uint16(n))
	default:
		b = binary.BigEndian.AppendUint64(append(b, set|127), uint64(n))
	}
	b = append(b, mask...)
	for i := range len(holds) {
		c := holds[i]
		if mask != "" {
			c ^= mask[i%4]
		}
		b = append(b, c)
	}
	return b
}

const (
	text, more, last, ping, finish = 0x81, 0x01, 0x80, 0x89, 0x88
)

// throughFrames runs a stream through in pieces of the given sizes.
func throughFrames(stream []byte, size func() int) ([]byte, error) {
	var out bytes.Buffer
	f := newFrames(newSecret(canary, ""), func(p []byte) error { out.Write(p); return nil })
	for p := bytes.Clone(stream); len(p) > 0; {
		n := min(len(p), max(1, size()))
		if _, err := f.Write(p[:n]); err != nil {
			return out.Bytes(), err
		}
		p = p[n:]
	}
	err := f.end()
	return out.Bytes(), err
}

func TestAKeyThatIsCutIntoFramesIsMasked(t *testing.T) {
	stars := func(from, to int) string { return strings.Repeat("*", to-from) }
	long := strings.Repeat(".", 70000)
	for name, c := range map[string]struct{ sent, want [][]byte }{
		"whole":             {[][]byte{frame(text, "", "a "+canary+" b")}, [][]byte{frame(text, "", "a "+stars(0, len(canary))+" b")}},
		"of a client's":     {[][]byte{frame(text, "\x01\x80\xffk", "a "+canary+" b")}, [][]byte{frame(text, "\x01\x80\xffk", "a "+stars(0, len(canary))+" b")}},
		"of 16 bits length": {[][]byte{frame(text, "", long[:300]+canary)}, [][]byte{frame(text, "", long[:300]+stars(0, len(canary)))}},
		"of 64 bits length": {[][]byte{frame(text, "", long+canary)}, [][]byte{frame(text, "", long+stars(0, len(canary)))}},
		"in two": {[][]byte{frame(more, "", "a "+canary[:12]), frame(last, "", canary[12:]+" b")},
			[][]byte{frame(more, "", "a "+stars(0, 12)), frame(last, "", stars(12, len(canary))+" b")}},
		"in two masked ones": {[][]byte{frame(more, "abcd", "a "+canary[:12]), frame(last, "efgh", canary[12:]+" b")},
			[][]byte{frame(more, "abcd", "a "+stars(0, 12)), frame(last, "efgh", stars(12, len(canary))+" b")}},
		"with a ping between": {[][]byte{frame(more, "", canary[:12]), frame(ping, "", "alive"), frame(more, "", ""), frame(last, "", canary[12:]+" b")},
			[][]byte{frame(more, "", stars(0, 12)), frame(ping, "", "alive"), frame(more, "", ""), frame(last, "", stars(12, len(canary))+" b")}},
		"in two messages": {[][]byte{frame(text, "", canary[:12]), frame(text, "", canary[12:])},
			[][]byte{frame(text, "", stars(0, 12)), frame(text, "", stars(12, len(canary)))}},
		// What begins the key may be anything, as long as it is short.
		"in short ones": {[][]byte{frame(more, "", canary[:7]), frame(0, "", canary[7:14]), frame(0, "", canary[14:21]), frame(last, "", canary[21:])},
			[][]byte{frame(more, "", canary[:7]), frame(0, "", stars(7, 14)), frame(0, "", stars(14, 21)), frame(last, "", stars(21, len(canary)))}},
		"in control frames": {[][]byte{frame(ping, "", canary), frame(finish, "", "\x03\xe8"+canary)},
			[][]byte{frame(ping, "", stars(0, len(canary))), frame(finish, "", "\x03\xe8"+stars(0, len(canary)))}},
		"and nothing else": {[][]byte{frame(text, "", "sk-canape"), frame(0x82, "", "\x00\xff"), frame(ping, "", ""), frame(text, "", "")},
			[][]byte{frame(text, "", "sk-canape"), frame(0x82, "", "\x00\xff"), frame(ping, "", ""), frame(text, "", "")}},
	} {
		random := rand.New(rand.NewPCG(1, 2))
		for _, size := range []func() int{func() int { return 1 }, func() int { return 1 + random.IntN(20) }, func() int { return 1 << 20 }} {
			got, err := throughFrames(bytes.Join(c.sent, nil), size)
			if want := bytes.Join(c.want, nil); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s: %v\n%.300q\n%.300q", name, err, got, want)
			}
		}
	}
}

// TestAFrameThatCameWholeGoesOnWhole: no message waits for the next one, and of one that
// comes slowly goes on what came.
func TestAFrameThatCameWholeGoesOnWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		f := newFrames(newSecret(canary, ""), func(p []byte) error { out.Write(p); return nil })
		whole := frame(text, "", canary[:5])
		if _, err := f.Write(bytes.Clone(whole)); err != nil || !bytes.Equal(out.Bytes(), whole) {
			t.Errorf("%q, %v", out.Bytes(), err)
		}
		out.Reset()
		slow := frame(text, "abcd", "ys and more")
		if _, err := f.Write(bytes.Clone(slow[:8])); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if !bytes.Equal(out.Bytes(), slow[:8]) { // the "s" at its end may begin the key
			t.Errorf("%q, want %q", out.Bytes(), slow[:8])
		}
		if _, err := f.Write(bytes.Clone(slow[8:])); err != nil || !bytes.Equal(out.Bytes(), slow) {
			t.Errorf("%q, %v", out.Bytes(), err)
		}
	})
}

func TestWhatIsNoWebSocketEndsIt(t *testing.T) {
	for name, stream := range map[string][]byte{
		"a compressed message":    frame(0xc1, "", "x"),
		"a bit of nobody":         frame(0xa1, "", "x"),
		"a kind of nobody":        frame(0x83, "", "x"),
		"a control of nobody":     frame(0x8b, "", "x"),
		"a control frame in two":  frame(0x09, "", "x"),
		"a long control frame":    frame(ping, "", strings.Repeat("x", 126)),
		"a length without an end": {text, 127, 0x80, 0, 0, 0, 0, 0, 0, 1},
		"another protocol":        []byte("line 1\n"),
	} {
		if out, err := throughFrames(stream, func() int { return 1 << 20 }); !errors.Is(err, errNoWebSocket) || len(out) > 0 {
			t.Errorf("%s: %q, %v", name, out, err)
		}
	}
	// Broken off, it ends where it broke off.
	for _, part := range [][]byte{{text}, {text, 126, 1}, frame(text, "", "whole")[:4]} {
		if out, err := throughFrames(part, func() int { return 1 }); err != nil || !bytes.Equal(out, part) {
			t.Errorf("%q became %q, %v", part, out, err)
		}
	}
	f := newFrames(newSecret(canary, ""), func([]byte) error { return io.ErrClosedPipe })
	if _, err := f.Write(frame(text, "", "x")); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("%v", err)
	}
}

func FuzzFrames(f *testing.F) {
	f.Add(frame(text, "", canary), uint64(1))
	f.Add(append(frame(more, "abcd", canary[:9]), frame(last, "", canary[9:])...), uint64(2))
	f.Fuzz(func(t *testing.T, stream []byte, seed uint64) {
		random := rand.New(rand.NewPCG(seed, 0))
		got, err := throughFrames(stream, func() int { return 1 + random.IntN(9) })
		if err == nil && len(got) != len(stream) || len(got) > len(stream) {
			t.Fatalf("%d bytes became %d", len(stream), len(got))
		}
		again, err2 := throughFrames(stream, func() int { return len(stream) })
		if !errors.Is(err, err2) && !errors.Is(err2, err) || !bytes.Equal(got, again) {
			t.Fatalf("%q in pieces %q (%v), in one %q (%v)", stream, got, err, again, err2)
		}
	})
}
