package sidecar

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/linuxarena/ctis/compose"
	"github.com/linuxarena/ctis/server/api"
)

// authority makes certificates as the simulator's does.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	a := &authority{t: t, key: key}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "root"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(10, 0, 0), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.pem = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return a
}

func (a *authority) issue(host string, lasts time.Duration) api.Certificate {
	a.t.Helper()
	template := &x509.Certificate{SerialNumber: big.NewInt(2), DNSNames: []string{host}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(lasts), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, a.key.Public(), a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	return api.Certificate{Host: host, Certificate: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), Key: "key of " + host}
}

func TestASidecarIsMadeAnewWhenItsCertificatesWouldNotDo(t *testing.T) {
	ca, day := newAuthority(t), 24*time.Hour
	hosts, config := []string{"a.example", "b.example"}, []byte("config")
	fresh := func() Files {
		return NewFiles(config, []api.Certificate{ca.issue("a.example", 90*day), ca.issue("b.example", 31*day)})
	}
	for _, c := range []struct {
		name   string
		change func(Files)
		says   string
	}{
		{"as it was made", func(Files) {}, ""},
		{"another configuration", func(f Files) { f["nginx.conf"] = []byte("x") }, "configuration"},
		{"no configuration", func(f Files) { delete(f, "nginx.conf") }, "configuration"},
		{"no certificate", func(f Files) { delete(f, "1.crt") }, `no certificate for "b.example"`},
		{"no key", func(f Files) { delete(f, "0.key") }, `no certificate for "a.example"`},
		{"rubbish", func(f Files) { f["0.crt"] = []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n") }, "cannot be read"},
		{"one that ends soon", func(f Files) { f["1.crt"] = []byte(ca.issue("b.example", 29*day).Certificate) }, `"b.example" ends on`},
		{"one for another host", func(f Files) { f["0.crt"] = f["1.crt"] }, `"a.example" is not of`},
		{"one of another authority", func(f Files) { f["0.crt"] = []byte(newAuthority(t).issue("a.example", 90*day).Certificate) }, `"a.example" is not of`},
	} {
		f := fresh()
		c.change(f)
		if why := f.Stale(config, ca.pem, hosts, time.Now()); (why == "") != (c.says == "") || !strings.Contains(why, c.says) {
			t.Errorf("%s: %q, want %q", c.name, why, c.says)
		}
	}
	if why := fresh().Stale(config, ca.pem, hosts, time.Now().Add(2*day)); !strings.Contains(why, "b.example") {
		t.Errorf("two days later: %q", why)
	}
	if why := fresh().Stale(config, []byte("none"), hosts, time.Now()); why == "" {
		t.Error("without an authority it is fine")
	}
}

// copier is an engine that keeps what is copied.
type copier struct {
	Engine
	archive []byte
	path    string
}

func (c *copier) CopyToContainer(_ context.Context, _, path string, r io.Reader, _ container.CopyToContainerOptions) error {
	c.path = path
	var err error
	c.archive, err = io.ReadAll(r)
	return err
}

func (c *copier) CopyFromContainer(context.Context, string, string) (io.ReadCloser, container.PathStat, error) {
	return io.NopCloser(bytes.NewReader(c.archive)), container.PathStat{}, nil
}

func TestWhatIsDeliveredIsNginxAloneAndIsReadBack(t *testing.T) {
	eng := &copier{}
	want := Files{"nginx.conf": []byte("c"), "0.crt": []byte("x"), "0.key": []byte("secret")}
	if err := Deliver(t.Context(), eng, "c1", want); err != nil || eng.path != "/etc/edge" {
		t.Fatal(err, eng.path)
	}
	for tr := tar.NewReader(bytes.NewReader(eng.archive)); ; {
		h, err := tr.Next()
		if err != nil {
			break
		}
		if h.Mode != 0o400 || h.Uid != compose.SidecarUser || h.Gid != compose.SidecarUser || h.Typeflag != tar.TypeReg {
			t.Errorf("%+v", h)
		}
	}
	got, err := Read(t.Context(), eng, "c1")
	if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, %v", got, err)
	}
	eng.archive = eng.archive[:1100]
	if _, err := Read(t.Context(), eng, "c1"); err == nil {
		t.Error("an archive that is cut off is taken for a whole one")
	}
}

func TestTheConfigurationFollowsTheRoutes(t *testing.T) {
	s := &compose.Sidecar{IPv6: true, Routes: []compose.Route{
		{Host: "a.example", Target: compose.Target{Service: "web", Port: 3000}, Alias: "x01"},
		{Host: "b.example", Target: compose.Target{Service: "api", Port: 80}, Alias: "x02"},
	}}
	got, err := Config(s)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"listen [::]:80;", "server_name b.example;", "/etc/edge/1.crt;", "set $target x02;", "proxy_pass http://$target:80;", "ipv6=off"} {
		if !strings.Contains(string(got), want) {
			t.Errorf("no %q in the configuration", want)
		}
	}
}
