package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/linuxarena/ctis/server/api"
	"github.com/linuxarena/ctis/server/backend"
	"github.com/linuxarena/ctis/server/conduit"
	"github.com/linuxarena/ctis/server/durable"
	"github.com/linuxarena/ctis/server/wire"
)

// The rules of what goes to upstreams are those of what goes to backends (relay.go),
// but that the gateway is spoken with, which alone knows where they are and has their
// keys. Nothing is added to their responses: they are the real ones.

// wayOut is the way to the gateway.
type wayOut struct {
	identity *conduit.Identity
	client   *conduit.Client
	path     string // of what is known about it

	mu   sync.Mutex
	told api.Gateway
}

const gatewayVersion = 1 // of the file

// openGateway reads what the host said about the gateway. What was damaged is set aside:
// the host says it again with the next ctis up that has upstream proxies.
func (s *Server) openGateway(dir string) error {
	id, err := conduit.LoadIdentity(dir)
	if err != nil {
		return err
	}
	g := &wayOut{identity: id, client: conduit.NewClient(id), path: filepath.Join(dir, "gateway.json")}
	err = durable.ReadSealed(g.path, gatewayVersion, &g.told)
	switch {
	case err == nil:
		g.client.Use(g.told.Address, g.told.Identity)
	case !errors.Is(err, fs.ErrNotExist):
		aside, moveErr := durable.SetAside(g.path)
		if moveErr != nil {
			return fmt.Errorf("%q is damaged and cannot be set aside: %w", g.path, moveErr)
		}
		s.found = append(s.found, fmt.Sprintf("what was known about the gateway was damaged (%v) and is set aside as %q; the next ctis up with upstream proxies tells it anew", err, filepath.Base(aside)))
	}
	s.gateway = g
	return nil
}

// SetGateway: see [admin.Simulator].
func (c control) SetGateway(told api.Gateway) error {
	if !told.Address.IsValid() || told.Address.Port() == 0 || len(told.Identity) != 64 {
		return api.Errorf(http.StatusBadRequest, api.CodeInvalid, "%q with fingerprint %q is no gateway", told.Address, clip(told.Identity))
	}
	g := c.gateway
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.told == told {
		return nil
	}
	if err := durable.WriteSealed(g.path, gatewayVersion, told, 0o600); err != nil {
		return fmt.Errorf("where the gateway is cannot be stored: %w", err)
	}
	g.told = told
	g.client.Use(told.Address, told.Identity)
	return nil
}

// forward answers a request with what an upstream says to it.
func (s *Server) forward(x *exchange, r *http.Request, host string) {
	n := x.link.tenant
	switch {
	case !x.body.Readable():
		x.turnAway(http.StatusInsufficientStorage, "there is no room for a body of "+strconv.FormatInt(x.body.Size(), 10)+" bytes until its upstream has it")
		return
	case !n.hand(s.limits.Proxied):
		x.turnAway(http.StatusServiceUnavailable, "more requests of this trajectory are with upstreams and backends than are served at once")
		return
	}
	defer n.handed()
	if x.commit() != nil {
		x.unavailable()
		return
	}
	x.settle(r, s.consult(x, r, host), "upstream", func(what string) string { return "upstream " + strconv.Quote(host) + " " + what })
}

// consult makes the exchange by way of the gateway and passes the response on.
func (s *Server) consult(x *exchange, r *http.Request, host string) error {
	body, err := x.body.Open()
	if err != nil {
		return &backend.Failure{Status: http.StatusServiceUnavailable, Reason: "was not asked: " + err.Error()}
	}
	defer body.Close() //nolint:errcheck // only read
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	e, err := s.gateway.client.Start(ctx, backend.Patience{Connect: s.limits.Connect, Answer: s.limits.GatewayAnswer, Silence: s.limits.GatewaySilence})
	if err != nil {
		return err
	}
	defer e.Close()
	m := x.message
	err = e.Do(&conduit.Open{
		Trajectory: x.link.tenant.id, Host: host, Method: m.method, Target: wire.OriginForm(m.target), Fields: m.fields, Length: x.body.Size(),
		WebSocket: m.head != nil && x.body.Size() == 0 && backend.AsksForWebSocket(m.method, m.turn.Minor, m.fields),
	}, body)
	if err != nil {
		return err
	}
	a := reply{body: e, status: e.Status, fields: e.Fields, trailers: func() [][2]string { return e.Trailers }, streams: true}
	x.genuine = true
	x.persona = &api.Persona{Host: host, ServerHeader: serverOf(a.fields)} // whose way of writing heads it has
	if t, ok := x.carrier.(*tap); ok {
		t.speakAs(x.persona.ServerHeader)
	}
	if e.Switched {
		return x.tunnelTo(a, e.Conn)
	}
	return x.passOn(a)
}

// serverOf is what a response says of its server.
func serverOf(fields [][2]string) string {
	for _, f := range fields {
		if strings.EqualFold(f[0], "Server") && f[1] != "" {
			return f[1]
		}
	}
	return api.DefaultServerHeader
}
