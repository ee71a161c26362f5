package server

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/linuxarena/ctis/server/api"
)

// world is a running server and the trajectories around it. Trajectory n calls
// the simulator at 127.0.0.n from 127.1.n.5.
type world struct {
	t          *testing.T
	server     *Server
	state      string
	plain, tls string // ports
	admin      *api.Client
	roots      *x509.CertPool
	stop       func()
}

func newWorld(t *testing.T, change ...func(*Options)) *world {
	t.Helper()
	w := &world{t: t, state: t.TempDir()}
	w.start(change...)
	t.Cleanup(func() { w.stop() })
	return w
}

// start runs a server over the world's state directory.
func (w *world) start(change ...func(*Options)) {
	w.t.Helper()
	sockets, err := os.MkdirTemp("", "ctis") // short: paths of unix sockets are limited
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = os.RemoveAll(sockets) })
	o := Options{
		StateDir: w.state, HTTP: []string{":0"}, HTTPS: []string{":0"}, AdminSocket: filepath.Join(sockets, "a"),
		Log:    slog.New(slog.NewTextHandler(testLog{w.t}, &slog.HandlerOptions{Level: slog.LevelWarn})),
		Limits: Limits{Drain: time.Second},
	}
	for _, c := range change {
		c(&o)
	}
	s, err := New(o)
	if err != nil {
		w.t.Fatal(err)
	}
	w.server = s
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	w.stop = func() {
		cancel()
		if err := <-ended; err != nil {
			w.t.Errorf("run ended with %v", err)
		}
		w.stop = func() {}
	}
	plainAt, tlsAt := s.Addrs()
	_, w.plain, _ = net.SplitHostPort(plainAt[0].String())
	_, w.tls, _ = net.SplitHostPort(tlsAt[0].String())
	w.admin = api.NewClient(func(ctx context.Context) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", o.AdminSocket)
	})
	w.t.Cleanup(w.admin.Close)
	pem, err := w.admin.CA(context.Background())
	if err != nil {
		w.t.Fatal(err)
	}
	w.roots = x509.NewCertPool()
	w.roots.AppendCertsFromPEM(pem)
}

type testLog struct{ t *testing.T }

func (l testLog) Write(p []byte) (int, error) {
	l.t.Logf("server: %s", bytes.TrimSpace(p))
	return len(p), nil
}

func registration(id string, n int, personas ...api.Persona) *api.Registration {
	return &api.Registration{
		Trajectory: id, Environment: "env", Settings: "s",
		Networks: []api.Network{{
			Name: "external", ID: fmt.Sprint("net", n),
			Subnets:   []netip.Prefix{netip.MustParsePrefix(fmt.Sprintf("127.0.0.%d/32", n)), netip.MustParsePrefix(fmt.Sprintf("127.1.%d.0/24", n))},
			Addresses: []netip.Addr{netip.MustParseAddr(fmt.Sprintf("127.0.0.%d", n))},
			Peers:     []api.Peer{{Service: "default", Address: netip.MustParseAddr(fmt.Sprintf("127.1.%d.5", n))}},
		}},
		Personas: personas,
	}
}

func plays(host, serverHeader string) api.Persona {
	return api.Persona{Host: host, ServerHeader: serverHeader, Endpoints: api.BuiltinEndpoints}
}

func (w *world) register(id string, n int, personas ...api.Persona) {
	w.t.Helper()
	if _, err := w.admin.Register(context.Background(), registration(id, n, personas...)); err != nil {
		w.t.Fatal(err)
	}
}

// dial connects as trajectory n's agent.
func (w *world) dial(n int, port string) net.Conn {
	w.t.Helper()
	c, err := w.dialFrom(fmt.Sprintf("127.1.%d.5", n), fmt.Sprintf("127.0.0.%d", n), port)
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

func (w *world) dialFrom(local, remote, port string) (net.Conn, error) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(local)}, Timeout: 10 * time.Second}
	c, err := d.Dial("tcp4", net.JoinHostPort(remote, port))
	if err == nil {
		w.t.Cleanup(func() { _ = c.Close() })
		_ = c.SetDeadline(time.Now().Add(20 * time.Second)) // a test that hangs is a test that fails
	}
	return c, err
}

// client is an HTTP client in trajectory n: every hostname is the simulator.
func (w *world) client(n int, http2 bool) *http.Client {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(fmt.Sprintf("127.1.%d.5", n))}}
	tr := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: w.roots},
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			port := w.plain
			if strings.HasSuffix(address, ":443") {
				port = w.tls
			}
			return d.DialContext(ctx, "tcp4", fmt.Sprintf("127.0.0.%d:%s", n, port))
		},
		ForceAttemptHTTP2: http2,
	}
	w.t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: 20 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// send writes raw bytes as trajectory n and reads until the server closes.
func (w *world) send(n int, port, raw string) string {
	w.t.Helper()
	c := w.dial(n, port)
	if _, err := io.WriteString(c, raw); err != nil {
		w.t.Fatal(err)
	}
	b, err := io.ReadAll(c)
	if err != nil {
		w.t.Fatalf("after %q: %v", b, err)
	}
	return string(b)
}

// records are those of a trajectory, as people see them.
func (w *world) records(id string, kinds ...string) []api.Record {
	w.t.Helper()
	var list []api.Record
	err := w.admin.Journal(context.Background(), id, api.JournalQuery{Kinds: kinds}, func(line []byte) error {
		var r api.Record
		if err := json.Unmarshal(line, &r); err != nil {
			return err
		}
		list = append(list, r)
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return list
}

// await follows a journal until it has n records.
func (w *world) await(id string, n int) []api.Record {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	var list []api.Record
	follow := func() error {
		return w.admin.Journal(ctx, id, api.JournalQuery{Follow: true}, func(line []byte) error {
			var r api.Record
			if err := json.Unmarshal(line, &r); err != nil {
				return err
			}
			if list = append(list, r); len(list) >= n {
				return io.EOF
			}
			return nil
		})
	}
	var absent *api.Error
	for errors.As(follow(), &absent) && ctx.Err() == nil { // the first record makes the journal
		time.Sleep(5 * time.Millisecond)
	}
	if len(list) < n {
		w.t.Fatalf("journal of %s has %d records, want %d: %+v", id, len(list), n, list)
	}
	return list
}

// storedLines reads the journal as it lies on disk.
func (w *world) storedLines(id string) []string {
	w.t.Helper()
	b, err := os.ReadFile(filepath.Join(w.state, "journal", id, "journal.jsonl"))
	if err != nil {
		w.t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
}

// do makes a request and reads its response whole.
func (w *world) do(c *http.Client, method, url, content string) (*http.Response, string) {
	w.t.Helper()
	r, err := http.NewRequest(method, url, strings.NewReader(content))
	if err != nil {
		w.t.Fatal(err)
	}
	return w.doRequest(c, r)
}

func (w *world) doRequest(c *http.Client, q *http.Request) (*http.Response, string) {
	w.t.Helper()
	r, err := c.Do(q)
	if err != nil {
		w.t.Fatal(err)
	}
	return whole(w.t, r)
}

func whole(t *testing.T, r *http.Response) (*http.Response, string) {
	t.Helper()
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r, string(b)
}

// readResponse reads one response off a raw connection.
func readResponse(t *testing.T, br *bufio.Reader, method string) (*http.Response, string) {
	t.Helper()
	r, err := http.ReadResponse(br, &http.Request{Method: method})
	if err != nil {
		t.Fatal(err)
	}
	return whole(t, r)
}
