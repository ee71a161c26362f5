package gateway

import (
	"slices"
	"sync"
	"time"
)

// redactor passes a stream on without the secret, in the same length. What may be the
// beginning of the secret at the end of a piece is held back until more comes; all
// else goes on at once, so that streams stay streams.
//
// A short beginning occurs by chance, and who waits for the end of what he was sent
// would wait for ever: up to brief bytes are let go when nothing comes for a moment.
// They are what anybody may guess.
type redactor struct {
	secret *secret
	to     func([]byte) error

	mu    sync.Mutex
	held  []byte // the last bytes received
	sent  int    // of held: let go already
	timer *time.Timer
	err   error
}

const (
	brief    = 3 // bytes
	moment   = 20 * time.Millisecond
	halfOpen = 8 // bytes of a secret that is broken off from which on they are replaced
)

func newRedactor(s *secret, to func([]byte) error) *redactor { return &redactor{secret: s, to: to} }

// Write takes a piece. Its error is that of passing on.
func (r *redactor) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.timer != nil {
		r.timer.Stop()
	}
	if r.err != nil {
		return 0, r.err
	}
	sent := r.sent
	all := append(r.held, p...)
	r.secret.mask(all)
	keep := r.secret.pending(all)
	whole := len(all) - keep
	if whole > sent {
		r.err = r.to(all[sent:whole])
	}
	r.held = append(r.held[:0:0], all[whole:]...)
	r.sent = max(0, sent-whole)
	if n := len(r.held); n > r.sent && n <= brief && r.err == nil {
		if r.timer == nil {
			r.timer = time.AfterFunc(moment, r.letGo)
		} else {
			r.timer.Reset(moment)
		}
	}
	return len(p), r.err
}

// letGo sends a short beginning that nothing followed. It is remembered, so that what
// follows later is seen together with it.
func (r *redactor) letGo() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.held); n <= brief && n > r.sent && r.err == nil {
		r.err = r.to(r.held[r.sent:])
		r.sent = n
	}
}

// flush sends what is held: nothing of the stream is to wait. A longer beginning of the
// secret is masked. It is remembered, so that what follows is seen together with it.
func (r *redactor) flush() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.timer != nil {
		r.timer.Stop()
	}
	if r.err != nil || len(r.held) == r.sent {
		return r.err
	}
	rest := slices.Clone(r.held[r.sent:])
	if len(r.held) >= halfOpen {
		blot(rest)
	}
	r.err = r.to(rest)
	r.sent = len(r.held)
	return r.err
}
