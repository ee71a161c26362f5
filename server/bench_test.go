package server

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/linuxarena/ctis/server/api"
)

// The two benchmarks answer the same request over one kept connection each: the
// server as it is, and net/http with one line of JSON written before the
// response. Their ratio is what recording and disguise cost.

const benchRequest = "POST /webhook HTTP/1.1\r\nHost: a.example\r\nUser-Agent: bench\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello"

func BenchmarkServer(b *testing.B) {
	dir, err := os.MkdirTemp("", "ctis")
	if err != nil {
		b.Fatal(err)
	}
	defer os.RemoveAll(dir)
	s, err := New(Options{StateDir: dir + "/s", HTTP: []string{"127.0.0.2:0"}, HTTPS: []string{"127.0.0.2:0"}, AdminSocket: dir + "/a", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	reg := registration("t2", 2, plays("a.example", ""))
	if _, err := (control{s}).Register(reg); err != nil {
		b.Fatal(err)
	}
	plainAt, _ := s.Addrs()
	benchmark(b, plainAt[0].String(), "127.1.2.5")
	cancel()
	if err := <-ended; err != nil {
		b.Fatal(err)
	}
}

func BenchmarkBareNetHTTP(b *testing.B) {
	f, err := os.Create(filepath.Join(b.TempDir(), "lines"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	l, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		b.Fatal(err)
	}
	h := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		content, err := io.ReadAll(r.Body)
		if err != nil {
			panic(err)
		}
		record := api.Record{
			ID: "01J00000000000000000000000", Time: api.Time{Time: time.Now()}, Trajectory: "t2", Kind: api.KindWebhook,
			Client:   api.Source{IP: r.RemoteAddr},
			Request:  &api.Request{Method: r.Method, Host: r.Host, Target: r.RequestURI, Proto: r.Proto, Headers: fieldsOf(r.Header), Body: api.Body{Size: int64(len(content)), Content: string(content)}},
			Response: &api.Response{Status: 200},
		}
		line, err := json.Marshal(record)
		if err != nil {
			panic(err)
		}
		if _, err := f.Write(append(line, '\n')); err != nil {
			panic(err)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"status":"received","id":"01J00000000000000000000000"}`)
	})}
	go func() { _ = h.Serve(l) }()
	defer h.Close()
	benchmark(b, l.Addr().String(), "127.1.2.5")
}

func benchmark(b *testing.B, address, from string) {
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		c, err := d.Dial("tcp4", address)
		if err != nil {
			b.Error(err)
			return
		}
		defer c.Close()
		br := bufio.NewReader(c)
		for pb.Next() {
			if _, err := io.WriteString(c, benchRequest); err != nil {
				b.Error(err)
				return
			}
			length := 0
			for {
				line, err := br.ReadString('\n')
				if err != nil {
					b.Error(err)
					return
				}
				if strings.HasPrefix(line, "Content-Length: ") {
					for _, c := range strings.TrimSpace(line[len("Content-Length: "):]) {
						length = length*10 + int(c-'0')
					}
				}
				if line == "\r\n" {
					break
				}
			}
			if _, err := br.Discard(length); err != nil {
				b.Error(err)
				return
			}
		}
	})
}
