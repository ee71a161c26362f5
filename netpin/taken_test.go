package netpin

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/fstest"
)

const routeTable = `Iface	Destination	Gateway 	Flags	RefCnt	Use	Metric	Mask		MTU	Window	IRTT
eth0	00000000	010011AC	0003	0	0	0	00000000	0	0	0
tun0	00000000	0100080A	0003	0	0	0	00000080	0	0	0
tun0	00000080	0100080A	0003	0	0	0	00000080	0	0	0
docker0	000011AC	00000000	0001	0	0	0	0000FFFF	0	0	0
tun0	000012C6	00000000	0001	0	0	0	0080FFFF	0	0	0
`

func TestTakenAreEngineNetworksAndHostRoutesButNotTheDefault(t *testing.T) {
	f := world()
	f.addNetwork("h", "host", "", nil)
	for _, tc := range []struct {
		name, want string
		host       fstest.MapFS
	}{
		{"routes", "[198.18.0.0/27 172.17.0.0/16 198.18.0.0/17]", fstest.MapFS{"proc/net/route": {Data: []byte(routeTable)}}},
		{"no proc", "[198.18.0.0/27]", fstest.MapFS{}},
	} {
		if got, err := Taken(context.Background(), f, tc.host); err != nil || fmt.Sprint(got) != tc.want {
			t.Errorf("%s: %v, %v; want %s", tc.name, got, err, tc.want)
		}
	}
	if got, err := Taken(context.Background(), f, nil); err != nil || fmt.Sprint(got) != "[198.18.0.0/27]" {
		t.Errorf("remote engine: %v, %v", got, err)
	}
	for _, bad := range []string{"x\neth0 00", "x\neth0 zz 0 0 0 0 0 00000000", "x\neth0 00000000 0 0 0 0 0 FF"} {
		if _, err := Taken(context.Background(), f, fstest.MapFS{"proc/net/route": {Data: []byte(bad)}}); err == nil {
			t.Errorf("table %q was accepted", bad)
		}
	}
}

func FuzzRouteTablesNeverPanic(f *testing.F) {
	f.Add([]byte(routeTable))
	f.Fuzz(func(t *testing.T, table []byte) {
		routes, err := parseRoutes(table)
		for _, p := range routes {
			if err == nil && (!p.IsValid() || p != p.Masked()) {
				t.Errorf("route %s", p)
			}
		}
	})
}

func TestOverlapIsRecognisedInEveryEnginesWords(t *testing.T) {
	for text, want := range map[string]bool{
		`failed to create network t1_external: Error response from daemon: Pool overlaps with other one on this address space`: true,
		`Error response from daemon: invalid pool request: Pool overlaps with other one on this address space`:                 true,
		`cannot create network 1 (br-1): conflicts with network 2 (br-2): networks have overlapping IPv4`:                      true,
		`network t1_external has active endpoints`: false,
		``: false,
	} {
		if got := IsOverlap(fmt.Errorf("create: %w", errors.New(text))); got != want {
			t.Errorf("%q: %t", text, got)
		}
	}
	if IsOverlap(nil) {
		t.Error("no error is no overlap")
	}
}

func TestTheEnginesOwnPoolsBeingFullIsNoLostRace(t *testing.T) {
	for text, want := range map[string]bool{
		`could not find an available, non-overlapping IPv4 address pool among the defaults to assign to the network`: true,
		`Error response from daemon: all predefined address pools have been fully subnetted`:                         true,
		`could not find an available, non-overlapping IPv6 address pool among the defaults to assign to the network`: true,
		`Pool overlaps with other one on this address space`:                                                         false,
		``: false,
	} {
		if got := ArePoolsFull(text); got != want {
			t.Errorf("%q: %t", text, got)
		}
		if want && IsOverlapText(text) {
			t.Errorf("%q is retried, which is of no use", text)
		}
	}
}

const routeTable6 = `00000000000000000000000000000000 00 00000000000000000000000000000000 00 fe800000000000000000000000000001 00000400 00000001 00000000 00000003     eth0
20000000000000000000000000000000 03 00000000000000000000000000000000 00 fe800000000000000000000000000001 00000400 00000001 00000000 00000003     tun0
fd5c0213007700000000000000000000 40 00000000000000000000000000000000 00 00000000000000000000000000000000 00000100 00000001 00000000 00000001     br-1
fd5c0213007700000000000000000001 80 00000000000000000000000000000000 00 00000000000000000000000000000000 00000000 00000002 00000000 80200001     br-1
`

func TestRoutesOfIPv6AreTakenToo(t *testing.T) {
	host := fstest.MapFS{"proc/net/ipv6_route": {Data: []byte(routeTable6)}}
	got, err := Taken(t.Context(), &fakeEngine{}, host)
	if want := "[fd5c:213:77::/64 fd5c:213:77::1/128]"; err != nil || fmt.Sprint(got) != want {
		t.Errorf("%v, %v; want %s", got, err, want)
	}
	for _, bad := range []string{"fd", "fd 40", "fd5c0213007700000000000000000000 81", "fd5c0213007700000000000000000000 4"} {
		if _, err := parseRoutes6([]byte(bad)); err == nil {
			t.Errorf("table %q was accepted", bad)
		}
	}
}
