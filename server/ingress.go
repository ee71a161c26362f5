package server

import (
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// The rule here is: an address is served on the interface that has it and on no
// other. The kernel takes a packet for any of its addresses from any interface,
// and a route in it can be added from outside (a router advertisement), so that
// two addresses in one network do not yet tell that the packets came out of that
// network. The interface they came in on does: it is the end of its cable.

// interfaces remembers which interface has which addresses.
type interfaces struct {
	read func() (map[int][]netip.Addr, error) // by index
	now  func() time.Time
	log  *slog.Logger

	known   atomic.Pointer[map[int][]netip.Addr]
	mu      sync.Mutex
	refresh time.Time // the earliest for the next look on a miss
}

// refreshEvery bounds how often connections that do not fit cause a look.
const refreshEvery = 100 * time.Millisecond

func newInterfaces(read func() (map[int][]netip.Addr, error), now func() time.Time, log *slog.Logger) *interfaces {
	f := &interfaces{read: read, now: now, log: log}
	f.known.Store(&map[int][]netip.Addr{})
	f.look()
	return f
}

// own says whether the interface has the address. Where it is not known to, it
// may be because it has it only since a moment ago.
func (f *interfaces) own(index int, a netip.Addr) bool {
	if owns(index, f.addresses(index), a) {
		return true
	}
	return f.lookAgain() && owns(index, f.addresses(index), a)
}

// holder is the interface that has the address, 0 for none that is known.
func (f *interfaces) holder(a netip.Addr) int {
	for {
		for index, addresses := range *f.known.Load() {
			if owns(index, addresses, a) {
				return index
			}
		}
		if !f.lookAgain() {
			return 0
		}
	}
}

func owns(index int, addresses []netip.Addr, a netip.Addr) bool {
	return index == loopbackIndex && a.IsLoopback() || slices.Contains(addresses, a)
}

func (f *interfaces) addresses(index int) []netip.Addr { return (*f.known.Load())[index] }

// look reads the interfaces anew.
func (f *interfaces) look() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lookLocked()
}

// lookAgain does so too, unless that was just done.
func (f *interfaces) lookAgain() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.now()
	if now.Before(f.refresh) && f.refresh.Sub(now) <= refreshEvery { // and not because the clock was put back
		return false
	}
	f.refresh = now.Add(refreshEvery)
	f.lookLocked()
	return true
}

func (f *interfaces) lookLocked() {
	found, err := f.read()
	if err != nil {
		f.log.Warn("the network interfaces cannot be read", "error", err)
		return
	}
	f.known.Store(&found)
}
