// Package sidecar puts the configuration and the certificates of exposed services
// into their sidecar, and reads back out of it what it has and what it logged.
//
// Everything goes through the engine: nothing is written on this machine, and no
// image is made. The files are in a volume of the sidecar's own, which goes with it.
// What comes out of a container is read within limits: nginx faces agents.
package sidecar

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"path"
	"strconv"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/linuxarena/ctis/compose"
	"github.com/linuxarena/ctis/server/api"
	template "github.com/linuxarena/ctis/templates/sidecar"
)

// Engine is what this package asks of the engine's client.
type Engine interface {
	CopyFromContainer(ctx context.Context, id, path string) (io.ReadCloser, container.PathStat, error)
	CopyToContainer(ctx context.Context, id, path string, tar io.Reader, o container.CopyToContainerOptions) error
	ContainerLogs(ctx context.Context, id string, o container.LogsOptions) (io.ReadCloser, error)
}

const (
	configFile = "nginx.conf"
	// maxArchive bounds what is read back, in bytes: the largest configuration has a
	// thousand files of about a kilobyte.
	maxArchive = 64 << 20
	// renewBefore is the time before its end from which a certificate is made anew.
	// The simulator makes them for 90 days.
	renewBefore = 30 * 24 * time.Hour
)

// Files are a sidecar's, by base name.
type Files map[string][]byte

// Config renders the configuration of a sidecar.
func Config(s *compose.Sidecar) ([]byte, error) {
	c := template.Config{Dir: compose.SidecarDir, IPv6: s.IPv6, Resolve6: s.Resolve6}
	for i, r := range s.Routes {
		c.Hosts = append(c.Hosts, template.Host{
			Name: string(r.Host), Certificate: strconv.Itoa(i), Upstream: r.Alias, Port: r.Target.Port,
		})
	}
	return template.Render(c)
}

// NewFiles puts a configuration and the certificates of its hosts, in their order, together.
func NewFiles(config []byte, certificates []api.Certificate) Files {
	f := Files{configFile: config}
	for i, c := range certificates {
		f[strconv.Itoa(i)+".crt"], f[strconv.Itoa(i)+".key"] = []byte(c.Certificate), []byte(c.Key)
	}
	return f
}

// Deliver puts files into a sidecar that was created and not started yet.
func Deliver(ctx context.Context, eng Engine, id string, f Files) error {
	var b bytes.Buffer
	tw := tar.NewWriter(&b)
	for name, content := range f {
		h := &tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o400, Size: int64(len(content)), Uid: compose.SidecarUser, Gid: compose.SidecarUser}
		if err := tw.WriteHeader(h); err != nil {
			return err
		}
		if _, err := tw.Write(content); err != nil {
			return err
		}
	}
	if err := tw.Close(); err != nil {
		return err
	}
	// It replaces what an earlier sidecar left in the volume, file by file.
	if err := eng.CopyToContainer(ctx, id, compose.SidecarDir, &b, container.CopyToContainerOptions{}); err != nil {
		return fmt.Errorf("copy certificates and configuration into the sidecar: %w", err)
	}
	return nil
}

// Read reads the files of a sidecar, in whatever state it is.
func Read(ctx context.Context, eng Engine, id string) (Files, error) {
	r, _, err := eng.CopyFromContainer(ctx, id, compose.SidecarDir)
	if err != nil {
		return nil, fmt.Errorf("read the sidecar's files: %w", err)
	}
	defer r.Close()
	files := Files{}
	tr := tar.NewReader(io.LimitReader(r, maxArchive))
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read the sidecar's files: %w", err)
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		if files[path.Base(h.Name)], err = io.ReadAll(tr); err != nil {
			return nil, fmt.Errorf("read the sidecar's files: %w", err)
		}
	}
}

// Stale says why a sidecar with these files has to be made anew; "" if it need not be:
// its configuration is another than wanted, or a certificate is missing, is not for its
// host, not of the authority, or does not last for a month after now.
func (f Files) Stale(config, ca []byte, hosts []string, now time.Time) string {
	if !bytes.Equal(f[configFile], config) {
		return "its configuration is another one now"
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		return "the simulator's certificate authority cannot be read"
	}
	for i, host := range hosts {
		block, _ := pem.Decode(f[strconv.Itoa(i)+".crt"])
		if block == nil || len(f[strconv.Itoa(i)+".key"]) == 0 {
			return fmt.Sprintf("it has no certificate for %q", host)
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return fmt.Sprintf("its certificate for %q cannot be read", host)
		}
		if c.NotAfter.Before(now.Add(renewBefore)) {
			return fmt.Sprintf("its certificate for %q ends on %s", host, c.NotAfter.UTC().Format(time.DateOnly))
		}
		if _, err := c.Verify(x509.VerifyOptions{Roots: roots, DNSName: host, CurrentTime: now}); err != nil {
			return fmt.Sprintf("its certificate for %q is not of the simulator's authority", host)
		}
	}
	return ""
}
