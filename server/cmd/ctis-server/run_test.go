package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/linuxarena/ctis/server/api"
)

func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "ctis") // short: paths of unix sockets are limited
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func TestUsageIsExplained(t *testing.T) {
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"version", exitOK, fmt.Sprintf("protocol %d", api.Protocol)},
		{"help", exitOK, "usage:"},
		{"serve --help", exitOK, ""},
		{"frobnicate", exitUsage, `unknown command "frobnicate"`},
		{"serve --http 80", exitUsage, "give HOST:PORT"},
		{"serve extra", exitUsage, `unexpected argument "extra"`},
		{"--log-level loud", exitUsage, "loud"},
		{"health --admin-socket /nonexistent/sock", exitFailed, "is ctis-server running?"},
		{"bridge --admin-socket /nonexistent/sock", exitFailed, "is ctis-server running?"},
		{"serve --http 203.0.113.1:1 --https 127.0.0.1:0 --state STATE --admin-socket STATE/s", exitFailed, `cannot listen on "203.0.113.1:1"`},
	} {
		var out bytes.Buffer
		args := strings.Fields(strings.ReplaceAll(c.args, "STATE", shortDir(t)))
		if code := run(t.Context(), args, strings.NewReader(""), &out, &out); code != c.code || !strings.Contains(out.String(), c.says) {
			t.Errorf("%s: exit %d, %q", c.args, code, out.String())
		}
	}
}

func TestBridgePassesBothDirectionsAndTheEndOfEither(t *testing.T) {
	path := filepath.Join(shortDir(t), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		all, _ := io.ReadAll(c) // up to the end of stdin
		_, _ = fmt.Fprintf(c, "got %s", all)
	}()
	var out bytes.Buffer
	if err := bridge(t.Context(), path, strings.NewReader("everything"), &out); err != nil || out.String() != "got everything" {
		t.Errorf("%q %v", out.String(), err)
	}
}

// program is the real binary as a child process.
type program struct {
	t          *testing.T
	bin        string
	state      string
	socket     string
	cmd        *exec.Cmd
	plain, tls string
	admin      *api.Client
}

func build(t *testing.T) *program {
	t.Helper()
	p := &program{t: t, bin: filepath.Join(t.TempDir(), "ctis-server"), state: t.TempDir(), socket: filepath.Join(shortDir(t), "a.sock")}
	if out, err := exec.Command("go", "build", "-o", p.bin, ".").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	p.admin = api.NewClient(func(ctx context.Context) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", p.socket)
	})
	t.Cleanup(p.admin.Close)
	return p
}

var servingLine = regexp.MustCompile(`msg=serving http="?\[(\S+?)\]"? https="?\[(\S+?)\]"?`)

func (p *program) start() {
	p.t.Helper()
	p.cmd = exec.Command(p.bin, "--http", "127.0.0.2:0", "--https", "127.0.0.2:0", "--state", p.state, "--admin-socket", p.socket)
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(p.kill)
	lines := bufio.NewScanner(stderr)
	for lines.Scan() {
		if m := servingLine.FindStringSubmatch(lines.Text()); m != nil {
			p.plain, p.tls = m[1], m[2]
			go func() { _, _ = io.Copy(io.Discard, stderr) }()
			return
		}
		p.t.Log(lines.Text())
	}
	p.t.Fatal("the server did not say that it serves")
}

// register makes trajectory t1, whose address is 127.0.0.2, with all endpoints on a host.
func (p *program) register(host string) {
	p.t.Helper()
	if _, err := p.admin.Register(p.t.Context(), &api.Registration{
		Trajectory: "t1", Settings: "s",
		Networks: []api.Network{{Name: "external", ID: "n", Subnets: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Addresses: []netip.Addr{netip.MustParseAddr("127.0.0.2")}}},
		Personas: []api.Persona{{Host: host, Endpoints: api.BuiltinEndpoints}},
	}); err != nil {
		p.t.Fatal(err)
	}
}

func (p *program) kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	_ = p.cmd.Wait()
}

func TestKilledServerComesBackWithEveryAcknowledgedRequest(t *testing.T) {
	p := build(t)
	p.start()
	p.register("a.example")
	authority, err := p.admin.CA(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	// Eight clients post until the server is gone; it is killed while they do.
	const enough = 1000
	var mu sync.Mutex
	acknowledged := map[string]bool{}
	reached := make(chan struct{})
	var clients sync.WaitGroup
	for i := range 8 {
		clients.Go(func() {
			client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				var d net.Dialer
				return d.DialContext(ctx, "tcp", p.plain)
			}}, Timeout: 20 * time.Second}
			defer client.CloseIdleConnections()
			for n := 0; ; n++ {
				content := fmt.Sprintf("client %d post %d", i, n)
				r, err := client.Post("http://a.example/webhook", "text/plain", strings.NewReader(content))
				if err != nil {
					return
				}
				_, err = io.Copy(io.Discard, r.Body)
				_ = r.Body.Close()
				if r.StatusCode != http.StatusOK {
					t.Errorf("answered %d", r.StatusCode)
					return
				}
				mu.Lock()
				acknowledged[content] = true
				if len(acknowledged) == enough {
					close(reached)
				}
				mu.Unlock()
				if err != nil {
					return
				}
			}
		})
	}
	<-reached
	p.kill()
	clients.Wait()

	p.start()
	if again, err := p.admin.CA(t.Context()); err != nil || !bytes.Equal(again, authority) {
		t.Errorf("another authority after the restart (%v)", err)
	}
	prev, seq := strings.Repeat("0", 64), uint64(0)
	err = p.admin.Journal(t.Context(), "t1", api.JournalQuery{Raw: true}, func(line []byte) error {
		var r api.Record
		if err := json.Unmarshal(line, &r); err != nil {
			return err
		}
		if seq++; r.Seq != seq || r.Prev != prev {
			return fmt.Errorf("record %d: seq %d, prev %s, want %s", seq, r.Seq, r.Prev, prev)
		}
		sum := sha256.Sum256(line)
		prev = hex.EncodeToString(sum[:])
		delete(acknowledged, r.Request.Body.Content)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(acknowledged) > 0 {
		t.Errorf("%d of %d acknowledged requests are lost", len(acknowledged), seq)
	}
	var out bytes.Buffer
	if code := run(t.Context(), []string{"health", "--admin-socket", p.socket}, nil, &out, &out); code != exitOK {
		t.Errorf("health: exit %d, %s", code, out.String())
	}
}

func TestTerminatedServerEndsCleanly(t *testing.T) {
	p := build(t)
	p.start()
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Wait(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(p.socket); err == nil {
		t.Error("the admin socket is still there")
	}
}
