package server

import (
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/linuxarena/ctis/server/api"
)

// Why connections are closed without an answer.
const (
	refusedAddress   = "the address called is not the simulator's in any registered network"
	refusedPeer      = "the caller is outside the network of the address it called"
	refusedInterface = "the address called is not that of the interface the connection came in on"
	refusedGateway   = "the caller is the network's gateway: the engine's host, or something routed through it"
	refusedUnknown   = "the kernel does not tell which interface the connection came in on"
	refusedGone      = "the trajectory was taken down"
	refusedCrowded   = "too many connections of this trajectory are open"
	refusedFull      = "too many connections are open"
)

// A refused connection costs its maker almost nothing, so the records of them
// are bounded: the first of a window one by one, the rest of it as one record
// with their number.
const (
	refusalWindow = 10 * time.Second
	refusalBurst  = 50
)

type refusals struct {
	write func(trajectory string, r *api.Record)

	mu      sync.Mutex
	windows map[refusalKey]*refusalCount
	closed  bool
}

// refusalKey has few values: journals are as many as trajectories, reasons are
// those above.
type refusalKey struct{ trajectory, reason string }

type refusalCount struct {
	seen, silent int
	last         *api.Record
	timer        *time.Timer
}

// add records that a connection of peer was refused.
func (f *refusals) add(trajectory, service string, peer netip.AddrPort, reason string, now time.Time) {
	r := &api.Record{
		Time:       api.Time{Time: now},
		Trajectory: trajectory,
		Kind:       api.KindRefused,
		Client:     api.Source{IP: peer.Addr().String(), Port: peer.Port(), Service: service},
		Error:      reason,
	}
	key := refusalKey{trajectory, reason}
	f.mu.Lock()
	c := f.windows[key]
	if c == nil && !f.closed {
		c = &refusalCount{timer: time.AfterFunc(refusalWindow, func() { f.flush(key) })}
		f.windows[key] = c
	}
	if c != nil {
		if c.seen++; c.seen > refusalBurst {
			c.silent++
			c.last = r
			f.mu.Unlock()
			return
		}
	}
	f.mu.Unlock()
	f.write(trajectory, r)
}

// flush ends a window.
func (f *refusals) flush(key refusalKey) {
	f.mu.Lock()
	c := f.windows[key]
	delete(f.windows, key)
	f.mu.Unlock()
	if c == nil || c.silent == 0 {
		return
	}
	c.last.Error = fmt.Sprintf("%s (the last of %d more in %s)", key.reason, c.silent, refusalWindow)
	f.write(key.trajectory, c.last)
}

// close writes what is still counted.
func (f *refusals) close() {
	f.mu.Lock()
	f.closed = true
	keys := make([]refusalKey, 0, len(f.windows))
	for key, c := range f.windows {
		c.timer.Stop()
		keys = append(keys, key)
	}
	f.mu.Unlock()
	for _, key := range keys {
		f.flush(key)
	}
}
