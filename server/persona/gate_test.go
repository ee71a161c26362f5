package persona

import (
	"net/url"
	"path"
	"strings"
	"testing"

	"github.com/linuxarena/ctis/server/api"
)

var gated = &api.Persona{Host: "a.example", Endpoints: []string{"v1", "webhook", "a.b"}, Backend: &api.Backend{Service: "api", Port: 1}}

func TestAGateJudgesPathsAsTheyWereSent(t *testing.T) {
	for target, want := range map[string]string{
		"/": "root", "/v1": "v1", "/v1/": "v1", "/v1/x": "v1", "/v1//": "v1", "/a.b/x": "a.b",
		"/webhook": "webhook", "/webhook/x": "webhook",
		"/v1/a%2Fb": "v1", "/v1/a/../b": "v1", "/v1/a/..": "v1", "/v1/./x": "v1", "/v1/...": "v1", "/v1/..x": "v1", "/v1/a..b": "v1",
		"/v1/%C3%BC": "v1", "/v1/;x=..": "v1", "/v1/100%25": "v1", "/v1/a%5Cb": "v1", "/v1/x;y=/../z": "v1",

		"": "", "//": "", "/.": "", "/..": "", "/%2F": "", "/x": "", "/data": "", "/v": "", "/v10": "", "/V1": "",
		"//v1": "", "/v1%2Fx": "", "/v1%2f..": "", "/v1;a=b": "", "/v1;a/x": "", "/%76%31": "", "/%761/x": "", "/./v1": "", "/x/../v1": "",
		"/v1\\x": "", "/v1%00": "", "/v1%20": "",
		"/v1/..": "", "/v1/../x": "", "/v1/%2e%2e/x": "", "/v1/.%2E": "", "/v1/..%2fx": "", "/v1/..%5cx": "", "/v1/..\\x": "",
		"/v1/a/../../x": "", "/v1/a%2f..%2f..%2fx": "", "/v1//../x": "", "/v1/./../x": "",
		"/v1/..;/x": "", "/v1/..;a=b/x": "", "/v1/%2e%2e;/x": "", "/v1/..%3b/x": "",
		"/v1/%252e%252e/x": "", "/v1/%25252e%25252e/x": "", "/v1/%2525252525252e": "",
	} {
		kind, endpoint := Match(gated, target)
		got := endpoint
		if kind == api.KindBackend && endpoint == "" {
			got = "root"
		}
		if got != want || (want == "") != (kind == api.KindNotFound) {
			t.Errorf("%q: %s %q, want %q", target, kind, endpoint, want)
		}
	}
}

// What passes lies below its prefix, however a server understands it.
func FuzzGate(f *testing.F) {
	for _, s := range []string{"/v1/a/../b", "/v1/..%2f", "/v1/%252e%252e/", "/v1/..;/x", "/v1\\..\\x", "/v1//..", "/v1/a/%2e%2e%2f%2e%2e"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, sent string) {
		kind, endpoint := Match(gated, sent)
		if kind != api.KindBackend || endpoint == "" {
			return
		}
		understood := sent
		for range 3 {
			for _, form := range []string{understood, strings.ReplaceAll(understood, `\`, "/"), withoutParameters(understood), withoutParameters(strings.ReplaceAll(understood, `\`, "/"))} {
				if clean := path.Clean(form); clean != "/"+endpoint && !strings.HasPrefix(clean, "/"+endpoint+"/") {
					t.Fatalf("%q can be understood as %q", sent, clean)
				}
			}
			decoded, err := url.PathUnescape(understood)
			if err != nil {
				return
			}
			understood = decoded
		}
	})
}

func withoutParameters(s string) string {
	segments := strings.Split(s, "/")
	for i := range segments {
		segments[i], _, _ = strings.Cut(segments[i], ";")
	}
	return strings.Join(segments, "/")
}
