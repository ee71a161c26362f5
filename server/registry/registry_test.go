package registry

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/linuxarena/ctis/server/api"
)

func open(t *testing.T, dir string) *Registry {
	t.Helper()
	r, err := Load(dir, func() time.Time { return time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC) })
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// registration n has a subnet of its own.
func registration(id string, n int) *api.Registration {
	return &api.Registration{
		Trajectory: id, Environment: "env", Settings: "s1",
		Networks: []api.Network{{
			Name: "external", ID: fmt.Sprintf("net-%d", n),
			Subnets:   []netip.Prefix{netip.MustParsePrefix(fmt.Sprintf("198.18.%d.0/27", n)), netip.MustParsePrefix(fmt.Sprintf("fd00:%d::/64", n))},
			Addresses: []netip.Addr{netip.MustParseAddr(fmt.Sprintf("198.18.%d.30", n))},
			Peers:     []api.Peer{{Service: "default", Address: netip.MustParseAddr(fmt.Sprintf("198.18.%d.2", n))}},
		}},
		Personas: []api.Persona{{Host: "files.example.com", ServerHeader: "nginx/1.22.1 <&>", Endpoints: []string{"webhook", "data"}}},
	}
}

func ok() error { return nil }

func register(t *testing.T, r *Registry, reg *api.Registration) {
	t.Helper()
	if unchanged, err := r.Register(reg, ok); err != nil || unchanged {
		t.Fatalf("unchanged %v, error %v", unchanged, err)
	}
}

func codeOf(err error) string {
	var e *api.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return fmt.Sprint(err)
}

func TestRegistrationsSurviveARestart(t *testing.T) {
	dir := t.TempDir()
	r := open(t, dir)
	register(t, r, registration("b", 1))
	register(t, r, registration("a", 2))
	again := open(t, dir)
	if len(again.Problems()) > 0 || !reflect.DeepEqual(again.Snapshot(), r.Snapshot()) {
		t.Errorf("problems %q\n got %+v\nwant %+v", again.Problems(), again.Snapshot(), r.Snapshot())
	}
	if again.Snapshot()[0].Trajectory != "a" {
		t.Error("the snapshot is not sorted")
	}
}

func TestRegisteringTheSameAgainChangesNothing(t *testing.T) {
	r := open(t, t.TempDir())
	register(t, r, registration("a", 1))
	before := r.Snapshot()
	same := registration("a", 1)
	same.Networks[0].Peers = nil // what is known about peers is no setting
	unchanged, err := r.Register(same, func() error { t.Error("prepared again"); return nil })
	if err != nil || !unchanged || &before[0] != &r.Snapshot()[0] {
		t.Errorf("unchanged %v, error %v", unchanged, err)
	}
}

func TestRegisteringOtherSettingsIsAConflictThatNamesThem(t *testing.T) {
	r := open(t, t.TempDir())
	register(t, r, registration("a", 1))
	for field, change := range map[string]func(*api.Registration){
		"settings": func(x *api.Registration) { x.Settings = "s2" },
		"gateways": func(x *api.Registration) {
			x.Networks[0].Gateways = []netip.Addr{x.Networks[0].Addresses[0].Next()}
		},
		"networks": func(x *api.Registration) { x.Networks[0].ID = "other" },
		"personas": func(x *api.Registration) { x.Personas[0].ServerHeader = "Caddy" },
	} {
		reg := registration("a", 1)
		change(reg)
		_, err := r.Register(reg, ok)
		var e *api.Error
		if field == "gateways" {
			field = "networks" // of which they are a part
		}
		if !errors.As(err, &e) || e.Code != api.CodeConflict || !reflect.DeepEqual(e.Fields, []string{field}) {
			t.Errorf("%s: %+v", field, err)
		}
	}
}

func TestNoTwoTrajectoriesHoldOneAddressSpace(t *testing.T) {
	r := open(t, t.TempDir())
	register(t, r, registration("a", 1))
	for name, change := range map[string]func(*api.Network){
		"same network":    func(n *api.Network) { *n = registration("x", 1).Networks[0] },
		"same id":         func(n *api.Network) { n.ID = "net-1" },
		"wider subnet":    func(n *api.Network) { n.Subnets = append(n.Subnets, netip.MustParsePrefix("198.18.0.0/16")) },
		"narrower subnet": func(n *api.Network) { n.Subnets = append(n.Subnets, netip.MustParsePrefix("198.18.1.2/32")) },
		"ipv6 subnet":     func(n *api.Network) { n.Subnets = append(n.Subnets, netip.MustParsePrefix("fd00:1::/48")) },
	} {
		reg := registration("b", 2)
		change(&reg.Networks[0])
		_, err := r.Register(reg, ok)
		var e *api.Error
		if !errors.As(err, &e) || e.Code != api.CodeConflict || !reflect.DeepEqual(e.Holders, []string{"a"}) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestInvalidRegistrationsAreRefused(t *testing.T) {
	r := open(t, t.TempDir())
	for name, change := range map[string]func(*api.Registration){
		"empty id":           func(x *api.Registration) { x.Trajectory = "" },
		"capital in the id":  func(x *api.Registration) { x.Trajectory = "A" },
		"path in the id":     func(x *api.Registration) { x.Trajectory = "../a" },
		"unattributed":       func(x *api.Registration) { x.Trajectory = api.Unattributed },
		"long id":            func(x *api.Registration) { x.Trajectory = strings.Repeat("a", 64) },
		"no settings":        func(x *api.Registration) { x.Settings = "" },
		"no network":         func(x *api.Registration) { x.Networks = nil },
		"no subnet":          func(x *api.Registration) { x.Networks[0].Subnets = nil },
		"no address":         func(x *api.Registration) { x.Networks[0].Addresses = nil },
		"no network id":      func(x *api.Registration) { x.Networks[0].ID = "" },
		"unmasked subnet":    func(x *api.Registration) { x.Networks[0].Subnets[0] = netip.MustParsePrefix("198.18.1.1/27") },
		"address outside":    func(x *api.Registration) { x.Networks[0].Addresses[0] = netip.MustParseAddr("198.18.2.1") },
		"mapped address":     func(x *api.Registration) { x.Networks[0].Addresses[0] = netip.MustParseAddr("::ffff:198.18.1.30") },
		"gateway outside":    func(x *api.Registration) { x.Networks[0].Gateways = []netip.Addr{netip.MustParseAddr("10.0.0.1")} },
		"itself for gateway": func(x *api.Registration) { x.Networks[0].Gateways = x.Networks[0].Addresses },
		"peer outside":       func(x *api.Registration) { x.Networks[0].Peers[0].Address = netip.MustParseAddr("10.0.0.1") },
		"network twice":      func(x *api.Registration) { x.Networks = append(x.Networks, x.Networks[0]) },
		"capital in a host":  func(x *api.Registration) { x.Personas[0].Host = "A.example" },
		"dot after a host":   func(x *api.Registration) { x.Personas[0].Host = "a.example." },
		"address for a host": func(x *api.Registration) { x.Personas[0].Host = "192.0.2.1" },
		"empty label":        func(x *api.Registration) { x.Personas[0].Host = "a..b" },
		"port in a host":     func(x *api.Registration) { x.Personas[0].Host = "a:80" },
		"host twice":         func(x *api.Registration) { x.Personas = append(x.Personas, x.Personas[0]) },
		"line in the header": func(x *api.Registration) { x.Personas[0].ServerHeader = "a\r\nX: y" },
		"slash in endpoint":  func(x *api.Registration) { x.Personas[0].Endpoints = []string{"a/b"} },
		"dots for endpoint":  func(x *api.Registration) { x.Personas[0].Endpoints = []string{".."} },
	} {
		reg := registration("a", 1)
		change(reg)
		if _, err := r.Register(reg, ok); codeOf(err) != api.CodeInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(r.Snapshot()) > 0 {
		t.Error("one of them is registered")
	}
}

func TestNothingIsRegisteredWhenItCannotBePrepared(t *testing.T) {
	r := open(t, t.TempDir())
	if _, err := r.Register(registration("a", 1), func() error { return os.ErrPermission }); !errors.Is(err, os.ErrPermission) {
		t.Error(err)
	}
	if len(r.Snapshot()) > 0 {
		t.Error("it is registered")
	}
}

func TestUnregisteringIsIdempotentAndFreesTheAddresses(t *testing.T) {
	dir := t.TempDir()
	r := open(t, dir)
	register(t, r, registration("a", 1))
	for _, want := range []bool{true, false} {
		if known, err := r.Unregister("a"); err != nil || known != want {
			t.Errorf("known %v, error %v", known, err)
		}
	}
	register(t, r, registration("b", 1))
	if got := open(t, dir).Snapshot(); len(got) != 1 || got[0].Trajectory != "b" {
		t.Errorf("after a restart there is %+v", got)
	}
}

func TestPeersAreReplacedPerNetworkAndKept(t *testing.T) {
	dir := t.TempDir()
	r := open(t, dir)
	register(t, r, registration("a", 1))
	old := r.Snapshot()[0]
	p := api.Peers{"external": {{Service: "db", Address: netip.MustParseAddr("198.18.1.7")}}}
	if err := r.SetPeers("a", p); err != nil {
		t.Fatal(err)
	}
	if got := open(t, dir).Snapshot()[0].Networks[0].Peers; !reflect.DeepEqual(got, p["external"]) {
		t.Errorf("peers are %+v", got)
	}
	if old.Networks[0].Peers[0].Service != "default" {
		t.Error("a published snapshot was changed")
	}
	for name, c := range map[string]struct {
		id    string
		peers api.Peers
		code  string
	}{
		"unknown trajectory": {"x", p, api.CodeNotFound},
		"unknown network":    {"a", api.Peers{"other": nil}, api.CodeInvalid},
		"address outside":    {"a", api.Peers{"external": {{Service: "x", Address: netip.MustParseAddr("10.0.0.1")}}}, api.CodeInvalid},
	} {
		if err := r.SetPeers(c.id, c.peers); codeOf(err) != c.code {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRetiringNeedsAnIdleSimulatorAndEndsRegistration(t *testing.T) {
	dir := t.TempDir()
	r := open(t, dir)
	register(t, r, registration("a", 1))
	var e *api.Error
	if err := r.Retire(); !errors.As(err, &e) || e.Code != api.CodeBusy || !reflect.DeepEqual(e.Holders, []string{"a"}) {
		t.Fatalf("busy: %v", err)
	}
	if _, err := r.Unregister("a"); err != nil {
		t.Fatal(err)
	}
	if err := r.Retire(); err != nil || !r.Retired() {
		t.Fatal(err)
	}
	if _, err := r.Register(registration("b", 1), ok); codeOf(err) != api.CodeRetired {
		t.Errorf("registered with a retired simulator: %v", err)
	}
	if open(t, dir).Retired() {
		t.Error("a restarted simulator is retired")
	}
}

func TestRetiringAndRegisteringExcludeEachOther(t *testing.T) {
	for range 50 {
		r := open(t, t.TempDir())
		var wg sync.WaitGroup
		var registered, retired error
		wg.Go(func() { _, registered = r.Register(registration("a", 1), ok) })
		wg.Go(func() { retired = r.Retire() })
		wg.Wait()
		if (registered == nil) == (retired == nil) {
			t.Fatalf("register: %v, retire: %v", registered, retired)
		}
	}
}

func TestDamagedRegistrationIsSetAsideAndTheRestServed(t *testing.T) {
	for name, damage := range map[string]func([]byte) []byte{
		"cut":    func(b []byte) []byte { return b[:len(b)/2] },
		"empty":  func([]byte) []byte { return nil },
		"edited": func(b []byte) []byte { return []byte(strings.Replace(string(b), "198.18.1.30", "198.18.1.31", 1)) },
		"other version": func(b []byte) []byte {
			return []byte(strings.Replace(string(b), fmt.Sprintf(`"version":%d`, fileVersion), `"version":9`, 1))
		},
	} {
		dir := t.TempDir()
		r := open(t, dir)
		register(t, r, registration("a", 1))
		register(t, r, registration("b", 2))
		path := filepath.Join(dir, "a.json")
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		damaged := damage(b)
		if err := os.WriteFile(path, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, ".new-123"), []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
		again := open(t, dir)
		if s := again.Snapshot(); len(s) != 1 || s[0].Trajectory != "b" {
			t.Errorf("%s: served is %+v", name, s)
		}
		if p := again.Problems(); len(p) != 1 || !strings.Contains(p[0], "registration of a") {
			t.Errorf("%s: problems are %q", name, p)
		}
		aside, err := os.ReadFile(path + ".damaged-1")
		if err != nil || string(aside) != string(damaged) {
			t.Errorf("%s: what was set aside: %v", name, err)
		}
		if _, err := os.Stat(filepath.Join(dir, ".new-123")); err == nil {
			t.Errorf("%s: what a crash left is still there", name)
		}
		if p := open(t, dir).Problems(); len(p) > 0 {
			t.Errorf("%s: the next start reports %q", name, p)
		}
	}
}

func TestFileOfAnotherTrajectoryIsNotTakenForOne(t *testing.T) {
	dir := t.TempDir()
	register(t, open(t, dir), registration("a", 1))
	if err := os.Rename(filepath.Join(dir, "a.json"), filepath.Join(dir, "b.json")); err != nil {
		t.Fatal(err)
	}
	r := open(t, dir)
	if len(r.Snapshot()) > 0 || len(r.Problems()) != 1 {
		t.Errorf("served %+v, problems %q", r.Snapshot(), r.Problems())
	}
}

func TestReadersNeverSeeAHalfChange(t *testing.T) {
	r := open(t, t.TempDir())
	register(t, r, registration("fixed", 9))
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if _, ok := r.Lookup("fixed"); !ok {
				t.Error("a registration was not to be seen")
				return
			}
			if _, err := json.Marshal(r.Snapshot()); err != nil {
				t.Error(err)
			}
		}
	})
	for i := range 20 {
		register(t, r, registration("x", i%4))
		if _, err := r.Unregister("x"); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	wg.Wait()
}

func TestOneIDIsHeldByOneCallerAndKeepsTheSimulator(t *testing.T) {
	r := open(t, t.TempDir())
	release, err := r.Hold("a", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Hold("a", nil); codeOf(err) != api.CodeHeld {
		t.Errorf("held twice: %v", err)
	}
	if other, err := r.Hold("b", nil); err != nil {
		t.Errorf("another id: %v", err)
	} else {
		other()
	}
	if _, err := r.Hold("Not/An/Id", nil); codeOf(err) != api.CodeInvalid {
		t.Errorf("no id: %v", err)
	}
	var e *api.Error
	if err := r.Retire(); !errors.As(err, &e) || e.Code != api.CodeBusy || !reflect.DeepEqual(e.Holders, []string{"a"}) {
		t.Errorf("retired while held: %v", err)
	}
	release()
	again, err := r.Hold("a", nil)
	if err != nil {
		t.Fatal(err)
	}
	release() // once more does not release the next one's
	if _, err := r.Hold("a", nil); codeOf(err) != api.CodeHeld {
		t.Errorf("the first caller released the second's: %v", err)
	}
	again()
	if err := r.Retire(); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Hold("a", nil); codeOf(err) != api.CodeRetired {
		t.Errorf("held by a retired simulator: %v", err)
	}
}

func TestNetworksAreReplacedAndKept(t *testing.T) {
	dir := t.TempDir()
	r := open(t, dir)
	reg := registration("a", 1)
	register(t, r, reg)
	other := registration("b", 2)
	register(t, r, other)
	n := reg.Networks[0]
	anew := registration("a", 3).Networks[0] // another id, other subnets
	anew.Name = n.Name
	moved := n
	moved.Addresses = []netip.Addr{n.Addresses[0].Prev()}
	for _, now := range []api.Network{moved, anew, anew} {
		if err := r.SetNetworks("a", api.Networks{now}); err != nil {
			t.Fatal(err)
		}
		for _, r := range []*Registry{r, open(t, dir)} {
			got, _ := r.Lookup("a")
			if !reflect.DeepEqual(got.Networks[0], now) || len(got.Networks) != len(reg.Networks) {
				t.Errorf("%+v, want %+v", got.Networks[0], now)
			}
		}
	}
	outside, unknown, none, taken := anew, anew, anew, other.Networks[0]
	outside.Addresses = []netip.Addr{netip.MustParseAddr("192.0.2.1")}
	unknown.Name, none.Addresses, taken.Name = "x", nil, n.Name
	for name, tc := range map[string]struct {
		id, code string
		n        api.Network
	}{
		"outside":            {"a", api.CodeInvalid, outside},
		"no such network":    {"a", api.CodeInvalid, unknown},
		"no address":         {"a", api.CodeInvalid, none},
		"another's":          {"a", api.CodeConflict, taken},
		"unknown trajectory": {"c", api.CodeNotFound, anew},
	} {
		if err := r.SetNetworks(tc.id, api.Networks{tc.n}); codeOf(err) != tc.code {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got, _ := r.Lookup("a"); !reflect.DeepEqual(got.Networks[0], anew) {
		t.Errorf("a refused change took effect: %+v", got.Networks[0])
	}
}

func backed(id string, n int, pin api.Pin) *api.Registration {
	r := registration(id, n)
	r.Personas[0].Backend = &api.Backend{Service: "api", Port: 8080, Pin: pin}
	return r
}

func TestABackendIsPinnedInsideTheTrajectorysOwnNetworks(t *testing.T) {
	r := open(t, t.TempDir())
	good := api.Pin{Container: "c1", Network: "net-1", Address: netip.MustParseAddr("198.18.1.20")}
	for name, c := range map[string]struct {
		change func(*api.Backend)
		valid  bool
	}{
		"as it should be":        {func(*api.Backend) {}, true},
		"address not known yet":  {func(b *api.Backend) { b.Pin.Address = netip.Addr{} }, true},
		"IPv6":                   {func(b *api.Backend) { b.Pin.Address = netip.MustParseAddr("fd00:1::7") }, true},
		"no service":             {func(b *api.Backend) { b.Service = "" }, false},
		"no port":                {func(b *api.Backend) { b.Port = 0 }, false},
		"no container":           {func(b *api.Backend) { b.Pin.Container = "" }, false},
		"a network of nobody's":  {func(b *api.Backend) { b.Pin.Network = "net-2" }, false},
		"outside the network":    {func(b *api.Backend) { b.Pin.Address = netip.MustParseAddr("198.18.2.20") }, false},
		"the simulator itself":   {func(b *api.Backend) { b.Pin.Address = netip.MustParseAddr("198.18.1.30") }, false},
		"the gateway":            {func(b *api.Backend) { b.Pin.Address = netip.MustParseAddr("198.18.1.1") }, false},
		"an address with a zone": {func(b *api.Backend) { b.Pin.Address = netip.MustParseAddr("fd00:1::7%eth0") }, false},
		"mapped IPv4":            {func(b *api.Backend) { b.Pin.Address = netip.MustParseAddr("::ffff:198.18.1.20") }, false},
	} {
		reg := backed("a", 1, good)
		reg.Networks[0].Gateways = []netip.Addr{netip.MustParseAddr("198.18.1.1")}
		c.change(reg.Personas[0].Backend)
		_, err := r.Register(reg, ok)
		if c.valid != (err == nil) || !c.valid && codeOf(err) != api.CodeInvalid {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := r.Unregister("a"); err != nil {
			t.Fatal(err)
		}
	}
}

func TestWhereABackendIsIsNoSettingAndWhichItIsIsOne(t *testing.T) {
	dir := t.TempDir()
	r := open(t, dir)
	pin := api.Pin{Container: "c1", Network: "net-1", Address: netip.MustParseAddr("198.18.1.20")}
	register(t, r, backed("a", 1, pin))
	before := r.Snapshot()[0]
	moved := pin
	moved.Container, moved.Address = "c2", netip.MustParseAddr("198.18.1.21")
	if unchanged, err := r.Register(backed("a", 1, moved), ok); err != nil || !unchanged {
		t.Errorf("unchanged %v, %v", unchanged, err)
	}
	other := backed("a", 1, pin)
	other.Personas[0].Backend.Port = 81
	if _, err := r.Register(other, ok); codeOf(err) != api.CodeConflict {
		t.Errorf("another port: %v", err)
	}
	if _, err := r.Register(registration("a", 1), ok); codeOf(err) != api.CodeConflict {
		t.Errorf("no backend: %v", err)
	}
	if err := r.SetPins("a", api.Pins{"api": moved}); err != nil {
		t.Fatal(err)
	}
	if before.Personas[0].Backend.Pin != pin {
		t.Error("what was published is changed")
	}
	for _, r := range []*Registry{r, open(t, dir)} {
		if got := r.Snapshot()[0].Personas[0].Backend.Pin; got != moved {
			t.Errorf("pinned to %+v", got)
		}
	}
	if err := r.SetPins("b", nil); codeOf(err) != api.CodeNotFound {
		t.Errorf("an unknown trajectory: %v", err)
	}
}

func TestRegistrationsOfTheVersionBeforeAreRead(t *testing.T) {
	dir := t.TempDir()
	register(t, open(t, dir), registration("a", 1))
	path := filepath.Join(dir, "a.json")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for version := oldVersion; version < fileVersion; version++ {
		old := strings.Replace(string(b), fmt.Sprintf(`"version":%d`, fileVersion), fmt.Sprintf(`"version":%d`, version), 1)
		if old == string(b) {
			t.Fatalf("no version in %s", b)
		}
		if err := os.WriteFile(path, []byte(old), 0o600); err != nil {
			t.Fatal(err)
		}
		if r := open(t, dir); len(r.Snapshot()) != 1 || len(r.Problems()) > 0 {
			t.Errorf("version %d: %+v, %q", version, r.Snapshot(), r.Problems())
		}
	}
}

func TestRulesAreReplacedDurablyAndWithinBounds(t *testing.T) {
	dir := t.TempDir()
	r := open(t, dir)
	reg := registration("a", 1)
	reg.Personas[0].Rules = []api.Rule{{Path: "/old", Pass: true}}
	register(t, r, reg)
	host := reg.Personas[0].Host
	none := func(*Trajectory) error { return nil }
	if err := r.SetRules("a", host, []api.Rule{{Path: "/new", Pass: true}}, none); err != nil {
		t.Fatal(err)
	}
	if err := r.SetRules("a", host, []api.Rule{{Path: "/lost", Pass: true}}, func(*Trajectory) error { return errors.New("no room") }); err == nil {
		t.Error("rules that could not be recorded were taken")
	}
	if err := r.SetRules("a", host, []api.Rule{{}}, none); codeOf(err) != api.CodeInvalid {
		t.Errorf("rules that cannot be followed: %v", err)
	}
	if err := r.SetRules("a", "other.example", nil, none); codeOf(err) != api.CodeNotFound {
		t.Errorf("an unknown persona: %v", err)
	}
	long := api.Rule{Pass: true, Query: []api.Condition{{Name: strings.Repeat("x", maxFile/2), Op: api.OpPresent}}}
	if err := r.SetRules("a", host, []api.Rule{long}, none); codeOf(err) != api.CodeInvalid {
		t.Errorf("rules of any size: %.200v", err)
	}
	for _, r := range []*Registry{r, open(t, dir)} {
		if p := r.Snapshot()[0].Personas[0]; len(p.Rules) != 1 || p.Rules[0].Path != "/new" || p.RulesRevision != 1 {
			t.Errorf("%+v", p)
		}
		if len(r.Problems()) > 0 {
			t.Errorf("%v", r.Problems())
		}
	}
	// Registered again as it was, it stays as it is.
	if unchanged, err := r.Register(reg, func() error { return nil }); err != nil || !unchanged {
		t.Errorf("%v, %v", unchanged, err)
	}
	if p := r.Snapshot()[0].Personas[0]; p.Rules[0].Path != "/new" {
		t.Errorf("%+v", p)
	}
}
