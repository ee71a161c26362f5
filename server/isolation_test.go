package server

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/linuxarena/ctis/server/api"
	"github.com/linuxarena/ctis/server/registry"
	"github.com/linuxarena/ctis/server/wire"
)

func TestRouteNeedsBothEndsInOneNetwork(t *testing.T) {
	two := registration("two", 2)
	two.Networks = append(two.Networks, api.Network{
		Name: "v6", ID: "six", Subnets: []netip.Prefix{netip.MustParsePrefix("fd00:2::/64")}, Addresses: []netip.Addr{netip.MustParseAddr("fd00:2::1")},
	})
	list := []*registry.Trajectory{{Registration: *two}, {Registration: *registration("three", 3)}}
	r := newRoutes(list, &routes{}, func(t *registry.Trajectory) (*tenant, error) { return newTenant(t, nil), nil }, nil)
	for _, c := range []struct{ local, peer, owner, refused, blamed string }{
		{"127.0.0.2", "127.1.2.5", "two", "", "two"},
		{"127.0.0.3", "127.1.3.5", "three", "", "three"},
		{"::ffff:127.0.0.2", "::ffff:127.1.2.5", "two", "", "two"},
		{"fd00:2::1", "fd00:2::5", "two", "", "two"},
		{"127.0.0.2", "127.1.3.5", "", refusedPeer, "three"},
		{"127.0.0.3", "127.1.2.5", "", refusedPeer, "two"},
		{"127.0.0.2", "10.0.0.1", "", refusedPeer, api.Unattributed},
		{"127.0.0.9", "127.1.2.5", "", refusedAddress, "two"},
		{"127.0.0.9", "10.0.0.1", "", refusedAddress, api.Unattributed},
		{"127.0.0.2", "fd00:2::5", "", refusedPeer, "two"}, // another network of the same trajectory
		{"fd00:2::1", "127.1.2.5", "", refusedPeer, "two"},
	} {
		local, peer := netip.MustParseAddr(c.local).Unmap(), netip.MustParseAddr(c.peer).Unmap()
		n, refused := r.find(ends{local: local, peer: peer})
		owner := ""
		if n != nil {
			owner = n.id
		}
		blamed, _ := r.blame(ends{local: local, peer: peer})
		if owner != c.owner || refused != c.refused || blamed != c.blamed {
			t.Errorf("%s from %s: owner %q, refused %q, blamed %q", c.local, c.peer, owner, refused, blamed)
		}
	}
}

func TestConnectionIntoAnotherTrajectoryIsClosedAndRecordedWithItsMaker(t *testing.T) {
	w := newWorld(t)
	w.register("t2", 2, plays("a.example", ""))
	w.register("t3", 3, plays("a.example", ""))
	for _, port := range []string{w.plain, w.tls} {
		c, err := w.dialFrom("127.1.2.5", "127.0.0.3", port)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n") // it may be closed by now
		if b, _ := io.ReadAll(c); len(b) > 0 {
			t.Errorf("answered %q", b)
		}
	}
	records := w.await("t2", 2)
	for _, r := range records {
		if r.Kind != api.KindRefused || r.Error != refusedPeer || r.Client.Service != "default" || r.Request != nil {
			t.Errorf("%+v", r)
		}
	}
	if n := len(w.records("t3")); n > 0 {
		t.Errorf("the trajectory that was called has %d records", n)
	}
	c, err := w.dialFrom("127.9.9.9", "127.0.0.3", w.plain)
	if err != nil {
		t.Fatal(err)
	}
	if b, _ := io.ReadAll(c); len(b) > 0 {
		t.Errorf("answered %q", b)
	}
	if r := w.await(api.Unattributed, 1)[0]; r.Client.IP != "127.9.9.9" || r.Trajectory != api.Unattributed {
		t.Errorf("%+v", r)
	}
	s, err := w.admin.Status(context.Background())
	if err != nil || s.Unattributed != 1 {
		t.Errorf("%+v %v", s, err)
	}
}

func TestRefusedConnectionsAreCountedBeyondABurst(t *testing.T) {
	var written []*api.Record
	f := refusals{windows: map[refusalKey]*refusalCount{}, write: func(_ string, r *api.Record) { written = append(written, r) }}
	for range refusalBurst + 30 {
		f.add("t2", "default", netip.MustParseAddrPort("127.1.2.5:1"), refusedPeer, time.Unix(0, 0))
	}
	f.add("t2", "default", netip.MustParseAddrPort("127.1.2.5:1"), refusedFull, time.Unix(0, 0))
	f.close()
	if len(written) != refusalBurst+2 {
		t.Fatalf("%d records", len(written))
	}
	if last := written[len(written)-1]; !strings.Contains(last.Error, "30 more") {
		t.Errorf("the last says %q", last.Error)
	}
}

func TestUnregisteringCutsConnectionsAndLeavesTheOthersAlone(t *testing.T) {
	w := newWorld(t)
	w.register("t2", 2, plays("a.example", ""))
	w.register("t3", 3, plays("a.example", ""))
	c3 := w.client(3, true)
	stop, failed := make(chan struct{}), make(chan error, 1)
	go func() {
		defer close(failed)
		for {
			select {
			case <-stop:
				return
			default:
			}
			r, err := c3.Get("https://a.example/")
			if err == nil {
				_, err = io.Copy(io.Discard, r.Body)
				_ = r.Body.Close()
			}
			if err != nil {
				failed <- err
				return
			}
		}
	}()
	w.do(w.client(2, false), "PUT", "http://a.example/data/k", "secret")
	idle := w.dial(2, w.plain)
	if _, err := io.WriteString(idle, "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	one := make([]byte, 1)
	if _, err := io.ReadFull(idle, one); err != nil {
		t.Fatal(err)
	}
	busy := w.dial(2, w.plain)
	if _, err := io.WriteString(busy, "POST /webhook HTTP/1.1\r\nHost: a.example\r\nContent-Length: 10\r\n\r\nabc"); err != nil {
		t.Fatal(err)
	}
	u, err := w.admin.Unregister(context.Background(), "t2")
	if err != nil || !u.Known || u.Requests < 2 {
		t.Fatalf("%+v %v", u, err)
	}
	for _, c := range []io.Reader{idle, busy} {
		if _, err := io.Copy(io.Discard, c); err != nil && !strings.Contains(err.Error(), "reset") {
			t.Error(err)
		}
	}
	if b := w.send(2, w.plain, ""); b != "" {
		t.Errorf("answered %q", b)
	}
	close(stop)
	if err := <-failed; err != nil {
		t.Errorf("the other trajectory noticed: %v", err)
	}
	if len(w.records("t2")) < 2 {
		t.Error("the journal is gone")
	}
	// A new trajectory of the same id begins without what the old one stored.
	w.register("t2", 2, plays("a.example", ""))
	if r, got := w.do(w.client(2, false), "GET", "http://a.example/data/k", ""); r.StatusCode != 404 {
		t.Errorf("%d %q", r.StatusCode, got)
	}
}

func TestConnectionsOfOneTrajectoryAreBounded(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Limits.Connections = 16; o.Limits.PerTrajectory = 3 })
	w.register("t2", 2, plays("a.example", ""))
	w.register("t3", 3, plays("a.example", ""))
	for range 3 {
		c := w.dial(2, w.plain)
		if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
	}
	if b := w.send(2, w.plain, ""); b != "" {
		t.Errorf("answered %q", b)
	}
	if r := w.await("t2", 4)[3]; r.Kind != api.KindRefused || r.Error != refusedCrowded {
		t.Errorf("%+v", r)
	}
	if r, _ := w.do(w.client(3, true), "GET", "https://a.example/", ""); r.StatusCode != 200 {
		t.Errorf("the other trajectory is answered %d", r.StatusCode)
	}
}

func TestRequestsOfOneTrajectoryAreBounded(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Limits.Requests = 1 })
	w.register("t2", 2, plays("a.example", ""))
	slow := w.dial(2, w.plain)
	if _, err := io.WriteString(slow, "POST /webhook HTTP/1.1\r\nHost: a.example\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(slow, make([]byte, 1)); err != nil { // the handler reads the body
		t.Fatal(err)
	}
	if r, _ := w.do(w.client(2, true), "POST", "https://a.example/webhook", "x"); r.StatusCode != 503 {
		t.Errorf("answered %d", r.StatusCode)
	}
	if r := w.records("t2")[0]; r.Response.Status != 503 || !r.Request.Body.Truncated || r.Error == "" {
		t.Errorf("%+v %+v", r, r.Request)
	}
}

func (w *world) handshake(n int, c *tls.Config) error {
	w.t.Helper()
	conn := tls.Client(w.dial(n, w.tls), c)
	defer conn.Close()
	return conn.Handshake()
}

func TestUnknownNameIsRefusedWithItsAlertAndRecorded(t *testing.T) {
	w := newWorld(t)
	w.register("t2", 2, plays("a.example", ""))
	w.register("t3", 3, plays("b.example", ""))
	var alert *net.OpError
	err := w.handshake(2, &tls.Config{ServerName: "b.example", InsecureSkipVerify: true})
	if !errors.As(err, &alert) || alert.Err.Error() != tls.AlertError(112).Error() {
		t.Errorf("client sees %v", err)
	}
	r := w.await("t2", 1)[0]
	if r.Kind != api.KindRefused || r.TLS == nil || r.TLS.SNI != "b.example" || !strings.Contains(r.Error, `"b.example"`) || r.Raw == nil {
		t.Errorf("%+v %+v", r, r.TLS)
	}
}

func TestClientThatDistrustsTheCertificateIsEvidence(t *testing.T) {
	w := newWorld(t)
	w.register("t2", 2, plays("a.example", ""))
	for i, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		if err := w.handshake(2, &tls.Config{ServerName: "a.example", MinVersion: version, MaxVersion: version}); err == nil {
			t.Fatal("the client trusts the authority without being told to")
		}
		r := w.await("t2", i+1)[i]
		if r.Kind != api.KindRefused || !strings.HasPrefix(r.Error, "tls: client refused the certificate: ") || r.TLS.SNI != "a.example" || r.Persona != "a.example" {
			t.Errorf("%+v %+v", r, r.TLS)
		}
	}
}

func TestNamesAreComparedNormalised(t *testing.T) {
	w := newWorld(t)
	w.register("t2", 2, plays("first.example", ""), plays("files.example", ""))
	for name, want := range map[string]string{
		"FILES.Example": "files.example", // as sent by clients that do not lower it
		"files.example": "files.example",
		"":              "first.example",
		"127.0.0.2":     "first.example",
	} {
		var got string
		c := &tls.Config{ServerName: name, InsecureSkipVerify: true, VerifyConnection: func(s tls.ConnectionState) error {
			got = s.PeerCertificates[0].DNSNames[0]
			return nil
		}}
		if err := w.handshake(2, c); err != nil || got != want {
			t.Errorf("%q: certificate for %q, %v", name, got, err)
		}
	}
}

func TestTLSBytesThatAreNoHelloGiveOneRecord(t *testing.T) {
	w := newWorld(t)
	w.register("t2", 2, plays("a.example", "nginx/1.22.1"))
	for i, c := range []struct {
		name, raw, answer, reason string
	}{
		{"plain http", "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n", "HTTP/1.1 400 Bad Request\r\nServer: nginx/1.22.1\r\n", "plain http on the tls port"},
		{"garbage", "\x00\x01\x02", "HTTP/1.1 400 Bad Request\r\n", "request line"},
		{"sslv2", "\x80\x2e\x01\x00\x02", "", "no handshake record"},
		{"damaged hello", "\x16\x03\x01\x00\x08\x01\x00\x00\x04\x03\x03\x00\x00", "\x15\x03\x03\x00\x02\x02\x32", "damaged"},
		{"server hello", "\x16\x03\x01\x00\x04\x02\x00\x00\x00", "\x15\x03\x03\x00\x02\x02\x32", "no client hello"},
	} {
		answer := w.send(2, w.tls, c.raw)
		if c.answer == "" && answer != "" && answer[0] != 0x15 || !strings.HasPrefix(answer, c.answer) {
			t.Errorf("%s: answered %q", c.name, answer)
		}
		r := w.await("t2", i+1)[i]
		if r.Kind != api.KindMalformed || !strings.Contains(r.Error, c.reason) || r.Raw == nil || r.Raw.Size == 0 {
			t.Errorf("%s: %+v", c.name, r)
		}
	}
	if answer := w.send(2, w.plain, "GET / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n"); !strings.Contains(answer, "200 OK") {
		t.Errorf("afterwards: %q", answer)
	}
}

func TestHalfAHelloIsRecordedAndNoByteIsNot(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Limits.Handshake = 150 * time.Millisecond })
	w.register("t2", 2, plays("a.example", ""))
	w.send(2, w.tls, "")
	w.send(2, w.tls, "\x16\x03\x01\x02\x00\x01\x00")
	r := w.await("t2", 1)[0]
	if r.Kind != api.KindMalformed || !strings.Contains(r.Error, "timed out") {
		t.Errorf("%+v", r)
	}
}

func TestHTTP2ThatReachesNoHandlerIsRecorded(t *testing.T) {
	w := newWorld(t)
	w.register("t2", 2, plays("a.example", ""))
	settings := "\x00\x00\x00\x04\x00\x00\x00\x00\x00"
	for i, c := range []struct{ name, raw, reason string }{
		{"no preface", "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n", "preface"},
		{"headers on an even stream", wire.Preface + settings + "\x00\x00\x01\x01\x05\x00\x00\x00\x02\x82", "PROTOCOL_ERROR"},
		{"undecodable header", wire.Preface + settings + "\x00\x00\x01\x01\x05\x00\x00\x00\x01\xff", "COMPRESSION_ERROR"},
		{"request without a path", wire.Preface + settings + "\x00\x00\x01\x01\x05\x00\x00\x00\x01\x82" + "\x00\x00\x08\x07\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", "refused by the protocol layer: 1"},
	} {
		conn := tls.Client(w.dial(2, w.tls), &tls.Config{ServerName: "a.example", RootCAs: w.roots, NextProtos: []string{"h2"}})
		if _, err := io.WriteString(conn, c.raw); err != nil {
			t.Fatal(err)
		}
		if i == 3 {
			_ = conn.CloseWrite()
		}
		_, _ = io.Copy(io.Discard, conn) // however it ends
		_ = conn.Close()
		r := w.await("t2", i+1)[i]
		if r.Kind != api.KindMalformed || !strings.Contains(r.Error, c.reason) || r.TLS == nil || r.TLS.ALPN != "h2" {
			t.Errorf("%s: %+v %+v", c.name, r, r.TLS)
		}
	}
}

func TestRegistrationOverTheSocketFollowsTheContract(t *testing.T) {
	w := newWorld(t)
	ctx := context.Background()
	w.register("t2", 2, plays("a.example", ""))
	if r, err := w.admin.Register(ctx, registration("t2", 2, plays("a.example", ""))); err != nil || !r.Unchanged {
		t.Errorf("%+v %v", r, err)
	}
	var e *api.Error
	if _, err := w.admin.Register(ctx, registration("t2", 2, plays("b.example", ""))); !errors.As(err, &e) || e.Status != http.StatusConflict || fmt.Sprint(e.Fields) != "[personas]" {
		t.Errorf("%v", err)
	}
	if err := w.admin.Retire(ctx); !errors.As(err, &e) || e.Code != api.CodeBusy || fmt.Sprint(e.Holders) != "[t2]" {
		t.Errorf("%v", err)
	}
	if err := w.admin.SetPeers(ctx, "t2", api.Peers{"external": {{Service: "agent", Address: netip.MustParseAddr("127.1.2.5")}}}); err != nil {
		t.Error(err)
	}
	w.do(w.client(2, false), "GET", "http://a.example/", "")
	if r := w.records("t2")[0]; r.Client.Service != "agent" {
		t.Errorf("%+v", r.Client)
	}
	for _, known := range []bool{true, false} {
		if u, err := w.admin.Unregister(ctx, "t2"); err != nil || u.Known != known {
			t.Errorf("%+v %v", u, err)
		}
	}
	if err := w.admin.Retire(ctx); err != nil {
		t.Error(err)
	}
	if _, err := w.admin.Register(ctx, registration("t2", 2)); !errors.As(err, &e) || e.Status != http.StatusGone || e.Code != api.CodeRetired {
		t.Errorf("%v", err)
	}
}

// TestBodyThatCannotBeKeptIsNotAcknowledged takes away the place where bodies
// are kept, so that a body is received whole and still cannot be evidence.
func TestBodyThatCannotBeKeptIsNotAcknowledged(t *testing.T) {
	w := newWorld(t)
	w.register("t2", 2, plays("a.example", ""))
	big := strings.Repeat("secret ", 20<<10)
	if r, _ := w.do(w.client(2, false), "POST", "http://a.example/webhook", "first"); r.StatusCode != 200 {
		t.Fatal(r.Status)
	}
	bodies := filepath.Join(w.state, "journal", "t2", "bodies")
	if err := os.RemoveAll(bodies); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(bodies, nil, 0o600); err != nil { // no directory any more, for root too
		t.Fatal(err)
	}
	if r, _ := w.do(w.client(2, false), "POST", "http://a.example/webhook", big); r.StatusCode != 503 {
		t.Errorf("answered %s", r.Status)
	}
	records := w.records("t2")
	if last := records[len(records)-1]; last.Response.Status != 503 || !last.Request.Body.Truncated || last.Request.Body.Size != int64(len(big)) {
		t.Errorf("recorded %+v", last)
	}
}

// TestFailedHandshakeIsRecordedBeforeItsAlert: whoever has seen the alert finds the
// record, whatever happens to the process next.
func TestFailedHandshakeIsRecordedBeforeItsAlert(t *testing.T) {
	w := newWorld(t)
	w.register("t2", 2, plays("a.example", ""))
	client, far := net.Pipe()
	socket := &watched{Conn: far, before: func() int {
		b, _ := os.ReadFile(filepath.Join(w.state, "journal", "t2", "journal.jsonl")) // absent: no line
		return bytes.Count(b, []byte("\n"))
	}}
	l := &link{Conn: socket, socket: socket, server: w.server, tenant: w.server.routes.Load().tenants["t2"], ip: "127.1.2.5"}
	go w.server.handshake(l)
	err := tls.Client(client, &tls.Config{ServerName: "nobody.example", RootCAs: w.roots}).Handshake()
	if err == nil || !strings.Contains(err.Error(), "unrecognized name") {
		t.Fatalf("the handshake ended with %v", err)
	}
	if len(socket.lines) != 1 || socket.lines[0] != 1 {
		t.Errorf("lines in the journal at each write: %v, not [1]", socket.lines)
	}
}

// watched notes how much is in the journal before each write.
type watched struct {
	net.Conn
	before func() int
	lines  []int
}

func (c *watched) Write(p []byte) (int, error) {
	c.lines = append(c.lines, c.before())
	return c.Conn.Write(p)
}
