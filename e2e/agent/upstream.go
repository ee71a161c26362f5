package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"
)

// upstream plays a real API on port 443, with the certificate and key that the
// variables CERT and KEY hold as PEM. It repeats all it is sent.
func upstream(ctx context.Context, stderr io.Writer) error {
	pair, err := tls.X509KeyPair([]byte(os.Getenv("CERT")), []byte(os.Getenv("KEY")))
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", ":443")
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/echo", echoAll)
	mux.HandleFunc("/events", events)
	mux.HandleFunc("/redirect", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "https://elsewhere.example/?key="+r.Header.Get("X-Api-Key"), http.StatusTemporaryRedirect)
	})
	mux.HandleFunc("/unauthorized", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Www-Authenticate", "Key")
		http.Error(w, "key "+r.Header.Get("X-Api-Key")+" is wrong", http.StatusUnauthorized)
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, TLSConfig: &tls.Config{Certificates: []tls.Certificate{pair}}}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	fmt.Fprintln(stderr, "listening on", listener.Addr())
	if err := server.ServeTLS(listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// echoAll answers with the request, head and body.
func echoAll(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	_ = json.NewEncoder(w).Encode(map[string]any{
		"proto": r.Proto, "method": r.Method, "target": r.RequestURI, "host": r.Host, "headers": r.Header, "body": string(body), "peer": r.RemoteAddr,
	})
}

// eventPause is between two events of a stream without end.
const eventPause = 50 * time.Millisecond

// events sends one after the other until the client leaves, or as many as n says.
func events(w http.ResponseWriter, r *http.Request) {
	var n int
	_, _ = fmt.Sscan(r.URL.Query().Get("n"), &n) // 0: without end
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	for i := 0; n == 0 || i < n; i++ {
		if _, err := fmt.Fprintf(w, "data: {\"i\":%d,\"key\":%q}\n\n", i, r.Header.Get("X-Api-Key")); err != nil {
			return
		}
		_ = http.NewResponseController(w).Flush()
		if n > 0 {
			continue
		}
		select {
		case <-r.Context().Done():
			return
		case <-time.After(eventPause):
		}
	}
}

// scan prints how often the text occurs in the memory of a process. To read another
// container's it takes the host's processes and the right to look into them.
func scan(pid, text string, stdout io.Writer) error {
	maps, err := os.ReadFile("/proc/" + pid + "/maps")
	if err != nil {
		return err
	}
	mem, err := os.Open("/proc/" + pid + "/mem")
	if err != nil {
		return err
	}
	defer mem.Close()
	found, read := 0, int64(0)
	for line := range strings.Lines(string(maps)) {
		var from, to int64
		var mode string
		if _, err := fmt.Sscanf(line, "%x-%x %s", &from, &to, &mode); err != nil || mode[0] != 'r' {
			continue
		}
		const piece = 1 << 20
		buf := make([]byte, piece+len(text))
		for at := from; at < to; at += piece {
			n, err := mem.ReadAt(buf[:min(int64(len(buf)), to-at)], at)
			if n == 0 && err != nil {
				break // not there, as the kernel's own pages
			}
			found += bytes.Count(buf[:n], []byte(text))
			read += int64(n)
		}
	}
	_, err = fmt.Fprintf(stdout, "%d in %d bytes\n", found, read)
	return err
}
