// Package gateway is the other role of the program: the only place that has API keys
// and a way out (SPEC §6). It faces no agent. The simulator hands it requests over the
// link, and it sends them on to hosts that the host of the engine has registered for
// the request's trajectory, with the key in place, and to no others.
//
// What comes back leaves without the key, wherever the upstream may have repeated it
// (redact.go). Where a name leads is looked at when it is dialled (fence.go).
package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/linuxarena/ctis/server/admin"
	"github.com/linuxarena/ctis/server/api"
	"github.com/linuxarena/ctis/server/backend"
	"github.com/linuxarena/ctis/server/conduit"
	"github.com/linuxarena/ctis/server/durable"
)

// Options are what a gateway is started with.
type Options struct {
	StateDir    string // everything durable; one process at a time
	Listen      string // address for the link; default ":8443"
	AdminSocket string // unix socket of the administrative interface
	Log         *slog.Logger
	Patience    backend.Patience // zero fields mean 10 s, 30 min and 1 h
	Now         func() time.Time // nil = time.Now

	// Resolve finds the addresses of a host; nil asks the system's resolver.
	Resolve func(ctx context.Context, host string) ([]netip.Addr, error)
	// Allow are ranges where upstreams may be although nothing outside a machine is
	// there. For tests and benchmarks: they are on loopback.
	Allow []netip.Prefix
}

// Gateway serves until its Run ends. It holds the state directory from New on.
type Gateway struct {
	log      *slog.Logger
	now      func() time.Time
	started  time.Time
	lock     *os.File
	identity *conduit.Identity
	claims   *claims
	keys     *keys
	fence    *fence
	pool     *pool
	patience backend.Patience
	resolve  func(ctx context.Context, host string) ([]netip.Addr, error)
	found    []string // problems of the state directory, set by New

	peering  atomic.Pointer[api.Peering]
	peerPath string
	changing sync.Mutex // held while claims or keys change, so that each sees the other whole
	serving  atomic.Bool
	busy     busy

	listener      net.Listener
	adminListener net.Listener
}

// New takes the state directory and opens the listeners, so that everything that can
// be wrong with a start is an error here.
func New(o Options) (_ *Gateway, err error) {
	g := &Gateway{log: o.Log, now: o.Now, patience: o.Patience, resolve: o.Resolve, busy: busy{by: map[string]int{}}}
	if g.log == nil {
		g.log = slog.New(slog.DiscardHandler)
	}
	if g.now == nil {
		g.now = time.Now
	}
	if g.resolve == nil {
		g.resolve = systemResolver
	}
	setDefault(&g.patience.Connect, 10*time.Second)
	setDefault(&g.patience.Answer, 30*time.Minute)
	setDefault(&g.patience.Silence, time.Hour)
	g.started = g.now().UTC()
	g.fence = &fence{allow: o.Allow, own: ownAddresses, peering: g.peering.Load}
	g.pool = newPool()
	defer func() {
		if err != nil {
			_ = g.release() // the first error is the one that tells
		}
	}()
	if err := g.openState(o.StateDir); err != nil {
		return nil, err
	}
	if g.adminListener, err = admin.Listen(o.AdminSocket); err != nil {
		return nil, err
	}
	if o.Listen == "" {
		o.Listen = fmt.Sprintf(":%d", api.GatewayPort)
	}
	if g.listener, err = net.Listen("tcp", o.Listen); err != nil {
		return nil, fmt.Errorf("listen for the simulator: %w", err)
	}
	return g, nil
}

func setDefault(v *time.Duration, d time.Duration) {
	if *v <= 0 {
		*v = d
	}
}

// openState opens everything under the state directory.
func (g *Gateway) openState(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("state directory: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("state directory: %w", err)
	}
	g.lock = f
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return fmt.Errorf("state directory %q is in use by another process (%w); stop that one or choose another with --state", dir, err)
	}
	if g.identity, err = conduit.LoadIdentity(dir); err != nil {
		return err
	}
	var problems [3]string
	if g.keys, problems[0], err = loadKeys(filepath.Join(dir, "keys.json")); err != nil {
		return err
	}
	var damaged []string
	if g.claims, damaged, err = loadClaims(filepath.Join(dir, "claims"), g.now); err != nil {
		return err
	}
	g.peerPath = filepath.Join(dir, "peer.json")
	var p api.Peering
	if problems[1], err = load(g.peerPath, "what was told of the simulator", &p); err != nil {
		return err
	}
	g.peering.Store(&p)
	g.found = slices.DeleteFunc(append(damaged, problems[:]...), func(s string) bool { return s == "" })
	for _, p := range g.found {
		g.log.Warn("found at start", "problem", p)
	}
	return nil
}

// Addr is where the gateway listens for the simulator.
func (g *Gateway) Addr() net.Addr { return g.listener.Addr() }

// drain is how long requests in work may go on when the gateway stops.
const drain = 5 * time.Second

// Run serves until ctx ends. It is called once.
func (g *Gateway) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	work, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	link := &conduit.Server{Identity: g.identity, Peer: func() string { return g.peering.Load().Simulator }, Handle: g.serve, Log: g.log}
	administration := admin.NewServerOf(ctx, g.routes(), g.log)
	failed := make(chan error, 2)
	var running sync.WaitGroup
	running.Go(func() { failed <- link.Serve(work, g.listener) })
	running.Go(func() { failed <- administration.Serve(g.adminListener) })
	g.serving.Store(true)
	g.log.Info("serving", "link", g.listener.Addr().String(), "claims", len(g.claims.list()))

	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
		g.log.Error("a listener failed", "error", err)
	}
	g.serving.Store(false)
	stop()
	deadline := time.AfterFunc(drain, cut)
	defer deadline.Stop()
	g.busy.wait(work)
	cut()
	_ = g.listener.Close() // it was only accepted on
	end, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if administration.Shutdown(end) != nil {
		_ = administration.Close() // the time is over
	}
	running.Wait()
	g.pool.close()
	if errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	return errors.Join(err, g.release())
}

// release gives back what New took.
func (g *Gateway) release() error {
	if g.listener != nil {
		_ = g.listener.Close() // may be closed already
	}
	if g.adminListener != nil {
		_ = g.adminListener.Close() // may be closed already
	}
	if g.lock != nil {
		return g.lock.Close()
	}
	return nil
}

// load reads a sealed file into v. One that is not there is no problem; one that is
// damaged is set aside, and told.
func load(path, what string, v any) (problem string, err error) {
	err = durable.ReadSealed(path, fileVersion, v)
	switch {
	case err == nil, errors.Is(err, os.ErrNotExist):
		return "", nil
	}
	aside, moveErr := durable.SetAside(path)
	if moveErr != nil {
		return "", fmt.Errorf("%s: %q is damaged and cannot be set aside: %w", what, path, moveErr)
	}
	return fmt.Sprintf("%s: %q was damaged (%v) and is set aside as %q; the next ctis up delivers it anew", what, filepath.Base(path), err, filepath.Base(aside)), nil
}

// fileVersion is that of the format of every file of the gateway's.
const fileVersion = 1

// busy counts requests in work.
type busy struct {
	mu   sync.Mutex
	n    int
	by   map[string]int // by trajectory
	idle chan struct{}  // closed when the last one ends; nil while nobody waits
}

// Bounds of requests in work, all together and of one trajectory.
const (
	maxCalls         = 4096
	maxCallsOfOne    = 1024
	reasonCrowded    = "is not asked: more requests are with upstreams than the gateway serves at once"
	reasonCrowdedOne = "is not asked: more requests of this trajectory are with upstreams than are served at once"
)

// begin counts one in, or says why not.
func (b *busy) begin(trajectory string) (refused string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.n >= maxCalls:
		return reasonCrowded
	case b.by[trajectory] >= maxCallsOfOne:
		return reasonCrowdedOne
	}
	b.n++
	b.by[trajectory]++
	return ""
}

func (b *busy) end(trajectory string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.n--
	if b.by[trajectory]--; b.by[trajectory] == 0 {
		delete(b.by, trajectory)
	}
	if b.n == 0 && b.idle != nil {
		close(b.idle)
		b.idle = nil
	}
}

// wait returns when nothing is in work, or with ctx.
func (b *busy) wait(ctx context.Context) {
	b.mu.Lock()
	if b.n == 0 {
		b.mu.Unlock()
		return
	}
	idle := make(chan struct{})
	b.idle = idle
	b.mu.Unlock()
	select {
	case <-ctx.Done():
	case <-idle:
	}
}
