package simulator

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/pkg/stdcopy"

	"github.com/linuxarena/ctis/server/api"
)

// Connect makes a client of the instance's administrative interface. The
// simulator must be running; an *[AbsentError] says that it is not.
func Connect(ctx context.Context, eng ExecEngine, instance string) (*api.Client, error) {
	return connectPart(ctx, eng, instance, simulatorOf(instance))
}

func connectPart(ctx context.Context, eng ExecEngine, instance string, p part) (*api.Client, error) {
	name := p.container
	c, err := eng.ContainerInspect(ctx, name)
	if cerrdefs.IsNotFound(err) {
		return nil, &AbsentError{Role: p.role, Container: name}
	}
	if err != nil {
		return nil, fmt.Errorf("look at %s %q: %w", p.role, name, err)
	}
	if c.Config == nil || c.Config.Labels[LabelInstance] != instance {
		return nil, &ForeignError{Kind: "container", Name: name, Instance: instance}
	}
	// The engine calls a paused or restarting container running as well.
	if c.State == nil || stateOf(c) != "running" {
		return nil, &AbsentError{Role: p.role, Container: name, State: stateOf(c)}
	}
	return api.NewClient(Dialer(eng, c.ID)), nil
}

// Dialer makes connections to the administrative socket inside the container
// with the given id. Each is a process in the container that copies between its
// own standard streams and the socket, so nothing of it is on any network.
func Dialer(eng ExecEngine, id string) func(context.Context) (net.Conn, error) {
	return func(ctx context.Context) (net.Conn, error) {
		created, err := eng.ContainerExecCreate(ctx, id, container.ExecOptions{
			Cmd:         []string{serverBinary, "bridge"},
			AttachStdin: true, AttachStdout: true, AttachStderr: true,
		})
		if err != nil {
			return nil, fmt.Errorf("open a bridge into container %q: %w", id, err)
		}
		attached, err := eng.ContainerExecAttach(ctx, created.ID, container.ExecAttachOptions{})
		if err != nil {
			return nil, fmt.Errorf("attach to the bridge into container %q: %w", id, err)
		}
		return newBridge(eng, created.ID, attached), nil
	}
}

// bridge is a connection over an exec's streams.
type bridge struct {
	eng    ExecEngine
	execID string
	hijack types.HijackedResponse

	in     net.Conn // what the process writes to its standard output
	closed chan struct{}
	ended  chan struct{} // closed once end is set
	once   sync.Once

	mu     sync.Mutex
	stderr bytes.Buffer
	end    error // why reading ended; set before in is closed
}

// endPatience is how long a failed write waits to learn why the process ended.
const endPatience = 2 * time.Second

// stderrLimit bounds, in bytes, what is kept of the process's complaints.
const stderrLimit = 4 << 10

func newBridge(eng ExecEngine, execID string, hijack types.HijackedResponse) *bridge {
	// A pipe rather than the stream itself gives reads their deadlines.
	in, feed := net.Pipe()
	b := &bridge{eng: eng, execID: execID, hijack: hijack, in: in, closed: make(chan struct{}), ended: make(chan struct{})}
	go func() {
		_, err := stdcopy.StdCopy(&stdoutWriter{b: b, feed: feed}, (*stderrWriter)(b), hijack.Reader)
		end := b.why(err)
		b.mu.Lock()
		b.end = end
		b.mu.Unlock()
		close(b.ended)
		feed.Close()
	}()
	return b
}

// why explains the end of the stream: io.EOF if the process ended well.
func (b *bridge) why(streamErr error) error {
	select {
	case <-b.closed:
		return net.ErrClosed
	default:
	}
	complaint := strings.TrimSpace(b.stderr.String())
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	switch st, err := b.eng.ContainerExecInspect(ctx, b.execID); {
	case err == nil && !st.Running && st.ExitCode != 0:
		if complaint == "" {
			complaint = "it said nothing"
		}
		return fmt.Errorf("bridge ended with exit code %d: %s", st.ExitCode, complaint)
	case streamErr != nil:
		return fmt.Errorf("bridge broke: %w", streamErr)
	case complaint != "":
		return fmt.Errorf("bridge ended: %s", complaint)
	}
	return io.EOF
}

// execFailed is what the engine writes, as if the process had, where it could not start
// it: the container has ended meanwhile.
const execFailed = "OCI runtime exec failed"

// stdoutWriter passes on what the process writes.
type stdoutWriter struct {
	b      *bridge
	feed   io.Writer
	begun  bool
	failed bool
}

func (w *stdoutWriter) Write(p []byte) (int, error) {
	if !w.begun && len(p) > 0 {
		w.begun, w.failed = true, bytes.HasPrefix(p, []byte(execFailed))
	}
	if w.failed {
		return (*stderrWriter)(w.b).Write(p)
	}
	return w.feed.Write(p)
}

// stderrWriter collects the process's standard error.
type stderrWriter bridge

func (w *stderrWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if room := stderrLimit - w.stderr.Len(); room > 0 {
		w.stderr.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}

// Read implements [net.Conn]. When the process in the container failed, the error
// has what it wrote to its standard error.
func (b *bridge) Read(p []byte) (int, error) {
	n, err := b.in.Read(p)
	if !errors.Is(err, io.EOF) {
		return n, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return n, b.end
}

// Write implements [net.Conn]. When the process has ended, the error says why.
func (b *bridge) Write(p []byte) (int, error) {
	n, err := b.hijack.Conn.Write(p)
	if err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		return n, err
	}
	t := time.NewTimer(endPatience)
	defer t.Stop()
	select {
	case <-t.C:
	case <-b.closed:
	case <-b.ended:
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.end != io.EOF {
			return n, b.end
		}
	}
	return n, err
}

// CloseWrite ends the process's standard input; reading goes on.
func (b *bridge) CloseWrite() error { return b.hijack.CloseWrite() }

// Close implements [net.Conn]. The process in the container ends with its input.
func (b *bridge) Close() error {
	b.once.Do(func() {
		close(b.closed)
		b.in.Close()
		b.hijack.Close()
	})
	return nil
}

// LocalAddr and RemoteAddr implement [net.Conn].
func (b *bridge) LocalAddr() net.Addr { return bridgeAddr(b.execID) }

// RemoteAddr names the exec: there is no address.
func (b *bridge) RemoteAddr() net.Addr { return bridgeAddr(b.execID) }

// SetDeadline, SetReadDeadline and SetWriteDeadline implement [net.Conn].
func (b *bridge) SetDeadline(t time.Time) error {
	return errors.Join(b.SetReadDeadline(t), b.SetWriteDeadline(t))
}

// SetReadDeadline bounds reads.
func (b *bridge) SetReadDeadline(t time.Time) error { return b.in.SetReadDeadline(t) }

// SetWriteDeadline bounds writes.
func (b *bridge) SetWriteDeadline(t time.Time) error { return b.hijack.Conn.SetWriteDeadline(t) }

type bridgeAddr string

func (bridgeAddr) Network() string  { return "exec" }
func (a bridgeAddr) String() string { return string(a) }
