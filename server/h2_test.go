package server

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/linuxarena/ctis/server/api"
	"github.com/linuxarena/ctis/server/wire"
)

func TestRefusedHTTP2RequestIsRecordedBeforeItsAnswer(t *testing.T) {
	w := newWorld(t)
	w.register("t2", 2, plays("a.example", "nginx/1.22.1"))
	c := w.h2("a.example")
	long := strings.Repeat("v", 9000)
	for i, q := range []struct {
		name   string
		fields [][2]string
	}{
		{"connection", requestFields("POST", "/webhook", "connection", "close")},
		{"transfer-encoding", requestFields("POST", "/webhook", "transfer-encoding", "chunked")},
		{"upgrade", requestFields("GET", "/", "upgrade", "websocket")},
		{"te", requestFields("POST", "/webhook", "te", "gzip")},
		{"capitals", requestFields("POST", "/webhook", "X-Up", "v")},
		{"no token", requestFields("POST", "/webhook", "x y", "v")},
		{"empty name", requestFields("POST", "/webhook", "", "v")},
		{"nul in a value", requestFields("POST", "/webhook", "x", "a\x00b")},
		{"line end in a value", requestFields("POST", "/webhook", "x", "a\r\nb: c")},
		{"pseudo twice", requestFields("POST", "/webhook", ":path", "/x")},
		{"pseudo unknown", requestFields("POST", "/webhook", ":protocol", "websocket")},
		{"pseudo late", append([][2]string{{"x", "y"}}, requestFields("POST", "/webhook")...)},
		{"no method", without(":method")},
		{"no scheme", without(":scheme")},
		{"no path", without(":path")},
		{"no host", without(":authority")},
		{"user in the host", append(without(":authority"), [2]string{"host", "u@a.example"})},
		{"two hosts", requestFields("POST", "/webhook", "host", "a.example", "host", "b.example")},
		{"connect", [][2]string{{":method", "CONNECT"}, {":authority", "a.example:443"}}},
		{"small method", requestFields("post", "/webhook")},
		{"star", requestFields("OPTIONS", "*")},
		{"absolute", requestFields("GET", "https://a.example/")},
		{"space in the path", requestFields("GET", "/a b")},
		{"bad escape", requestFields("GET", "/%zz")},
		{"two lengths", requestFields("POST", "/webhook", "content-length", "1", "content-length", "2")},
		{"no number", requestFields("POST", "/webhook", "content-length", "+1")},
		{"length without a body", requestFields("POST", "/webhook", "content-length", "5")},
		{"long header", requestFields("POST", "/webhook", "a", long, "b", long, "c", long, "d", long)},
		{"very long header", requestFields("POST", "/webhook", "a", strings.Repeat(long, 9), "b", long)},
	} {
		a := c.answer(c.request(q.fields, true))
		records := w.records("t2")
		if len(records) != i+1 {
			t.Fatalf("%s: %d records when the answer is there, want %d", q.name, len(records), i+1)
		}
		if a.status() != "400" || !strings.Contains(a.body, "<hr><center>nginx/1.22.1</center>") {
			t.Errorf("%s: answered %+v", q.name, a)
		}
		r := records[i]
		if r.Kind != api.KindMalformed || r.Request == nil || r.Response == nil || r.Response.Status != 400 || !strings.Contains(r.Error, "refused") {
			t.Errorf("%s: %+v", q.name, r)
			continue
		}
		if got := wireNames(r.Response.Headers); !slices.Equal(a.fields[1:], got) {
			t.Errorf("%s: sent %q, recorded %q", q.name, a.fields, got)
		}
		for _, f := range q.fields {
			if !strings.HasPrefix(f[0], ":") && len(f[1]) < 9000 && !hasFold(r.Request.Headers, f) {
				t.Errorf("%s: recorded %q", q.name, r.Request.Headers)
			}
		}
	}
	before := len(w.records("t2"))
	if a := c.answer(c.request(requestFields("POST", "/webhook"), true)); a.status() != "200" {
		t.Errorf("after them: %+v", a)
	}
	if n := len(w.records("t2")); n != before+1 {
		t.Errorf("%d records, want %d", n, before+1)
	}
}

func wireNames(fields [][2]string) (out [][2]string) {
	for _, f := range fields {
		out = append(out, [2]string{strings.ToLower(f[0]), f[1]})
	}
	return out
}

func hasFold(fields [][2]string, f [2]string) bool {
	return slices.ContainsFunc(fields, func(g [2]string) bool { return strings.EqualFold(g[0], f[0]) && g[1] == f[1] })
}

func TestRefusedHTTP2RequestWithABodyIsAnsweredOnce(t *testing.T) {
	w := newWorld(t)
	w.register("t2", 2, plays("a.example", ""))
	c := w.h2("a.example")
	id := c.request(requestFields("POST", "/webhook", "connection", "close", "content-length", "5"), false)
	c.send(data(id, 0, "he"))
	if a := c.answer(id); a.status() != "400" {
		t.Errorf("%+v", a)
	}
	c.send(slices.Concat(data(id, 0, "llo"), wire.AppendBlock(nil, id, encode([][2]string{{"x", "y"}}), true)))
	if a := c.answer(c.request(requestFields("HEAD", "/", "connection", "close"), true)); a.status() != "400" || a.body != "" {
		t.Errorf("%+v", a)
	}
	if a := c.answer(c.request(requestFields("GET", "/"), true)); a.status() != "200" {
		t.Errorf("%+v", a)
	}
	if records := w.records("t2"); len(records) != 3 {
		t.Errorf("%d records", len(records))
	}
}

func TestHTTP2RecordKeepsOrderTrailersAndWhatNetHTTPTakesAway(t *testing.T) {
	w := newWorld(t)
	w.register("t2", 2, plays("a.example", ""))
	c := w.h2("a.example")
	fields := requestFields("POST", "/webhook", "x-z", "1", "cookie", "a=1", "stream", "mine", "trailer", "x-told", "x-a", "2", "cookie", "b=2", "te", "trailers")
	id := c.request(fields, false)
	c.send(slices.Concat(data(id, 0, "hello"), wire.AppendBlock(nil, id, encode([][2]string{{"x-told", "3"}, {"x-untold", "4"}}), true)))
	if a := c.answer(id); a.status() != "200" {
		t.Fatalf("%+v", a)
	}
	want := [][2]string{{"X-Z", "1"}, {"Cookie", "a=1"}, {"Stream", "mine"}, {"Trailer", "x-told"}, {"X-A", "2"}, {"Cookie", "b=2"}, {"Te", "trailers"}, {"X-Told", "3"}, {"X-Untold", "4"}}
	records := w.records("t2")
	if len(records) != 1 || !slices.Equal(records[0].Request.Headers, want) || records[0].Request.Body.Content != "hello" {
		t.Errorf("%+v", records[0].Request)
	}
}

func TestHTTP2ResponseLooksLikeNginx(t *testing.T) {
	w := newWorld(t)
	w.register("t2", 2, plays("a.example", "nginx/1.22.1"))
	c := w.h2("a.example")
	f, p, err := c.frame()
	if err != nil || f.Type != wire.FrameSettings || !bytes.Equal(p, []byte{0, 3, 0, 0, 0, 128, 0, 4, 0, 1, 0, 0, 0, 5, 0, 255, 255, 255}) {
		t.Errorf("first is %+v % x, %v", f, p, err)
	}
	if f, p, err = c.frame(); err != nil || f.Type != wire.FrameWindowUpdate || binary.BigEndian.Uint32(p) != 0x7fff0000 {
		t.Errorf("second is %+v % x, %v", f, p, err)
	}
	for _, path := range []string{"/", "/nope", "/webhook"} {
		a := c.answer(c.request(requestFields("GET", path), true))
		var names []string
		for _, f := range a.fields {
			names = append(names, f[0])
		}
		if got := strings.Join(names, " "); !strings.HasPrefix(got, ":status server date content-type content-length") {
			t.Errorf("%s: %s", path, got)
		}
		records := w.records("t2")
		if got := wireNames(records[len(records)-1].Response.Headers); !slices.Equal(got, a.fields[1:]) {
			t.Errorf("%s: sent %q, recorded %q", path, a.fields, got)
		}
	}
}

func TestBodyThatDiffersFromItsLengthOnHTTP2IsMalformed(t *testing.T) {
	w := newWorld(t)
	w.register("t2", 2, plays("a.example", ""))
	c := w.h2("a.example")
	for i, q := range []struct {
		name, body string
		rest       func(id uint32) []byte
	}{
		{"shorter", "hel", func(id uint32) []byte { return data(id, wire.FlagEndStream, "hel") }},
		{"longer", "hello", func(id uint32) []byte {
			return slices.Concat(data(id, 0, "hel"), data(id, 0, "lo, world"), data(id, wire.FlagEndStream, "more"))
		}},
		{"longer and padded", "hello", func(id uint32) []byte {
			return data(id, wire.FlagPadded|wire.FlagEndStream, "\x02hello, world\x00\x00")
		}},
		{"shorter with trailers", "hel", func(id uint32) []byte {
			return slices.Concat(data(id, 0, "hel"), wire.AppendBlock(nil, id, encode([][2]string{{"x", "y"}}), true))
		}},
		{"malformed trailers", "hello", func(id uint32) []byte {
			return slices.Concat(data(id, 0, "hello"), wire.AppendBlock(nil, id, encode([][2]string{{":path", "/"}}), true))
		}},
		{"trailers that do not end", "hello", func(id uint32) []byte {
			return slices.Concat(data(id, 0, "hello"), wire.AppendBlock(nil, id, encode([][2]string{{"x", "y"}}), false))
		}},
	} {
		id := c.request(requestFields("POST", "/webhook", "content-length", "5"), false)
		c.send(q.rest(id))
		a := c.answer(id)
		records := w.records("t2")
		if a.status() != "400" || len(records) != i+1 {
			t.Fatalf("%s: answered %+v, %d records", q.name, a, len(records))
		}
		if r := records[i]; r.Kind != api.KindMalformed || r.Request.Body.Content != q.body || r.Error == "" {
			t.Errorf("%s: %+v %+v", q.name, r, r.Request)
		}
	}
}

// TestHTTP2StreamAfterGOAWAYIsServed: the client's GOAWAY is about streams of the
// server, which opens none.
func TestHTTP2StreamAfterGOAWAYIsServed(t *testing.T) {
	w := newWorld(t)
	w.register("t2", 2, plays("a.example", ""))
	c := w.h2("a.example")
	c.send(wire.AppendGoAway(nil, 0, 0))
	if a := c.answer(c.request(requestFields("GET", "/webhook/x"), true)); a.status() != "200" {
		t.Errorf("%+v", a)
	}
}

// TestHTTP2StreamNumberCostsNothing: the work at the end of a connection is that of
// its streams, not of the numbers the client gave them.
func TestHTTP2StreamNumberCostsNothing(t *testing.T) {
	f := &framed{streams: streams{byID: map[uint32]*stream{1: {entered: true}, 1<<31 - 1: {entered: true}}, last: 1<<31 - 1}}
	f.link = &link{tenant: &tenant{}}
	done := make(chan struct{})
	go func() { f.sweep(); close(done) }()
	select {
	case <-done:
	case <-time.After(5 * time.Second): // a thousand million looks take longer
		t.Fatal("sweeping two streams does not end")
	}
	if len(f.byID) != 0 {
		t.Errorf("left: %v", f.byID)
	}
}

// TestHTTP2HeadsOfATrajectoryAreBounded: few bytes can stand for long heads, so
// what is open at once is bounded over all connections, and given back with them.
func TestHTTP2HeadsOfATrajectoryAreBounded(t *testing.T) {
	w := newWorld(t)
	w.register("t2", 2, plays("a.example", ""))
	n := w.server.routes.Load().tenants["t2"]
	n.heads.Store(h2Heads - 1000)
	c := w.h2("a.example")
	id := c.request(requestFields("POST", "/webhook/long", "x", strings.Repeat("y", 2000)), false)
	if a := c.answer(id); a.reset != wire.RefusedStream {
		t.Errorf("%+v", a)
	}
	if a := c.answer(c.request(requestFields("GET", "/webhook/short"), true)); a.status() != "200" {
		t.Errorf("%+v", a)
	}
	c.request(requestFields("POST", "/webhook/open"), false)
	_ = c.Close()
	w.await("t2", 3)
	for deadline := time.Now().Add(10 * time.Second); n.heads.Load() != h2Heads-1000; {
		if time.Now().After(deadline) {
			t.Fatalf("%d bytes are not given back", n.heads.Load()-h2Heads+1000)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
