package server

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/linuxarena/ctis/server/api"
	"github.com/linuxarena/ctis/server/registry"
)

func addrs(list ...string) (all []netip.Addr) {
	for _, s := range list {
		all = append(all, netip.MustParseAddr(s))
	}
	return all
}

func TestRouteAlsoNeedsTheInterfaceAndNoGateway(t *testing.T) {
	two, three := registration("two", 2), registration("three", 3)
	two.Networks[0].Gateways = addrs("127.1.2.1")
	r := newRoutes([]*registry.Trajectory{{Registration: *two}, {Registration: *three}}, &routes{},
		func(t *registry.Trajectory) (*tenant, error) { return newTenant(t, nil), nil }, nil)
	here2, here3, link := addrs("127.0.0.2"), addrs("fe80::3", "127.0.0.3"), addrs("10.0.0.9")
	for name, c := range map[string]struct {
		e                               ends
		owner, refused, blamed, service string
	}{
		"as it should be":                  {ends{here: here2}, "two", "", "two", "default"},
		"from another trajectory":          {ends{here: here3, foreign: true}, "", refusedInterface, "three", ""},
		"from a network of nobody's":       {ends{here: link, foreign: true}, "", refusedInterface, api.Unattributed, ""},
		"from inside the simulator":        {ends{foreign: true}, "", refusedInterface, api.Unattributed, ""},
		"the gateway":                      {ends{here: here2, peer: netip.MustParseAddr("127.1.2.1")}, "", refusedGateway, api.Unattributed, ""},
		"another's address as source":      {ends{here: here2, peer: netip.MustParseAddr("127.1.3.5")}, "", refusedPeer, "two", ""},
		"another's address, called thence": {ends{here: here3, local: netip.MustParseAddr("127.0.0.9")}, "", refusedAddress, "three", ""},
	} {
		if !c.e.local.IsValid() {
			c.e.local = netip.MustParseAddr("127.0.0.2")
		}
		if !c.e.peer.IsValid() {
			c.e.peer = netip.MustParseAddr("127.1.2.5")
		}
		n, refused := r.find(c.e)
		owner := ""
		if n != nil {
			owner = n.id
		}
		blamed, service := r.blame(c.e)
		if owner != c.owner || refused != c.refused || blamed != c.blamed || service != c.service {
			t.Errorf("%s: owner %q, refused %q, blamed %q, service %q", name, owner, refused, blamed, service)
		}
	}
}

// The kernel says for a connection of the machine with itself that it came in on
// the interface with the address called. Here that interface is told to have
// another one, as the one of another network has.
func TestConnectionThatCameInOnAnotherInterfaceIsRefused(t *testing.T) {
	own := ownPrefixes(t)
	if len(own) == 0 {
		t.Skip("this machine has no address besides loopback")
	}
	w := newWorld(t)
	w.server.interfaces.read = func() (map[int][]netip.Addr, error) {
		all, err := interfaceAddresses()
		for index := range all {
			all[index] = addrs("10.255.0.1")
		}
		return all, err
	}
	before := 0
	for _, p := range own {
		r := registration("other", 9, plays("a.example", ""))
		r.Networks[0].Subnets, r.Networks[0].Addresses, r.Networks[0].Peers = []netip.Prefix{p.Masked()}, []netip.Addr{p.Addr()}, nil
		if _, err := w.admin.Register(context.Background(), r); err != nil {
			t.Fatal(err)
		}
		c, err := net.DialTimeout("tcp", net.JoinHostPort(p.Addr().String(), w.plain), 10*time.Second)
		if err != nil && !slices.Contains(ownPrefixes(t), p) {
			if _, err := w.admin.Unregister(context.Background(), "other"); err != nil {
				t.Fatal(err)
			}
			continue // a bridge of somebody's containers, which is gone by now
		}
		if err != nil {
			t.Fatal(err)
		}
		_ = c.SetDeadline(time.Now().Add(20 * time.Second))
		_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n") // it may be closed by now
		if b, _ := io.ReadAll(c); len(b) > 0 {
			t.Errorf("%s answered %q", p, b)
		}
		_ = c.Close()
		if r := w.await(api.Unattributed, before+1)[before]; r.Error != refusedInterface {
			t.Errorf("%s: %+v", p, r)
		}
		before++
		if n := len(w.records("other")); n > 0 {
			t.Errorf("%s: the trajectory that was called has %d records", p, n)
		}
		if _, err := w.admin.Unregister(context.Background(), "other"); err != nil {
			t.Fatal(err)
		}
	}
	if before == 0 {
		t.Fatal("no address of this machine stayed for the test")
	}
}

// ownPrefixes are the addresses that the machine has now, besides loopback and those
// of one link.
func ownPrefixes(t *testing.T) (own []netip.Prefix) {
	t.Helper()
	list, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range list {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().IsGlobalUnicast() {
			own = append(own, p)
		}
	}
	return own
}

func TestIngressIsKnownOnEveryKindOfListener(t *testing.T) {
	listeners, err := listen([]string{":0", "127.0.0.1:0", "[::1]:0"})
	if err != nil {
		t.Skip(err) // no IPv6 here
	}
	for _, l := range listeners {
		_, port, _ := net.SplitHostPort(l.Addr().String())
		for _, host := range []string{"127.0.0.1", "127.0.0.7", "::1"} {
			c, err := net.Dial("tcp", net.JoinHostPort(host, port))
			if err != nil {
				continue // the listener is of the other family
			}
			got, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			local := addrPort(got.LocalAddr()).Addr()
			index, err := ingressOf(got, local)
			if err != nil || index != loopbackIndex {
				t.Errorf("%s at %s: interface %d, %v", l.Addr(), local, index, err)
			}
			_, _ = c.Close(), got.Close()
		}
		_ = l.Close()
	}
}

func TestInterfacesAreLookedAtAgainButNotByEveryone(t *testing.T) {
	looks, now := 0, time.Unix(1000, 0)
	have := map[int][]netip.Addr{2: addrs("10.0.0.2")}
	var failure error
	f := newInterfaces(func() (map[int][]netip.Addr, error) { looks++; return have, failure }, func() time.Time { return now }, slog.New(slog.DiscardHandler))
	for range 3 {
		if !f.own(2, addrs("10.0.0.2")[0]) || !f.own(loopbackIndex, addrs("127.0.0.7")[0]) || !f.own(loopbackIndex, addrs("::1")[0]) {
			t.Fatal("does not know what it read")
		}
	}
	if looks != 1 {
		t.Errorf("%d looks where nothing was missing", looks)
	}
	have = map[int][]netip.Addr{2: addrs("10.0.0.2"), 3: addrs("10.0.1.2")}
	if !f.own(3, addrs("10.0.1.2")[0]) || looks != 2 {
		t.Errorf("a new interface is not found (%d looks)", looks)
	}
	for range 100 {
		if f.own(2, addrs("10.0.1.2")[0]) || f.own(2, addrs("127.0.0.1")[0]) {
			t.Fatal("an interface has another's address")
		}
	}
	if looks != 2 {
		t.Errorf("%d looks in one moment", looks)
	}
	now, failure = now.Add(refreshEvery), errors.New("no")
	if f.own(2, addrs("10.0.1.2")[0]) || looks != 3 || !f.own(3, addrs("10.0.1.2")[0]) {
		t.Errorf("after a look that failed (%d looks): what was known is gone", looks)
	}
	now = now.Add(-time.Hour)
	if f.own(2, addrs("10.0.1.2")[0]); looks != 4 {
		t.Error("a clock put back stops the looking")
	}
}

func TestConnectionsFromAGatewayAreNobodysInTheTrajectory(t *testing.T) {
	w := newWorld(t)
	r := registration("t2", 2, plays("a.example", ""))
	r.Networks[0].Gateways = addrs("127.1.2.1")
	if _, err := w.admin.Register(context.Background(), r); err != nil {
		t.Fatal(err)
	}
	c, err := w.dialFrom("127.1.2.1", "127.0.0.2", w.plain)
	if err != nil {
		t.Fatal(err)
	}
	if b, _ := io.ReadAll(c); len(b) > 0 {
		t.Errorf("answered %q", b)
	}
	if r := w.await(api.Unattributed, 1)[0]; r.Kind != api.KindRefused || r.Client.IP != "127.1.2.1" || !strings.Contains(r.Error, "gateway") {
		t.Errorf("%+v", r)
	}
	if n := len(w.records("t2")); n > 0 {
		t.Errorf("the trajectory has %d records", n)
	}
	w.stop()
	w.start() // the gateway is known from the state as well
	if c, err = w.dialFrom("127.1.2.1", "127.0.0.2", w.plain); err != nil {
		t.Fatal(err)
	}
	if b, _ := io.ReadAll(c); len(b) > 0 {
		t.Errorf("after a restart: answered %q", b)
	}
}
