package trust

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
)

func TestEveryJavaKeystoreGetsTheCA(t *testing.T) {
	fx := newFixture(t)
	store := func() node { return file(string(newJKS(t, "changeit", map[string]string{"a": fx.root1}))) }
	const jvm = "/usr/lib/jvm/java-17"
	eng := newFake(t, map[string]node{
		debianBundle:                                  file(fx.root1),
		"/etc/ssl/certs/java/cacerts":                 store(),
		"/usr/bin/java":                               link("/etc/alternatives/java"),
		"/etc/alternatives/java":                      link(jvm + "/bin/java"),
		jvm + "/bin/java":                             file("ELF"),
		jvm + "/lib/security/cacerts":                 link("/etc/ssl/certs/java/cacerts"),
		"/opt/jdk8/jre/lib/security/cacerts":          store(),
		"/usr/lib/jvm/other/bin/java":                 file("ELF"),
		"/usr/lib/jvm/other/lib/security/cacerts":     store(),
		"/usr/lib/jvm/other/lib/security/jssecacerts": store(),
		"/var/lib/dpkg/alternatives/java":             file("auto\n/usr/bin/java\n\n" + jvm + "/bin/java\n1711\n/usr/lib/jvm/other/bin/java\n1"),
	})
	eng.info.Config.Env = []string{"JAVA_HOME=/opt/jdk8", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	r := installIn(t, eng, fx.ca)
	want := []string{"/etc/ssl/certs/java/cacerts", "/opt/jdk8/jre/lib/security/cacerts", "/usr/lib/jvm/other/lib/security/cacerts", "/usr/lib/jvm/other/lib/security/jssecacerts"}
	if !slices.Equal(slices.Sorted(slices.Values(r.Keystores)), want) || len(r.Skipped) > 0 {
		t.Errorf("report %+v", r)
	}
	for _, p := range want {
		s, err := parseKeystore([]byte(eng.text(t, p)))
		if err != nil || !s.holds(fx.auth.der) || s.roots() != 2 {
			t.Errorf("%s: %v", p, err)
		}
	}
	before := snapshot(eng)
	installIn(t, eng, fx.ca)
	if !maps.Equal(before, snapshot(eng)) {
		t.Error("the second time changed something")
	}
}

func TestAKeystoreThatCannotBeReadIsReported(t *testing.T) {
	fx := newFixture(t)
	eng := newFake(t, map[string]node{debianBundle: file(fx.root1),
		"/etc/ssl/certs/java/cacerts": file(string(newJKS(t, "secret", map[string]string{"a": fx.root1})))})
	r := installIn(t, eng, fx.ca)
	if len(r.Keystores) != 0 || len(r.Skipped) != 1 || !strings.Contains(r.Skipped[0].Reason, "/etc/ssl/certs/java/cacerts is sealed with another password") {
		t.Errorf("report %+v", r)
	}
}

func TestCertifiGetsTheCAWhereverPythonIs(t *testing.T) {
	fx := newFixture(t)
	bundle := func() node { return file(fx.root2) }
	eng := newFake(t, map[string]node{
		debianBundle:                file(fx.root1),
		"/usr/local/bin/python3":    link("python3.12"),
		"/usr/local/bin/python3.12": file("ELF"),
		"/usr/local/lib/python3.12/site-packages/certifi/cacert.pem":             bundle(),
		"/usr/local/lib/python3.12/site-packages/pip/_vendor/certifi/cacert.pem": bundle(),
		"/app/.venv/bin/python3":                                     link("/usr/local/bin/python3"),
		"/app/.venv/lib/python3.12/site-packages/certifi/cacert.pem": bundle(),
		"/opt/conda/bin/python3":                                     link("python3.11"),
		"/opt/conda/bin/python3.11":                                  file("ELF"),
		"/opt/conda/ssl/cacert.pem":                                  bundle(),
		"/usr/bin/python3":                                           link("python3.11"),
		"/usr/bin/python3.11":                                        file("ELF"),
		"/usr/lib/python3/dist-packages/certifi/cacert.pem":          bundle(),
		"/usr/lib/ssl/cacert.pem":                                    bundle(),
	})
	eng.info.Config.WorkingDir = "/app"
	eng.info.Config.Env = []string{"PATH=/opt/conda/bin:/usr/local/bin:/usr/bin:/bin:relative/bin"}
	r := installIn(t, eng, fx.ca)
	if len(r.Skipped) > 0 || len(r.Bundles) != 6 || r.Roots != 2 {
		t.Errorf("report %+v", r)
	}
	for p, n := range eng.fs {
		if strings.HasSuffix(p, "/cacert.pem") && p != "/usr/lib/ssl/cacert.pem" && !strings.HasSuffix(n.data, fx.ca) {
			t.Errorf("%s lacks the CA", p)
		}
	}
	if eng.text(t, "/usr/lib/ssl/cacert.pem") != fx.root2 {
		t.Error("a file nobody is known to read was changed")
	}
}

func TestAContainerWithoutSuchProgramsIsAskedLittle(t *testing.T) {
	fx := newFixture(t)
	eng := newFake(t, map[string]node{debianBundle: file(fx.root1)})
	installIn(t, eng, fx.ca)
	if eng.stats > 12 {
		t.Errorf("the engine was asked %d times", eng.stats)
	}
}

// TestLayouts has each distribution's files as they are laid out there, and says
// which of them must lead to the CA afterwards.
func TestLayouts(t *testing.T) {
	fx := newFixture(t)
	root := parsed(t, fx.root1)
	newHash, err := subjectHash(root.RawSubject)
	if err != nil {
		t.Fatal(err)
	}
	oldHash := oldSubjectHash(root.RawSubject)
	jks := string(newJKS(t, "changeit", map[string]string{"a": fx.root1}))
	for _, tc := range []struct {
		name  string
		fs    map[string]node
		holds []string
	}{
		{"Alpine", map[string]node{
			"/etc/ssl/certs/ca-certificates.crt":              file(fx.root1),
			"/etc/ssl/cert.pem":                               link("certs/ca-certificates.crt"),
			"/etc/ssl/certs/ca-cert-Root_One.pem":             link("/usr/share/ca-certificates/mozilla/Root_One.crt"),
			"/usr/share/ca-certificates/mozilla/Root_One.crt": file(fx.root1),
			"/etc/ssl/certs/" + newHash + ".0":                link("ca-cert-Root_One.pem"),
		}, []string{"/etc/ssl/cert.pem", "/etc/ssl/certs/ca-cert-Nimbus_Root_R3.pem", "/etc/ssl/certs/" + fx.auth.hash + ".0", debianAnchors + "/Nimbus_Root_R3.crt"}},
		{"Red Hat 8 and 9", map[string]node{
			"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem": file(fx.root1),
			"/etc/pki/ca-trust/extracted/java/cacerts":          file(jks),
			"/etc/pki/ca-trust/source/anchors":                  dir(),
			"/etc/pki/java/cacerts":                             link("/etc/pki/ca-trust/extracted/java/cacerts"),
			"/etc/pki/tls/cert.pem":                             link("/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem"),
			"/etc/pki/tls/certs/ca-bundle.crt":                  link("/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem"),
			"/etc/ssl/certs":                                    link("../pki/tls/certs"),
		}, []string{"/etc/pki/tls/certs/ca-bundle.crt", "/etc/pki/ca-trust/source/anchors/Nimbus_Root_R3.pem", "/etc/ssl/certs/" + fx.auth.hash + ".0"}},
		{"Red Hat 10", map[string]node{
			"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem":                file(fx.root1),
			"/etc/pki/ca-trust/extracted/pem/directory-hash/Root_One.pem":      file(fx.root1),
			"/etc/pki/ca-trust/extracted/pem/directory-hash/" + newHash + ".0": link("Root_One.pem"),
			"/etc/pki/ca-trust/extracted/pem/directory-hash/" + oldHash + ".0": link("Root_One.pem"),
			"/etc/pki/ca-trust/source/anchors":                                 dir(),
			"/etc/pki/tls/certs/ca-bundle.crt":                                 link("/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem"),
			"/etc/ssl/certs":                                                   link("/etc/pki/ca-trust/extracted/pem/directory-hash"),
		}, []string{"/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/certs/" + fx.auth.hash + ".0", "/etc/ssl/certs/" + fx.auth.old + ".0", "/etc/pki/ca-trust/source/anchors/Nimbus_Root_R3.pem"}},
		{"SUSE", map[string]node{
			"/etc/ssl/ca-bundle.pem":                 link("/var/lib/ca-certificates/ca-bundle.pem"),
			"/etc/ssl/certs":                         link("/var/lib/ca-certificates/pem"),
			"/var/lib/ca-certificates/ca-bundle.pem": file(fx.root1),
			"/var/lib/ca-certificates/java-cacerts":  file(jks),
			"/var/lib/ca-certificates/pem/Root.pem":  file(fx.root1),
			"/etc/pki/trust/anchors":                 dir(),
		}, []string{"/etc/ssl/ca-bundle.pem", "/etc/ssl/certs/" + fx.auth.hash + ".0", "/etc/pki/trust/anchors/Nimbus_Root_R3.pem"}},
		{"Arch", map[string]node{
			"/etc/ca-certificates/extracted/tls-ca-bundle.pem": file(fx.root1),
			"/etc/ca-certificates/extracted/java-cacerts.jks":  file(jks),
			"/etc/ca-certificates/trust-source/anchors":        dir(),
			"/etc/ssl/cert.pem":                                link("../ca-certificates/extracted/tls-ca-bundle.pem"),
			"/etc/ssl/certs/ca-certificates.crt":               link("../../ca-certificates/extracted/tls-ca-bundle.pem"),
			"/etc/ssl/certs/java/cacerts":                      link("../../../ca-certificates/extracted/java-cacerts.jks"),
		}, []string{"/etc/ssl/cert.pem", "/etc/ssl/certs/" + fx.auth.hash + ".0", "/etc/ca-certificates/trust-source/anchors/Nimbus_Root_R3.pem"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			eng := newFake(t, tc.fs)
			for range 2 {
				if r := installIn(t, eng, fx.ca); len(r.Skipped) > 0 || r.Roots != 1 {
					t.Errorf("report %+v", r)
				}
			}
			for _, p := range append(tc.holds, Bundle) {
				if n := strings.Count(eng.text(t, p), fx.ca); n != 1 {
					t.Errorf("%s has the CA %d times", p, n)
				}
			}
			for p, n := range eng.fs {
				if strings.HasPrefix(n.data, jks[:4]) {
					if s, err := parseKeystore([]byte(n.data)); err != nil || !s.holds(fx.auth.der) || s.roots() != 2 {
						t.Errorf("keystore %s: %v", p, err)
					}
				}
				if n.header.Typeflag != link("").header.Typeflag && tc.fs[p].header.Typeflag == link("").header.Typeflag {
					t.Errorf("the link %s became something else", p)
				}
			}
		})
	}
}

func TestWhatAReadOnlyRootSealsAndVolumesOpen(t *testing.T) {
	fx := newFixture(t)
	jks := string(newJKS(t, "changeit", map[string]string{"a": fx.root1}))
	fs := map[string]node{
		debianBundle: file(fx.root1), "/etc/ssl/certs/java/cacerts": file(jks), debianAnchors: dir(),
		"/opt/jdk/lib/security/cacerts": file(jks),
	}
	eng := newFake(t, fs)
	eng.info.Config.Env = []string{"JAVA_HOME=/opt/jdk"}
	o := Options{CA: []byte(fx.ca), Containers: []Container{{ID: "c1", Service: "default"}}}
	if found, err := Sealed(context.Background(), eng, o); err != nil || len(found) != 0 {
		t.Fatalf("a root that can be written: %v, %v", found, err)
	}
	eng.info.HostConfig.ReadonlyRootfs = true
	want := []string{"/etc/ssl/certs", "/opt/jdk/lib/security", debianAnchors}
	found, err := Sealed(context.Background(), eng, o)
	if err != nil || !slices.Equal(found["default"], want) || len(eng.copies) != 0 {
		t.Fatalf("%v, %v; copies %v", found, err, eng.copies)
	}
	for i, dir := range append(want, BundleDir) {
		eng.info.Mounts = append(eng.info.Mounts, container.MountPoint{Type: mount.TypeVolume, Name: strings.Repeat(string(rune('a'+i)), 64), Destination: dir, RW: true})
	}
	if found, err := Sealed(context.Background(), eng, o); err != nil || len(found) != 0 {
		t.Errorf("with volumes: %v, %v", found, err)
	}
	if r := installIn(t, eng, fx.ca); len(r.Skipped) != 0 || len(r.Keystores) != 2 || r.Bundle != Bundle {
		t.Errorf("report %+v", r)
	}
}

func TestOnlyDirectoriesOfTrustStoresGetVolumes(t *testing.T) {
	got := outermost([]string{"/etc", "/", "/etc/ssl/certs/java", "/etc/ssl/certs", "/etc/ssl/certs-old", BundleDir, "/opt/a:b", "/srv"})
	if want := []string{"/etc/ssl/certs", "/etc/ssl/certs-old"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	var many []string
	for i := range 20 {
		many = append(many, "/opt/"+string(rune('a'+i)))
	}
	if got := outermost(many); len(got) != maxSealed {
		t.Errorf("%d volumes", len(got))
	}
}
