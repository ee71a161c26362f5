package server

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/linuxarena/ctis/server/api"
	"github.com/linuxarena/ctis/server/gateway"
)

const upstreamKey = "sk-canary-5f0e7c9d2b41a683"

// beyond is a gateway beside the world's server, and an upstream behind it.
type beyond struct {
	*world
	gateway *api.GatewayClient
	up      api.Upstream
	stop    func()
	start   func()
}

// withUpstream serves host with TLS at 127.0.0.8, and gives trajectory t2 the way there.
func withUpstream(t *testing.T, host string, h http.HandlerFunc) *beyond {
	t.Helper()
	b := &beyond{world: newWorld(t)}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	own := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, DNSNames: []string{host},
	}
	der, err := x509.CreateCertificate(rand.Reader, own, own, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	l, err := tls.Listen("tcp", "127.0.0.8:0", &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}})
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: h, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0)}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	b.up = api.Upstream{
		Host: host, Scheme: "https", Port: l.Addr().(*net.TCPAddr).AddrPort().Port(), KeyEnv: "VENDOR_API_KEY", AuthHeader: "X-Api-Key",
		Authorities: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
	}
	state := t.TempDir()
	b.start = func() { b.startGateway(state) }
	b.start()
	t.Cleanup(func() { b.stop() })
	if _, err := b.gateway.SetKeys(t.Context(), api.Keys{"VENDOR_API_KEY": upstreamKey}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.gateway.Claim(t.Context(), api.Claims{Trajectory: "t2", Upstreams: []api.Upstream{b.up}}); err != nil {
		t.Fatal(err)
	}
	r := registration("t2", 2, plays("a.example", ""))
	r.Upstreams = []api.Upstream{b.up}
	if _, err := b.admin.Register(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *beyond) startGateway(state string) {
	t := b.t
	t.Helper()
	sockets, err := os.MkdirTemp("", "ctis") // short: paths of unix sockets are limited
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(sockets) })
	o := gateway.Options{
		StateDir: state, Listen: "127.0.0.3:0", AdminSocket: filepath.Join(sockets, "a"),
		Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.8/32")},
		Resolve: func(context.Context, string) ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr("127.0.0.8")}, nil
		},
	}
	g, err := gateway.New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- g.Run(ctx) }()
	b.stop = func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the gateway's run ended with %v", err)
		}
		b.stop = func() {}
	}
	b.gateway = api.NewGatewayClient(api.NewClient(func(ctx context.Context) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", o.AdminSocket)
	}))
	t.Cleanup(b.gateway.Close)
	here, err := b.admin.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := b.gateway.SetPeer(t.Context(), api.Peering{Simulator: here.Identity}); err != nil {
		t.Fatal(err)
	}
	there, err := b.gateway.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := b.admin.SetGateway(t.Context(), api.Gateway{Address: g.Addr().(*net.TCPAddr).AddrPort(), Identity: there.Identity}); err != nil {
		t.Fatal(err)
	}
}

func TestAnUpstreamAnswersThroughTheGateway(t *testing.T) {
	b := withUpstream(t, "api.vendor.example", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header()["Server"] = []string{"vendor/1"}
		w.Header()["x-Odd-CASE"] = []string{"kept"}
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, "%s %s %s key=%s", r.Method, r.RequestURI, body, r.Header.Get("X-Api-Key"))
	})
	for _, http2 := range []bool{false, true} {
		c := b.client(2, http2)
		q, _ := http.NewRequest("POST", "https://api.vendor.example/v1//chat?x=%41", strings.NewReader("hello"))
		q.Header.Set("X-Api-Key", "agents-own")
		r, got := b.doRequest(c, q)
		want := "POST /v1//chat?x=%41 hello key=" + strings.Repeat("*", len(upstreamKey))
		if r.StatusCode != http.StatusCreated || got != want || r.Header.Get("Server") != "vendor/1" || r.ProtoMajor == 2 != http2 {
			t.Errorf("http2=%v: %s %q %v", http2, r.Status, got, r.Header)
		}
	}
	b.stop() // whatever is still to be recorded is
	for i, r := range b.records("t2") {
		if r.Kind != api.KindUpstream || r.Persona != "api.vendor.example" || r.Request.Body.Content != "hello" || r.Response == nil || r.Response.Status != 201 || r.Error != "" {
			t.Errorf("record %d: %+v", i, r)
		}
	}
	stored, err := os.ReadFile(filepath.Join(b.state, "journal", "t2", "journal.jsonl"))
	if err != nil || len(stored) == 0 || bytes.Contains(stored, []byte(upstreamKey)) {
		t.Errorf("the journal has the key, or nothing at all (%v)", err)
	}
}

func TestAnotherTrajectoryHasNoUpstreams(t *testing.T) {
	b := withUpstream(t, "api.vendor.example", func(http.ResponseWriter, *http.Request) { t.Error("the upstream was asked") })
	b.register("t4", 4, plays("a.example", ""))
	if r, _ := b.do(b.client(4, false), "GET", "http://api.vendor.example/", ""); r.StatusCode != http.StatusNotFound {
		t.Errorf("%s", r.Status)
	}
	// A simulator that were taken over could ask for it all the same, and gets no further.
	r := registration("t5", 5)
	r.Upstreams = []api.Upstream{b.up}
	if _, err := b.admin.Register(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if r, _ := b.do(b.client(5, false), "GET", "http://api.vendor.example/", ""); r.StatusCode != http.StatusBadGateway {
		t.Errorf("%s", r.Status)
	}
	if rec := b.records("t5"); len(rec) != 1 || !strings.Contains(rec[0].Error, "no claim") {
		t.Errorf("%+v", rec)
	}
}

func TestWithoutAKeyAnUpstreamIsUnavailable(t *testing.T) {
	b := withUpstream(t, "api.vendor.example", func(http.ResponseWriter, *http.Request) { t.Error("the upstream was asked") })
	u := b.up
	u.Host, u.KeyEnv = "other.vendor.example", "OTHER_API_KEY"
	done, err := b.gateway.Claim(t.Context(), api.Claims{Trajectory: "t6", Upstreams: []api.Upstream{u}})
	if err != nil || len(done.Missing) != 1 || done.Missing[0] != "OTHER_API_KEY" {
		t.Fatalf("%+v, %v", done, err)
	}
	r := registration("t6", 6)
	r.Upstreams = []api.Upstream{u}
	if _, err := b.admin.Register(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	resp, page := b.do(b.client(6, false), "GET", "https://other.vendor.example/", "")
	if resp.StatusCode != http.StatusServiceUnavailable || strings.Contains(page, "KEY") || resp.Header.Get("Server") != "nginx" {
		t.Errorf("%s %q %v", resp.Status, page, resp.Header)
	}
	if rec := b.records("t6"); len(rec) != 1 || !strings.Contains(rec[0].Error, "OTHER_API_KEY") {
		t.Errorf("%+v", rec)
	}
}

func TestAnUpstreamsEventsReachTheAgentAsTheyCome(t *testing.T) {
	next := make(chan struct{})
	b := withUpstream(t, "api.vendor.example", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		for i := range 3 {
			fmt.Fprintf(w, "data: %d\n\n", i)
			w.(http.Flusher).Flush()
			<-next
		}
	})
	for _, http2 := range []bool{false, true} {
		r, err := b.client(2, http2).Get("https://api.vendor.example/stream")
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		buf := make([]byte, 100)
		for i := range 3 {
			n, err := r.Body.Read(buf)
			if want := fmt.Sprintf("data: %d\n\n", i); string(buf[:n]) != want {
				t.Fatalf("http2=%v: %q, %v", http2, buf[:n], err)
			}
			next <- struct{}{}
		}
		if rest, err := io.ReadAll(r.Body); len(rest) > 0 || err != nil {
			t.Errorf("http2=%v: %q, %v", http2, rest, err)
		}
	}
}

func TestAnUpstreamsWebSocketReachesTheAgent(t *testing.T) {
	b := withUpstream(t, "api.vendor.example", func(w http.ResponseWriter, r *http.Request) {
		c, brw, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		line, _ := brw.ReadString('\n')
		text := r.Header.Get("X-Api-Key") + line
		_, _ = io.WriteString(c, "\x81"+string(rune(len(text)))+text) // one frame of RFC 6455
	})
	want := "\x81" + string(rune(len(upstreamKey)+len("ping\n"))) + strings.Repeat("*", len(upstreamKey)) + "ping\n"
	c := tls.Client(b.dial(2, b.tls), &tls.Config{RootCAs: b.roots, ServerName: "api.vendor.example"})
	if _, err := io.WriteString(c, "GET /rt HTTP/1.1\r\nHost: api.vendor.example\r\nConnection: Upgrade, X-Api-Key\r\nUpgrade: websocket\r\nX-Api-Key: mine\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	br := bufio.NewReader(c)
	r, err := http.ReadResponse(br, nil)
	if err != nil || r.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("%+v, %v", r, err)
	}
	if _, err := io.WriteString(c, "ping\n"); err != nil {
		t.Fatal(err)
	}
	if line, err := br.ReadString('\n'); line != want {
		t.Errorf("%q, %v", line, err)
	}
	_ = c.Close()
	rec := b.await("t2", 1)
	if rec[0].Kind != api.KindUpstream || b.kept("t2", rec[0].Tunnel.Received) != want {
		t.Errorf("%+v", rec)
	}
}

func TestAGatewayThatIsGoneIsToldAndComesBack(t *testing.T) {
	b := withUpstream(t, "api.vendor.example", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "real") })
	c := b.client(2, false)
	if _, got := b.do(c, "GET", "https://api.vendor.example/", ""); got != "real" {
		t.Fatalf("%q", got)
	}
	b.stop()
	if r, _ := b.do(c, "GET", "https://api.vendor.example/", ""); r.StatusCode != http.StatusBadGateway {
		t.Errorf("%s", r.Status)
	}
	b.start() // with what it knew: claims and keys are on disk
	if _, got := b.do(c, "GET", "https://api.vendor.example/", ""); got != "real" {
		t.Errorf("%q", got)
	}
	b.world.stop() // and so is what the simulator knew
	b.world.start()
	if _, got := b.do(b.client(2, false), "GET", "https://api.vendor.example/", ""); got != "real" {
		t.Errorf("%q", got)
	}
}

func TestAnAnswerThatBreaksOffDoesNotLookWhole(t *testing.T) {
	b := withUpstream(t, "api.vendor.example", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, strings.Repeat("x", 100_000))
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	})
	for _, http2 := range []bool{false, true} {
		r, err := b.client(2, http2).Get("https://api.vendor.example/")
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(r.Body)
		_ = r.Body.Close()
		if err == nil || len(got) > 100_000 {
			t.Errorf("http2=%v: %d bytes came and looked whole", http2, len(got))
		}
	}
	for _, r := range b.await("t2", 2) {
		if !strings.HasPrefix(r.Error, `upstream "api.vendor.example" closed the connection`) {
			t.Errorf("%q", r.Error)
		}
	}
}

func TestAnswersOfAnUpstreamWithoutABodyAndInParts(t *testing.T) {
	b := withUpstream(t, "api.vendor.example", func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/204":
			w.WriteHeader(http.StatusNoContent)
		case "/304":
			w.Header().Set("ETag", `"x"`)
			w.WriteHeader(http.StatusNotModified)
		case "/empty":
			w.WriteHeader(http.StatusAccepted)
		default:
			http.ServeContent(w, r, "a.bin", time.Unix(1, 0), strings.NewReader("0123456789"))
		}
	})
	for _, http2 := range []bool{false, true} {
		c := b.client(2, http2)
		for _, a := range []struct {
			method, path, scope string
			status              int
			body, length        string
		}{
			{"GET", "/", "", 200, "0123456789", "10"}, {"HEAD", "/", "", 200, "", "10"},
			{"GET", "/", "bytes=2-4", 206, "234", "3"}, {"GET", "/", "bytes=99-", 416, "invalid range: failed to overlap\n", ""},
			{"GET", "/204", "", 204, "", ""}, {"GET", "/304", "", 304, "", ""}, {"POST", "/empty", "", 202, "", "0"},
		} {
			q, err := http.NewRequest(a.method, "https://api.vendor.example"+a.path, nil)
			if err != nil {
				t.Fatal(err)
			}
			if a.scope != "" {
				q.Header.Set("Range", a.scope)
			}
			r, got := b.doRequest(c, q)
			if r.StatusCode != a.status || got != a.body || a.length != "" && r.Header.Get("Content-Length") != a.length {
				t.Errorf("http2=%v, %s %s %s: %s %q %v", http2, a.method, a.path, a.scope, r.Status, got, r.Header)
			}
		}
	}
	// A client of HTTP/1.0 knows no chunks: it gets the whole, and the connection ends.
	old := b.send(2, b.plain, "GET / HTTP/1.0\r\nHost: api.vendor.example\r\n\r\n")
	if !strings.HasPrefix(old, "HTTP/1.1 200 ") || !strings.HasSuffix(old, "\r\n\r\n0123456789") {
		t.Errorf("%q", old)
	}
	if got := b.send(2, b.plain, "CONNECT api.vendor.example:443 HTTP/1.1\r\nHost: api.vendor.example:443\r\nConnection: close\r\n\r\n"); strings.HasPrefix(got, "HTTP/1.1 2") {
		t.Errorf("a tunnel was opened: %q", got)
	}
}

// What a rule answers the upstream never hears of; what one passes on is changed on its
// way back.
func TestRulesComeBeforeTheUpstreamAndChangeItsAnswers(t *testing.T) {
	var asked []string
	b := withUpstream(t, "api.vendor.example", func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Path)
		w.Header()["Server"] = []string{"vendor/1"}
		for _, piece := range []string{"the ol", "d word"} { // of no stated length
			_, _ = io.WriteString(w, piece)
			w.(http.Flusher).Flush()
		}
	})
	r := registration("t7", 7)
	r.Upstreams = []api.Upstream{b.up}
	r.Upstreams[0].Rules = []api.Rule{
		answers("/v1/limited", 429, "slow down"),
		{Path: "/v1/edited", Pass: true, Edit: &api.ResponseEdit{Set: [][2]string{{"X-Seen", "a"}}, Replace: [][2]string{{"old", "new"}}}},
		{Path: "/v1/kept", Pass: true, Edit: &api.ResponseEdit{Replace: [][2]string{{"absent", "new"}}}},
	}
	if _, err := b.gateway.Claim(t.Context(), api.Claims{Trajectory: "t7", Upstreams: r.Upstreams}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.admin.Register(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	for _, http2 := range []bool{false, true} {
		c := b.client(7, http2)
		for path, want := range map[string]string{"/v1/limited": "429 slow down", "/v1/edited": "200 the new word", "/v1/kept": "200 the old word", "/v1/plain": "200 the old word"} {
			r, body := b.do(c, "GET", "https://api.vendor.example"+path, "")
			if got := fmt.Sprint(r.StatusCode, " ", body); got != want || strings.HasPrefix(got, "200") && r.Header.Get("Server") != "vendor/1" || (r.Header.Get("X-Seen") == "a") != (path == "/v1/edited") {
				t.Errorf("http2=%v, %s: %q %v", http2, path, got, r.Header)
			}
		}
	}
	if len(asked) != 6 {
		t.Errorf("the upstream was asked %q", asked)
	}
	if _, err := b.admin.SetRules(t.Context(), "t7", "api.vendor.example", api.RuleSet{Rules: []api.Rule{answers("/**", 503, "gone")}}); err != nil {
		t.Fatal(err)
	}
	b.world.stop() // what was set is there after a restart too
	b.world.start()
	if r, body := b.do(b.client(7, false), "GET", "https://api.vendor.example/v1/plain", ""); r.StatusCode != 503 || body != "gone" {
		t.Errorf("%d %q", r.StatusCode, body)
	}
	st, err := b.admin.Status(t.Context())
	if err != nil || len(st.Trajectories) != 2 || fmt.Sprint(st.Trajectories[1].ReplacedRules) != "[api.vendor.example]" {
		t.Errorf("%+v, %v", st, err)
	}
}
