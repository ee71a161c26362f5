package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/linuxarena/ctis/server/api"
)

const (
	serveRequests    = 20000 // a turn
	serveConnections = 16
)

// benchServe posts small bodies to the real server and to the least that does
// the same job: net/http that reads the body, appends one line of JSON to a
// file, and answers.
func benchServe(ctx context.Context, runs int) (err error) {
	dir, err := os.MkdirTemp("", "ctis-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	bin, err := build(ctx, dir, "github.com/linuxarena/ctis/server/cmd/ctis-server")
	if err != nil {
		return err
	}
	addr, err := freeAddr()
	if err != nil {
		return err
	}
	tlsAddr, err := freeAddr()
	if err != nil {
		return err
	}
	socket := filepath.Join(dir, "admin.sock")
	server := exec.CommandContext(ctx, bin, "--http", addr, "--https", tlsAddr, "--state", filepath.Join(dir, "state"), "--admin-socket", socket)
	server.Stderr = os.Stderr
	server.Cancel = func() error { return server.Process.Signal(os.Interrupt) }
	if err := server.Start(); err != nil {
		return err
	}
	defer func() {
		_ = server.Process.Signal(os.Interrupt) // it may have ended by itself, which Wait tells
		var exit *exec.ExitError
		if waitErr := server.Wait(); waitErr != nil && !errors.As(waitErr, &exit) {
			err = errors.Join(err, waitErr)
		}
	}()
	if err := registerBench(ctx, socket); err != nil {
		return err
	}
	bare, closeBare, err := bareServer(filepath.Join(dir, "bare.jsonl"))
	if err != nil {
		return err
	}
	defer closeBare()

	var a, b figures
	for i := range runs + 1 {
		if i == 1 {
			a, b = nil, nil
		}
		if err := timed(&a, func() error { return posts(ctx, "http://"+addr+"/webhook") }); err != nil {
			return fmt.Errorf("ctis-server: %w", err)
		}
		if err := timed(&b, func() error { return posts(ctx, "http://"+bare+"/webhook") }); err != nil {
			return fmt.Errorf("bare net/http: %w", err)
		}
	}
	rate := func(f figures) float64 { return serveRequests / f.median().Seconds() }
	fmt.Printf("serve  ctis-server         %.0f requests/s (%v for %d)\n       bare net/http       %.0f requests/s (%v)\n       time ratio %.2f\n",
		rate(a), a, serveRequests, rate(b), b, a.median().Seconds()/b.median().Seconds())
	return nil
}

// freeAddr finds a port on loopback nobody listens on.
func freeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// registerBench waits for the server and registers a trajectory on loopback.
func registerBench(ctx context.Context, socket string) error {
	admin := api.NewClient(func(ctx context.Context) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", socket)
	})
	defer admin.Close()
	loopback := netip.MustParseAddr("127.0.0.1")
	var err error
	for range 100 {
		_, err = admin.Register(ctx, &api.Registration{
			Trajectory: "bench", Environment: "bench", Settings: fmt.Sprintf("%064d", 0),
			Networks: []api.Network{{Name: "external", ID: "bench", Subnets: []netip.Prefix{netip.PrefixFrom(loopback, 8).Masked()}, Addresses: []netip.Addr{loopback}, Peers: []api.Peer{}}},
			Personas: []api.Persona{{Host: "filebin.net", ServerHeader: "nginx", Endpoints: []string{"webhook"}}},
		})
		if err == nil || ctx.Err() != nil {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	return err
}

// bareServer is the yardstick.
func bareServer(path string) (addr string, stop func(), err error) {
	file, err := os.Create(path)
	if err != nil {
		return "", nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	var mu sync.Mutex
	seq := 0
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		mu.Lock()
		seq++
		line, err := json.Marshal(map[string]any{"seq": seq, "time": time.Now(), "method": r.Method, "host": r.Host, "target": r.RequestURI, "headers": r.Header, "body": string(body)})
		if err == nil {
			_, err = file.Write(append(line, '\n'))
		}
		mu.Unlock()
		if err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"status":"received","id":"`+strconv.Itoa(seq)+`"}`) // the client counts what arrives
	})}
	go func() { _ = srv.Serve(l) }() // ends with Close
	return l.Addr().String(), func() { _ = srv.Close(); _ = file.Close() }, nil
}

// posts makes serveRequests requests over serveConnections connections, written
// by hand so that the client weighs little in the comparison.
func posts(ctx context.Context, url string) error {
	req, err := http.NewRequest(http.MethodPost, url, bytes.NewReader([]byte(`{"secret":"7c1f-93aa","step":1}`)))
	if err != nil {
		return err
	}
	addr := req.URL.Host
	req.Host = "filebin.net"
	var wire bytes.Buffer
	if err := req.Write(&wire); err != nil {
		return err
	}
	errs := make(chan error, serveConnections)
	for range serveConnections {
		go func() { errs <- postOver(ctx, addr, wire.Bytes(), serveRequests/serveConnections) }()
	}
	for range serveConnections {
		err = errors.Join(err, <-errs)
	}
	return err
}

func postOver(ctx context.Context, addr string, request []byte, n int) error {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	r := bufio.NewReader(conn)
	for range n {
		if _, err := conn.Write(request); err != nil {
			return err
		}
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			return err
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			return err
		}
		if resp.StatusCode != http.StatusOK {
			return errors.New(resp.Status)
		}
	}
	return nil
}
