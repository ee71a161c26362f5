package trust

import (
	"archive/tar"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"
)

// inspected gives a container the CA, changes it as test says, and looks at it
// while it runs.
func inspected(t *testing.T, eng *fakeEngine, fx fixture, then func()) Inspection {
	t.Helper()
	for k, v := range Env() {
		if !slices.ContainsFunc(eng.info.Config.Env, func(kv string) bool { return strings.HasPrefix(kv, k+"=") }) {
			eng.info.Config.Env = append(eng.info.Config.Env, k+"="+v)
		}
	}
	installIn(t, eng, fx.ca)
	eng.info.State.Status = container.StateRunning
	then()
	before := snapshot(eng)
	eng.copies = nil
	all, err := Inspect(context.Background(), eng, Options{CA: []byte(fx.ca), Containers: []Container{{ID: "c1", Service: "default"}}})
	if err != nil || len(all) != 1 || all[0].Service != "default" {
		t.Fatalf("%+v, %v", all, err)
	}
	if len(eng.copies) > 0 || !maps.Equal(before, snapshot(eng)) {
		t.Error("looking changed something")
	}
	return all[0]
}

// store finds the store at a path.
func (i Inspection) store(t *testing.T, p string) Store {
	t.Helper()
	at := slices.IndexFunc(i.Stores, func(s Store) bool { return s.Path == p })
	if at < 0 {
		t.Fatalf("no store at %s in %+v", p, i.Stores)
	}
	return i.Stores[at]
}

func inspectFS(t *testing.T, fx fixture) map[string]node {
	return map[string]node{
		debianBundle: file(fx.root1 + fx.root2), "/etc/ssl/certs/00000000.0": link("Old.pem"), "/etc/ssl/certs/Old.pem": file(fx.root1),
		"/etc/ssl/certs/java/cacerts": file(string(newJKS(t, "changeit", map[string]string{"a": fx.root1, "b": fx.root2}))),
		"/etc/passwd":                 file("root"),
	}
}

func TestAllIsWellAfterInstall(t *testing.T) {
	fx := newFixture(t)
	in := inspected(t, newFake(t, inspectFS(t, fx)), fx, func() {})
	if !in.OK() || len(in.Stores) != 4 || len(in.Ignores) != 0 {
		t.Errorf("%+v", in)
	}
	for p, want := range map[string]Store{
		debianBundle:                  {Kind: KindBundle, Holds: true, Roots: 2},
		Bundle:                        {Kind: KindBundle, Holds: true, Roots: 2},
		"/etc/ssl/certs/java/cacerts": {Kind: KindKeystore, Holds: true, Roots: 2},
		"/etc/ssl/certs":              {Kind: KindDirectory, Holds: true, Roots: 1},
	} {
		if got := in.store(t, p); got.Kind != want.Kind || got.Holds != want.Holds || got.Roots != want.Roots || !got.OK() {
			t.Errorf("%s: %+v", p, got)
		}
	}
	if n := len(in.store(t, Bundle).Variables); n != len(bundleVars) {
		t.Errorf("%d variables lead to the bundle, of %d", n, len(bundleVars))
	}
}

func TestWhatAContainerLostIsSeen(t *testing.T) {
	fx := newFixture(t)
	for name, tc := range map[string]struct {
		change func(*fakeEngine)
		see    func(*testing.T, Inspection)
	}{
		"the CA out of the system's bundle": {
			func(e *fakeEngine) { e.fs[debianBundle] = file(fx.root1 + fx.root2) },
			func(t *testing.T, i Inspection) {
				if s := i.store(t, debianBundle); s.Holds || s.Roots != 2 {
					t.Errorf("%+v", s)
				}
			}},
		"an authority of the system's out of the bundle": {
			func(e *fakeEngine) { e.fs[Bundle] = file(fx.root1 + fx.ca) },
			func(t *testing.T, i Inspection) {
				if s := i.store(t, Bundle); !s.Holds || s.Missing != 1 {
					t.Errorf("%+v", s)
				}
			}},
		"the bundle": {
			func(e *fakeEngine) { delete(e.fs, Bundle) },
			func(t *testing.T, i Inspection) {
				if s := i.store(t, Bundle); s.Problem != Bundle+" does not exist" {
					t.Errorf("%+v", s)
				}
			}},
		"the keystore's form": {
			func(e *fakeEngine) { e.fs["/etc/ssl/certs/java/cacerts"] = file("text") },
			func(t *testing.T, i Inspection) {
				if s := i.store(t, "/etc/ssl/certs/java/cacerts"); !strings.Contains(s.Problem, "no keystore") {
					t.Errorf("%+v", s)
				}
			}},
		"the name by hash": {
			func(e *fakeEngine) { delete(e.fs, "/etc/ssl/certs/"+fx.auth.hash+".0") },
			func(t *testing.T, i Inspection) {
				if s := i.store(t, "/etc/ssl/certs"); s.Holds {
					t.Errorf("%+v", s)
				}
			}},
		"a variable": {
			func(e *fakeEngine) {
				e.info.Config.Env = slices.DeleteFunc(e.info.Config.Env, func(kv string) bool { return strings.HasPrefix(kv, "PIP_CERT=") })
			},
			func(t *testing.T, i Inspection) {
				if !slices.Equal(i.Unset, []string{"PIP_CERT"}) {
					t.Errorf("%+v", i.Unset)
				}
			}},
		"a readable bundle": {
			func(e *fakeEngine) { e.fs[Bundle] = file(strings.Repeat("x", maxFile+1)) },
			func(t *testing.T, i Inspection) {
				if s := i.store(t, Bundle); !strings.Contains(s.Problem, "too large") {
					t.Errorf("%+v", s)
				}
			}},
		"the engine's answer": {
			func(e *fakeEngine) { e.fail["get /etc/ssl"] = errors.New("broken") },
			func(t *testing.T, i Inspection) {
				if !strings.Contains(i.Problem, "broken") {
					t.Errorf("%+v", i)
				}
			}},
	} {
		t.Run(name, func(t *testing.T) {
			eng := newFake(t, inspectFS(t, fx))
			in := inspected(t, eng, fx, func() { tc.change(eng) })
			if in.OK() {
				t.Errorf("nothing was seen: %+v", in)
			}
			tc.see(t, in)
		})
	}
}

func TestAFileThatOnlyAddsNeedNotHoldWhatTheSystemTrusts(t *testing.T) {
	fx := newFixture(t)
	fs := inspectFS(t, fx)
	fs["/srv/extra.pem"] = file(fx.ca)
	eng := newFake(t, fs)
	eng.info.Config.Env = []string{"NODE_EXTRA_CA_CERTS=/srv/extra.pem"}
	if in := inspected(t, eng, fx, func() {}); !in.OK() {
		t.Errorf("%+v", in)
	}
	eng.info.Config.Env = append(eng.info.Config.Env, "PIP_CERT=/srv/extra.pem")
	eng.info.Config.Env = slices.DeleteFunc(eng.info.Config.Env, func(kv string) bool { return kv == "PIP_CERT="+Bundle })
	all, err := Inspect(context.Background(), eng, Options{CA: []byte(fx.ca), Containers: []Container{{ID: "c1"}}})
	if err != nil || all[0].OK() || all[0].store(t, "/srv/extra.pem").Missing != 2 {
		t.Errorf("%+v, %v", all, err)
	}
}

func TestProgramsThatHeedNoVariableAreNamed(t *testing.T) {
	fx := newFixture(t)
	fs := inspectFS(t, fx)
	capable, setuid, plain := file("ELF"), file("ELF"), file("ELF")
	capable.header.Format, capable.header.PAXRecords = tar.FormatPAX, map[string]string{xattrCapability: "\x01\x00\x00\x02"}
	setuid.header.Mode = 0o4755
	fs["/usr/bin/node"], fs["/usr/local/bin/curl"], fs["/usr/bin/java"] = capable, setuid, plain
	in := inspected(t, newFake(t, fs), fx, func() {})
	if len(in.Ignores) != 2 || !strings.HasPrefix(in.Ignores[0], "/usr/bin/node is given capabilities (setcap)") || !strings.HasPrefix(in.Ignores[1], "/usr/local/bin/curl is setuid") {
		t.Errorf("%q", in.Ignores)
	}
	if !in.OK() {
		t.Error("they are no fault of the stores")
	}
}

func TestACancelledLookIsAnError(t *testing.T) {
	fx := newFixture(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Inspect(ctx, newFake(t, nil), Options{CA: []byte(fx.ca), Containers: []Container{{ID: "c1"}}}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// FuzzInspectedTree has a container make its /etc/ssl as it likes.
func FuzzInspectedTree(f *testing.F) {
	fx := newFixture(f)
	f.Add("ca-certificates.crt", byte(tar.TypeReg), fx.root1, "")
	f.Add("java/cacerts", byte(tar.TypeReg), "\xfe\xed\xfe\xed\x00\x00\x00\x02\xff\xff\xff\xff", "")
	f.Add(fx.auth.hash+".0", byte(tar.TypeSymlink), "", "../../../proc/self/root/etc/ssl/certs/"+fx.auth.hash+".0")
	f.Add("ca-certificates.crt", byte(tar.TypeSymlink), "", "ca-certificates.crt")
	f.Fuzz(func(t *testing.T, name string, kind byte, data, to string) {
		if name == "" || strings.ContainsAny(name, "\x00") || strings.Contains(name, "..") || len(name) > 90 {
			return
		}
		n := node{tar.Header{Typeflag: kind, Mode: 0o644, Linkname: to}, data}
		if kind != tar.TypeReg {
			n.data = ""
		}
		eng := newFake(t, map[string]node{"/etc/ssl/certs/x": file("")})
		eng.fs["/etc/ssl/certs/"+name] = n
		all, err := Inspect(context.Background(), eng, Options{CA: []byte(fx.ca), Containers: []Container{{ID: "c1"}}})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range all[0].Stores {
			if s.Holds && !strings.Contains(data, "-----BEGIN") && s.Kind == KindBundle {
				t.Fatalf("%q holds what nobody put there", s.Path)
			}
		}
	})
}
