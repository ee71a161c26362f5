package server

import (
	"errors"
	"os"
	"time"
)

// receive reads from the connection within the deadline of what is awaited.
//
// On a busy connection each deadline is later than the one before, and moving a
// timer for every request costs more than most requests ever wait. So an
// earlier deadline stays, and what is awaited goes on where that one has passed.
func (t *tap) receive(p []byte) (int, error) {
	now := time.Now()
	until := t.deadline(now)
	for {
		if err := t.startReading(until, now); err != nil {
			return 0, err
		}
		n, err := t.Conn.Read(p)
		aborted := t.stopReading()
		if n > 0 || aborted || !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
		now = time.Now()
		if !until.IsZero() && !now.Before(until) {
			if until = t.deadline(now); !until.IsZero() { // zero: a handler has begun meanwhile
				return 0, err
			}
		}
	}
}

// startReading sees to it that a Read returns by until, if not earlier.
func (t *tap) startReading(until, now time.Time) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.aborted {
		return os.ErrDeadlineExceeded
	}
	never := t.armed.IsZero() && until.IsZero()
	earlier := t.armed.After(now) && (until.IsZero() || !t.armed.After(until))
	if !never && !earlier {
		if err := t.Conn.SetReadDeadline(until); err != nil {
			return err
		}
		t.armed = until
	}
	t.reading = true
	return nil
}

func (t *tap) stopReading() (aborted bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reading = false
	return t.aborted
}

func (t *tap) deadline(now time.Time) time.Time {
	limits := &t.server.limits
	switch {
	case t.phase == phaseBody:
		return now.Add(limits.BodyProgress)
	case len(t.in) > 0 && !t.first.IsZero():
		return now.Add(limits.RequestHead - t.server.now().Sub(t.first))
	case t.isBusy():
		return time.Time{} // the client waits for its answer
	}
	wait := limits.Idle
	if t.count == 0 {
		wait = limits.RequestHead
	}
	if !t.since.IsZero() { // line ends are no message and win no time
		wait -= t.server.now().Sub(t.since)
	}
	return now.Add(wait)
}

// SetReadDeadline lets net/http interrupt a Read, and nothing else.
func (t *tap) SetReadDeadline(at time.Time) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	raw := t.raw.Load()
	t.aborted = !raw && !at.IsZero() && at.Before(time.Now())
	if t.aborted && t.reading || raw {
		t.armed = at
		return t.Conn.SetReadDeadline(at)
	}
	return nil
}

func (t *tap) isBusy() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.busy
}

func (t *tap) isAborted() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.aborted
}

// hijack makes the tap transparent.
func (t *tap) hijack() {
	t.raw.Store(true)
	_ = t.Conn.SetDeadline(time.Time{}) // those of the tap end; on a closed connection, whatever is done next tells
}

func (t *tap) hijacked() bool { return t.raw.Load() }

// readRaw serves a hijacked connection: what was received early comes first.
func (t *tap) readRaw(p []byte) (int, error) {
	if len(t.in) > t.given {
		n := copy(p, t.in[t.given:])
		t.in, t.given = t.in[t.given+n:], 0
		return n, nil
	}
	return t.Conn.Read(p)
}
