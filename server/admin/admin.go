// Package admin serves the administrative interface: HTTP/1.1 with JSON over a
// unix socket in the simulator's own file system. No port leads to it, so
// nothing a container on a network can reach answers an administrative request;
// the host comes in through the container's exec.
package admin

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/linuxarena/ctis/server/api"
	"github.com/linuxarena/ctis/server/journal"
)

// Bounds on what one caller sends, in bytes.
const (
	maxBody   = 16 << 20
	maxHeader = 64 << 10
)

// Simulator is what the interface administers.
type Simulator interface {
	Status() *api.Status
	CA() []byte
	Hold(id string, exclusive []api.Exclusive) (release func(), err error)
	Register(r *api.Registration) (*api.Registered, error)
	Trajectory(id string) (*api.TrajectoryStatus, error)
	SetPeers(id string, p api.Peers) error
	SetNetworks(id string, n api.Networks) error
	SetPins(id string, p api.Pins) error
	// SetRules replaces the rules of a persona.
	SetRules(id, host string, s api.RuleSet) (*api.HostRules, error)
	// Rules lists the rules in force.
	Rules(id string) (*api.RulesList, error)
	// Certificates mints one for each of the hostnames, which the trajectory exposes.
	Certificates(id string, hosts []string) (*api.Certificates, error)
	// ExposedCursor says up to where a trajectory's sidecar was read.
	ExposedCursor(ctx context.Context, id string) (*api.ExposedCursor, error)
	// RecordExposed puts what a sidecar logged into the journal.
	RecordExposed(ctx context.Context, id string, b *api.ExposedBatch) (*api.ExposedCursor, error)
	SetGateway(g api.Gateway) error
	Unregister(ctx context.Context, id string) (*api.Unregistered, error)
	// Journal finds a trajectory's journal, also after it was unregistered.
	Journal(id string) (Journal, bool)
	// Journals describes all that are kept.
	Journals() (*api.Journals, error)
	// RemoveJournal removes one that nothing was written to since before.
	RemoveJournal(name string, before time.Time) error
	// StageAssets takes an upload of a registered trajectory; nobody is served it
	// before CommitAssets.
	StageAssets(id string, upload io.Reader) (*api.AssetsStaged, error)
	CommitAssets(id, stage string, commit api.AssetCommit) (*api.AssetsCommitted, error)
	DropAssets(id, stage string) error
	Assets(id string) (*api.AssetList, error)
	SeedDeleted(id, container string) error
	Retire() error
	// Healthy is an error while requests would not be answered.
	Healthy() error
}

// Journal is what of a journal is read.
type Journal interface {
	Read(ctx context.Context, q api.JournalQuery, yield func(line []byte) error) error
	// Body opens a body kept beside it; an error of kind fs.ErrNotExist when it is not there.
	Body(sha256 string) (body io.ReadCloser, size int64, err error)
}

// Listen makes the socket at path, readable and writable by its owner alone.
// One that a killed process left there is replaced; one that answers is not.
func Listen(path string) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	if c, err := net.Dial("unix", path); err == nil {
		_ = c.Close() // it only had to answer
		return nil, fmt.Errorf("admin socket %q is in use by another process; choose another with --admin-socket", path)
	}
	if fi, err := os.Lstat(path); err == nil && fi.Mode()&os.ModeSocket == 0 {
		return nil, fmt.Errorf("admin socket %q is taken by something that is no socket; choose another path with --admin-socket", path)
	}
	// The mode must be right from the first moment, so the socket is made under
	// a private name and then takes the place of a stale one.
	private := path + ".new"
	_ = os.Remove(private) // of a process that was killed here
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: private, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	if err := errors.Join(os.Chmod(private, 0o600), os.Rename(private, path)); err != nil {
		_ = l.Close() // the first error is the one that tells
		return nil, err
	}
	return &socket{UnixListener: l, path: path}, nil
}

type socket struct {
	*net.UnixListener
	path string
}

func (s *socket) Close() error {
	_ = os.Remove(s.path) // a stale one is replaced by the next start anyway
	return s.UnixListener.Close()
}

// NewServer makes the HTTP server of the interface. Its requests end when ctx
// does, followed journals included.
func NewServer(ctx context.Context, s Simulator, log *slog.Logger) *http.Server {
	return NewServerOf(ctx, Handler(s, log), log)
}

// handler answers one route; what it returns is the JSON of the answer, or nil
// if it has written the answer itself.
type handler func(w http.ResponseWriter, r *http.Request) (any, error)

// respond is the one place that turns what handlers return into HTTP.
func respond(log *slog.Logger, h handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		answer, err := h(w, r)
		if err != nil {
			e := asError(err)
			if e.Status >= http.StatusInternalServerError {
				log.Error("administrative request failed", "method", r.Method, "route", r.Pattern, "error", e.Message)
			}
			api.WriteError(w, e)
			return
		}
		if answer == nil {
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer) // the peer may be gone; nothing is left to tell it
	}
}

func asError(err error) *api.Error {
	var e *api.Error
	switch {
	case errors.As(err, &e):
		return e
	case errors.Is(err, journal.ErrStorage), errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return api.Errorf(http.StatusInsufficientStorage, api.CodeStorage, "the state volume is full or cannot be written: %v", err)
	}
	return api.Errorf(http.StatusInternalServerError, api.CodeInternal, "%v", err)
}

// bounded bounds the body of a request that is read into memory.
func bounded(h handler) handler {
	return func(w http.ResponseWriter, r *http.Request) (any, error) {
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		return h(w, r)
	}
}

// decode reads a JSON body of exactly one value with known fields only: a field
// that is not understood would be a setting silently ignored.
func decode(r *http.Request, into any) error {
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return api.Errorf(http.StatusBadRequest, api.CodeInvalid, "request body: %v", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return api.Errorf(http.StatusBadRequest, api.CodeInvalid, "request body: more than one JSON value")
	}
	return nil
}

// lines writes JSON lines and flushes when asked.
type lines struct {
	w   *bufio.Writer
	out *http.ResponseController
}

func (l *lines) flush() error {
	if err := l.w.Flush(); err != nil {
		return err
	}
	return l.out.Flush()
}
