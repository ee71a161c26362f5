package gateway

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/linuxarena/ctis/server/api"
	"github.com/linuxarena/ctis/server/conduit"
)

func TestFence(t *testing.T) {
	prefixes := func(list ...string) (out []netip.Prefix) {
		for _, s := range list {
			out = append(out, netip.MustParsePrefix(s))
		}
		return out
	}
	f := &fence{
		own: func() []netip.Addr {
			return []netip.Addr{netip.MustParseAddr("198.18.7.2"), netip.MustParseAddr("fd11::2")}
		},
		peering: func() *api.Peering {
			return &api.Peering{Closed: prefixes("198.18.0.0/15", "fd12::/48"), Open: prefixes("198.18.7.0/28")}
		},
	}
	claimed := func(yield func(string, *api.Claims) bool) {
		yield("t1", &api.Claims{Networks: prefixes("10.5.0.0/16", "fd13::/64")})
	}
	for address, want := range map[string]string{
		"93.184.215.14": "", "10.0.0.1": "", "192.168.1.1": "", "2606:2800:21f::1": "", "198.18.7.3": "", "fd99::1": "",
		"0.0.0.0": "no address", "0.1.2.3": "no address", "::": "no address",
		"127.0.0.1": "loopback", "127.9.9.9": "loopback", "::1": "loopback", "::ffff:127.0.0.1": "loopback",
		"169.254.169.254": "link-local", "fe80::1": "link-local", "fec0::1": "link-local", "ff01::1": "link-local",
		"224.0.0.1": "no single machine", "239.1.1.1": "no single machine", "255.255.255.255": "no single machine", "ff05::1": "no single machine",
		"168.63.129.16": "cloud", "100.100.100.200": "cloud", "fd00:ec2::254": "cloud",
		"198.18.7.2": "itself", "fd11::2": "itself",
		"198.18.0.1": "trajectories' networks", "198.19.255.1": "trajectories' networks", "fd12::5": "trajectories' networks",
		"10.5.1.1": `trajectory "t1"`, "fd13::9": `trajectory "t1"`,
		// Addresses of IPv6 that lead to one of IPv4.
		"64:ff9b::7f00:1": "loopback", "64:ff9b::a9fe:a9fe": "link-local", "64:ff9b::5db8:d70e": "", "64:ff9b:1::10.5.1.1": `trajectory "t1"`,
		"2002:7f00:1::": "loopback", "2002:c612:1::1": "trajectories' networks", "::127.0.0.1": "loopback", "::ffff:198.18.0.1": "trajectories' networks",
	} {
		if got := f.refuse(netip.MustParseAddr(address), claimed); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", address, got, want)
		}
	}
}

func TestANameThatLeadsInsideIsNotCalled(t *testing.T) {
	w := newWorld(t)
	u := w.upstream("inside.example", func(http.ResponseWriter, *http.Request) { t.Error("it was called") })
	w.claim("t1", u, https("nowhere.example"))
	for _, address := range []string{"127.0.0.1", "169.254.169.254", "::1", "0.0.0.0"} {
		w.mu.Lock()
		w.addresses["inside.example"] = netip.MustParseAddr(address)
		w.mu.Unlock()
		if f := w.ask("t1", "inside.example", "", conduit.Open{}).failure(t); f.Status != 502 || !strings.Contains(f.Reason, "is not called: its address "+address) {
			t.Errorf("%s: %+v", address, f)
		}
	}
	if f := w.ask("t1", "nowhere.example", "", conduit.Open{}).failure(t); !strings.Contains(f.Reason, "no such name") {
		t.Errorf("%+v", f)
	}
}

func TestTheAddressIsLookedAtWhenItIsDialled(t *testing.T) {
	w := newWorld(t)
	u := w.upstream("late.example", func(http.ResponseWriter, *http.Request) { t.Error("it was called") })
	w.claim("t1", u)
	// While its name is resolved it may be called; when it is dialled it may not.
	w.gateway.fence.allow = nil
	looks := 0
	w.gateway.fence.peering = func() *api.Peering {
		if looks++; looks == 1 {
			return &api.Peering{Open: []netip.Prefix{netip.MustParsePrefix("10.9.8.0/24")}}
		}
		return &api.Peering{Closed: []netip.Prefix{netip.MustParsePrefix("10.9.8.0/24")}}
	}
	w.mu.Lock()
	w.addresses["late.example"] = netip.MustParseAddr("10.9.8.7")
	w.mu.Unlock()
	f := w.ask("t1", "late.example", "", conduit.Open{}).failure(t)
	if f.Status != 502 || !strings.Contains(f.Reason, "10.9.8.7 is in the range of trajectories' networks") || looks != 2 {
		t.Errorf("%+v after %d looks", f, looks)
	}
}

func TestACertificateOfSomebodyElseEndsIt(t *testing.T) {
	w := newWorld(t)
	called := false
	u := w.upstream("right.example", func(http.ResponseWriter, *http.Request) { called = true })
	wrong := u
	wrong.Host = "wrong.example"
	public := u
	public.Authorities = "" // only the public authorities count
	w.mu.Lock()
	w.addresses["wrong.example"] = w.addresses["right.example"]
	w.mu.Unlock()
	w.claim("t1", wrong, public)
	for host, reason := range map[string]string{"wrong.example": "wrong.example", "right.example": "unknown authority"} {
		if f := w.ask("t1", host, "", conduit.Open{}).failure(t); f.Status != 502 || !strings.Contains(f.Reason, "TLS") || !strings.Contains(f.Reason, reason) {
			t.Errorf("%s: %+v", host, f)
		}
	}
	if called {
		t.Error("a request went to who could not show who it is")
	}
}
