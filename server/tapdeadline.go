package server

import (
	"os"
	"time"
)

// receive reads from the connection within the deadline of what is awaited.
func (t *tap) receive(p []byte) (int, error) {
	t.mu.Lock()
	if t.aborted {
		t.mu.Unlock()
		return 0, os.ErrDeadlineExceeded
	}
	err := t.Conn.SetReadDeadline(t.deadline())
	t.mu.Unlock()
	if err != nil {
		return 0, err
	}
	return t.Conn.Read(p)
}

func (t *tap) deadline() time.Time {
	limits, now := &t.server.limits, time.Now()
	switch {
	case t.phase == phaseBody:
		return now.Add(limits.BodyProgress)
	case len(t.in) > 0 && !t.first.IsZero():
		return now.Add(limits.RequestHead - t.server.now().Sub(t.first))
	case t.busy:
		return time.Time{} // the client waits for its answer
	case t.count == 0:
		return now.Add(limits.RequestHead)
	}
	return now.Add(limits.Idle)
}

// SetReadDeadline lets net/http interrupt a Read, and nothing else.
func (t *tap) SetReadDeadline(at time.Time) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.aborted = !t.raw && !at.IsZero() && at.Before(time.Now())
	if t.aborted || t.raw {
		return t.Conn.SetReadDeadline(at)
	}
	return nil
}

func (t *tap) isAborted() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.aborted
}

// hijack makes the tap transparent.
func (t *tap) hijack() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.raw = true
}

func (t *tap) hijacked() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.raw
}

// readRaw serves a hijacked connection: what was received early comes first.
func (t *tap) readRaw(p []byte) (int, error) {
	if len(t.in) > t.given {
		n := copy(p, t.in[t.given:])
		t.in, t.given = t.in[t.given+n:], 0
		return n, nil
	}
	return t.Conn.Read(p)
}
