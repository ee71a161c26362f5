package server

import (
	"maps"
	"net/netip"
	"testing"

	"github.com/linuxarena/ctis/server/api"
)

func TestAnAddressThatAnotherServiceCanGetNamesNone(t *testing.T) {
	one, three, four := api.Peer{Service: "one", Address: netip.MustParseAddr("10.0.0.2")},
		api.Peer{Service: "many", Address: netip.MustParseAddr("10.0.0.3")}, api.Peer{Service: "many", Address: netip.MustParseAddr("10.0.0.4")}
	five, six := api.Peer{Service: "more", Address: netip.MustParseAddr("10.0.0.5")}, api.Peer{Service: "more", Address: netip.MustParseAddr("::ffff:10.0.0.6")}
	both := api.Peer{Service: "one", Address: netip.MustParseAddr("fd00::2")}
	for name, c := range map[string]struct {
		peers []api.Peer
		want  map[netip.Addr]string
	}{
		"one container, both families": {[]api.Peer{one, both}, map[netip.Addr]string{one.Address: "one", both.Address: "one"}},
		"one service of several":       {[]api.Peer{one, three, four}, map[netip.Addr]string{one.Address: "one", three.Address: "many", four.Address: "many"}},
		"two services of several":      {[]api.Peer{one, three, four, five, six}, map[netip.Addr]string{one.Address: "one"}},
		"none":                         {nil, map[netip.Addr]string{}},
	} {
		if got := named(c.peers); !maps.Equal(got, c.want) {
			t.Errorf("%s: %v, not %v", name, got, c.want)
		}
	}
}
