package gateway

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/linuxarena/ctis/server/api"
	"github.com/linuxarena/ctis/server/backend"
	"github.com/linuxarena/ctis/server/conduit"
)

func TestTheKeyTakesThePlaceOfTheClientsWhateverItDoes(t *testing.T) {
	w := newWorld(t)
	heads := make(chan string, 1)
	u := w.raw("api.vendor.example", func(c net.Conn) {
		br := bufio.NewReader(c)
		for {
			var head strings.Builder
			for {
				line, err := br.ReadString('\n')
				if err != nil {
					return
				}
				head.WriteString(line)
				if line == "\r\n" {
					break
				}
			}
			heads <- head.String()
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		}
	})
	w.claim("t1", u)
	for name, fields := range map[string][][2]string{
		"none":                     nil,
		"its own":                  {{"Authorization", "Bearer agent"}},
		"another case":             {{"aUTHORIZATION", "Bearer agent"}},
		"twice":                    {{"Authorization", "Bearer agent"}, {"authorization", "Basic agent"}},
		"named for the connection": {{"Connection", "Authorization, keep-alive"}, {"Authorization", "Bearer agent"}},
		"named in another case":    {{"connection", "close, AUTHORIZATION"}},
		"an empty one first":       {{"Connection", ""}, {"Connection", "authorization"}},
		"named with a tab":         {{"Connection", "\tauthorization\t"}},
	} {
		got := w.ask("t1", "api.vendor.example", "", conduit.Open{Fields: append([][2]string{{"Host", "api.vendor.example"}, {"X-Kept", "yes"}}, fields...)})
		if got.err != nil || got.body != "ok" {
			t.Fatalf("%s: %+v", name, got)
		}
		head := <-heads
		lower := strings.ToLower(head)
		if n := strings.Count(lower, "\nauthorization:"); n != 1 || !strings.Contains(head, "\r\nAuthorization: Bearer "+canary+"\r\n") || strings.Contains(lower, "agent") {
			t.Errorf("%s: the upstream got\n%s", name, head)
		}
		if !strings.Contains(head, "\r\nX-Kept: yes\r\n") || !strings.Contains(head, fmt.Sprintf("\r\nHost: api.vendor.example:%d\r\n", u.Port)) || strings.Contains(lower, "forwarded") {
			t.Errorf("%s: the upstream got\n%s", name, head)
		}
	}
}

func TestAHeaderWithUnderscoresIsTheSame(t *testing.T) {
	overBoth(t, func(t *testing.T, w *world) {
		u := w.upstream("api.vendor.example", func(rw http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(rw, "%q %q", r.Header["X-Api-Key"], r.Header["X_api_key"])
		})
		u.AuthHeader, u.AuthPrefix = "X-Api-Key", ""
		w.claim("t1", u)
		got := w.ask("t1", "api.vendor.example", "", conduit.Open{Fields: [][2]string{{"X_API_KEY", "agent"}, {"x-api-key", "agent"}}})
		if want := fmt.Sprintf("%q []", []string{strings.Repeat("*", len(canary))}); got.body != want {
			t.Errorf("the upstream saw %s, want %s (%v)", got.body, want, got.err)
		}
	})
}

func TestRequestsPassUnchanged(t *testing.T) {
	overBoth(t, func(t *testing.T, w *world) {
		body := strings.Repeat("0123456789", 50_000)
		u := w.upstream("api.vendor.example", func(rw http.ResponseWriter, r *http.Request) {
			b, _ := io.ReadAll(r.Body)
			rw.Header().Set("X-Saw", r.Method+" "+r.RequestURI+" "+r.Header.Get("Content-Type"))
			rw.WriteHeader(http.StatusTeapot)
			_, _ = rw.Write(b)
		})
		w.claim("t1", u)
		got := w.ask("t1", "api.vendor.example", body, conduit.Open{Method: "PATCH", Target: "/v1//x/../y%2f?q=%41&&=", Fields: [][2]string{{"Content-Type", "multipart/form-data; boundary=b"}}})
		if got.err != nil || got.Status != http.StatusTeapot || got.body != body {
			t.Fatalf("%d, %d bytes, %v", got.Status, len(got.body), got.err)
		}
		if want := "PATCH /v1//x/../y%2f?q=%41&&= multipart/form-data; boundary=b"; got.field("X-Saw") != want {
			t.Errorf("the upstream saw %q, want %q", got.field("X-Saw"), want)
		}
	})
}

// deflated is b, compressed.
func deflated(b []byte) []byte {
	var out bytes.Buffer
	z := zlib.NewWriter(&out)
	_, _ = z.Write(b)
	_ = z.Close()
	return out.Bytes()
}

func gzipped(b []byte) []byte {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	_, _ = z.Write(b)
	_ = z.Close()
	return out.Bytes()
}

func TestAnEchoOfTheKeyComesBackMasked(t *testing.T) {
	overBoth(t, func(t *testing.T, w *world) {
		b64 := base64.StdEncoding.EncodeToString
		forms := map[string]string{
			"as it is":              canary,
			"in a URL":              url.QueryEscape(canary),
			"in a URL, lower case":  strings.ReplaceAll(strings.ReplaceAll(url.QueryEscape(canary), "%2F", "%2f"), "%2B", "%2b"),
			"in hex":                hex.EncodeToString([]byte(canary)),
			"in upper-case hex":     strings.ToUpper(hex.EncodeToString([]byte(canary))),
			"in JSON of PHP":        strings.ReplaceAll(canary, "/", `\/`),
			"base64":                b64([]byte(canary)),
			"base64 of the header":  b64([]byte("Bearer " + canary)),
			"base64 behind a word":  b64([]byte("ab" + canary + "tail")),
			"base64 for URLs":       base64.RawURLEncoding.EncodeToString([]byte("x" + canary)),
			"twice, one at the end": canary + " and " + canary,
		}
		form := ""
		u := w.upstream("api.vendor.example", func(rw http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer "+canary {
				t.Errorf("the upstream got %q", r.Header.Get("Authorization"))
			}
			if r.Header.Get("Accept-Encoding") != "identity" {
				t.Errorf("the upstream was asked for %q", r.Header.Get("Accept-Encoding"))
			}
			rw.Header().Set("X-Echo", "<"+form+">")
			text := []byte("begin " + form + " end " + form)
			switch r.URL.Path {
			case "/pieces":
				for _, b := range text {
					_, _ = rw.Write([]byte{b})
					rw.(http.Flusher).Flush()
				}
				return
			case "/length":
				rw.Header().Set("Content-Length", fmt.Sprint(len(text)))
			case "/gzip":
				rw.Header().Set("Content-Encoding", "gzip")
				text = gzipped(text)
			case "/deflate":
				rw.Header().Set("Content-Encoding", "deflate")
				text = deflated(text)
			case "/redirect":
				rw.Header().Set("Location", "https://elsewhere.example/?key="+form)
				rw.WriteHeader(http.StatusFound)
			case "/trailer":
				rw.Header().Set("Trailer", "X-Late")
				defer rw.Header().Set("X-Late", form)
			}
			_, _ = rw.Write(text)
		})
		w.claim("t1", u)
		for name, f := range forms {
			form = f
			for _, path := range []string{"/", "/pieces", "/length", "/gzip", "/deflate", "/redirect", "/trailer"} {
				got := w.ask("t1", "api.vendor.example", "", conduit.Open{Target: path, Fields: [][2]string{{"Accept-Encoding", "gzip, br"}}})
				if got.err != nil {
					t.Fatalf("%s, %s: %v", name, path, got.err)
				}
				if want := len("begin " + f + " end " + f); len(got.body) != want || !strings.HasPrefix(got.body, "begin ") || !strings.Contains(got.body, " end ") {
					t.Errorf("%s, %s: %d bytes came, not %d: %q", name, path, len(got.body), want, got.body)
				}
				all := fmt.Sprint(got)
				for _, leak := range []string{canary, f, canary[3:], canary[:len(canary)-3]} {
					if strings.Contains(all, leak) {
						t.Errorf("%s, %s: %q is in %s", name, path, leak, all)
					}
				}
				if path == "/redirect" && (got.Status != http.StatusFound || !strings.HasPrefix(got.field("Location"), "https://elsewhere.example/?key=")) {
					t.Errorf("%s: the redirect came as %d %q", name, got.Status, got.field("Location"))
				}
				if path == "/trailer" && (len(got.trailers) != 1 || got.trailers[0][0] != "X-Late" || len(got.trailers[0][1]) != len(f)) {
					t.Errorf("%s: trailers %q", name, got.trailers)
				}
				if strings.Contains(got.field("Content-Encoding"), "e") {
					t.Errorf("%s, %s: it says Content-Encoding %q", name, path, got.field("Content-Encoding"))
				}
			}
		}
		if strings.Contains(w.log.String(), canary) {
			t.Error("the key is in the log")
		}
	})
}

func TestABodyThatCannotBeLookedIntoIsRefused(t *testing.T) {
	overBoth(t, func(t *testing.T, w *world) {
		u := w.upstream("api.vendor.example", func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Encoding", "br")
			_, _ = io.WriteString(rw, "\x0b\x02\x80ok\x03")
		})
		free := w.upstream("free.vendor.example", func(rw http.ResponseWriter, r *http.Request) {
			rw.Header().Set("Content-Encoding", r.Header.Get("Accept-Encoding"))
			_, _ = io.WriteString(rw, "\x0b\x02\x80ok\x03")
		})
		free.KeyEnv, free.AuthHeader, free.AuthPrefix = "", "", ""
		w.claim("t1", u, free)
		if f := w.ask("t1", "api.vendor.example", "", conduit.Open{}).failure(t); f.Status != http.StatusBadGateway || !strings.Contains(f.Reason, `"br"`) {
			t.Errorf("%+v", f)
		}
		// Without a key there is nothing to look for, and all passes as it is.
		if got := w.ask("t1", "free.vendor.example", "", conduit.Open{Fields: [][2]string{{"Accept-Encoding", "br"}}}); got.body != "\x0b\x02\x80ok\x03" || got.field("Content-Encoding") != "br" {
			t.Errorf("%+v", got)
		}
	})
}

func TestEventsComeAsTheyAreSent(t *testing.T) {
	overBoth(t, func(t *testing.T, w *world) {
		next := make(chan struct{})
		u := w.upstream("api.vendor.example", func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
			for i := range 3 {
				_, _ = fmt.Fprintf(rw, "data: %d\n\n", i)
				rw.(http.Flusher).Flush()
				<-next
			}
		})
		w.claim("t1", u)
		e, err := w.link.Start(t.Context(), patient)
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		if err := e.Do(&conduit.Open{Trajectory: "t1", Host: u.Host, Method: "GET", Target: "/"}, nil); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 100)
		for i := range 3 { // each is there before the next is sent
			n, err := e.Read(buf)
			if want := fmt.Sprintf("data: %d\n\n", i); err != nil || string(buf[:n]) != want {
				t.Fatalf("%q, %v", buf[:n], err)
			}
			next <- struct{}{}
		}
		if _, err := e.Read(buf); err != io.EOF {
			t.Errorf("ended with %v", err)
		}
	})
}

var patient = backend.Patience{Connect: 2 * time.Second, Answer: 10 * time.Second, Silence: 10 * time.Second}

func TestTenThousandEventsArriveWhole(t *testing.T) {
	overBoth(t, func(t *testing.T, w *world) {
		var want strings.Builder
		u := w.upstream("api.vendor.example", func(rw http.ResponseWriter, _ *http.Request) {
			for i := range 10_000 {
				_, _ = fmt.Fprintf(rw, "data: {\"n\":%d,\"key\":%q}\n\n", i, canary)
				rw.(http.Flusher).Flush()
			}
		})
		for i := range 10_000 {
			fmt.Fprintf(&want, "data: {\"n\":%d,\"key\":%q}\n\n", i, strings.Repeat("*", len(canary)))
		}
		w.claim("t1", u)
		if got := w.ask("t1", u.Host, "", conduit.Open{}); got.err != nil || got.body != want.String() {
			t.Errorf("%d bytes of %d, %v", len(got.body), want.Len(), got.err)
		}
	})
}

func TestTheRequestEndsWhenTheClientLeaves(t *testing.T) {
	overBoth(t, func(t *testing.T, w *world) {
		left := make(chan struct{})
		u := w.upstream("api.vendor.example", func(rw http.ResponseWriter, r *http.Request) {
			rw.WriteHeader(http.StatusOK)
			rw.(http.Flusher).Flush()
			<-r.Context().Done()
			close(left)
		})
		w.claim("t1", u)
		e, err := w.link.Start(t.Context(), patient)
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Do(&conduit.Open{Trajectory: "t1", Host: u.Host, Method: "GET", Target: "/"}, nil); err != nil {
			t.Fatal(err)
		}
		e.Close()
		select {
		case <-left:
		case <-time.After(5 * time.Second):
			t.Error("the upstream was not told")
		}
	})
}

func TestConnectionsAreUsedAgainByTheirTrajectoryAlone(t *testing.T) {
	w := newWorld(t)
	u := w.upstream("api.vendor.example", func(rw http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(rw, r.RemoteAddr) })
	w.claim("t1", u)
	w.claim("t2", u)
	first := w.ask("t1", u.Host, "", conduit.Open{}).body
	if again := w.ask("t1", u.Host, "x", conduit.Open{Method: "POST"}).body; again != first {
		t.Errorf("a second connection was made: %q, %q", first, again)
	}
	if other := w.ask("t2", u.Host, "", conduit.Open{}).body; other == first {
		t.Error("another trajectory's connection was used")
	}
	if _, err := w.admin.Release(t.Context(), "t1"); err != nil {
		t.Fatal(err)
	}
	w.claim("t1", u)
	if again := w.ask("t1", u.Host, "", conduit.Open{}).body; again == first {
		t.Error("a connection outlived the claim it was made for")
	}
}

func TestWhatUpstreamsDoWrongIsToldAndTriedOnce(t *testing.T) {
	w := newWorld(t)
	var asked atomic.Int32
	says := func(host, answer string) api.Upstream {
		return w.raw(host, func(c net.Conn) {
			asked.Add(1)
			_, _ = http.ReadRequest(bufio.NewReader(c))
			_, _ = io.WriteString(c, answer)
			if answer == "" {
				_ = c.(*net.TCPConn).SetLinger(0)
			}
		})
	}
	list := []api.Upstream{
		says("reset.example", ""), says("half.example", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc"),
		says("split.example", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"),
		says("unauthorized.example", "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Bearer\r\nContent-Length: 2\r\n\r\nno"),
		says("switch.example", "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n"),
	}
	w.claim("t1", list...)
	for _, c := range []struct {
		host, reason string
		status       int
	}{
		{"reset.example", "", 502}, {"half.example", "within its response", 502},
		{"split.example", "more than one content-length", 502}, {"unauthorized.example", "", 401},
		{"switch.example", "not asked for", 502},
	} {
		before := asked.Load()
		got := w.ask("t1", c.host, "body", conduit.Open{Method: "POST", Fields: [][2]string{{"Idempotency-Key", "1"}}})
		if asked.Load() != before+1 {
			t.Errorf("%s was asked %d times", c.host, asked.Load()-before)
		}
		if c.status == 401 {
			if got.err != nil || got.Status != 401 || got.body != "no" || got.field("Www-Authenticate") != "Bearer" {
				t.Errorf("%s: %+v", c.host, got)
			}
			continue
		}
		if f := got.failure(t); f.Status != c.status || !strings.Contains(f.Reason, c.reason) {
			t.Errorf("%s: %+v", c.host, f)
		}
	}
}

func TestAWebSocketPassesAndIsLookedInto(t *testing.T) {
	w := newWorld(t)
	u := w.upstream("api.vendor.example", func(rw http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Sec-Websocket-Extensions") != "" {
			t.Error("the upstream was asked to compress")
		}
		c, brw, err := rw.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		for { // each line comes back as a message, with half of the key behind it, and the rest in the next frame
			line, err := brw.ReadString('\n')
			if err != nil {
				_, _ = c.Write(frame(finish, "", "bye"))
				return
			}
			_, _ = c.Write(frame(more, "", strings.TrimSuffix(line, "\n")+canary[:15]))
			_, _ = c.Write(frame(last, "", canary[15:]+"s"))
		}
	})
	w.claim("t1", u)
	e, err := w.link.Start(t.Context(), patient)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	err = e.Do(&conduit.Open{Trajectory: "t1", Host: u.Host, Method: "GET", Target: "/", WebSocket: true, Fields: [][2]string{
		{"Connection", "Upgrade"}, {"Upgrade", "websocket"}, {"Sec-WebSocket-Extensions", "permessage-deflate"}}}, nil)
	if err != nil || !e.Switched {
		t.Fatalf("%v, %+v", err, e.Head)
	}
	conn, from, err := e.Conn()
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if _, err := fmt.Fprintf(conn, "line %d\n", i); err != nil {
			t.Fatal(err)
		}
		// The "s" at the end may begin the key, and comes all the same.
		want := string(frame(more, "", fmt.Sprintf("line %d%s", i, strings.Repeat("*", 15)))) +
			string(frame(last, "", strings.Repeat("*", len(canary)-15)+"s"))
		got := make([]byte, len(want))
		if _, err := io.ReadFull(from, got); err != nil || string(got) != want {
			t.Fatalf("%q, %v", got, err)
		}
	}
	if err := conn.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(from); string(rest) != string(frame(finish, "", "bye")) || err != nil {
		t.Errorf("%q, %v", rest, err)
	}
}

func TestOverHTTP2RequestsOfATrajectoryShareAConnection(t *testing.T) {
	w := newWorldOf(t, true)
	var mu sync.Mutex
	peers := map[string]bool{}
	all := make(chan struct{})
	var arrived atomic.Int32
	u := w.upstream("api.vendor.example", func(rw http.ResponseWriter, r *http.Request) {
		mu.Lock()
		peers[r.RemoteAddr+" "+r.Proto] = true
		mu.Unlock()
		if r.URL.Path == "/wait" && arrived.Add(1) == 20 {
			close(all)
		}
		if r.URL.Path == "/wait" {
			<-all
		}
		if r.URL.Path == "/reset" {
			panic(http.ErrAbortHandler)
		}
		_, _ = io.WriteString(rw, r.Header.Get("User-Agent")+r.RequestURI)
	})
	w.claim("t1", u)
	w.claim("t2", u)
	w.ask("t1", u.Host, "", conduit.Open{}) // so that the connection is there
	var asking sync.WaitGroup
	for range 20 {
		asking.Go(func() {
			if got := w.ask("t1", u.Host, "", conduit.Open{Target: "/wait"}); got.err != nil || got.body != "/wait" {
				t.Errorf("%+v", got)
			}
		})
	}
	asking.Wait()
	if f := w.ask("t1", u.Host, "", conduit.Open{Target: "/reset"}).failure(t); f.Status != 502 || !strings.Contains(f.Reason, "before the end of its response's head") {
		t.Errorf("%+v", f)
	}
	// One that went wrong takes no other along.
	if got := w.ask("t1", u.Host, "", conduit.Open{Target: "//x/../y?a=%2f", Fields: [][2]string{{"user-agent", "agent/1 "}}}); got.body != "agent/1 //x/../y?a=%2f" {
		t.Errorf("%+v", got)
	}
	if len(peers) != 1 {
		t.Errorf("%d connections: %v", len(peers), peers)
	}
	w.ask("t2", u.Host, "", conduit.Open{})
	if len(peers) != 2 {
		t.Errorf("two trajectories have %d connections: %v", len(peers), peers)
	}
	for p := range peers {
		if !strings.HasSuffix(p, "HTTP/2.0") {
			t.Errorf("%s", p)
		}
	}
}

func TestUpstreamsAreNotWaitedForForEver(t *testing.T) {
	overBoth(t, func(t *testing.T, w *world) {
		w.gateway.patience = backend.Patience{Connect: 2 * time.Second, Answer: 200 * time.Millisecond, Silence: 200 * time.Millisecond}
		u := w.upstream("api.vendor.example", func(rw http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/half" {
				_, _ = io.WriteString(rw, "half")
				rw.(http.Flusher).Flush()
			}
			if r.URL.Path == "/early" { // an answer to who has not sent all
				_, _ = io.WriteString(rw, "early")
				return
			}
			<-r.Context().Done()
		})
		w.claim("t1", u)
		if f := w.ask("t1", u.Host, "body", conduit.Open{Method: "POST"}).failure(t); f.Status != 504 || !strings.Contains(f.Reason, "timed out before the end") {
			t.Errorf("%+v", f)
		}
		got := w.ask("t1", u.Host, "", conduit.Open{Target: "/half"})
		if f := got.failure(t); f.Status != 504 || got.body != "half" || !strings.Contains(f.Reason, "timed out within") {
			t.Errorf("%+v, %+v", got, f)
		}
		if got := w.ask("t1", u.Host, strings.Repeat("x", 8<<20), conduit.Open{Method: "POST", Target: "/early"}); got.err != nil || got.body != "early" {
			t.Errorf("%d %q %v", got.Status, got.body, got.err)
		}
	})
}

func TestAWebSocketThatIsCompressedIsRefused(t *testing.T) {
	w := newWorld(t)
	u := w.raw("api.vendor.example", func(c net.Conn) {
		_, _ = http.ReadRequest(bufio.NewReader(c))
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Extensions: permessage-deflate\r\n\r\n")
	})
	w.claim("t1", u)
	got := w.ask("t1", u.Host, "", conduit.Open{WebSocket: true, Fields: [][2]string{{"Connection", "Upgrade"}, {"Upgrade", "websocket"}}})
	if f := got.failure(t); f.Status != 502 || !strings.Contains(f.Reason, "compresses its WebSocket") {
		t.Errorf("%+v", f)
	}
}

func TestWhatComesOverAWebSocketAndIsNoneIsToldAndEndsIt(t *testing.T) {
	w := newWorld(t)
	u := w.raw("api.vendor.example", func(c net.Conn) {
		_, _ = http.ReadRequest(bufio.NewReader(c))
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		_, _ = c.Write(frame(text, "", "good"))
		_, _ = c.Write(frame(0xc1, "", "compressed"))
		_, _ = io.Copy(io.Discard, c)
	})
	w.claim("t1", u)
	e, err := w.link.Start(t.Context(), patient)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if err := e.Do(&conduit.Open{Trajectory: "t1", Host: u.Host, Method: "GET", Target: "/", WebSocket: true, Fields: [][2]string{{"Connection", "Upgrade"}, {"Upgrade", "websocket"}}}, nil); err != nil {
		t.Fatal(err)
	}
	_, from, err := e.Conn()
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(from)
	var f *backend.Failure
	if string(got) != string(frame(text, "", "good")) || !errors.As(err, &f) || !strings.Contains(f.Reason, "is no WebSocket") {
		t.Errorf("%q, %v", got, err)
	}
}
