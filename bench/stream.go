package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/linuxarena/ctis/server/api"
	"github.com/linuxarena/ctis/server/gateway"
)

const (
	streamHost  = "api.vendor.example"
	streamTurns = 40 // requests to each in a run
)

// benchStream measures the time to the first event of a stream: from an upstream with
// TLS asked directly, and through the simulator and the gateway, each with
// HTTP/2 over a connection that is there. What counts is the difference of the medians.
func benchStream(ctx context.Context, runs int) (err error) {
	dir, err := os.MkdirTemp("", "ctis-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	authority, upstream, stop, err := serveStream()
	if err != nil {
		return err
	}
	defer stop()
	bin, err := build(ctx, dir, "github.com/linuxarena/ctis/server/cmd/ctis-server")
	if err != nil {
		return err
	}
	plain, err := freeAddr()
	if err != nil {
		return err
	}
	secure, err := freeAddr()
	if err != nil {
		return err
	}
	socket := filepath.Join(dir, "admin.sock")
	ctis, err := launch(ctx, "ctis-server", bin, "--log-level", "warn", "--http", plain, "--https", secure, "--state", filepath.Join(dir, "state"), "--admin-socket", socket)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ctis.end()) }()
	if err := answers(ctx, plain); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	pool, err := throughGateway(ctx, dir, socket, api.Upstream{
		Host: streamHost, Scheme: "https", Port: upstream.Port(), KeyEnv: "VENDOR_API_KEY", AuthHeader: "X-Api-Key", Authorities: authority,
	})
	if err != nil {
		return err
	}
	direct := x509.NewCertPool()
	direct.AppendCertsFromPEM([]byte(authority))
	ways := []*way{newWay("direct", upstream.String(), direct), newWay("through ctis", secure, pool)}
	for i := range runs + 1 {
		for _, w := range ways {
			if i == 1 {
				w.first = nil // the first turn warms up
			}
			for range streamTurns {
				if err := w.ask(ctx); err != nil {
					return fmt.Errorf("%s: %w", w.name, err)
				}
			}
		}
	}
	for _, w := range ways {
		fmt.Printf("stream  %-14s p50 %v, p99 %v, n=%d\n", w.name, w.first.median().Round(time.Microsecond), w.first.p99().Round(time.Microsecond), len(w.first))
	}
	fmt.Printf("stream  first event later by %v at the median\n", (ways[1].first.median() - ways[0].first.median()).Round(time.Microsecond))
	return nil
}

func (f figures) p99() time.Duration {
	s := slices.Sorted(slices.Values(f))
	return s[len(s)*99/100]
}

// way is one way to the upstream.
type way struct {
	name   string
	client *http.Client
	first  figures
}

func newWay(name, addr string, pool *x509.CertPool) *way {
	return &way{name: name, client: &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "tcp", addr)
		},
	}}}
}

// ask measures until the first event is there, and reads the rest.
func (w *way) ask(ctx context.Context) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+streamHost+"/", nil)
	if err != nil {
		return err
	}
	var resp *http.Response
	var one [1]byte
	err = timed(&w.first, func() error {
		if resp, err = w.client.Do(r); err != nil {
			return err
		}
		_, err = io.ReadFull(resp.Body, one[:])
		return err
	})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %w", resp.Status, err)
	}
	return nil
}

// serveStream serves a stream of events with TLS on loopback.
func serveStream() (authority string, addr netip.AddrPort, stop func(), err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", addr, nil, err
	}
	own := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, DNSNames: []string{streamHost},
	}
	der, err := x509.CreateCertificate(rand.Reader, own, own, key.Public(), key)
	if err != nil {
		return "", addr, nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", addr, nil, err
	}
	own443 := &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	server := &http.Server{ReadHeaderTimeout: 10 * time.Second, TLSConfig: own443, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range 3 {
			_, _ = fmt.Fprintf(w, "data: {\"token\":%d}\n\n", i) // who left is not missed
			_ = http.NewResponseController(w).Flush()
		}
	})}
	go func() { _ = server.ServeTLS(l, "", "") }()
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), l.Addr().(*net.TCPAddr).AddrPort(), func() { _ = server.Close() }, nil
}

// throughGateway starts a gateway, introduces it to the simulator at socket, and
// registers a trajectory that may call u. It gives whom that trajectory trusts.
func throughGateway(ctx context.Context, dir, socket string, u api.Upstream) (*x509.CertPool, error) {
	loopback := netip.MustParsePrefix("127.0.0.0/8")
	o := gateway.Options{
		StateDir: filepath.Join(dir, "gateway"), Listen: "127.0.0.1:0", AdminSocket: filepath.Join(dir, "gateway.sock"),
		Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})), Allow: []netip.Prefix{loopback},
		Resolve: func(context.Context, string) ([]netip.Addr, error) { return []netip.Addr{loopback.Addr().Next()}, nil },
	}
	g, err := gateway.New(o)
	if err != nil {
		return nil, err
	}
	go func() { _ = g.Run(ctx) }() // it ends with the program
	dial := func(path string) *api.Client {
		return api.NewClient(func(ctx context.Context) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", path)
		})
	}
	sim, other := dial(socket), api.NewGatewayClient(dial(o.AdminSocket))
	defer sim.Close()
	defer other.Close()
	here, err := sim.Status(ctx)
	if err != nil {
		return nil, err
	}
	there, err := other.Status(ctx)
	if err != nil {
		return nil, err
	}
	_, err = other.SetKeys(ctx, api.Keys{u.KeyEnv: "sk-bench-0123456789abcdef"})
	err = errors.Join(err, other.SetPeer(ctx, api.Peering{Simulator: here.Identity}),
		sim.SetGateway(ctx, api.Gateway{Address: g.Addr().(*net.TCPAddr).AddrPort(), Identity: there.Identity}))
	if err != nil {
		return nil, err
	}
	if _, err := other.Claim(ctx, api.Claims{Trajectory: "bench", Upstreams: []api.Upstream{u}}); err != nil {
		return nil, err
	}
	_, err = sim.Register(ctx, &api.Registration{
		Trajectory: "bench", Environment: "bench", Settings: fmt.Sprintf("%064d", 0), Upstreams: []api.Upstream{u}, Personas: []api.Persona{},
		Networks: []api.Network{{Name: "external", ID: "bench", Subnets: []netip.Prefix{loopback}, Addresses: []netip.Addr{loopback.Addr().Next()}, Peers: []api.Peer{}}},
	})
	if err != nil {
		return nil, err
	}
	ca, err := sim.CA(ctx)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	return pool, nil
}
