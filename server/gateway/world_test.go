package gateway

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/linuxarena/ctis/server/api"
	"github.com/linuxarena/ctis/server/backend"
	"github.com/linuxarena/ctis/server/conduit"
)

const canary = "sk-canary-Zm9v+/4f8e2c61d7b0a935"

// world is a gateway, a simulator's end of the link, and an upstream with an authority
// of its own.
type world struct {
	t        *testing.T
	state    string
	gateway  *Gateway
	admin    *api.GatewayClient
	link     *conduit.Client
	identity *conduit.Identity
	log      *logged
	stop     func()
	http2    bool // upstreams speak it

	authority string // PEM
	issue     func(host string) tls.Certificate
	mu        sync.Mutex
	addresses map[string]netip.Addr // of upstreams
}

// logged collects what the gateway logs.
type logged struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func newWorld(t *testing.T) *world { return newWorldOf(t, false) }

// overBoth runs a test with upstreams of either version of HTTP.
func overBoth(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	t.Run("HTTP/1.1", func(t *testing.T) { test(t, newWorldOf(t, false)) })
	t.Run("HTTP/2", func(t *testing.T) { test(t, newWorldOf(t, true)) })
}

func newWorldOf(t *testing.T, http2 bool) *world {
	t.Helper()
	w := &world{http2: http2, t: t, state: t.TempDir(), log: &logged{}, addresses: map[string]netip.Addr{}}
	w.authority, w.issue = authority(t)
	id, err := conduit.LoadIdentity(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w.identity, w.link = id, conduit.NewClient(id)
	t.Cleanup(w.link.Close)
	w.start()
	t.Cleanup(func() { w.stop() })
	return w
}

func (w *world) start() {
	w.t.Helper()
	sockets, err := os.MkdirTemp("", "ctis") // short: paths of unix sockets are limited
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = os.RemoveAll(sockets) })
	o := Options{
		StateDir: w.state, Listen: "127.0.0.3:0", AdminSocket: filepath.Join(sockets, "a"),
		Log:      slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Allow:    []netip.Prefix{netip.MustParsePrefix("127.0.0.7/32")},
		Patience: backend.Patience{Connect: 2 * time.Second, Answer: 5 * time.Second, Silence: 5 * time.Second},
		Resolve: func(_ context.Context, host string) ([]netip.Addr, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			if a, ok := w.addresses[host]; ok {
				return []netip.Addr{a}, nil
			}
			return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
		},
	}
	g, err := New(o)
	if err != nil {
		w.t.Fatal(err)
	}
	w.gateway = g
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- g.Run(ctx) }()
	w.stop = func() {
		cancel()
		if err := <-ended; err != nil {
			w.t.Errorf("run ended with %v", err)
		}
		w.stop = func() {}
	}
	w.admin = api.NewGatewayClient(api.NewClient(func(ctx context.Context) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", o.AdminSocket)
	}))
	w.t.Cleanup(w.admin.Close)
	if err := w.admin.SetPeer(w.t.Context(), api.Peering{Simulator: w.identity.Fingerprint}); err != nil {
		w.t.Fatal(err)
	}
	w.link.Use(g.Addr().(*net.TCPAddr).AddrPort(), g.identity.Fingerprint)
}

// authority makes a certificate authority, and what it signs.
func authority(t *testing.T) (string, func(host string) tls.Certificate) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, ca, ca, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), func(host string) tls.Certificate {
		own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		leaf := &x509.Certificate{
			SerialNumber: big.NewInt(2), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{host},
		}
		signed, err := x509.CreateCertificate(rand.Reader, leaf, ca, own.Public(), key)
		if err != nil {
			t.Fatal(err)
		}
		return tls.Certificate{Certificate: [][]byte{signed}, PrivateKey: own}
	}
}

// upstream serves a host with TLS, and gives what is to be claimed for it. It speaks
// HTTP/2 where the test is about that.
func (w *world) upstream(host string, h http.HandlerFunc) api.Upstream {
	w.t.Helper()
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(w.http2)
	l, err := net.Listen("tcp", "127.0.0.7:0")
	if err != nil {
		w.t.Fatal(err)
	}
	server := &http.Server{
		Handler: h, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0), Protocols: protocols,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{w.issue(host)}},
	}
	go func() { _ = server.ServeTLS(l, "", "") }()
	w.t.Cleanup(func() { _ = server.Close() })
	return w.at(host, l)
}

// raw serves a host without TLS, byte by byte.
func (w *world) raw(host string, serve func(net.Conn)) api.Upstream {
	w.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.7:0")
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				serve(c)
			}()
		}
	}()
	u := w.at(host, l)
	u.Scheme, u.Authorities = "http", ""
	return u
}

func (w *world) at(host string, l net.Listener) api.Upstream {
	at := l.Addr().(*net.TCPAddr).AddrPort()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.addresses[host] = at.Addr()
	return api.Upstream{
		Host: host, Scheme: "https", Port: at.Port(), Authorities: w.authority,
		KeyEnv: "API_KEY", AuthHeader: api.DefaultAuthHeader, AuthPrefix: api.DefaultAuthPrefix,
	}
}

// claim registers upstreams for a trajectory, with the canary as their key.
func (w *world) claim(id string, list ...api.Upstream) {
	w.t.Helper()
	if _, err := w.admin.Claim(w.t.Context(), api.Claims{Trajectory: id, Upstreams: list}); err != nil {
		w.t.Fatal(err)
	}
	if _, err := w.admin.SetKeys(w.t.Context(), api.Keys{"API_KEY": canary}); err != nil {
		w.t.Fatal(err)
	}
}

// answer is what came over the link.
type answer struct {
	conduit.Head
	body     string
	trailers [][2]string
	err      error
}

func (a answer) field(name string) string {
	var all []string
	for _, f := range a.Fields {
		if strings.EqualFold(f[0], name) {
			all = append(all, f[1])
		}
	}
	return strings.Join(all, "|")
}

func (a answer) failure(t *testing.T) *backend.Failure {
	t.Helper()
	var f *backend.Failure
	if !errors.As(a.err, &f) {
		t.Fatalf("no failure but %+v", a)
	}
	return f
}

// ask sends a request as the simulator does, to its end.
func (w *world) ask(id, host string, body string, o conduit.Open) answer {
	w.t.Helper()
	e, err := w.link.Start(w.t.Context(), backend.Patience{Connect: 2 * time.Second, Answer: 10 * time.Second, Silence: 10 * time.Second})
	if err != nil {
		return answer{err: err}
	}
	defer e.Close()
	o.Trajectory, o.Host, o.Length = id, host, int64(len(body))
	if o.Method == "" {
		o.Method = "GET"
	}
	if o.Target == "" {
		o.Target = "/"
	}
	if err := e.Do(&o, strings.NewReader(body)); err != nil {
		return answer{err: err}
	}
	b, err := io.ReadAll(e)
	return answer{Head: e.Head, body: string(b), trailers: e.Trailers, err: err}
}
