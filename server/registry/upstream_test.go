package registry

import (
	"reflect"
	"slices"
	"testing"

	"github.com/linuxarena/ctis/server/api"
)

func upstreams(hosts ...string) (list []api.Upstream) {
	for _, h := range hosts {
		list = append(list, api.Upstream{Host: h, Scheme: "https", Port: 443, KeyEnv: "KEY", AuthHeader: "Authorization", AuthPrefix: "Bearer "})
	}
	return list
}

func TestUpstreamsAreKeptAndTheirSettingsAreSettings(t *testing.T) {
	dir := t.TempDir()
	r := open(t, dir)
	reg := registration("a", 1)
	reg.Upstreams = upstreams("api.vendor.example", "other.example")
	register(t, r, reg)
	if got := open(t, dir).Snapshot()[0].Upstreams; !reflect.DeepEqual(got, reg.Upstreams) {
		t.Errorf("%+v", got)
	}
	reg.Upstreams[0].AuthPrefix = "Key " // the caller's own copy
	if got := r.Snapshot()[0].Upstreams[0].AuthPrefix; got != "Bearer " {
		t.Errorf("what was published is changed to %q", got)
	}
	_, err := r.Register(reg, func() error { return nil })
	if e, ok := err.(*api.Error); !ok || e.Code != api.CodeConflict || !slices.Equal(e.Fields, []string{"upstreams"}) {
		t.Errorf("%v", err)
	}
}

func TestAHostIsOneThingOnly(t *testing.T) {
	r := open(t, t.TempDir())
	for name, list := range map[string][]api.Upstream{
		"twice":            upstreams("x.example", "x.example"),
		"a persona too":    upstreams("files.example.com"),
		"no hostname":      upstreams("x.example:443"),
		"another scheme":   {{Host: "x.example", Scheme: "ws", Port: 80}},
		"Host for the key": {{Host: "x.example", Scheme: "https", Port: 443, KeyEnv: "K", AuthHeader: "Host"}},
		"a prefix alone":   {{Host: "x.example", Scheme: "https", Port: 443, AuthPrefix: "x"}},
	} {
		reg := registration("a", 1)
		reg.Upstreams = list
		if _, err := r.Register(reg, func() error { return nil }); codeOf(err) != api.CodeInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
}
