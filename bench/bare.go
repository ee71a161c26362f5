package main

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"sync/atomic"
	"time"
)

// bareVerb makes the benchmark run its own yardstick: as a process of its own,
// because a server inside the client's would share its scheduler and collector.
const bareVerb = "bare-server"

// bareLine is the least that tells who sent what.
type bareLine struct {
	Seq     uint64      `json:"seq"`
	Time    time.Time   `json:"time"`
	Client  string      `json:"client"`
	Method  string      `json:"method"`
	Host    string      `json:"host"`
	Target  string      `json:"target"`
	Headers http.Header `json:"headers"`
	Body    string      `json:"body"`
}

// bareServer is the yardstick: net/http that reads the body, appends one line of
// JSON to the file at path, and answers. It has the timeouts no server that
// faces strangers goes without, and nothing else.
func bareServer(addr, path string) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // a write that fails was told at once
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	var last atomic.Uint64
	record := func(line *bareLine) error {
		line.Seq = last.Add(1)
		b, err := json.Marshal(line)
		if err != nil {
			return err
		}
		_, err = file.Write(append(b, '\n'))
		return err
	}
	srv := &http.Server{
		ReadHeaderTimeout: 30 * time.Second,
		ReadTimeout:       time.Minute,
		WriteTimeout:      time.Minute,
		IdleTimeout:       75 * time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return
			}
			line := &bareLine{Time: time.Now(), Client: r.RemoteAddr, Method: r.Method, Host: r.Host, Target: r.RequestURI, Headers: r.Header, Body: string(body)}
			if err := record(line); err != nil {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"status":"received","id":"`+strconv.FormatUint(line.Seq, 10)+`"}`) // the client counts what arrives
		}),
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	defer context.AfterFunc(ctx, func() { _ = srv.Close() })()
	if err := srv.Serve(l); ctx.Err() == nil {
		return err
	}
	return nil
}
