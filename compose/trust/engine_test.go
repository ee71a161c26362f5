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
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/client"
	"github.com/docker/docker/pkg/stdcopy"

	"github.com/linuxarena/ctis/e2e/images"
)

// lab is a real engine with a CA, a server whose certificate it signed, and a
// network on which the server is persona.test.
type lab struct {
	*testing.T
	eng     *client.Client
	ca      []byte
	network string
	debian  string
	agent   string
}

const (
	personaHost = "persona.test"
	personaURL  = "https://" + personaHost + ":8443/"
	testLabel   = "io.ctis.trust-test"
)

func newLab(t *testing.T) *lab {
	t.Helper()
	if os.Getenv("CTIS_E2E") != "1" {
		t.Skip("needs a Docker engine: set CTIS_E2E=1")
	}
	eng, err := client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { eng.Close() })
	l := &lab{T: t, eng: eng}
	if l.debian, err = images.Debian(t.Context(), eng); errors.Is(err, images.ErrNoDebootstrap) {
		t.Skip(err)
	}
	l.must(err)
	l.agent, err = images.Scratch(t.Context(), eng, images.Agent())
	l.must(err)
	net, err := eng.NetworkCreate(t.Context(), fmt.Sprintf("ctis-trust-test-%d", time.Now().UnixNano()), network.CreateOptions{Internal: true, Labels: map[string]string{testLabel: "1"}})
	l.must(err)
	l.network = net.ID
	t.Cleanup(func() { l.must(eng.NetworkRemove(context.WithoutCancel(t.Context()), net.ID)) })
	l.serve()
	return l
}

func (l *lab) must(err error) {
	l.Helper()
	if err != nil {
		l.Fatal(err)
	}
}

// serve starts a TLS server with a certificate of a new CA.
func (l *lab) serve() {
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	l.must(err)
	ca := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{Country: []string{"US"}, Organization: []string{"Nimbus  Trust"}, CommonName: "Nimbus ROOT R3"}, IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, &caKey.PublicKey, caKey)
	l.must(err)
	l.ca = encode(caDER)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	l.must(err)
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), DNSNames: []string{personaHost}, NotBefore: ca.NotBefore, NotAfter: ca.NotAfter, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, ca, &key.PublicKey, caKey)
	l.must(err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	l.must(err)
	id := l.create(&container.Config{Image: l.debian, Cmd: []string{"openssl", "s_server", "-accept", "8443", "-cert", "/leaf.pem", "-key", "/key.pem", "-www", "-quiet"}},
		&container.HostConfig{}, personaHost)
	l.put(id, "leaf.pem", encode(leafDER))
	l.put(id, "key.pem", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}))
	l.must(l.eng.ContainerStart(l.Context(), id, container.StartOptions{}))
}

func (l *lab) create(c *container.Config, h *container.HostConfig, aliases ...string) string {
	l.Helper()
	c.Labels = map[string]string{testLabel: "1"}
	resp, err := l.eng.ContainerCreate(l.Context(), c, h, &network.NetworkingConfig{EndpointsConfig: map[string]*network.EndpointSettings{l.network: {Aliases: aliases}}}, nil, "")
	l.must(err)
	l.Cleanup(func() {
		l.must(l.eng.ContainerRemove(context.WithoutCancel(l.Context()), resp.ID, container.RemoveOptions{Force: true, RemoveVolumes: true}))
	})
	return resp.ID
}

func (l *lab) put(id, name string, data []byte) {
	l.Helper()
	var buf bytes.Buffer
	tw := tar.NewWriter(&buf)
	l.must(tw.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(data))}))
	_, err := tw.Write(data)
	l.must(err)
	l.must(tw.Close())
	l.must(l.eng.CopyToContainer(l.Context(), id, "/", &buf, container.CopyToContainerOptions{}))
}

// install runs Install twice, so that every test also shows that twice is once.
func (l *lab) install(id string) Report {
	l.Helper()
	var r []Report
	for range 2 {
		var err error
		began := time.Now()
		r, err = Install(l.Context(), l.eng, Options{CA: l.ca, Containers: []Container{{ID: id, Service: "default"}}})
		l.must(err)
		l.Logf("installed in %s", time.Since(began).Round(time.Millisecond))
	}
	return r[0]
}

// run starts a container, waits for its end and returns what it printed.
func (l *lab) run(id string) (int64, string) {
	l.Helper()
	l.must(l.eng.ContainerStart(l.Context(), id, container.StartOptions{}))
	ended, failed := l.eng.ContainerWait(l.Context(), id, container.WaitConditionNotRunning)
	var status int64
	select {
	case err := <-failed:
		l.Fatal(err)
	case e := <-ended:
		status = e.StatusCode
	}
	logs, err := l.eng.ContainerLogs(l.Context(), id, container.LogsOptions{ShowStdout: true, ShowStderr: true})
	l.must(err)
	defer logs.Close()
	var out bytes.Buffer
	_, err = stdcopy.StdCopy(&out, &out, logs)
	l.must(err)
	return status, out.String()
}

func env() []string {
	var vars []string
	for k, v := range Env() {
		vars = append(vars, k+"="+v)
	}
	return vars
}

// probe requests the persona with every program of the Debian image, first with
// the variables and then without.
const probe = `set -e
get() {
  curl -sS --retry 20 --retry-connrefused --retry-delay 1 -o /dev/null ` + personaURL + ` && echo curl ok
  python3 -c 'import urllib.request as u; u.urlopen("` + personaURL + `").read(); print("python ok")'
  openssl s_client -connect ` + personaHost + `:8443 -servername ` + personaHost + ` -verify_return_error -verify_quiet </dev/null >/dev/null && echo openssl ok
}
get
for v in $(env | cut -d= -f1); do case $v in *CA*|*CERT*|*cafile*|*SSL*) unset $v;; esac; done
get
`

func TestDebianTrustsThePersonaInEveryProgramAsAnyUser(t *testing.T) {
	l := newLab(t)
	for _, user := range []string{"0", "1000:1000"} {
		id := l.create(&container.Config{Image: l.debian, User: user, Env: env(), Cmd: []string{"sh", "-c", probe}}, &container.HostConfig{})
		r := l.install(id)
		if r.Bundle != Bundle || r.Roots < 100 || len(r.Bundles) != 1 || len(r.Skipped) != 0 {
			t.Errorf("report %+v", r)
		}
		if status, out := l.run(id); status != 0 || strings.Count(out, " ok") != 6 {
			t.Errorf("user %s: status %d\n%s", user, status, out)
		}
	}
}

func TestUpdateCACertificatesKeepsTheCA(t *testing.T) {
	l := newLab(t)
	id := l.create(&container.Config{Image: l.debian, Cmd: []string{"sh", "-c", `set -e
curl -sS --retry 20 --retry-connrefused --retry-delay 1 -o /dev/null ` + personaURL + `
grep -c BEGIN /etc/ssl/certs/ca-certificates.crt; ls /etc/ssl/certs | wc -l
for fresh in '' --fresh; do
  update-ca-certificates $fresh 2>&1
  curl -sS -o /dev/null ` + personaURL + `
  openssl s_client -connect ` + personaHost + `:8443 -verify_return_error -CApath /etc/ssl/certs </dev/null >/dev/null 2>&1
  grep -c BEGIN /etc/ssl/certs/ca-certificates.crt; ls /etc/ssl/certs | wc -l
done`}}, &container.HostConfig{})
	l.install(id)
	status, out := l.run(id)
	var counts []string
	for _, line := range strings.Split(out, "\n") {
		if line != "" && strings.Trim(line, "0123456789") == "" {
			counts = append(counts, line)
		}
	}
	if status != 0 || len(counts) != 6 || counts[0] != counts[2] || counts[0] != counts[4] || counts[1] != counts[3] || counts[1] != counts[5] {
		t.Errorf("status %d: certificates and files before and after each update %v\n%s", status, counts, out)
	}
}

func TestScratchImageTrustsThePersona(t *testing.T) {
	l := newLab(t)
	for name, vars := range map[string][]string{"told by variables": env(), "not told": nil} {
		id := l.create(&container.Config{Image: l.agent, User: "1000", Env: vars, Cmd: []string{"fetch", personaURL}}, &container.HostConfig{RestartPolicy: container.RestartPolicy{Name: container.RestartPolicyOnFailure, MaximumRetryCount: 20}})
		r := l.install(id)
		if r.Bundle != Bundle || r.Roots != 0 {
			t.Errorf("%s: report %+v", name, r)
		}
		status, out := l.run(id)
		var got struct{ Status int }
		lines := strings.Split(strings.TrimSpace(out), "\n")
		if err := json.Unmarshal([]byte(lines[len(lines)-1]), &got); err != nil || status != 0 || got.Status != 200 {
			t.Errorf("%s: status %d: %s", name, status, out)
		}
	}
}

func TestReadOnlyServiceTrustsThroughAVolume(t *testing.T) {
	l := newLab(t)
	cmd := []string{"curl", "-sS", "--retry", "20", "--retry-connrefused", "--retry-delay", "1", "-o", "/dev/null", personaURL}
	bare := l.create(&container.Config{Image: l.debian, Env: env(), Cmd: cmd}, &container.HostConfig{ReadonlyRootfs: true})
	if r := l.install(bare); r.Bundle != "" || len(r.Skipped) == 0 || !errors.As(r.Skipped[0].Err, new(*ReadOnlyError)) {
		t.Errorf("report %+v", r)
	}
	withVolume := l.create(&container.Config{Image: l.debian, Env: env(), Cmd: cmd, User: "1000"},
		&container.HostConfig{ReadonlyRootfs: true, Mounts: []mount.Mount{{Type: mount.TypeVolume, Target: BundleDir}}})
	if r := l.install(withVolume); r.Bundle != Bundle || r.Roots < 100 {
		t.Errorf("report %+v", r)
	}
	if status, out := l.run(withVolume); status != 0 {
		t.Errorf("status %d: %s", status, out)
	}
}

func TestHostFilesAreNotWrittenThroughABindMount(t *testing.T) {
	l := newLab(t)
	before := newCert(t, pkix.Name{CommonName: "Host's Own"})
	local := filepath.Join(t.TempDir(), "bundle.crt")
	l.must(os.WriteFile(local, before, 0o644))
	id := l.create(&container.Config{Image: l.debian}, &container.HostConfig{Mounts: []mount.Mount{
		{Type: mount.TypeBind, Source: local, Target: debianBundle}, {Type: mount.TypeBind, Source: t.TempDir(), Target: "/usr/local/share/ca-certificates"}}})
	r := l.install(id)
	if r.Bundle != Bundle || len(r.Bundles) != 0 || len(r.Skipped) != 2 {
		t.Errorf("report %+v", r)
	}
	after, err := os.ReadFile(local)
	l.must(err)
	if !bytes.Equal(before, after) {
		t.Fatal("the host's file was changed")
	}
	stream, _, err := l.eng.CopyFromContainer(t.Context(), id, Bundle)
	l.must(err)
	defer stream.Close()
	tr := tar.NewReader(stream)
	_, err = tr.Next()
	l.must(err)
	text, err := io.ReadAll(tr)
	l.must(err)
	if !bytes.Contains(text, l.ca) || !bytes.Contains(text, before) {
		t.Error("the bundle lacks the CA or what was mounted")
	}
}
