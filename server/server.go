// Package server is the part of the simulator that faces agents: it plays the
// personas of every registered trajectory over HTTP and HTTPS, and keeps the
// journal of what was sent to them.
//
// One process serves all trajectories. Which one a connection belongs to is
// settled once, from both its ends (route.go), and everything after that sees
// only that trajectory. How a request goes through is written in pipeline.go.
package server

import (
	"context"
	"errors"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/linuxarena/ctis/server/admin"
	"github.com/linuxarena/ctis/server/api"
	"github.com/linuxarena/ctis/server/ca"
	"github.com/linuxarena/ctis/server/journal"
	"github.com/linuxarena/ctis/server/persona"
	"github.com/linuxarena/ctis/server/registry"
)

// Options are what a server is started with.
type Options struct {
	StateDir    string   // everything durable; one process at a time
	HTTP        []string // listen addresses without TLS; default ":80"
	HTTPS       []string // listen addresses with TLS; default ":443"
	AdminSocket string   // unix socket of the administrative interface
	Log         *slog.Logger
	Limits      Limits
	BodyLimit   int64            // bytes of one body the journal keeps; 0 = its default
	Quota       int64            // bytes on disk of one trajectory's journal; 0 = its default
	Now         func() time.Time // nil = time.Now
}

// Server serves until its Run ends. It holds the state directory from New on.
type Server struct {
	limits     Limits
	log        *slog.Logger
	now        func() time.Time
	started    time.Time
	lock       *os.File
	registry   *registry.Registry
	ca         *ca.Authority
	journal    *journal.Store
	files      *persona.Files
	memories   *memories
	handlers   handlers
	refusals   refusals
	interfaces *interfaces
	sidecars   sidecars
	gateway    *wayOut

	changing  sync.Mutex               // held while what is registered changes
	leaving   map[string]chan struct{} // trajectories that are being removed; guarded by changing
	notServed atomic.Pointer[[]string]
	found     []string // problems of the state directory, set by New
	routes    atomic.Pointer[routes]
	storage   atomic.Pointer[string] // why the journal cannot be written, nil while it can
	serving   atomic.Bool
	open      atomic.Int64 // connections
	dates     dates

	plainListeners []net.Listener
	tlsListeners   []net.Listener
	adminListener  net.Listener
	h1, h2         *http.Server
	queue1, queue2 *queue
	handshakes     sync.WaitGroup
	stopping       chan struct{}
	accepting      sync.WaitGroup
	delayed        delayed
	owed           owed
	bell           *bell
}

// handlers decide the responses of personas.
type handlers interface {
	Serve(w http.ResponseWriter, kind string, r *persona.Request)
}

// New takes the state directory and opens the listeners, so that everything
// that can be wrong with a start is an error here.
func New(o Options) (_ *Server, err error) {
	s := &Server{limits: o.Limits, log: o.Log, now: o.Now, stopping: make(chan struct{}), leaving: map[string]chan struct{}{}}
	s.limits.setDefaults()
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.now == nil {
		s.now = time.Now
	}
	s.started = s.now().UTC()
	s.routes.Store(&routes{})
	s.interfaces = newInterfaces(interfaceAddresses, time.Now, s.log)
	s.refusals = refusals{write: s.recordRefusal, windows: map[refusalKey]*refusalCount{}}
	defer func() {
		if err != nil {
			_ = s.release() // the first error is the one that tells
		}
	}()
	if s.bell, err = newBell(); err != nil {
		return nil, err
	}
	if err := s.openState(o); err != nil {
		return nil, err
	}
	if s.adminListener, err = admin.Listen(o.AdminSocket); err != nil {
		return nil, err
	}
	if s.plainListeners, err = listen(orDefault(o.HTTP, ":80")); err != nil {
		return nil, err
	}
	if s.tlsListeners, err = listen(orDefault(o.HTTPS, ":443")); err != nil {
		return nil, err
	}
	s.queue1, s.queue2 = newQueue(s.tlsListeners[0].Addr()), newQueue(s.tlsListeners[0].Addr())
	s.newHTTP()
	s.h1.ConnState = noteRest
	return s, nil
}

func orDefault(addresses []string, d string) []string {
	if len(addresses) == 0 {
		return []string{d}
	}
	return addresses
}

// Addrs gives the addresses listened on, in the order of the options.
func (s *Server) Addrs() (plain, tls []net.Addr) {
	for _, l := range s.plainListeners {
		plain = append(plain, l.Addr())
	}
	for _, l := range s.tlsListeners {
		tls = append(tls, l.Addr())
	}
	return plain, tls
}

// Run serves until ctx ends, then lets the requests in work end within
// Limits.Drain and closes the journal. It returns the error of a listener that
// failed before, or of closing. It is called once.
func (s *Server) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	failed := make(chan error, 8)
	var running sync.WaitGroup
	run := func(f func() error) {
		running.Go(func() {
			if err := f(); err != nil && !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
				select {
				case failed <- err:
				default: // one is enough to stop
				}
			}
		})
	}
	administration := admin.NewServer(ctx, control{s}, s.log)
	for _, l := range s.plainListeners {
		run(func() error { return s.h1.Serve(plain{l, s}) })
	}
	for _, l := range s.tlsListeners {
		s.accepting.Add(1)
		run(func() error { defer s.accepting.Done(); return s.acceptTLS(l) })
	}
	run(func() error { return s.h1.Serve(s.queue1) })
	run(func() error { return s.h2.Serve(s.queue2) })
	run(func() error { return administration.Serve(s.adminListener) })
	s.serving.Store(true)
	plainAt, tlsAt := s.Addrs()
	s.log.Info("serving", "http", plainAt, "https", tlsAt, "trajectories", len(s.registry.Snapshot()))

	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
		s.log.Error("a listener failed", "error", err)
	}
	s.serving.Store(false)
	stop()
	s.drain(administration)
	running.Wait()
	return errors.Join(err, s.release())
}

// drain ends all connections, those with a request in work last.
func (s *Server) drain(administration *http.Server) {
	close(s.stopping)
	for _, l := range s.tlsListeners {
		_ = l.Close() // it was only accepted on
	}
	s.accepting.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), s.limits.Drain)
	defer cancel()
	var all sync.WaitGroup
	for _, h := range []*http.Server{s.h1, s.h2, administration} {
		all.Go(func() {
			if h.Shutdown(ctx) != nil {
				_ = h.Close() // the time is over
			}
		})
	}
	all.Wait()
	s.changing.Lock()
	r := s.routes.Load()
	s.changing.Unlock()
	for _, n := range r.tenants {
		n.dismiss()
	}
	s.handshakes.Wait()
	for _, n := range r.tenants {
		select {
		case <-n.idle:
		case <-time.After(time.Second): // a handler that ignores its connection's end
			s.log.Warn("requests are cut off by the end of the process", "trajectory", n.id)
		}
	}
	s.delayed.close()
	s.refusals.close()
}

// recordRefusal writes the record of a refused connection.
func (s *Server) recordRefusal(trajectory string, r *api.Record) {
	j, err := s.journal.Journal(trajectory)
	if err != nil {
		s.noteStorage(err)
		return
	}
	_ = s.recordIn(j, r) // nothing was acknowledged; the store reports its state
}

// boundedLog is what net/http speaks into: rarely of use, and full of what
// clients sent.
func boundedLog(l *slog.Logger) *log.Logger { return log.New(debugLines{l}, "", 0) }

type debugLines struct{ log *slog.Logger }

func (d debugLines) Write(p []byte) (int, error) {
	d.log.Debug("net/http", "message", clip(string(p)))
	return len(p), nil
}
