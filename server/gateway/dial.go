package gateway

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/linuxarena/ctis/server/api"
	"github.com/linuxarena/ctis/server/backend"
	"github.com/linuxarena/ctis/server/gateway/roots"
)

// maxAddresses is how many of a host's addresses are tried, one after the other.
const maxAddresses = 4

func bad(format string, args ...any) *backend.Failure {
	return &backend.Failure{Status: http.StatusBadGateway, Reason: fmt.Sprintf(format, args...)}
}

// dial connects to an upstream and, with TLS, makes sure that it is the one. Its error
// is a *[backend.Failure]. http1 keeps the upstream from choosing HTTP/2.
func (g *Gateway) dial(ctx context.Context, u api.Upstream, http1 bool) (backend.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, g.patience.Connect)
	defer cancel()
	addresses, err := g.resolve(ctx, u.Host)
	if err != nil {
		return nil, unresolved(ctx, err)
	}
	var refused string
	addresses = slices.DeleteFunc(addresses, func(a netip.Addr) bool {
		why := g.fence.refuse(a, g.claims.networks)
		if why != "" {
			refused = fmt.Sprintf("its address %s %s", a, why)
		}
		return why != ""
	})
	if len(addresses) == 0 {
		return nil, bad("is not called: %s", cmp.Or(refused, "its name has no address"))
	}
	// IPv4 first: where there is no way out for IPv6, trying takes no time, and where it
	// leads nowhere it takes all there is.
	slices.SortStableFunc(addresses, func(a, b netip.Addr) int { return cmp.Compare(a.Unmap().BitLen(), b.Unmap().BitLen()) })
	d := net.Dialer{KeepAlive: 15 * time.Second, ControlContext: g.control, Timeout: g.patience.Connect / 2}
	d.SetMultipathTCP(false)
	var raw net.Conn
	for _, a := range addresses[:min(len(addresses), maxAddresses)] {
		raw, err = d.DialContext(ctx, "tcp", net.JoinHostPort(a.Unmap().String(), strconv.Itoa(int(u.Port))))
		if err == nil || ctx.Err() != nil {
			break
		}
	}
	if err != nil {
		return nil, unreachable(ctx, err)
	}
	if u.Scheme != "https" {
		return raw.(*net.TCPConn), nil
	}
	pool, err := tlsRoots(u.Authorities)
	if err != nil {
		_ = raw.Close() // nothing was said
		return nil, bad("cannot be verified: %v", err)
	}
	protocols := []string{"h2", "http/1.1"}
	if http1 {
		protocols = protocols[1:]
	}
	c := tls.Client(raw, &tls.Config{ServerName: u.Host, RootCAs: pool, MinVersion: tls.VersionTLS12, NextProtos: protocols})
	if err := c.HandshakeContext(ctx); err != nil {
		_ = raw.Close() // it is not spoken with
		return nil, unverified(ctx, err)
	}
	return c, nil
}

// rootPools keeps the pools of authorities that were asked for.
var rootPools struct {
	sync.Mutex
	by map[string]*x509.CertPool
}

// maxRootPools bounds them: each is as large as all public authorities.
const maxRootPools = 64

// tlsRoots are the public authorities and further ones, made once for each set.
func tlsRoots(extra string) (*x509.CertPool, error) {
	rootPools.Lock()
	defer rootPools.Unlock()
	if p, ok := rootPools.by[extra]; ok {
		return p, nil
	}
	p, err := roots.Pool(extra)
	if err != nil {
		return nil, err
	}
	if rootPools.by == nil || len(rootPools.by) >= maxRootPools {
		rootPools.by = map[string]*x509.CertPool{}
	}
	rootPools.by[extra] = p
	return p, nil
}

func unresolved(ctx context.Context, err error) *backend.Failure {
	var dns *net.DNSError
	switch {
	case errors.As(err, &dns) && dns.IsNotFound:
		return bad("is not called: there is no such name")
	case ctx.Err() != nil || errors.As(err, &dns) && dns.IsTimeout:
		return &backend.Failure{Status: http.StatusGatewayTimeout, Reason: "is not called: its name was not resolved in time"}
	}
	return bad("is not called: its name cannot be resolved: %v", err)
}

func unreachable(ctx context.Context, err error) *backend.Failure {
	var timeout net.Error
	switch {
	case ctx.Err() != nil, errors.As(err, &timeout) && timeout.Timeout():
		return &backend.Failure{Status: http.StatusGatewayTimeout, Reason: "did not accept a connection in time"}
	case errors.Is(err, syscall.ECONNREFUSED):
		return bad("refused the connection")
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return bad("cannot be reached: there is no way to its address")
	}
	var op *net.OpError
	if errors.As(err, &op) {
		err = op.Err
	}
	return bad("is not called: %v", err)
}

func unverified(ctx context.Context, err error) *backend.Failure {
	var timeout net.Error
	if ctx.Err() != nil || errors.As(err, &timeout) && timeout.Timeout() {
		return &backend.Failure{Status: http.StatusGatewayTimeout, Reason: "did not finish the TLS handshake in time"}
	}
	return bad("was not spoken with: TLS: %v", err)
}

// hostField is the Host an upstream is called by.
func hostField(u api.Upstream) string {
	if u.Scheme == "https" && u.Port == 443 || u.Scheme == "http" && u.Port == 80 {
		return u.Host
	}
	return u.Host + ":" + strconv.Itoa(int(u.Port))
}

// sameName says whether two header names are one to a program that takes "_" for "-",
// as CGI and WSGI do.
func sameName(a, b string) bool {
	return strings.EqualFold(strings.ReplaceAll(a, "_", "-"), strings.ReplaceAll(b, "_", "-"))
}
