package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/linuxarena/ctis/compose"
	"github.com/linuxarena/ctis/server"
	"github.com/linuxarena/ctis/server/api"
)

var exampleRules = regexp.MustCompile("(?s)\n### (\\d+\\. [^\n]*)\n(.*?)```toml\n(.*?)```\n```text\n(.*?)```")

// TestExamplesOfTheRulesDocumentWork runs every worked example of docs/rules.md
// against a server: its rules as they stand there, its requests in their order.
func TestExamplesOfTheRulesDocumentWork(t *testing.T) {
	document, err := os.ReadFile("docs/rules.md")
	if err != nil {
		t.Fatal(err)
	}
	examples := exampleRules.FindAllStringSubmatch(string(document), -1)
	if n := strings.Count(string(document), "\n### "); n != len(examples) || n < 20 {
		t.Fatalf("%d examples of %d can be read", len(examples), n)
	}
	w := newRulesWorld(t)
	for _, e := range examples {
		t.Run(strings.ReplaceAll(e[1], " ", "_"), func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "rules.toml")
			if err := os.WriteFile(file, []byte(e[3]), 0o600); err != nil {
				t.Fatal(err)
			}
			f, problems := compose.LoadRules(file, "rules.toml")
			if len(problems) > 0 {
				t.Fatalf("%v", problems)
			}
			rules, _ := f.For("files.example.com")
			w.begin(t, rules)
			for _, line := range strings.Split(strings.TrimSpace(e[4]), "\n") {
				asked, want, ok := strings.Cut(line, " → ")
				if !ok {
					t.Fatalf("%q has no arrow", line)
				}
				times := 1
				if before, n, ok := strings.Cut(asked, " ×"); ok {
					asked = before
					if times, err = strconv.Atoi(n); err != nil {
						t.Fatal(err)
					}
				}
				for range times {
					w.exchange(t, asked, want)
				}
			}
		})
	}
}

type rulesWorld struct {
	admin *api.Client
	port  string
}

func newRulesWorld(t *testing.T) *rulesWorld {
	sockets, err := os.MkdirTemp("", "ctis") // short: paths of unix sockets are limited
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(sockets) })
	socket := filepath.Join(sockets, "a")
	s, err := server.New(server.Options{StateDir: t.TempDir(), HTTP: []string{"127.0.0.2:0"}, HTTPS: []string{"127.0.0.2:0"}, AdminSocket: socket})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	plain, _ := s.Addrs()
	admin := api.NewClient(func(ctx context.Context) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", socket)
	})
	t.Cleanup(admin.Close)
	return &rulesWorld{admin, plain[0].String()}
}

// begin puts rules in force for a trajectory that has done nothing yet.
func (w *rulesWorld) begin(t *testing.T, rules []api.Rule) {
	t.Helper()
	if _, err := w.admin.Unregister(t.Context(), "t1"); err != nil {
		t.Fatal(err)
	}
	_, err := w.admin.Register(t.Context(), &api.Registration{
		Trajectory: "t1", Settings: "s",
		Networks: []api.Network{{Name: "external", ID: "n", Subnets: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Addresses: []netip.Addr{netip.MustParseAddr("127.0.0.2")}}},
		Personas: []api.Persona{{Host: "files.example.com", Endpoints: api.BuiltinEndpoints, Rules: rules}},
	})
	if err != nil {
		t.Fatal(err)
	}
}

var (
	bracketed = regexp.MustCompile(`^\[([^:\]]+): ((?:[^\]]|\][^ ])*)\] ?`)
	afterTime = regexp.MustCompile(`^after ([0-9.]+)s ?`)
)

// fields takes headers in brackets off the beginning of a text.
func fields(text string) (headers [][2]string, rest string) {
	for {
		m := bracketed.FindStringSubmatch(text)
		if m == nil {
			return headers, text
		}
		headers = append(headers, [2]string{m[1], m[2]})
		text = text[len(m[0]):]
	}
}

func (w *rulesWorld) exchange(t *testing.T, asked, want string) {
	t.Helper()
	method, rest, _ := strings.Cut(asked, " ")
	target, rest, _ := strings.Cut(rest, " ")
	headers, body := fields(rest)
	c, err := net.Dial("tcp", w.port)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close() //nolint:errcheck // whatever happens to it is looked at before
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	if want == "no answer" {
		_ = c.SetDeadline(time.Now().Add(300 * time.Millisecond))
	}
	var q strings.Builder
	q.WriteString(method + " " + target + " HTTP/1.1\r\nHost: files.example.com\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n")
	for _, h := range headers {
		q.WriteString(h[0] + ": " + h[1] + "\r\n")
	}
	began := time.Now()
	if _, err := io.WriteString(c, q.String()+"\r\n"+body); err != nil {
		t.Fatal(err)
	}
	br := bufio.NewReader(c)
	_, err = br.Peek(1)
	switch want {
	case "connection reset":
		if !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("%s: %v, want a reset", asked, err)
		}
		return
	case "connection closed":
		if err != io.EOF {
			t.Errorf("%s: %v, want the end", asked, err)
		}
		return
	case "no answer":
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: %v, want nothing", asked, err)
		}
		return
	}
	r, err := http.ReadResponse(br, &http.Request{Method: method})
	if err != nil {
		t.Fatalf("%s: %v", asked, err)
	}
	got, err := io.ReadAll(r.Body)
	if want == "cut short" {
		if !errors.Is(err, io.ErrUnexpectedEOF) || int64(len(got)) != r.ContentLength/2 {
			t.Errorf("%s: %d bytes of %d, %v", asked, len(got), r.ContentLength, err)
		}
		return
	}
	if err != nil {
		t.Fatalf("%s: %v", asked, err)
	}
	status, rest, _ := strings.Cut(want, " ")
	if m := afterTime.FindStringSubmatch(rest); m != nil {
		seconds, err := strconv.ParseFloat(m[1], 64)
		if took := time.Since(began); err != nil || took.Seconds() < seconds {
			t.Errorf("%s: answered after %s", asked, took)
		}
		rest = rest[len(m[0]):]
	}
	headers, text := fields(rest)
	if strconv.Itoa(r.StatusCode) != status || !strings.Contains(string(got), text) {
		t.Errorf("%s: %d %q, want %s", asked, r.StatusCode, got, want)
	}
	for _, h := range headers {
		if r.Header.Get(h[0]) != h[1] {
			t.Errorf("%s: %s is %q, want %q", asked, h[0], r.Header.Get(h[0]), h[1])
		}
	}
}
