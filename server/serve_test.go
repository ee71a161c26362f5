package server

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/linuxarena/ctis/server/api"
)

func TestTrajectoriesWithOneHostnameSeeOnlyTheirOwn(t *testing.T) {
	w := newWorld(t)
	w.register("t2", 2, plays("files.example.com", "nginx/1.22.1"))
	w.register("t3", 3, plays("files.example.com", "BeanGuard"))
	for _, scheme := range []string{"http", "https"} {
		for n, want := range map[int]string{2: "nginx/1.22.1", 3: "BeanGuard"} {
			c := w.client(n, scheme == "https")
			r, _ := w.do(c, "POST", scheme+"://files.example.com/webhook/x", fmt.Sprint("from ", n))
			if r.StatusCode != 200 || r.Header.Get("Server") != want {
				t.Errorf("%s %d: %d, server %q", scheme, n, r.StatusCode, r.Header.Get("Server"))
			}
			r, _ = w.do(c, "PUT", scheme+"://files.example.com/data/k", fmt.Sprint("data of ", n))
			if r.StatusCode/100 != 2 {
				t.Errorf("%s %d: put %d", scheme, n, r.StatusCode)
			}
			if _, got := w.do(c, "GET", scheme+"://files.example.com/data/k", ""); got != fmt.Sprint("data of ", n) {
				t.Errorf("%s %d: got %q", scheme, n, got)
			}
		}
	}
	for n, id := range map[int]string{2: "t2", 3: "t3"} {
		records := w.records(id)
		if len(records) != 6 {
			t.Errorf("%s has %d records", id, len(records))
		}
		for _, r := range records {
			if r.Trajectory != id || r.Client.IP != fmt.Sprintf("127.1.%d.5", n) || r.Client.Service != "default" || r.Persona != "files.example.com" {
				t.Errorf("%s: record %+v", id, r)
			}
		}
	}
}

func TestRecordHoldsTheExchangeOverEveryProtocol(t *testing.T) {
	w := newWorld(t)
	w.register("t2", 2, plays("files.example.com", ""))
	w.do(w.client(2, false), "POST", "http://files.example.com/webhook?x=1", "hello")
	w.do(w.client(2, false), "POST", "https://files.example.com/webhook?x=1", "hello")
	r, _ := w.do(w.client(2, true), "POST", "https://files.example.com/webhook?x=1", "hello")
	if r.ProtoMajor != 2 {
		t.Fatalf("the last one went over %s", r.Proto)
	}
	records := w.records("t2")
	if len(records) != 3 {
		t.Fatalf("%d records", len(records))
	}
	for i, r := range records {
		proto, tlsWant := "HTTP/1.1", (*api.TLS)(nil)
		if i == 1 {
			tlsWant = &api.TLS{Version: "1.3", SNI: "files.example.com", ALPN: "http/1.1"}
		}
		if i == 2 {
			proto, tlsWant = "HTTP/2.0", &api.TLS{Version: "1.3", SNI: "files.example.com", ALPN: "h2"}
		}
		if i == 1 && r.TLS != nil && r.TLS.ALPN == "" {
			tlsWant.ALPN = "" // the client offered none
		}
		if (r.TLS == nil) != (tlsWant == nil) || r.TLS != nil && *r.TLS != *tlsWant {
			t.Errorf("%d: tls %+v", i, r.TLS)
		}
		q := r.Request
		if r.Kind != api.KindWebhook || r.Endpoint != "webhook" || q == nil || q.Method != "POST" || q.Host != "files.example.com" || q.Target != "/webhook?x=1" || q.Proto != proto {
			t.Errorf("%d: %+v %+v", i, r, q)
		}
		if q.Body.Content != "hello" || q.Body.Size != 5 || q.Body.Encoding != api.EncodingUTF8 {
			t.Errorf("%d: body %+v", i, q.Body)
		}
		if r.Response == nil || r.Response.Status != 200 || r.Response.Body.Size == 0 || r.OutcomeUnknown {
			t.Errorf("%d: response %+v", i, r.Response)
		}
		if !hasField(r.Response.Headers, "Server", "nginx") {
			t.Errorf("%d: headers %q and %q", i, r.Response.Headers, q.Headers)
		}
	}
}

func hasField(fields [][2]string, name, value string) bool {
	for _, f := range fields {
		if f[0] == name && f[1] == value {
			return true
		}
	}
	return false
}

func TestRecordedResponseIsWhatWasSent(t *testing.T) {
	w := newWorld(t)
	w.register("t2", 2, plays("a.example", "nginx/1.22.1"))
	for _, raw := range []string{
		"GET / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n",
		"HEAD / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n",
		"GET /nope HTTP/1.0\r\nHost: a.example\r\n\r\n",
		"POST /webhook HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi",
		"GET /webhook/ HTTP/1.1\r\nHost: b.example\r\nConnection: close\r\n\r\n",
		"GET / HTTP/9.9\r\nHost: a.example\r\n\r\n",
		"FROB / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n",
	} {
		answer := w.send(2, w.plain, raw)
		records := w.records("t2")
		got := records[len(records)-1].Response
		head, content, _ := strings.Cut(answer, "\r\n\r\n")
		lines := strings.Split(head, "\r\n")
		if want := fmt.Sprintf("HTTP/1.1 %d ", got.Status); !strings.HasPrefix(lines[0], want) {
			t.Errorf("%q: sent %q, recorded %d", raw, lines[0], got.Status)
		}
		var recorded []string
		for _, f := range got.Headers {
			recorded = append(recorded, f[0]+": "+f[1])
		}
		if strings.Join(recorded, "\n") != strings.Join(lines[1:], "\n") {
			t.Errorf("%q:\n    sent %q\nrecorded %q", raw, lines[1:], recorded)
		}
		sum := sha256.Sum256([]byte(content))
		if got.Body.Size != int64(len(content)) || got.Body.SHA256 != hex.EncodeToString(sum[:]) {
			t.Errorf("%q: %d bytes sent, recorded %+v", raw, len(content), got.Body)
		}
	}
}

func TestRecordIsOnDiskBeforeTheResponse(t *testing.T) {
	w := newWorld(t)
	w.register("t2", 2, plays("a.example", ""))
	c := w.dial(2, w.plain)
	br := bufio.NewReader(c)
	for i := range 200 {
		if _, err := fmt.Fprintf(c, "POST /webhook HTTP/1.1\r\nHost: a.example\r\nContent-Length: 5\r\n\r\n%05d", i); err != nil {
			t.Fatal(err)
		}
		if _, err := br.ReadByte(); err != nil { // the first byte
			t.Fatal(err)
		}
		if lines := w.storedLines("t2"); len(lines) != i+1 || !strings.Contains(lines[i], fmt.Sprintf(`"content":"%05d"`, i)) {
			t.Fatalf("after response %d the journal has %d lines", i, len(lines))
		}
		if err := br.UnreadByte(); err != nil {
			t.Fatal(err)
		}
		readResponse(t, br, "POST")
	}
}

func TestLargeBodiesAreKeptWholeAndAnswersStreamed(t *testing.T) {
	w := newWorld(t)
	w.register("t2", 2, plays("a.example", ""))
	content := bytes.Repeat([]byte("0123456789abcdef"), 1<<16) // 1 MiB
	sum := sha256.Sum256(content)
	for _, h2 := range []bool{false, true} {
		c := w.client(2, h2)
		r, err := http.NewRequest(http.MethodPut, "https://a.example/data/big", io.NopCloser(bytes.NewReader(content))) // of unknown length
		if err != nil {
			t.Fatal(err)
		}
		if r, _ := w.doRequest(c, r); r.StatusCode/100 != 2 {
			t.Fatalf("put %d", r.StatusCode)
		}
		if _, got := w.do(c, "GET", "https://a.example/data/big", ""); got != string(content) {
			t.Errorf("got %d bytes back", len(got))
		}
	}
	records := w.records("t2")
	if len(records) != 4 {
		t.Fatalf("%d records", len(records))
	}
	for i, r := range records {
		d := api.Received{Size: r.Request.Body.Size, SHA256: r.Request.Body.SHA256}
		if i%2 == 1 {
			d = r.Response.Body
		}
		if d.Size != int64(len(content)) || d.SHA256 != hex.EncodeToString(sum[:]) || r.OutcomeUnknown || r.Error != "" {
			t.Errorf("record %d: %+v, error %q, outcome unknown %v", i, d, r.Error, r.OutcomeUnknown)
		}
	}
}

func TestExpectContinueIsAnsweredBeforeTheBody(t *testing.T) {
	w := newWorld(t)
	w.register("t2", 2, plays("a.example", ""))
	c := w.dial(2, w.plain)
	br := bufio.NewReader(c)
	if _, err := io.WriteString(c, "POST /webhook HTTP/1.1\r\nHost: a.example\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	line, err := br.ReadString('\n')
	if err != nil || line != "HTTP/1.1 100 Continue\r\n" {
		t.Fatalf("%q %v", line, err)
	}
	if _, err := br.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, "body"); err != nil {
		t.Fatal(err)
	}
	if r, _ := readResponse(t, br, "POST"); r.StatusCode != 200 {
		t.Errorf("status %d", r.StatusCode)
	}
	if r := w.records("t2"); len(r) != 1 || r[0].Request.Body.Content != "body" {
		t.Errorf("%+v", r)
	}
}

func TestTargetsAndHeadersAreKeptByteForByte(t *testing.T) {
	w := newWorld(t)
	w.register("t2", 2, plays("a.example", ""))
	targets := []string{"/", "//", "/a//b", "/a/../b", "/a/./b", "/%2F", "/a%2fb", "/%2e%2e/x", "/?", "/?a=%zz&b;c", "/webhook?q=a+b%20c", "/ü", "/a:b@c",
		"/webhook/..;/x", "/\\x", "/a|b", "http://a.example/x?y", "HTTP://a.example", "https://A.example:80/%41", "/~a'b\"c<d>", "/{}[]^`"}
	c := w.dial(2, w.plain)
	br := bufio.NewReader(c)
	for i, target := range targets {
		if _, err := fmt.Fprintf(c, "POST %s HTTP/1.1\r\nhOST: a.example\r\nx-Zeta: %d\r\nX-alpha:\tv \r\nx-Zeta: again\r\nContent-Length: 0\r\n\r\n", target, i); err != nil {
			t.Fatal(err)
		}
		if r, _ := readResponse(t, br, "POST"); r.StatusCode/100 == 3 || r.Close {
			t.Fatalf("%s is answered %d", target, r.StatusCode)
		}
	}
	records := w.records("t2")
	if len(records) != len(targets) {
		t.Fatalf("%d records of %d", len(records), len(targets))
	}
	for i, r := range records {
		want := [][2]string{{"hOST", "a.example"}, {"x-Zeta", fmt.Sprint(i)}, {"X-alpha", "v"}, {"x-Zeta", "again"}, {"Content-Length", "0"}}
		if r.Request.Target != targets[i] || fmt.Sprint(r.Request.Headers) != fmt.Sprint(want) {
			t.Errorf("%q: target %q, headers %q", targets[i], r.Request.Target, r.Request.Headers)
		}
	}
}

func TestChunkedTrailersAndExtensionsAreEvidence(t *testing.T) {
	w := newWorld(t)
	w.register("t2", 2, plays("a.example", ""))
	w.send(2, w.plain, "POST /webhook HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n5;note=secret\r\nhello\r\n0\r\nX-Late: hidden\r\n\r\n")
	r := w.records("t2")[0]
	if r.Request.Body.Content != "hello" || !hasField(r.Request.Headers, "X-Late", "hidden") || r.Raw == nil || !strings.Contains(r.Raw.Content, "note=secret") {
		t.Errorf("%+v %+v", r.Request, r.Raw)
	}
}

func TestUnknownHostIsAnsweredByTheDefaultHost(t *testing.T) {
	w := newWorld(t)
	w.register("t2", 2, plays("a.example", "BeanGuard"))
	for _, raw := range []string{
		"POST /webhook HTTP/1.1\r\nHost: other.example\r\nConnection: close\r\nContent-Length: 4\r\n\r\nsent",
		"POST /webhook HTTP/1.0\r\nContent-Length: 4\r\n\r\nsent",
	} {
		answer := w.send(2, w.plain, raw)
		if !strings.HasPrefix(answer, "HTTP/1.1 404 Not Found\r\nServer: nginx\r\n") {
			t.Errorf("%q", answer)
		}
	}
	for _, r := range w.records("t2") {
		if r.Kind != api.KindNotFound || r.Persona != "" || r.Request.Body.Content != "sent" {
			t.Errorf("%+v", r)
		}
	}
}

func TestBodyIsEvidenceWhateverTheEndpoint(t *testing.T) {
	w := newWorld(t)
	w.register("t2", 2, plays("a.example", ""))
	for _, target := range []string{"/nope", "/assets/x", "/"} {
		w.send(2, w.plain, "PATCH "+target+" HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\nContent-Length: 4\r\n\r\nsent")
	}
	for _, r := range w.records("t2") {
		if r.Request.Body.Content != "sent" || r.Response.Status < 400 {
			t.Errorf("%+v %+v", r.Request, r.Response)
		}
	}
}

func TestMisdirectedRequestIsAnswered421(t *testing.T) {
	w := newWorld(t)
	w.register("t2", 2, plays("a.example", ""), plays("b.example", ""))
	for _, h2 := range []bool{false, true} {
		r, err := http.NewRequest(http.MethodGet, "https://a.example/", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = "b.example"
		if got, _ := w.doRequest(w.client(2, h2), r); got.StatusCode != 421 {
			t.Errorf("http/2 %v: %d", h2, got.StatusCode)
		}
	}
	for _, r := range w.records("t2") {
		if r.Kind != api.KindRefused || r.Response.Status != 421 || r.Error == "" {
			t.Errorf("%+v", r)
		}
	}
}

func TestStatusTellsWhatIsServed(t *testing.T) {
	w := newWorld(t)
	w.register("t2", 2, plays("a.example", ""))
	w.do(w.client(2, false), "GET", "http://a.example/", "")
	s, err := w.admin.Status(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if s.Protocol != api.Protocol || len(s.Trajectories) != 1 || s.Trajectories[0].Journal.Records != 1 || s.Trajectories[0].Personas[0] != "a.example" || len(s.Problems) > 0 {
		t.Errorf("%+v", s)
	}
}

func TestRestartServesAsBeforeWithTheSameAuthority(t *testing.T) {
	w := newWorld(t)
	w.register("t2", 2, plays("a.example", ""))
	roots := w.roots
	w.do(w.client(2, true), "PUT", "https://a.example/data/k", "kept")
	w.stop()
	w.start()
	w.roots = roots
	if _, got := w.do(w.client(2, true), "GET", "https://a.example/data/k", ""); got != "kept" {
		t.Errorf("got %q", got)
	}
	lines := w.storedLines("t2")
	prev := strings.Repeat("0", 64)
	for i, line := range lines {
		var r api.Record
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		if r.Seq != uint64(i+1) || r.Prev != prev {
			t.Errorf("line %d: seq %d, prev %s", i, r.Seq, r.Prev)
		}
		sum := sha256.Sum256([]byte(line))
		prev = hex.EncodeToString(sum[:])
	}
}

func TestSecondServerOnOneStateDirectoryIsRefused(t *testing.T) {
	w := newWorld(t)
	_, err := New(Options{StateDir: w.state, HTTP: []string{"127.0.0.1:0"}, HTTPS: []string{"127.0.0.1:0"}, AdminSocket: w.state + "/x"})
	if err == nil || !strings.Contains(err.Error(), "in use by another process") {
		t.Error(err)
	}
}

func TestNoSessionIsResumed(t *testing.T) {
	w := newWorld(t)
	w.register("t2", 2, plays("a.example", ""))
	cache := tls.NewLRUClientSessionCache(4)
	for i := range 3 {
		c := tls.Client(w.dial(2, w.tls), &tls.Config{ServerName: "a.example", RootCAs: w.roots, ClientSessionCache: cache})
		if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(c); err != nil {
			t.Fatal(err)
		}
		if c.ConnectionState().DidResume {
			t.Errorf("connection %d resumed a session", i)
		}
	}
}

func TestDurationsAreToTheMicrosecond(t *testing.T) {
	if got := milliseconds(1234567 * time.Nanosecond); got != 1.234 {
		t.Errorf("1234567 ns are %v ms", got)
	}
	w := newWorld(t)
	w.register("t2", 2, plays("a.example", ""))
	begun := time.Now()
	w.do(w.client(2, false), "POST", "http://a.example/webhook", "x")
	most := float64(time.Since(begun).Microseconds())
	r := w.records("t2")[0]
	if us := r.DurationMS * 1000; us <= 0 || us > most || math.Abs(us-math.Round(us)) > 1e-6 {
		t.Errorf("%v ms, and the client saw %v microseconds", r.DurationMS, most)
	}
	if r.Time.Before(begun) || r.Time.After(time.Now()) {
		t.Errorf("time %v, begun %v", r.Time, begun)
	}
}
