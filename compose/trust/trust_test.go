package trust

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/api/types/volume"
	dockerspec "github.com/moby/docker-image-spec/specs-go/v1"
)

// yaml sets an image's environment.
func yaml(r *image.InspectResponse, env []string) error {
	r.Config = &dockerspec.DockerOCIImageConfig{}
	r.Config.Env = env
	return nil
}

// newCert makes a CA certificate in PEM.
func newCert(t testing.TB, subject pkix.Name) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: subject, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC), NotAfter: time.Date(2050, 1, 1, 0, 0, 0, 0, time.UTC)}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return encode(der)
}

type fixture struct {
	ca, root1, root2 string
	auth             *authority
}

func newFixture(t testing.TB) fixture {
	t.Helper()
	f := fixture{
		ca:    string(newCert(t, pkix.Name{CommonName: "Nimbus Root R3", Organization: []string{"Nimbus"}})),
		root1: string(newCert(t, pkix.Name{CommonName: "Old One"})),
		root2: string(newCert(t, pkix.Name{CommonName: "Old Two"})),
	}
	var err error
	if f.auth, err = parseAuthority([]byte(f.ca)); err != nil {
		t.Fatal(err)
	}
	return f
}

func installIn(t testing.TB, eng *fakeEngine, ca string) Report {
	t.Helper()
	r, err := Install(context.Background(), eng, Options{CA: []byte(ca), Containers: []Container{{ID: "c1", Service: "default"}}})
	if err != nil {
		t.Fatal(err)
	}
	return r[0]
}

func snapshot(eng *fakeEngine) map[string]string {
	m := map[string]string{}
	for p, n := range eng.fs {
		m[p] = fmt.Sprintf("%c %o %d:%d %s %s", n.header.Typeflag, n.header.Mode, n.header.Uid, n.header.Gid, n.header.Linkname, n.data)
	}
	return m
}

func TestEveryFamilyOfImagesTrustsTheCAWhereItsProgramsLook(t *testing.T) {
	fx := newFixture(t)
	roots := fx.root1 + fx.root2
	hash := fx.auth.hash
	for _, tc := range []struct {
		name    string
		fs      map[string]node
		bundles []string          // real paths that are edited
		reads   []string          // paths that must lead to the CA
		links   map[string]string // links that must exist
		absent  []string
	}{
		{"debian", map[string]node{
			debianBundle: file(roots), "/etc/ssl/certs/Old_One.pem": link("/usr/share/ca-certificates/mozilla/Old_One.crt"),
			"/usr/share/ca-certificates/mozilla/Old_One.crt": file(fx.root1),
		}, []string{debianBundle},
			[]string{debianBundle, Bundle, debianAnchors + "/Nimbus_Root_R3.crt", "/etc/ssl/certs/" + hash + ".0"},
			map[string]string{"/etc/ssl/certs/Nimbus_Root_R3.pem": debianAnchors + "/Nimbus_Root_R3.crt", "/etc/ssl/certs/" + hash + ".0": "Nimbus_Root_R3.pem"}, nil},
		{"alpine", map[string]node{
			debianBundle: file(roots), "/etc/ssl/cert.pem": link("certs/ca-certificates.crt"), "/etc/ssl/certs/ca-cert-Old_One.pem": file(fx.root1),
		}, []string{debianBundle}, []string{"/etc/ssl/cert.pem", Bundle, "/etc/ssl/certs/" + hash + ".0"},
			map[string]string{"/etc/ssl/cert.pem": "certs/ca-certificates.crt", "/etc/ssl/certs/" + hash + ".0": "ca-cert-Nimbus_Root_R3.pem"}, nil},
		{"red hat", map[string]node{
			"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem": file(roots), "/etc/pki/tls/certs/ca-bundle.crt": link("/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem"),
			"/etc/pki/tls/cert.pem": link("certs/ca-bundle.crt"), "/etc/ssl/certs": link("../pki/tls/certs"), "/etc/pki/ca-trust/source/anchors": dir(),
		}, []string{"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem"},
			[]string{"/etc/pki/tls/cert.pem", "/etc/pki/tls/certs/" + hash + ".0", "/etc/pki/ca-trust/source/anchors/Nimbus_Root_R3.pem", Bundle},
			nil, []string{debianAnchors, debianBundle}},
		{"suse", map[string]node{
			"/var/lib/ca-certificates/ca-bundle.pem": file(roots), "/etc/ssl/ca-bundle.pem": link("/var/lib/ca-certificates/ca-bundle.pem"),
			"/etc/ssl/certs": link("/var/lib/ca-certificates/pem"), "/var/lib/ca-certificates/pem": dir(), "/etc/pki/trust/anchors": dir(),
		}, []string{"/var/lib/ca-certificates/ca-bundle.pem"},
			[]string{"/etc/ssl/ca-bundle.pem", "/etc/ssl/certs/" + hash + ".0", "/etc/pki/trust/anchors/Nimbus_Root_R3.pem", Bundle}, nil, []string{debianAnchors}},
		{"arch", map[string]node{
			"/etc/ca-certificates/extracted/tls-ca-bundle.pem": file(roots), debianBundle: link("../../ca-certificates/extracted/tls-ca-bundle.pem"),
			"/etc/ssl/cert.pem": link("../ca-certificates/extracted/tls-ca-bundle.pem"), "/etc/ca-certificates/trust-source/anchors": dir(),
		}, []string{"/etc/ca-certificates/extracted/tls-ca-bundle.pem"},
			[]string{debianBundle, "/etc/ssl/cert.pem", "/etc/ca-certificates/trust-source/anchors/Nimbus_Root_R3.pem", Bundle}, nil, []string{debianAnchors}},
		{"distroless", map[string]node{debianBundle: file(roots)}, []string{debianBundle}, []string{debianBundle, Bundle}, nil, nil},
		{"two bundles that are two files", map[string]node{debianBundle: file(fx.root1), "/etc/ssl/cert.pem": file(fx.root2 + fx.root1)},
			[]string{debianBundle, "/etc/ssl/cert.pem"}, []string{debianBundle, "/etc/ssl/cert.pem", Bundle}, nil, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			eng := newFake(t, tc.fs)
			r := installIn(t, eng, fx.ca)
			if r.Bundle != Bundle || r.Roots != 2 || len(r.Skipped) != 0 || !slices.Equal(r.Bundles, tc.bundles) {
				t.Errorf("report %+v", r)
			}
			for _, p := range tc.reads {
				if n := strings.Count(eng.text(t, p), strings.TrimSpace(fx.ca)); n != 1 {
					t.Errorf("%s has the CA %d times", p, n)
				}
			}
			for p, to := range tc.links {
				if n := eng.fs[p]; n.header.Typeflag != tar.TypeSymlink || n.header.Linkname != to {
					t.Errorf("%s is %c to %q, want a link to %q", p, n.header.Typeflag, n.header.Linkname, to)
				}
			}
			for _, p := range tc.absent {
				if _, ok := eng.fs[p]; ok {
					t.Errorf("%s was made", p)
				}
			}
			if got := certificates([]byte(eng.text(t, Bundle))); len(got) != 3 {
				t.Errorf("the bundle has %d certificates, want the image's 2 and the CA", len(got))
			}
			before := snapshot(eng)
			if again := installIn(t, eng, fx.ca); !reflect.DeepEqual(again, r) {
				t.Errorf("second report %+v, first %+v", again, r)
			}
			if after := snapshot(eng); !maps.Equal(before, after) {
				t.Error("the second time changed something")
			}
		})
	}
}

func TestImageWithoutAnyRootsGetsTheCAAlone(t *testing.T) {
	fx := newFixture(t)
	eng := newFake(t, map[string]node{"/app": file("program")})
	r := installIn(t, eng, fx.ca)
	if r.Bundle != Bundle || r.Roots != 0 || !slices.Equal(r.Bundles, []string{debianBundle}) {
		t.Errorf("report %+v", r)
	}
	for _, p := range []string{debianBundle, Bundle, debianAnchors + "/Nimbus_Root_R3.crt", "/etc/ssl/certs/" + fx.auth.hash + ".0"} {
		if eng.text(t, p) != fx.ca {
			t.Errorf("%s is not the CA", p)
		}
	}
}

func TestEditedBundleKeepsItsTextOwnerModeAndTime(t *testing.T) {
	fx := newFixture(t)
	old := "# our roots\n" + strings.TrimSpace(fx.root1)
	n := node{tar.Header{Typeflag: tar.TypeReg, Mode: 0o640, Uid: 7, Gid: 9, ModTime: longAgo, PAXRecords: map[string]string{"SCHILY.xattr.user.note": "kept"}, Format: tar.FormatPAX}, old}
	eng := newFake(t, map[string]node{debianBundle: n})
	installIn(t, eng, fx.ca)
	got := eng.fs[debianBundle]
	if got.data != old+"\n"+fx.ca {
		t.Errorf("text is now %q", got.data)
	}
	h := got.header
	if h.Mode != 0o640 || h.Uid != 7 || h.Gid != 9 || !h.ModTime.Equal(longAgo) || h.PAXRecords["SCHILY.xattr.user.note"] != "kept" {
		t.Errorf("header is now %+v", h)
	}
	if b := eng.fs[Bundle].header; b.Mode != 0o644 || b.Uid != 0 || !b.ModTime.Equal(longAgo) {
		t.Errorf("bundle's header %+v", b)
	}
}

func TestTheCAIsRecognisedByItsBytesNotItsText(t *testing.T) {
	fx := newFixture(t)
	lines := strings.Split(strings.TrimSpace(fx.ca), "\n")
	wrapped := lines[0] + "\n" + strings.Join(lines[1:len(lines)-1], "") + "\n" + lines[len(lines)-1] + "\n"
	eng := newFake(t, map[string]node{debianBundle: file("CA comes with the image\n" + wrapped + fx.root1)})
	r := installIn(t, eng, fx.ca)
	if got := eng.text(t, debianBundle); strings.Contains(got, fx.ca) {
		t.Error("the CA was added though it was there")
	}
	if !slices.Equal(r.Bundles, []string{debianBundle}) || r.Roots != 1 {
		t.Errorf("report %+v", r)
	}
}

func TestAnotherCertificateOfTheSameSubjectKeepsItsSlot(t *testing.T) {
	fx := newFixture(t)
	twin := string(newCert(t, pkix.Name{CommonName: "Nimbus Root R3", Organization: []string{"Nimbus"}}))
	slot := "/etc/ssl/certs/" + fx.auth.hash
	eng := newFake(t, map[string]node{debianBundle: file(fx.root1), "/etc/ssl/certs/Nimbus_Root_R3.pem": file(twin),
		slot + ".0": link("Nimbus_Root_R3.pem"), slot + ".1": link("gone.pem")})
	installIn(t, eng, fx.ca)
	if eng.text(t, slot+".0") != twin || eng.text(t, slot+".2") != fx.ca {
		t.Errorf("slots: %q, %q", eng.fs[slot+".0"].header.Linkname, eng.fs[slot+".2"].header.Linkname)
	}
	before := snapshot(eng)
	installIn(t, eng, fx.ca)
	if !maps.Equal(before, snapshot(eng)) {
		t.Error("the second time took another slot")
	}
}

func TestFilesTheEnvironmentNamesAreTrustStoresToo(t *testing.T) {
	fx := newFixture(t)
	eng := newFake(t, map[string]node{"/opt/conda/ssl/cacert.pem": file(fx.root1), "/nix/bundle.crt": file(fx.root2), "/srv/own.pem": file(fx.root2)})
	eng.info.Config.Env = []string{"SSL_CERT_FILE=" + Bundle, "PIP_CERT=/srv/own.pem", "CURL_CA_BUNDLE=/missing.pem", "REQUESTS_CA_BUNDLE=/srv", "OTHER=/srv/own.pem", "GIT_SSL_CAINFO=relative.pem"}
	eng.imageEnv = []string{"SSL_CERT_FILE=/opt/conda/ssl/cacert.pem", "NIX_SSL_CERT_FILE=/nix/bundle.crt"}
	r := installIn(t, eng, fx.ca)
	if r.Roots != 2 || len(r.Bundles) != 4 {
		t.Errorf("report %+v", r)
	}
	for _, p := range []string{"/opt/conda/ssl/cacert.pem", "/nix/bundle.crt", "/srv/own.pem", debianBundle} {
		if !strings.Contains(eng.text(t, p), fx.ca) {
			t.Errorf("%s lacks the CA", p)
		}
	}
	if len(r.Skipped) != 1 || r.Skipped[0].What != "REQUESTS_CA_BUNDLE=/srv" {
		t.Errorf("skipped %+v", r.Skipped)
	}
}

func TestReadOnlyRootTakesNothingButAVolume(t *testing.T) {
	fx := newFixture(t)
	eng := newFake(t, map[string]node{debianBundle: file(fx.root1)})
	eng.info.HostConfig.ReadonlyRootfs = true
	r := installIn(t, eng, fx.ca)
	if r.Bundle != "" || len(r.Bundles) != 0 || len(eng.copies) != 0 {
		t.Errorf("report %+v, copies %v", r, eng.copies)
	}
	var ro *ReadOnlyError
	if last := r.Skipped[len(r.Skipped)-1]; !errors.As(last.Err, &ro) || !ro.NeedsVolume || !strings.Contains(last.Reason, BundleDir) {
		t.Errorf("skipped %+v", r.Skipped)
	}
	eng.info.Mounts = []container.MountPoint{{Type: mount.TypeVolume, Name: strings.Repeat("a1", 32), Destination: BundleDir, RW: true}}
	r = installIn(t, eng, fx.ca)
	if r.Bundle != Bundle || r.Roots != 1 || !slices.Equal(eng.copies, []string{BundleDir}) {
		t.Errorf("report %+v, copies %v", r, eng.copies)
	}
}

func TestMountsOfOthersAreNeverWrittenThrough(t *testing.T) {
	fx := newFixture(t)
	named := func(name string, labels map[string]string) (container.MountPoint, volume.Volume) {
		return container.MountPoint{Type: mount.TypeVolume, Name: name, Destination: "/etc/ssl", RW: true}, volume.Volume{Name: name, Labels: labels}
	}
	shared, sharedVolume := named("certs", nil)
	ours, oursVolume := named("t1_certs", map[string]string{labelProject: "t1"})
	readOnly := ours
	readOnly.RW = false
	for _, tc := range []struct {
		name    string
		mount   container.MountPoint
		written bool
	}{
		{"bind mount of the directory", container.MountPoint{Type: mount.TypeBind, Destination: "/etc/ssl/certs", RW: true}, false},
		{"bind mount of the file", container.MountPoint{Type: mount.TypeBind, Destination: debianBundle}, false},
		{"bind mount behind a link", container.MountPoint{Type: mount.TypeBind, Destination: "/certs-link", RW: true}, false},
		{"tmpfs", container.MountPoint{Type: mount.TypeTmpfs, Destination: "/etc/ssl", RW: true}, false},
		{"volume of another project", shared, false},
		{"read-only volume", readOnly, false},
		{"volume of this project", ours, true},
		{"mount elsewhere", container.MountPoint{Type: mount.TypeBind, Destination: "/data", RW: true}, true},
		{"mount with a similar name", container.MountPoint{Type: mount.TypeBind, Destination: "/etc/ss", RW: true}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			eng := newFake(t, map[string]node{debianBundle: file(fx.root1), "/certs-link": link("/etc/ssl/certs"), "/data": dir()})
			eng.volumes = map[string]volume.Volume{"certs": sharedVolume, "t1_certs": oursVolume}
			eng.info.Mounts = []container.MountPoint{tc.mount}
			r := installIn(t, eng, fx.ca)
			if got := strings.Contains(eng.text(t, debianBundle), fx.ca); got != tc.written {
				t.Errorf("written: %t, want %t", got, tc.written)
			}
			if r.Bundle != Bundle || !strings.Contains(eng.text(t, Bundle), fx.root1) {
				t.Errorf("the bundle must be there in any case: %+v", r)
			}
			var m *MountError
			if skipped := len(r.Skipped) > 0 && errors.As(r.Skipped[0].Err, &m); skipped == tc.written {
				t.Errorf("skipped %+v", r.Skipped)
			}
		})
	}
	eng := newFake(t, map[string]node{debianBundle: file(fx.root1)})
	eng.info.HostConfig.Tmpfs = map[string]string{BundleDir: ""}
	if r := installIn(t, eng, fx.ca); r.Bundle != "" {
		t.Errorf("a bundle on a tmpfs is gone when the container starts: %+v", r)
	}
}

func TestStartedContainersAreLeftAlone(t *testing.T) {
	fx := newFixture(t)
	for _, state := range []container.ContainerState{container.StateRunning, container.StateExited, container.StatePaused} {
		eng := newFake(t, map[string]node{debianBundle: file(fx.root1)})
		eng.info.State.Status = state
		r := installIn(t, eng, fx.ca)
		if len(eng.copies) != 0 || len(r.Skipped) != 1 || !errors.As(r.Skipped[0].Err, new(*StartedError)) {
			t.Errorf("%s: report %+v, copies %v", state, r, eng.copies)
		}
	}
}

func TestOddFilesAreReportedAndTheRestGoesOn(t *testing.T) {
	fx := newFixture(t)
	for name, fs := range map[string]map[string]node{
		"links in a circle":        {debianBundle: link("a"), "/etc/ssl/certs/a": link("ca-certificates.crt")},
		"directory for a file":     {debianBundle: dir()},
		"file for a directory":     {"/etc/ssl/certs": file("")},
		"more than a bundle holds": {debianBundle: file(strings.Repeat("x", maxFile+1))},
	} {
		eng := newFake(t, fs)
		r, err := Install(context.Background(), eng, Options{CA: []byte(fx.ca), Containers: []Container{{ID: "c1"}}})
		if err != nil || r[0].Bundle != Bundle || len(r[0].Skipped) == 0 || !errors.As(r[0].Skipped[0].Err, new(*FileError)) {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
}

func TestEngineFailuresNameTheService(t *testing.T) {
	fx := newFixture(t)
	broken := errors.New("engine went away")
	for _, call := range []string{"inspect", "image", "get /etc/ssl", "get /etc/pki", "put /"} {
		eng := newFake(t, map[string]node{debianBundle: file(fx.root1)})
		eng.imageEnv = []string{}
		eng.fail[call] = broken
		_, err := Install(context.Background(), eng, Options{CA: []byte(fx.ca), Containers: []Container{{ID: "c1", Service: "default"}}})
		if !errors.Is(err, broken) || !strings.Contains(err.Error(), `"default"`) {
			t.Errorf("%s: %v", call, err)
		}
	}
}

func TestOnlyOneCACertificateIsAccepted(t *testing.T) {
	fx := newFixture(t)
	for name, text := range map[string]string{"nothing": "", "two": fx.ca + fx.root1, "no certificate": "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"} {
		if _, err := Install(context.Background(), newFake(t, nil), Options{CA: []byte(text)}); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}

func TestEveryVariablePointsAtTheBundle(t *testing.T) {
	env := Env()
	for _, want := range []string{"SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "PIP_CERT", "NODE_EXTRA_CA_CERTS", "GIT_SSL_CAINFO", "AWS_CA_BUNDLE", "CARGO_HTTP_CAINFO"} {
		if env[want] != Bundle {
			t.Errorf("%s=%q", want, env[want])
		}
	}
	if env["UV_NATIVE_TLS"] != "1" {
		t.Error("UV_NATIVE_TLS is not set")
	}
	env["SSL_CERT_FILE"] = "changed"
	if Env()["SSL_CERT_FILE"] != Bundle {
		t.Error("callers share one map")
	}
}

func TestCombinedBundleHasEachCertificateOnce(t *testing.T) {
	fx := newFixture(t)
	got, roots := fx.auth.combined([][]byte{[]byte(fx.root1 + fx.ca + fx.root2), []byte(fx.root2 + "text\n" + fx.root1)})
	if roots != 2 || !bytes.Equal(got, []byte(fx.root1+fx.root2+fx.ca)) {
		t.Errorf("%d roots, %d certificates", roots, len(certificates(got)))
	}
}
