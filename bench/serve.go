package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/linuxarena/ctis/server/api"
)

const (
	serveRequests    = 20000 // a turn
	serveConnections = 16
)

// benchServe posts small bodies to the real server and to the least that does
// the same job (bare.go), each a process of its own.
//
// Two ratios are told. That of time is what a client sees with every processor
// busy, and holds the client's own share on both sides. That of the servers'
// processor time leaves the client out, and is the one to judge by.
func benchServe(ctx context.Context, runs int) (err error) {
	var addrs [3]string
	for i := range addrs {
		if addrs[i], err = freeAddr(); err != nil {
			return err
		}
	}
	p, err := launchPair(ctx, addrs)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.end()) }()
	ctis, bare := p.ctis, p.bare
	if err := registerBench(ctx, p.socket); err != nil {
		return err
	}
	if err := answers(ctx, addrs[2]); err != nil {
		return fmt.Errorf("bare net/http: %w", err)
	}
	ctis.addr, bare.addr = addrs[0], addrs[2]

	for i := range runs + 1 {
		for _, s := range []*contender{ctis, bare} {
			if i == 1 {
				s.wall, s.work = nil, 0 // the first turn warms up
			}
			if err := s.turn(ctx); err != nil {
				return err
			}
		}
	}
	for _, s := range []*contender{ctis, bare} {
		fmt.Printf("serve  %-14s %6.0f requests/s (%v for %d), %.1f µs of its processor time a request\n", s.name,
			serveRequests/s.wall.median().Seconds(), s.wall, serveRequests, s.work.Seconds()*1e6/float64(serveRequests*runs))
	}
	fmt.Printf("       ratio of time %.2f, of processor time %.2f\n",
		ctis.wall.median().Seconds()/bare.wall.median().Seconds(), ctis.work.Seconds()/bare.work.Seconds())
	return nil
}

// contender is a server that is measured.
type contender struct {
	*exec.Cmd
	name string
	addr string
	wall figures
	work time.Duration // processor time of all turns: one of them is but a few dozen ticks of its clock
}

// pair is the real server and the least that does the same job (bare.go), each a
// process of its own.
type pair struct {
	ctis, bare *contender
	socket     string // of the real one's administrative interface
	self       string // this program
	dir        string // for both, which end removes
}

// launchPair starts both: the real server for HTTP and HTTPS on the first two
// addresses, the other on the third.
func launchPair(ctx context.Context, addrs [3]string) (p *pair, err error) {
	p = &pair{}
	if p.dir, err = os.MkdirTemp("", "ctis-bench-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.end())
		}
	}()
	bin, err := build(ctx, p.dir, "github.com/linuxarena/ctis/server/cmd/ctis-server")
	if err != nil {
		return nil, err
	}
	if p.self, err = os.Executable(); err != nil {
		return nil, err
	}
	p.socket = filepath.Join(p.dir, "admin.sock")
	if p.ctis, err = launch(ctx, "ctis-server", bin, "--log-level", "warn", "--http", addrs[0], "--https", addrs[1], "--state", filepath.Join(p.dir, "state"), "--admin-socket", p.socket); err != nil {
		return nil, err
	}
	if p.bare, err = launch(ctx, "bare net/http", p.self, bareVerb, addrs[2], filepath.Join(p.dir, "bare.jsonl")); err != nil {
		return nil, err
	}
	return p, nil
}

func (p *pair) end() (err error) {
	for _, c := range []*contender{p.bare, p.ctis} {
		if c != nil {
			err = errors.Join(err, c.end())
		}
	}
	return errors.Join(err, os.RemoveAll(p.dir))
}

// launch starts a server that is called name in the results; nil where it does not start.
func launch(ctx context.Context, name, program string, args ...string) (*contender, error) {
	c := &contender{Cmd: exec.CommandContext(ctx, program, args...), name: name}
	c.Stderr = os.Stderr
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
	if err := c.Start(); err != nil {
		return nil, err
	}
	return c, nil
}

// end stops the server. It may have ended by itself, which Wait tells.
func (c *contender) end() error {
	_ = c.Process.Signal(os.Interrupt)
	var exit *exec.ExitError
	if err := c.Wait(); err != nil && !errors.As(err, &exit) {
		return err
	}
	return nil
}

// turn measures serveRequests requests.
func (c *contender) turn(ctx context.Context) error {
	before, err := processorTime(c.Process.Pid)
	if err != nil {
		return err
	}
	if err := timed(&c.wall, func() error { return posts(ctx, c.addr) }); err != nil {
		return fmt.Errorf("%s: %w", c.name, err)
	}
	after, err := processorTime(c.Process.Pid)
	c.work += after - before
	return err
}

// processorTime is what a process has used up, user and system, as proc(5) counts it.
func processorTime(pid int) (time.Duration, error) {
	const tick = 10 * time.Millisecond // USER_HZ is 100 wherever Go runs on Linux
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(b), ") ") // the name before may hold spaces
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0, fmt.Errorf("process %d: its statistics have %d fields", pid, len(fields))
	}
	user, err1 := strconv.ParseInt(fields[11], 10, 64)
	system, err2 := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * tick, errors.Join(err1, err2)
}

// answers waits until somebody listens at addr.
func answers(ctx context.Context, addr string) error {
	var err error
	for range 100 {
		var c net.Conn
		if c, err = new(net.Dialer).DialContext(ctx, "tcp", addr); err == nil {
			return c.Close()
		}
		if ctx.Err() != nil {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	return err
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

// posts makes serveRequests requests over serveConnections connections, written
// and read by hand so that the client weighs little in the comparison.
func posts(ctx context.Context, addr string) error {
	req, err := http.NewRequest(http.MethodPost, "http://"+addr+"/webhook", strings.NewReader(`{"secret":"7c1f-93aa","step":1}`))
	if err != nil {
		return err
	}
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
		if err := readAnswer(r); err != nil {
			return err
		}
	}
	return nil
}

// readAnswer reads one response that must be a 200 with a Content-Length.
func readAnswer(r *bufio.Reader) error {
	length := -1
	for first := true; ; first = false {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return err
		}
		if first && !bytes.HasPrefix(line, []byte("HTTP/1.1 200 ")) {
			return errors.New(strings.TrimSpace(string(line)))
		}
		if value, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return err
			}
		}
		if len(line) == len("\r\n") {
			break
		}
	}
	if length < 0 {
		return errors.New("a response without a length")
	}
	_, err := r.Discard(length)
	return err
}
