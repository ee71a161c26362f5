package simulator

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/docker/docker/api/types/network"
)

func gatewayFor(f *fakeEngine, t *testing.T, hash string) GatewayOptions {
	t.Helper()
	o := want(hash)
	return GatewayOptions{Instance: "ctis", Image: o.Image, Simulator: mustEnsure(t, f, o), Timeout: o.Timeout, Closed: []netip.Prefix{netip.MustParsePrefix("198.18.0.0/15")}}
}

func mustGateway(t *testing.T, f *fakeEngine, o GatewayOptions) *Gateway {
	t.Helper()
	g, err := EnsureGateway(context.Background(), f, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Client.Close)
	return g
}

func TestTheGatewayIsMadeWhenItIsNeededAndIntroduced(t *testing.T) {
	f := newFake()
	o := gatewayFor(f, t, "1")
	f.said(t, fromNothing...)
	first := mustGateway(t, f, o)
	f.said(t, "create network ctis-egress", "create volume ctis-gateway", "create ctis-gateway from r:src-1",
		`connect ctis-gateway to `+o.Simulator.Link+` at "198.18.9.14"`, "start ctis-gateway")
	again := mustGateway(t, f, o)
	f.said(t)
	if first.Reused || !again.Reused || first.ID != again.ID {
		t.Errorf("%+v, then %+v", first, again)
	}
	for i, want := range []string{
		`/v1/peer {"simulator":"simulator of ` + o.Simulator.ID + `","closed":["198.18.9.0/28","198.18.0.0/15"],"open":["198.18.9.0/28"]}`,
		`/v1/gateway {"address":"192.0.2.2:8443","identity":"gateway of ` + first.ID + `"}`,
	} {
		if f.told[i] != want {
			t.Errorf("told was %s, want %s", f.told[i], want)
		}
	}
	for _, n := range f.networks {
		if n.Internal != (n.Name == "ctis-link") {
			t.Errorf("network %s is internal: %v", n.Name, n.Internal)
		}
	}
}

func TestOfManyProcessesOneMakesTheGateway(t *testing.T) {
	f := newFake()
	o := gatewayFor(f, t, "1")
	var wg sync.WaitGroup
	ids := make([]string, 20)
	for i := range ids {
		wg.Go(func() {
			g, err := EnsureGateway(context.Background(), f, o)
			if err != nil {
				t.Error(err)
				return
			}
			defer g.Client.Close()
			ids[i] = g.ID
		})
	}
	wg.Wait()
	slices.Sort(ids)
	if got := slices.Compact(ids); len(got) != 1 || len(f.containers) != 2 || len(f.networks) != 2 {
		t.Errorf("gateways %q, %d containers, %d networks", got, len(f.containers), len(f.networks))
	}
}

func TestTheGatewayIsReplacedTogetherWithTheSimulator(t *testing.T) {
	f := newFake()
	mustGateway(t, f, gatewayFor(f, t, "1"))
	f.calls = nil
	o := gatewayFor(f, t, "2")
	if _, err := f.find("ctis-gateway"); err == nil {
		t.Error("the old gateway is still there beside the new simulator")
	}
	mustGateway(t, f, o)
	if got := strings.Join(f.calls, "; "); !strings.HasSuffix(got, "start ctis-gateway") || !strings.Contains(got, "create ctis-gateway from r:src-2") {
		t.Errorf("%s", got)
	}
}

func TestClaimsOfTheDeadAreNoReasonToKeepAGateway(t *testing.T) {
	f := newFake()
	mustGateway(t, f, gatewayFor(f, t, "1"))
	// The simulator was lost with all it knew, and made anew; the gateway was not.
	f.registered["ctis-gateway"] = []string{"dead"}
	sim, _ := f.find("ctis-simulator")
	delete(f.containers, sim.id)
	o := gatewayFor(f, t, "2")
	mustGateway(t, f, o)
	if c, err := f.find("ctis-gateway"); err != nil || c.config.Image != "r:src-2" || len(f.registered["ctis-gateway"]) != 0 {
		t.Errorf("%v, %v: %+v", c, f.registered, err)
	}
	// One that is being set up is not dead.
	f.registered["ctis-gateway"], f.heldID = []string{"coming"}, "coming"
	o.Image = want("3").Image
	var busy *BusyError
	if _, err := EnsureGateway(context.Background(), f, o); !errors.As(err, &busy) || !slices.Equal(busy.Attached, []string{"coming"}) {
		t.Errorf("%v", err)
	}
	f.registered["ctis-state"], f.heldID = []string{"coming"}, ""
	if _, err := EnsureGateway(context.Background(), f, o); !errors.As(err, &busy) {
		t.Errorf("%v", err)
	}
}

func TestAGatewayOnAnotherLinkIsMadeAnew(t *testing.T) {
	f := newFake()
	o := gatewayFor(f, t, "1")
	mustGateway(t, f, o)
	c, _ := f.find("ctis-gateway")
	c.link = "gone"
	mustGateway(t, f, o)
	if c, _ = f.find("ctis-gateway"); c.link != o.Simulator.Link {
		t.Errorf("it is on %q", c.link)
	}
}

func TestRemovingAnInstanceTakesItsGateway(t *testing.T) {
	f := newFake()
	mustGateway(t, f, gatewayFor(f, t, "1"))
	r, err := Remove(context.Background(), f, "ctis", RemoveOptions{Volume: true})
	if err != nil || len(f.containers)+len(f.networks)+len(f.volumes) != 0 {
		t.Errorf("%v; left are %v %v %v", err, f.containers, f.networks, f.volumes)
	}
	if got := fmt.Sprint(*r); got != "{[ctis-simulator ctis-gateway] [ctis-egress ctis-link] [ctis-gateway ctis-state]}" {
		t.Errorf("%s", got)
	}
}

func TestGatewaySettingsHaveAVersion(t *testing.T) {
	config, host := gatewayConfig("ctis", Want{Image: "r:src-1", Hash: "1", Protocol: 1}, "n1")
	b, err := json.Marshal([]any{config, host})
	if err != nil {
		t.Fatal(err)
	}
	const want = "2 f41f15ab988a6ac7"
	if got := fmt.Sprintf("%s %x", configVersion, sha256.Sum256(b))[:18]; got != want {
		t.Errorf("settings are %q, want %q: raise configVersion if running gateways must be replaced, and note the new value here", got, want)
	}
	if host.Mounts[0].Source != "ctis-gateway" || !host.ReadonlyRootfs || host.CapDrop[0] != "ALL" || config.User != "65532:65532" || len(config.Env) > 0 {
		t.Errorf("%+v %+v", config, host)
	}
}

func TestLastHost(t *testing.T) {
	for subnet, want := range map[string]string{"198.18.0.0/28": "198.18.0.14", "198.18.3.16/28": "198.18.3.30", "10.0.0.0/8": "10.255.255.254", "172.20.0.0/16": "172.20.255.254"} {
		if got := lastHost(netip.MustParsePrefix(subnet)); got.String() != want {
			t.Errorf("%s: %s, want %s", subnet, got, want)
		}
	}
}

func TestAGatewayWhoseNetworkWasPrunedComesBack(t *testing.T) {
	f := newFake()
	o := gatewayFor(f, t, "1")
	first := mustGateway(t, f, o)
	c, _ := f.find("ctis-gateway")
	c.state = "exited"
	f.networks = slices.DeleteFunc(f.networks, func(n network.Summary) bool { return n.Name == "ctis-egress" })
	second := mustGateway(t, f, o)
	if second.ID == first.ID || second.Reused || len(f.networks) != 2 || len(f.containers) != 2 {
		t.Errorf("%+v, then %+v; %d networks", first, second, len(f.networks))
	}
}

func TestAGatewayNameThatIsTakenIsLeftAlone(t *testing.T) {
	f := newFake()
	o := gatewayFor(f, t, "1")
	mustGateway(t, f, o)
	c, _ := f.find("ctis-gateway")
	c.config.Labels = nil
	f.calls = nil
	var foreign *ForeignError
	if _, err := EnsureGateway(context.Background(), f, o); !errors.As(err, &foreign) || foreign.Name != "ctis-gateway" {
		t.Errorf("%v", err)
	}
	if _, err := Remove(context.Background(), f, "ctis", RemoveOptions{Volume: true}); !errors.As(err, &foreign) {
		t.Errorf("%v", err)
	}
	if _, err := f.find("ctis-gateway"); err != nil {
		t.Error("somebody else's container was removed")
	}
}

func TestRunningIsTheSimulatorAsItIs(t *testing.T) {
	f := newFake()
	var absent *AbsentError
	if _, err := Running(context.Background(), f, "ctis"); !errors.As(err, &absent) || !strings.Contains(err.Error(), "there is no simulator") {
		t.Errorf("%v", err)
	}
	want := mustEnsure(t, f, want("1"))
	got, err := Running(context.Background(), f, "ctis")
	if err != nil || got.ID != want.ID || got.Identity != want.Identity || got.Link != want.Link {
		t.Fatalf("%+v, want %+v: %v", got, want, err)
	}
	got.Client.Close()
	if _, err := ConnectGateway(context.Background(), f, "ctis"); !errors.As(err, &absent) || !strings.Contains(err.Error(), `no gateway "ctis-gateway"`) {
		t.Errorf("%v", err)
	}
}
