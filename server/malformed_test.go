package server

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/linuxarena/ctis/server/api"
	"github.com/linuxarena/ctis/server/wire"
)

// malformedCorpus are messages no handler may see. status 0 means that nothing
// is answered.
var malformedCorpus = []struct {
	name, raw string
	status    int
	closes    bool // the client says no more after it
}{
	{"garbage", "GARBAGE\r\n\r\n", 400, false},
	{"garbage without an end", "GARBAGE\r\n", 400, false},
	{"control bytes", "\x00\x01\x02\x03", 400, false},
	{"tls on the plain port", "\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00", 400, false},
	{"smtp", "EHLO mail.example\r\n", 400, false},
	{"ssh", "SSH-2.0-OpenSSH_9.2\r\n", 400, false},
	{"http/0.9", "GET /\r\n", 400, false},
	{"http/9.9", "GET / HTTP/9.9\r\nHost: a.example\r\n\r\n", 505, false},
	{"http/2 preface", wire.Preface, 505, false},
	{"lower-case method", "get / HTTP/1.1\r\nHost: a.example\r\n\r\n", 400, false},
	{"space in the target", "GET /a b HTTP/1.1\r\nHost: a.example\r\n\r\n", 400, false},
	{"bad escape", "GET /%zz HTTP/1.1\r\nHost: a.example\r\n\r\n", 400, false},
	{"connect", "CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\n\r\n", 400, false},
	{"options star", "OPTIONS * HTTP/1.1\r\nHost: a.example\r\n\r\n", 400, false},
	{"no host", "GET / HTTP/1.1\r\n\r\n", 400, false},
	{"two hosts", "GET / HTTP/1.1\r\nHost: a.example\r\nHost: b.example\r\n\r\n", 400, false},
	{"bad host", "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", 400, false},
	{"space before the colon", "GET / HTTP/1.1\r\nHost: a.example\r\nX : 1\r\n\r\n", 400, false},
	{"folded header", "GET / HTTP/1.1\r\nHost: a.example\r\nX: 1\r\n 2\r\n\r\n", 400, false},
	{"no colon", "GET / HTTP/1.1\r\nHost: a.example\r\nnonsense\r\n\r\n", 400, false},
	{"nul in a value", "GET / HTTP/1.1\r\nHost: a.example\r\nX: a\x00b\r\n\r\n", 400, false},
	{"bad length", "POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: abc\r\n\r\n", 400, false},
	{"differing lengths", "POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", 400, false},
	{"length and coding", "POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, false},
	{"unknown coding", "POST / HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: gzip\r\n\r\n", 501, false},
	{"coding in http/1.0", "POST / HTTP/1.0\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, false},
	{"chunk size no number", "POST /webhook HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400, false},
	{"chunk line with a bare line feed", "POST /webhook HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n5\nhello\r\n0\r\n\r\n", 400, false},
	{"chunk longer than its size", "POST /webhook HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhello\r\n0\r\n\r\n", 400, false},
	{"chunk too large", "POST /webhook HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n", 400, false},
	{"bad trailer", "POST /webhook HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nbad trailer\r\n\r\n", 400, false},
	{"long target", "GET /" + strings.Repeat("a", 9000) + " HTTP/1.1\r\nHost: a.example\r\n\r\n", 414, false},
	{"long header", "GET / HTTP/1.1\r\nHost: a.example\r\nX: " + strings.Repeat("a", 9000) + "\r\n\r\n", 400, false},
	{"endless header", "GET / HTTP/1.1\r\nHost: a.example\r\n" + strings.Repeat("X: y\r\n", 20000), 400, false},
	{"endless line", "GET /" + strings.Repeat("a", 100000), 414, false},
	{"half a request line", "GET /x", 0, true},
	{"half a head", "POST /webhook HTTP/1.1\r\nHost: a.example\r\nSecret: s3", 0, true},
	{"only line ends", "\r\n\r\n\r\n", 0, true},
}

func TestMalformedMessageGivesExactlyOneRecordAndAnAnswerOfTheServerFamily(t *testing.T) {
	w := newWorld(t)
	w.register("t2", 2, plays("a.example", "nginx/1.22.1"))
	seen := 0
	for _, over := range []string{"http", "https"} {
		for _, c := range malformedCorpus {
			var conn net.Conn = w.dial(2, w.plain)
			if over == "https" {
				conn = tls.Client(w.dial(2, w.tls), &tls.Config{RootCAs: w.roots, ServerName: "a.example"})
			}
			_, _ = io.WriteString(conn, c.raw) // the server may close while the long ones are sent
			if c.closes {
				if h, ok := conn.(interface{ CloseWrite() error }); ok {
					_ = h.CloseWrite()
				}
			}
			answer, err := io.ReadAll(conn)
			if err != nil && len(answer) == 0 && c.status != 0 {
				t.Errorf("%s, %s: %v", over, c.name, err)
			}
			_ = conn.Close()
			checkAnswer(t, over+", "+c.name, string(answer), c.status)

			seen++
			records := w.await("t2", seen)
			r := records[seen-1]
			if r.Kind != api.KindMalformed || r.Error == "" || (r.Raw == nil && r.Request == nil) {
				t.Errorf("%s, %s: %+v", over, c.name, r)
			}
			if c.status != 0 && (r.Response == nil || r.Response.Status != c.status) {
				t.Errorf("%s, %s: recorded response %+v", over, c.name, r.Response)
			}
			if kept := r.Raw; kept != nil && (len(kept.Content) > rawHeadLimit*4/3+4 || kept.Truncated != (kept.Size > rawHeadLimit) || kept.Size > int64(len(c.raw))) {
				t.Errorf("%s, %s: of %d bytes %d are said to have been raw, truncated %v, and %d are kept", over, c.name, len(c.raw), kept.Size, kept.Truncated, len(kept.Content))
			}
			if (r.TLS != nil) != (over == "https") {
				t.Errorf("%s, %s: tls is %+v", over, c.name, r.TLS)
			}
		}
	}
	// A record too many would have come before the last one that was awaited.
	w.send(2, w.plain, "GET / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n")
	if n := len(w.records("t2")); n != seen+1 {
		t.Errorf("%d records for %d messages", n, seen+1)
	}
}

func checkAnswer(t *testing.T, name, answer string, status int) {
	t.Helper()
	if status == 0 {
		if answer != "" {
			t.Errorf("%s: answered %q", name, answer)
		}
		return
	}
	br := bufio.NewReader(strings.NewReader(answer))
	r, err := http.ReadResponse(br, nil)
	if err != nil {
		t.Errorf("%s: answer %q: %v", name, answer, err)
		return
	}
	page, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != status || r.Header.Get("Server") != "nginx/1.22.1" || !r.Close || r.Header.Get("Date") == "" {
		t.Errorf("%s: answer %q (%v)", name, answer, err)
	}
	if !strings.Contains(string(page), "<hr><center>nginx/1.22.1</center>") {
		t.Errorf("%s: page %q", name, page)
	}
	if rest, _ := io.ReadAll(br); len(rest) > 0 {
		t.Errorf("%s: after the answer comes %q", name, rest)
	}
}

func TestGoodRequestsBeforeAMalformedOneAreServed(t *testing.T) {
	w := newWorld(t)
	w.register("t2", 2, plays("a.example", ""))
	good := "POST /webhook HTTP/1.1\r\nHost: a.example\r\nContent-Length: 4\r\n\r\ngood"
	answer := w.send(2, w.plain, good+"\r\n\r\n"+good+"BAD\x00\r\n\r\n"+good)
	if n := strings.Count(answer, "HTTP/1.1 200 OK"); n != 2 || strings.Count(answer, "HTTP/1.1 400 Bad Request") != 1 {
		t.Errorf("answers are %q", answer)
	}
	records := w.records("t2")
	var kinds []string
	for _, r := range records {
		kinds = append(kinds, r.Kind)
	}
	if strings.Join(kinds, " ") != "webhook webhook malformed" {
		t.Fatalf("records are %q", kinds)
	}
	if !strings.HasPrefix(records[2].Raw.Content, "BAD\x00") {
		t.Errorf("raw is %q", records[2].Raw.Content)
	}
}

func TestMalformedMessageKeepsWhatCouldBeRead(t *testing.T) {
	w := newWorld(t)
	w.register("t2", 2, plays("a.example", ""))
	w.send(2, w.plain, "POST /webhook?secret=1 HTTP/1.1\r\nHost: a.example\r\nKey: v\r\nContent-Length: x\r\n\r\nbody")
	r := w.records("t2")[0]
	if r.Request == nil || r.Request.Target != "/webhook?secret=1" || !hasField(r.Request.Headers, "Key", "v") || r.Persona != "a.example" || r.Request.Host != "a.example" {
		t.Errorf("%+v", r.Request)
	}
	w.send(2, w.plain, "POST /webhook HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nQQ\r\n")
	r = w.records("t2")[1]
	if r.Kind != api.KindMalformed || r.Request.Body.Content != "hello" || !strings.Contains(r.Error, "chunk size") || r.Raw == nil || r.Raw.Content != "QQ\r\n" {
		t.Errorf("%+v %+v", r, r.Request)
	}
}

func TestSlowHeadIsCutAndRecorded(t *testing.T) {
	w := newWorld(t, func(o *Options) {
		o.Limits.RequestHead = 150 * time.Millisecond
		o.Limits.Idle = 150 * time.Millisecond
	})
	w.register("t2", 2, plays("a.example", ""))
	answer := w.send(2, w.plain, "GET / HTTP/1.1\r\nHost: a.exam")
	r := w.await("t2", 1)[0]
	if answer != "" || r.Kind != api.KindMalformed || !strings.Contains(r.Error, "timed out") || !strings.HasSuffix(r.Raw.Content, "a.exam") {
		t.Errorf("answer %q, record %+v", answer, r)
	}
	if answer := w.send(2, w.plain, ""); answer != "" { // a connection that says nothing is closed too
		t.Errorf("answer %q", answer)
	}
	if n := len(w.records("t2")); n != 1 {
		t.Errorf("%d records", n)
	}
}

func TestStalledBodyIsCutAndRecorded(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Limits.BodyProgress = 150 * time.Millisecond })
	w.register("t2", 2, plays("a.example", ""))
	w.send(2, w.plain, "POST /webhook HTTP/1.1\r\nHost: a.example\r\nContent-Length: 10\r\n\r\nabc")
	r := w.await("t2", 1)[0]
	if r.Request.Body.Content != "abc" || r.Error == "" {
		t.Errorf("%+v", r)
	}
}

func TestIdleConnectionIsClosed(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Limits.Idle = 150 * time.Millisecond })
	w.register("t2", 2, plays("a.example", ""))
	answer := w.send(2, w.plain, "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n")
	if !strings.Contains(answer, "\r\nConnection: keep-alive\r\n") {
		t.Errorf("answer %q", answer)
	}
}

func TestReaderThatTakesNothingIsGivenUp(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Limits.WriteProgress = 200 * time.Millisecond })
	w.register("t2", 2, plays("a.example", ""))
	w.do(w.client(2, false), "PUT", "http://a.example/data/big", strings.Repeat("x", 32<<20))
	for _, h2 := range []bool{false, true} {
		before := len(w.records("t2"))
		r, err := http.NewRequest(http.MethodGet, "https://a.example/data/big", nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := w.client(2, h2).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		records := w.await("t2", before+1) // while the client holds the response and reads nothing
		if got := records[before]; !strings.Contains(got.Error, "not taken whole") || got.Response.Body.Size == 0 {
			t.Errorf("http/2 %v: error %q, response %+v", h2, got.Error, got.Response)
		}
		_ = answer.Body.Close()
	}
}

func TestUnknownExpectationIsIgnored(t *testing.T) {
	w := newWorld(t)
	w.register("t2", 2, plays("a.example", ""))
	answer := w.send(2, w.plain, "POST /webhook HTTP/1.1\r\nHost: a.example\r\nExpect: miracle\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi")
	if !strings.HasPrefix(answer, "HTTP/1.1 200 ") {
		t.Errorf("answer %q", answer)
	}
	if r := w.records("t2")[0]; !hasField(r.Request.Headers, "Expect", "miracle") {
		t.Errorf("%+v", r.Request)
	}
}

func TestKeepAliveOfHTTP10AndPipelining(t *testing.T) {
	w := newWorld(t)
	w.register("t2", 2, plays("a.example", ""))
	one := "GET / HTTP/1.0\r\nHost: a.example\r\nConnection: keep-alive\r\n\r\n"
	answer := w.send(2, w.plain, one+one+"GET / HTTP/1.0\r\nHost: a.example\r\n\r\n")
	if strings.Count(answer, "HTTP/1.1 200 OK\r\n") != 3 || strings.Count(answer, "Connection: keep-alive\r\n") != 2 || strings.Count(answer, "Connection: close\r\n") != 1 {
		t.Errorf("answers %q", answer)
	}
	if n := len(w.records("t2")); n != 3 {
		t.Errorf("%d records", n)
	}
}
