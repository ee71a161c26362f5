// Command origin plays the services that environments expose. It is built statically
// and put alone into an image FROM scratch.
//
//	origin NAME [HOST]:PORT…  answer on each port
//
// Every answer has the header X-Origin: NAME.
//
//	/upload          the request's body: its size and SHA-256 as JSON
//	/download?n=N    N bytes, all zero
//	/silence?for=D   an event stream: one event at once, one after D
//	/echo            a switch of protocols; then what comes goes back
//	/header          the size of the field X-Large
//	/status/N        status N, with the fields nginx would keep to itself
//	anything else    what was asked, as JSON
package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: origin NAME [HOST]:PORT…")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	failed := make(chan error)
	for _, address := range os.Args[2:] {
		server := &http.Server{Addr: address, Handler: named(os.Args[1]), MaxHeaderBytes: 1 << 20, ReadHeaderTimeout: time.Minute}
		go func() { failed <- server.ListenAndServe() }()
	}
	select {
	case err := <-failed:
		fmt.Fprintln(os.Stderr, "origin:", err)
		os.Exit(1)
	case <-ctx.Done():
	}
}

func named(name string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/upload", upload)
	mux.HandleFunc("/download", download)
	mux.HandleFunc("/silence", silence)
	mux.HandleFunc("/echo", echo)
	mux.HandleFunc("/header", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Large", strings.Repeat("y", len(r.Header.Get("X-Large"))))
		fmt.Fprint(w, len(r.Header.Get("X-Large")))
	})
	mux.HandleFunc("/status/{code}", func(w http.ResponseWriter, r *http.Request) {
		code, err := strconv.Atoi(r.PathValue("code"))
		if err != nil || code < 200 {
			code = http.StatusBadRequest
		}
		w.Header().Set("Server", "origin/1")
		w.Header().Set("X-Accel-Redirect", "/elsewhere")
		w.Header().Set("Location", "http://internal:3000/next")
		w.WriteHeader(code)
		fmt.Fprintf(w, "status %d of my own", code)
	})
	asked := func(w http.ResponseWriter, r *http.Request) {
		for field := range r.Header {
			if strings.Contains(field, "_") {
				http.Error(w, "a field that programs take for another: "+field, http.StatusBadRequest)
				return
			}
		}
		answer := map[string]string{"origin": name, "method": r.Method, "host": r.Host, "target": r.RequestURI, "peer": r.RemoteAddr,
			"for": r.Header.Get("X-Forwarded-For"), "proto": r.Header.Get("X-Forwarded-Proto"), "forwarded_host": r.Header.Get("X-Forwarded-Host"), "upgrade": r.Header.Get("Upgrade")}
		_ = json.NewEncoder(w).Encode(answer) // whoever asked sees that it is cut off
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Origin", name)
		if _, pattern := mux.Handler(r); pattern == "" || strings.Contains(r.RequestURI, "//") || strings.Contains(r.RequestURI, "..") {
			asked(w, r) // the multiplexer would redirect
			return
		}
		mux.ServeHTTP(w, r)
	})
}

func upload(w http.ResponseWriter, r *http.Request) {
	digest := sha256.New()
	n, err := io.Copy(digest, r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	fmt.Fprintf(w, `{"size":%d,"sha256":%q}`, n, hex.EncodeToString(digest.Sum(nil)))
}

func download(w http.ResponseWriter, r *http.Request) {
	n, err := strconv.ParseInt(r.URL.Query().Get("n"), 10, 64)
	if err != nil || n < 0 {
		http.Error(w, "n is no size", http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Length", strconv.FormatInt(n, 10))
	_, _ = io.CopyN(w, zeros{}, n) // whoever asked sees that it is cut off
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func silence(w http.ResponseWriter, r *http.Request) {
	d, err := time.ParseDuration(r.URL.Query().Get("for"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	out := http.NewResponseController(w)
	for i, event := range []string{"first", "second"} {
		if i > 0 {
			select {
			case <-r.Context().Done():
				return
			case <-time.After(d):
			}
		}
		fmt.Fprintf(w, "data: %s\n\n", event)
		if err := out.Flush(); err != nil {
			return
		}
	}
}

func echo(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Upgrade") != "websocket" {
		http.Error(w, "no upgrade", http.StatusUpgradeRequired)
		return
	}
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer conn.Close()
	fmt.Fprint(buffered, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
	if buffered.Flush() == nil {
		_, _ = io.Copy(conn, buffered) // until the other side ends it
	}
}
