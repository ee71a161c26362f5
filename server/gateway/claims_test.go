package gateway

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/linuxarena/ctis/server/api"
	"github.com/linuxarena/ctis/server/conduit"
)

func https(host string) api.Upstream {
	return api.Upstream{Host: host, Scheme: "https", Port: 443, KeyEnv: "API_KEY", AuthHeader: "X-Api-Key"}
}

func (w *world) tryClaim(id string, list ...api.Upstream) (*api.Claimed, *api.Error) {
	w.t.Helper()
	done, err := w.admin.Claim(w.t.Context(), api.Claims{Trajectory: id, Upstreams: list})
	var refused *api.Error
	if err != nil && !errors.As(err, &refused) {
		w.t.Fatal(err)
	}
	return done, refused
}

func TestClaimsAreSharedBySameSettingsAlone(t *testing.T) {
	w := newWorld(t)
	a := https("a.example")
	if done, e := w.tryClaim("t1", a); e != nil || done.Unchanged || !slices.Equal(done.Missing, []string{"API_KEY"}) {
		t.Fatalf("%+v, %v", done, e)
	}
	if done, e := w.tryClaim("t1", a); e != nil || !done.Unchanged {
		t.Errorf("again: %+v, %v", done, e)
	}
	if done, e := w.tryClaim("t2", a, https("b.example")); e != nil || done.Unchanged {
		t.Errorf("shared: %+v, %v", done, e)
	}
	for field, change := range map[string]func(*api.Upstream){
		"api_key_env": func(u *api.Upstream) { u.KeyEnv = "OTHER" },
		"auth_header": func(u *api.Upstream) { u.AuthHeader = "X-Other" },
		"auth_prefix": func(u *api.Upstream) { u.AuthPrefix = "Key " },
		"port":        func(u *api.Upstream) { u.Port = 8443 },
		"scheme":      func(u *api.Upstream) { u.Scheme = "http" },
		"ca_file":     func(u *api.Upstream) { u.Authorities = w.authority },
	} {
		other := a
		change(&other)
		_, e := w.tryClaim("t3", https("c.example"), other)
		if e == nil || e.Status != 409 || e.Code != api.CodeConflict || e.Host != "a.example" || !slices.Equal(e.Holders, []string{"t1", "t2"}) || !slices.Equal(e.Fields, []string{field}) {
			t.Errorf("%s: %+v", field, e)
		}
	}
	if st, err := w.admin.Status(t.Context()); err != nil || len(st.Claims) != 2 {
		t.Errorf("a refused claim left something: %+v, %v", st, err)
	}
	// The last release unregisters.
	for _, c := range []struct {
		id   string
		gone []string
	}{{"t1", []string{}}, {"t2", []string{"a.example", "b.example"}}, {"t2", []string{}}} {
		done, err := w.admin.Release(t.Context(), c.id)
		if err != nil || !slices.Equal(done.Hosts, c.gone) {
			t.Errorf("%s: %+v, %v", c.id, done, err)
		}
	}
	other := a
	other.AuthPrefix = "Key "
	if _, e := w.tryClaim("t3", other); e != nil {
		t.Errorf("nobody holds it any more: %v", e)
	}
}

func TestWhatIsNoClaimIsRefused(t *testing.T) {
	w := newWorld(t)
	for name, change := range map[string]func(*api.Claims){
		"no id":             func(c *api.Claims) { c.Trajectory = "../x" },
		"nothing":           func(c *api.Claims) { c.Upstreams = nil },
		"an address":        func(c *api.Claims) { c.Upstreams[0].Host = "127.0.0.1" },
		"upper case":        func(c *api.Claims) { c.Upstreams[0].Host = "A.example" },
		"another scheme":    func(c *api.Claims) { c.Upstreams[0].Scheme = "ftp" },
		"no port":           func(c *api.Claims) { c.Upstreams[0].Port = 0 },
		"a framing header":  func(c *api.Claims) { c.Upstreams[0].AuthHeader = "Transfer-Encoding" },
		"Host":              func(c *api.Claims) { c.Upstreams[0].AuthHeader = "host" },
		"no header at all":  func(c *api.Claims) { c.Upstreams[0].AuthHeader = "" },
		"a line break":      func(c *api.Claims) { c.Upstreams[0].AuthPrefix = "x\r\ny: " },
		"a prefix, no key":  func(c *api.Claims) { c.Upstreams[0].KeyEnv = "" },
		"no variable":       func(c *api.Claims) { c.Upstreams[0].KeyEnv = "sk-secret" },
		"twice":             func(c *api.Claims) { c.Upstreams = append(c.Upstreams, c.Upstreams[0]) },
		"no certificate":    func(c *api.Claims) { c.Upstreams[0].Authorities = "none" },
		"no network really": func(c *api.Claims) { c.Networks = []netip.Prefix{netip.MustParsePrefix("10.0.0.1/8")} },
	} {
		c := api.Claims{Trajectory: "t1", Upstreams: []api.Upstream{https("a.example")}}
		change(&c)
		_, err := w.admin.Claim(t.Context(), c)
		var e *api.Error
		if !errors.As(err, &e) || e.Status != 400 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestARetiredGatewayTakesNoClaim(t *testing.T) {
	w := newWorld(t)
	w.claim("t1", https("a.example"))
	var e *api.Error
	if err := w.admin.Retire(t.Context()); !errors.As(err, &e) || e.Code != api.CodeBusy || !slices.Equal(e.Holders, []string{"t1"}) {
		t.Errorf("%v", err)
	}
	if _, err := w.admin.Release(t.Context(), "t1"); err != nil {
		t.Fatal(err)
	}
	if err := w.admin.Retire(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, e := w.tryClaim("t1", https("a.example")); e == nil || e.Code != api.CodeRetired {
		t.Errorf("%v", e)
	}
	w.stop()
	w.start() // a process started again is not retired
	if _, e := w.tryClaim("t1", https("a.example")); e != nil {
		t.Errorf("%v", e)
	}
}

func TestKeysChangeOnlyWhileNobodyUsesThem(t *testing.T) {
	w := newWorld(t)
	set := func(keys api.Keys) (*api.KeysSet, *api.Error) {
		done, err := w.admin.SetKeys(t.Context(), keys)
		var e *api.Error
		if err != nil && !errors.As(err, &e) {
			t.Fatal(err)
		}
		return done, e
	}
	if done, e := set(api.Keys{"API_KEY": canary, "B": "b"}); e != nil || !slices.Equal(done.Added, []string{"API_KEY", "B"}) {
		t.Fatalf("%+v, %v", done, e)
	}
	if done, e := set(api.Keys{"API_KEY": "other"}); e != nil || !slices.Equal(done.Changed, []string{"API_KEY"}) {
		t.Errorf("unclaimed: %+v, %v", done, e)
	}
	w.claim2("t1", https("a.example"))
	if done, e := set(api.Keys{"API_KEY": "other", "C": "c"}); e != nil || !slices.Equal(done.Added, []string{"C"}) || len(done.Changed) > 0 {
		t.Errorf("the same: %+v, %v", done, e)
	}
	_, e := set(api.Keys{"API_KEY": canary, "B": "changed", "D": "d"})
	if e == nil || e.Status != 409 || !slices.Equal(e.Holders, []string{"t1"}) || !slices.Equal(e.Fields, []string{"API_KEY"}) || strings.Contains(e.Message, canary) {
		t.Errorf("in use: %+v", e)
	}
	have, err := w.admin.KeyDigests(t.Context())
	if err != nil || have.Digests["B"] != api.KeyDigest(have.Salt, "B", "b") || have.Digests["D"] != "" {
		t.Errorf("what was refused changed something: %+v, %v", have, err)
	}
	if have.Digests["API_KEY"] != api.KeyDigest(have.Salt, "API_KEY", "other") || len(have.Salt) != 64 {
		t.Errorf("%+v", have)
	}
	for name, keys := range map[string]api.Keys{"no name": {"": "x"}, "a path": {"A/B": "x"}, "empty": {"A": ""}, "a line break": {"A": "secret\nx"}, "a space": {"A": "secret "}} {
		if _, e := set(keys); e == nil || e.Status != 400 || strings.Contains(e.Message, "secret") {
			t.Errorf("%s: %v", name, e)
		}
	}
}

// claim2 claims without a key.
func (w *world) claim2(id string, list ...api.Upstream) {
	w.t.Helper()
	if _, e := w.tryClaim(id, list...); e != nil {
		w.t.Fatal(e)
	}
}

func TestStateSurvivesAndWhatIsDamagedIsSetAside(t *testing.T) {
	w := newWorld(t)
	w.claim("t1", https("a.example"))
	w.claim("t2", https("b.example"))
	identity := w.gateway.identity.Fingerprint
	keys := filepath.Join(w.state, "keys.json")
	for _, file := range []string{keys, filepath.Join(w.state, "link.pem"), filepath.Join(w.state, "peer.json"), filepath.Join(w.state, "claims", "t1.json")} {
		if fi, err := os.Stat(file); err != nil || fi.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", file, fi.Mode(), err)
		}
	}
	w.stop()
	w.start()
	st, err := w.admin.Status(t.Context())
	if err != nil || len(st.Claims) != 2 || !slices.Equal(st.Keys, []string{"API_KEY"}) || len(st.Problems) > 0 || st.Identity != identity || st.Peer != w.identity.Fingerprint {
		t.Fatalf("%+v, %v", st, err)
	}
	w.stop()
	b, err := os.ReadFile(keys)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(keys, []byte(strings.Replace(string(b), canary, canary[1:], 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(w.state, "claims", "t1.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.start()
	st, err = w.admin.Status(t.Context())
	if err != nil || len(st.Claims) != 1 || st.Claims[0].Trajectory != "t2" || len(st.Keys) > 0 || len(st.Problems) != 2 || strings.Contains(strings.Join(st.Problems, ""), canary[1:]) {
		t.Errorf("%+v, %v", st, err)
	}
	if aside, _ := filepath.Glob(filepath.Join(w.state, "*.damaged-*")); len(aside) != 1 {
		t.Errorf("%q", aside)
	}
}

func TestOnlyTheNamedSimulatorIsSpokenWith(t *testing.T) {
	w := newWorld(t)
	other, err := conduit.LoadIdentity(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	stranger := conduit.NewClient(other)
	defer stranger.Close()
	at := w.gateway.Addr().(interface{ AddrPort() netip.AddrPort }).AddrPort()
	stranger.Use(at, w.gateway.identity.Fingerprint)
	if e, err := stranger.Start(t.Context(), patient); err == nil { // TLS 1.3: the refusal comes with the first answer
		err = e.Do(&conduit.Open{Trajectory: "t1", Host: "a.example"}, nil)
		e.Close()
		if err == nil {
			t.Error("a stranger was answered")
		}
	}
	for deadline := time.Now().Add(5 * time.Second); !strings.Contains(w.log.String(), "it is not the peer that was named"); {
		if time.Now().After(deadline) {
			t.Fatalf("the log says\n%s", w.log)
		}
		time.Sleep(5 * time.Millisecond)
	}
	// Nor does the simulator speak with whoever has the gateway's address.
	w.link.Use(at, other.Fingerprint)
	if _, err := w.link.Start(t.Context(), patient); err == nil {
		t.Error("another gateway was taken for the one that was named")
	}
}
