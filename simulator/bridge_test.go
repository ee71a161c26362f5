package simulator

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types"
	"github.com/docker/docker/pkg/stdcopy"
)

// pair makes a bridge and the far end of its exec.
func pair(t *testing.T, f *fakeEngine) (near net.Conn, far net.Conn) {
	t.Helper()
	a, b := net.Pipe()
	c := newBridge(f, "exec", types.NewHijackedResponse(a, types.MediaTypeMultiplexedStream))
	t.Cleanup(func() { c.Close(); b.Close() })
	return c, b
}

func TestBridgeSeparatesOutputFromComplaints(t *testing.T) {
	near, far := pair(t, newFake())
	go func() {
		out, complaints := stdcopy.NewStdWriter(far, stdcopy.Stdout), stdcopy.NewStdWriter(far, stdcopy.Stderr)
		_, _ = io.WriteString(out, "one ")
		_, _ = io.WriteString(complaints, "oh no")
		_, _ = io.WriteString(out, "two")
		far.Close()
	}()
	got, err := io.ReadAll(near)
	if string(got) != "one two" {
		t.Errorf("read %q", got)
	}
	if err == nil || !strings.Contains(err.Error(), "oh no") {
		t.Errorf("error = %v, want the complaint", err)
	}
}

func TestBridgeEndsWithEOFWhenTheProcessEndsWell(t *testing.T) {
	near, far := pair(t, newFake())
	far.Close()
	if n, err := near.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("Read = %d, %v; want io.EOF", n, err)
	}
}

func TestBridgeSaysWhyTheProcessFailed(t *testing.T) {
	f := newFake()
	f.bridgeFail = "x"
	near, far := pair(t, f)
	_, _ = io.WriteString(stdcopy.NewStdWriter(far, stdcopy.Stderr), "no socket\n")
	far.Close()
	for name, op := range map[string]func([]byte) (int, error){"Read": near.Read, "Write": near.Write} {
		if _, err := op(make([]byte, 1)); err == nil || err.Error() != "bridge ended with exit code 1: no socket" {
			t.Errorf("%s = %v", name, err)
		}
	}
}

// The engine writes it where the process' output is expected.
func TestAProcessThatTheEngineCouldNotStartSaysNothing(t *testing.T) {
	f := newFake()
	f.bridgeFail = "x"
	near, far := pair(t, f)
	_, _ = io.WriteString(stdcopy.NewStdWriter(far, stdcopy.Stdout), "OCI runtime exec failed: exec failed: no such container\r\n")
	far.Close()
	got, err := io.ReadAll(near)
	if len(got) != 0 || err == nil || err.Error() != "bridge ended with exit code 1: OCI runtime exec failed: exec failed: no such container" {
		t.Errorf("read %q, %v", got, err)
	}
}

func TestBridgeKeepsDeadlines(t *testing.T) {
	near, _ := pair(t, newFake())
	past := time.Unix(1, 0)
	if err := near.SetDeadline(past); err != nil {
		t.Fatal(err)
	}
	if _, err := near.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("Read = %v, want a timeout", err)
	}
	if _, err := near.Write(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("Write = %v, want a timeout", err)
	}
	var ne net.Error
	if _, err := near.Read(make([]byte, 1)); !errors.As(err, &ne) || !ne.Timeout() {
		t.Errorf("Read = %v, want a net.Error that is a timeout", err)
	}
}

func TestClosedBridgeUnblocksReadersAndHangsUp(t *testing.T) {
	near, far := pair(t, newFake())
	read := make(chan error)
	go func() { _, err := near.Read(make([]byte, 1)); read <- err }()
	near.Close()
	if err := <-read; err == nil {
		t.Error("Read of a closed bridge succeeds")
	}
	if _, err := far.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("far end reads %v, want io.EOF", err)
	}
	if err := near.Close(); err != nil {
		t.Errorf("second Close = %v", err)
	}
}

func TestConnectSaysWhenThereIsNoRunningSimulator(t *testing.T) {
	f := newFake()
	var absent *AbsentError
	if _, err := Connect(context.Background(), f, "ctis"); !errors.As(err, &absent) || err.Error() != `there is no simulator "ctis-simulator"` {
		t.Errorf("error = %v", err)
	}
	id := mustEnsure(t, f, want("1")).ID
	f.containers[id].state = "exited"
	if _, err := Connect(context.Background(), f, "ctis"); !errors.As(err, &absent) || err.Error() != `simulator "ctis-simulator" is not running but exited` {
		t.Errorf("error = %v", err)
	}
	f.containers[id].state = "running"
	c, err := Connect(context.Background(), f, "ctis")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Status(context.Background()); err != nil {
		t.Errorf("status: %v", err)
	}
}
