package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

func agent(t *testing.T, stdin string, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, errOut bytes.Buffer
	status = run(t.Context(), args, strings.NewReader(stdin), &out, &errOut)
	return status, out.String(), errOut.String()
}

func TestVerbsEndWithTheStatusTheyPromise(t *testing.T) {
	present := filepath.Join(t.TempDir(), "healthy")
	if err := os.WriteFile(present, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		args   string
		status int
	}{
		{"exit 0", 0}, {"exit 7", 7}, {"exit x", 2}, {"exit", 2}, {"", 2}, {"fly", 2}, {"wait now", 2}, {"load http://x 0 1", 2},
		{"health " + present, 0}, {"health " + present + "-not", 1}, {"fetch", 2}, {"fetch -H broken http://x", 2},
	} {
		if status, _, _ := agent(t, "", strings.Fields(tc.args)...); status != tc.status {
			t.Errorf("agent %s: status %d, want %d", tc.args, status, tc.status)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if status := run(ctx, []string{"wait"}, nil, io.Discard, io.Discard); status != 0 {
		t.Errorf("agent wait: status %d once told to stop", status)
	}
}

func TestFetchPrintsWhatCameBack(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("X-Seen", r.Method+" "+r.Host+" "+r.Header.Get("X-A")+" "+string(body))
		if r.URL.Path == "/bytes" {
			_, _ = w.Write([]byte{0xff, 0})
			return
		}
		http.Redirect(w, r, "/elsewhere", http.StatusFound)
	}))
	defer server.Close()
	addr := server.Listener.Addr().String()
	status, out, _ := agent(t, "", "fetch", "-insecure", "-resolve", addr, "-H", "X-A: b", "-H", "Host: other.example", "-d", "hello", "https://filebin.net/x")
	var got fetched
	if err := json.Unmarshal([]byte(out), &got); err != nil || status != 0 {
		t.Fatalf("status %d, %v: %s", status, err, out)
	}
	if got.Status != 302 || got.Headers.Get("X-Seen") != "POST other.example b hello" || got.Remote != addr || got.TLS == nil || got.TLS.Issuer == "" {
		t.Errorf("got %s", out)
	}
	if _, out, _ = agent(t, "", "fetch", "-insecure", server.URL+"/bytes"); !strings.Contains(out, `"body":"ff00","hex":true,"size":2`) {
		t.Errorf("got %s", out)
	}
	if status, out, _ = agent(t, "", "fetch", server.URL); status != 1 || !strings.Contains(out, "certificate") || !strings.Contains(out, `"status":0`) {
		t.Errorf("an untrusted certificate: status %d, %s", status, out)
	}
}

func TestLoadPrintsEveryAcknowledgementOnceAndTriesAgain(t *testing.T) {
	var seq atomic.Int64
	var bodies sync.Map
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if _, twice := bodies.LoadOrStore(string(body), true); twice {
			t.Errorf("body %q came twice", body)
		}
		n := seq.Add(1)
		if n%7 == 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintf(w, `{"status":"received","id":"id-%d"}`, n)
	}))
	defer server.Close()
	status, out, _ := agent(t, "", "load", server.URL, "25", "3")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	seen := map[string]bool{}
	for _, l := range lines {
		seen[strings.Fields(l)[0]] = true
	}
	if status != 0 || len(lines) != 25 || len(seen) != 25 {
		t.Errorf("status %d, %d lines, %d ids", status, len(lines), len(seen))
	}
}

func TestLoopCountsFailuresUntilStopped(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var n atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		switch n.Add(1) {
		case 2:
			w.WriteHeader(http.StatusBadGateway)
		case 4:
			cancel()
		}
	}))
	defer server.Close()
	var out bytes.Buffer
	if status := run(ctx, []string{"loop", server.URL}, nil, &out, io.Discard); status != 0 {
		t.Fatalf("status %d", status)
	}
	var got looped
	if err := json.Unmarshal(out.Bytes(), &got); err != nil || got.Failures != 1 || got.Requests < 4 || len(got.Errors) != 1 {
		t.Errorf("%v: %s", err, out.String())
	}
}

func TestRawSendsBytesAsTheyAre(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		text, _ := io.ReadAll(conn)
		fmt.Fprintf(conn, "%d bytes: %q", len(text), text)
	}()
	status, out, errOut := agent(t, "GET \x00 bad\r\n", "raw", listener.Addr().String())
	if status != 0 || out != `11 bytes: "GET \x00 bad\r\n"` {
		t.Errorf("status %d, %s %s", status, out, errOut)
	}
}

func TestServeAnswersEveryRequest(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	errOut, said := io.Pipe()
	done := make(chan int, 1)
	go func() { done <- run(ctx, []string{"serve", "127.0.0.1:0"}, nil, io.Discard, said) }()
	line := make([]byte, 100)
	n, err := errOut.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, errOut) }()
	url := "http://" + strings.TrimSpace(strings.TrimPrefix(string(line[:n]), "listening on "))
	if status, out, _ := agent(t, "", "fetch", url+"/any"); status != 0 || !strings.Contains(out, "GET 127.0.0.1") {
		t.Errorf("status %d, %s", status, out)
	}
	cancel()
	if status := <-done; status != 0 {
		t.Errorf("status %d when told to stop", status)
	}
}
