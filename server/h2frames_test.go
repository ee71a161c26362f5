package server

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/linuxarena/ctis/server/api"
	"github.com/linuxarena/ctis/server/wire"
)

func TestBrokenHTTP2ConnectionGivesOneRecordBeforeGOAWAY(t *testing.T) {
	w := newWorld(t)
	w.register("t2", 2, plays("a.example", ""))
	good := encode(requestFields("POST", "/webhook"))
	headers := func(id uint32, flags byte, block []byte) []byte {
		return wire.AppendFrame(nil, wire.FrameHeaders, flags, id, block...)
	}
	both := byte(wire.FlagEndHeaders | wire.FlagEndStream)
	seen := 0
	for _, q := range []struct {
		name   string
		raw    []byte
		code   int
		target string // what is read of a request
		served int    // before it
	}{
		{"even stream", headers(2, both, good), wire.ProtocolError, "/webhook", 0},
		{"no stream", headers(0, both, good), wire.ProtocolError, "", 0},
		{"undecodable", headers(1, both, append(slices.Clone(good), 0xff)), wire.CompressionError, "/webhook", 0},
		{"continuation without a block", wire.AppendFrame(nil, wire.FrameContinuation, 4, 1, 1), wire.ProtocolError, "", 0},
		{"interrupted block", slices.Concat(headers(1, wire.FlagEndStream, good), data(1, 0, "x")), wire.ProtocolError, "/webhook", 0},
		{"interleaved blocks", slices.Concat(headers(1, wire.FlagEndStream, good), headers(3, both, good)), wire.ProtocolError, "/webhook", 0},
		{"data of no stream", data(1, wire.FlagEndStream, "secret"), wire.ProtocolError, "", 0},
		{"padding longer than its frame", slices.Concat(headers(1, wire.FlagEndHeaders, good), data(1, wire.FlagPadded, "\x09x")), wire.ProtocolError, "", 1},
		{"padding longer than its headers", headers(1, both|wire.FlagPadded, []byte{9, 0x82}), wire.ProtocolError, "", 0},
		{"stream again", slices.Concat(headers(5, both, good), headers(3, both, good)), wire.StreamClosed, "/webhook", 1},
		{"ping of a wrong size", wire.AppendFrame(nil, wire.FramePing, 0, 0, 1, 2, 3), wire.FrameSizeError, "", 0},
		{"push promise", wire.AppendFrame(nil, wire.FramePushPromise, 4, 1, 0, 0, 0, 2), wire.ProtocolError, "", 0},
		{"settings net/http refuses", wire.AppendFrame(nil, wire.FrameSettings, 0, 0, 0, 4, 255, 255, 255, 255), 3, "", 0},
		{"window that overflows", wire.AppendCode(nil, wire.FrameWindowUpdate, 0, 1<<31-1), 3, "", 0},
		{"flood of continuations", slices.Concat(headers(1, wire.FlagEndStream, good), bytes.Repeat(wire.AppendFrame(nil, wire.FrameContinuation, 0, 1), 100)), wire.EnhanceYourCalm, "/webhook", 0},
		{"endless block", append(headers(1, wire.FlagEndStream, good), bytes.Repeat(wire.AppendFrame(nil, wire.FrameContinuation, 0, 1, encode([][2]string{{"x", strings.Repeat("v", 16000)}})...), 12)...), wire.EnhanceYourCalm, "/webhook", 0},
	} {
		c := w.h2("a.example")
		_, _ = c.Write(q.raw) // the server may end it while the long ones are sent
		a := c.answer(1 << 30)
		if a.goaway != q.code {
			t.Errorf("%s: goaway %d, want %d", q.name, a.goaway, q.code)
		}
		_ = c.Close()
		seen += 1 + q.served
		broken := 0
		for _, r := range w.await("t2", seen)[seen-1-q.served:] {
			if r.Kind != api.KindMalformed {
				continue
			}
			broken++
			target := ""
			if r.Request != nil {
				target = r.Request.Target
			}
			if !strings.Contains(r.Error, wire.ErrorName(uint32(q.code))) || r.Raw == nil || target != q.target {
				t.Errorf("%s: %+v %+v", q.name, r, r.Request)
			}
		}
		if broken != 1 {
			t.Errorf("%s: %d records of it", q.name, broken)
		}
	}
	w.do(w.client(2, false), "GET", "http://a.example/", "")
	if n := len(w.records("t2")); n != seen+1 {
		t.Errorf("%d records, want %d", n, seen+1)
	}
}

func TestHTTP2HeadThatDoesNotEndIsRecorded(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Limits.RequestHead = 200 * time.Millisecond })
	w.register("t2", 2, plays("a.example", ""))
	block := encode(requestFields("POST", "/webhook/secret", "x", "y"))
	whole := wire.AppendBlock(nil, 1, block, true)
	for i, q := range []struct {
		raw    []byte
		closes bool
		reason string
	}{
		{wire.AppendFrame(nil, wire.FrameHeaders, 0, 1, block...), true, "closed"},
		{whole[:len(whole)-1], true, "closed"},
		{wire.AppendFrame(nil, wire.FrameHeaders, 0, 1, block...), false, "timed out"},
	} {
		c := w.h2("a.example")
		c.send(q.raw)
		if q.closes {
			_ = c.CloseWrite() // a Close with unread bytes could take the head back
		}
		r := w.await("t2", i+1)[i]
		if r.Kind != api.KindMalformed || !strings.Contains(r.Error, q.reason) || r.Request == nil || r.Request.Target != "/webhook/secret" {
			t.Errorf("%d: %+v %+v", i, r, r.Request)
		}
	}
}

func TestHTTP2BlocksAndBodiesMayComeInAnyPieces(t *testing.T) {
	w := newWorld(t)
	w.register("t2", 2, plays("a.example", ""))
	c := w.h2("a.example")
	block := encode(requestFields("POST", "/webhook", "x", "y"))
	padded := slices.Concat([]byte{3, 0, 0, 0, 0, 16}, block[:5], []byte{0, 0, 0})
	raw := wire.AppendFrame(nil, wire.FrameHeaders, wire.FlagPadded|wire.FlagPriority, 1, padded...)
	raw = wire.AppendFrame(raw, wire.FrameContinuation, 0, 1)
	raw = wire.AppendFrame(raw, wire.FrameContinuation, 0, 1, block[5:20]...)
	raw = wire.AppendFrame(raw, wire.FrameContinuation, wire.FlagEndHeaders, 1, block[20:]...)
	raw = append(raw, wire.AppendFrame(nil, wire.FramePriority, 0, 1, 0, 0, 0, 0, 9)...)
	raw = append(raw, wire.AppendFrame(nil, 0x63, 0, 0, 'u', 'n', 'k', 'n', 'o', 'w', 'n')...)
	raw = append(raw, data(1, wire.FlagPadded, "\x02abc\x00\x00")...)
	raw = append(raw, data(1, wire.FlagPadded, "\x00")...)
	raw = append(raw, data(1, 0, "")...)
	raw = append(raw, data(1, 0, strings.Repeat("d", 60000))...)
	raw = append(raw, data(1, wire.FlagPadded|wire.FlagEndStream, "\x01\x00")...)
	for i, at := 0, 0; at < len(raw); i++ {
		n := min(1+i%7, len(raw)-at)
		if at > 400 {
			n = len(raw) - at
		}
		c.send(raw[at : at+n])
		at += n
	}
	if a := c.answer(1); a.status() != "200" {
		t.Fatalf("%+v", a)
	}
	r := w.records("t2")[0]
	if r.Request.Body.Content != "abc"+strings.Repeat("d", 60000) || !hasField(r.Request.Headers, "X", "y") {
		t.Errorf("%d bytes, %q", r.Request.Body.Size, r.Request.Headers)
	}
}

func TestHTTP2StreamsAreBoundedAndEachIsRecordedOnce(t *testing.T) {
	w := newWorld(t)
	w.register("t2", 2, plays("a.example", ""))
	c := w.h2("a.example")
	var last uint32
	for i := range h2Streams + 1 {
		last = c.request(requestFields("POST", fmt.Sprint("/webhook/", i)), false)
	}
	if a := c.answer(last); a.reset != wire.RefusedStream {
		t.Errorf("%+v", a)
	}
	if records := w.records("t2", api.KindMalformed); len(records) != 1 || records[0].Request.Target != fmt.Sprint("/webhook/", h2Streams) {
		t.Errorf("%+v", records)
	}
	for id := uint32(1); id < last; id += 2 {
		c.send(wire.AppendCode(nil, wire.FrameRSTStream, id, 8))
	}
	for i := range 500 {
		id := c.request(requestFields("POST", fmt.Sprint("/webhook/reset/", i), "content-length", "9"), false)
		c.send(slices.Concat(data(id, 0, "part"), wire.AppendCode(nil, wire.FrameRSTStream, id, 8), data(id, 0, "late")))
	}
	if a := c.answer(c.request(requestFields("GET", "/"), true)); a.status() != "200" {
		t.Errorf("%+v", a)
	}
	_ = c.Close()
	time.Sleep(2 * settle)
	times := map[string]int{}
	for _, r := range w.await("t2", h2Streams+1+500+1) {
		times[r.Request.Target]++
	}
	for target, n := range times {
		if n != 1 {
			t.Errorf("%s: %d records", target, n)
		}
	}
	if len(times) != h2Streams+1+500+1 {
		t.Errorf("%d requests are recorded", len(times))
	}
}

func TestHTTP2BodiesInBothDirectionsAtOnce(t *testing.T) {
	w := newWorld(t)
	w.register("t2", 2, plays("a.example", ""))
	client := w.client(2, true)
	big := strings.Repeat("0123456789abcdef", 1<<17) // 2 MiB: many windows of a stream
	done := make(chan error, 8)
	for i := range cap(done) {
		go func() {
			url := fmt.Sprint("https://a.example/data/", i)
			q, err := http.NewRequest(http.MethodPut, url, io.MultiReader(strings.NewReader(big))) // no Content-Length
			if err == nil {
				q.Trailer = http.Header{"X-Sum": {"1"}}
				var r *http.Response
				if r, err = client.Do(q); err == nil {
					_ = r.Body.Close()
					r, err = client.Get(url)
				}
				if err == nil {
					got, rerr := io.ReadAll(r.Body)
					_ = r.Body.Close()
					if err = rerr; err == nil && string(got) != big {
						err = fmt.Errorf("%s: got %d bytes", url, len(got))
					}
				}
			}
			done <- err
		}()
	}
	for range cap(done) {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	for _, r := range w.records("t2") {
		if r.Request.Method == http.MethodPut && (!hasField(r.Request.Headers, "X-Sum", "1") || r.Request.Body.Size != int64(len(big))) {
			t.Errorf("%+v", r.Request)
		}
	}
}
