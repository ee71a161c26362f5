package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/linuxarena/ctis/server/api"
	"github.com/linuxarena/ctis/server/registry"
)

// Bounds of what is taken of one request of a sidecar, in bytes: nginx lets no more
// than 64 KiB of a request line or a field through.
const maxExposedText = 128 << 10

// sidecars holds up to where the sidecar of each trajectory was read. What is not in
// it, the journal tells: the cursor is that of the last record of the kind.
type sidecars struct {
	mu   sync.Mutex
	read map[string]api.ExposedCursor // by trajectory
}

// Certificates: see [admin.Simulator].
func (c control) Certificates(id string, hosts []string) (*api.Certificates, error) {
	t, err := c.exposing(id)
	if err != nil {
		return nil, err
	}
	made := &api.Certificates{Certificates: []api.Certificate{}}
	for _, host := range hosts {
		if exposed(t, host) == nil {
			return nil, api.Errorf(http.StatusBadRequest, api.CodeInvalid, "trajectory %q exposes no host %q", id, clip(host))
		}
		certificate, key, err := c.ca.Issue(host)
		if err != nil {
			return nil, err
		}
		made.Certificates = append(made.Certificates, api.Certificate{Host: host, Certificate: string(certificate), Key: string(key)})
	}
	return made, nil
}

func (c control) exposing(id string) (*registry.Trajectory, error) {
	t, ok := c.registry.Lookup(id)
	if !ok {
		return nil, api.Errorf(http.StatusNotFound, api.CodeNotFound, "trajectory %q is not registered", clip(id))
	}
	return t, nil
}

// exposed is what a trajectory has behind a hostname; nil for nothing.
func exposed(t *registry.Trajectory, host string) *api.Exposed {
	i := slices.IndexFunc(t.Exposed, func(x api.Exposed) bool { return x.Host == host })
	if i < 0 {
		return nil
	}
	return &t.Exposed[i]
}

// ExposedCursor: see [admin.Simulator].
func (c control) ExposedCursor(ctx context.Context, id string) (*api.ExposedCursor, error) {
	if _, err := c.exposing(id); err != nil {
		return nil, err
	}
	c.sidecars.mu.Lock()
	defer c.sidecars.mu.Unlock()
	at, err := c.exposedCursor(ctx, id)
	return &at, err
}

// exposedCursor finds the cursor; the lock is held.
func (c control) exposedCursor(ctx context.Context, id string) (api.ExposedCursor, error) {
	at, known := c.sidecars.read[id]
	if known {
		return at, nil
	}
	j, ok := c.journal.Lookup(id)
	if !ok {
		return at, nil
	}
	err := j.Read(ctx, api.JournalQuery{Kinds: []string{api.KindExposed}, Limit: 1}, func(line []byte) error {
		var r api.Record
		if err := json.Unmarshal(line, &r); err != nil {
			return err
		}
		if x := r.Exposed; x != nil {
			at = api.ExposedCursor{Container: x.Container, RequestID: x.RequestID, Ended: x.Ended}
		}
		return nil
	})
	if err == nil {
		c.sidecars.keep(id, at)
	}
	return at, err
}

func (s *sidecars) keep(id string, at api.ExposedCursor) {
	if s.read == nil {
		s.read = map[string]api.ExposedCursor{}
	}
	s.read[id] = at
}

// forget drops the cursor of a trajectory that is over.
func (s *sidecars) forget(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.read, id)
}

// RecordExposed: see [admin.Simulator]. One process at a time: what two read of one
// log would stand in the journal twice.
func (c control) RecordExposed(ctx context.Context, id string, b *api.ExposedBatch) (*api.ExposedCursor, error) {
	t, err := c.exposing(id)
	if err != nil {
		return nil, err
	}
	if b.Container == "" || len(b.Container) > 64 {
		return nil, api.Errorf(http.StatusBadRequest, api.CodeInvalid, "requests of the container %q, which is no id", clip(b.Container))
	}
	for i := range b.Requests {
		if err := checkExposed(&b.Requests[i]); err != nil {
			return nil, err
		}
	}
	j, err := c.journal.Journal(id)
	if err != nil {
		return nil, err
	}
	c.sidecars.mu.Lock()
	defer c.sidecars.mu.Unlock()
	at, err := c.exposedCursor(ctx, id)
	if err != nil {
		return nil, err
	}
	if at.Container != b.After.Container || at.RequestID != b.After.RequestID {
		return nil, api.Errorf(http.StatusConflict, api.CodeConflict, "the sidecar of %q was read by another process meanwhile", id)
	}
	if lost := lostOf(at, b); lost != "" {
		if err := j.Append(&api.Record{Kind: api.KindGap, Error: lost}); err != nil {
			return nil, err
		}
	}
	for i := range b.Requests {
		q := &b.Requests[i]
		if err := j.Append(exposedRecord(t, b.Container, q)); err != nil {
			return nil, err
		}
		at = api.ExposedCursor{Container: b.Container, RequestID: q.ID, Ended: q.Ended}
		c.sidecars.keep(id, at) // also if the next one fails
	}
	if at.Container != b.Container {
		at = api.ExposedCursor{Container: b.Container}
	}
	at.Final = b.Final
	c.sidecars.keep(id, at)
	return &at, nil
}

// lostOf says what is missing before a batch; "" for nothing.
func lostOf(at api.ExposedCursor, b *api.ExposedBatch) string {
	switch {
	case b.Lost:
		return "requests to exposed services are not in the journal: the sidecar's log had no room for them any more"
	case at.Container != "" && at.Container != b.Container && !at.Final:
		return "requests to exposed services may not be in the journal: their sidecar was removed before they were read"
	}
	return ""
}

// checkExposed refuses what nginx does not log.
func checkExposed(q *api.ExposedRequest) error {
	wrong := func(what string) error {
		return api.Errorf(http.StatusBadRequest, api.CodeInvalid, "request %q of a sidecar has no valid %s", clip(q.ID), what)
	}
	if len(q.ID) != 32 || strings.Trim(q.ID, "0123456789abcdef") != "" {
		return wrong("id")
	}
	if _, err := netip.ParseAddr(q.IP); err != nil {
		return wrong("client address")
	}
	for _, s := range []string{q.SNI, q.Host, q.Method, q.Asked, q.Target, q.Proto, q.TLS, q.Upstream} {
		if len(s) > maxExposedText {
			return wrong("text")
		}
	}
	if q.Ended.IsZero() || q.DurationMS < 0 || q.Status < 0 || q.Status > 999 || q.Received < 0 || q.Sent < 0 || q.Body < 0 {
		return wrong("time, size or status")
	}
	return nil
}

// exposedRecord is the record of one request. Bodies and fields are not recorded: they
// went past the simulator, to a service of the environment's own.
func exposedRecord(t *registry.Trajectory, container string, q *api.ExposedRequest) *api.Record {
	r := &api.Record{
		Kind: api.KindExposed, DurationMS: q.DurationMS,
		Time:     api.Time{Time: q.Ended.Add(-time.Duration(q.DurationMS * float64(time.Millisecond)))},
		Client:   api.Source{IP: q.IP, Port: q.Port, Service: serviceAt(t, q.IP)},
		Response: &api.Response{Status: q.Status, Headers: [][2]string{}, Body: api.Received{Size: q.Body}},
		Exposed: &api.ExposedFacts{
			Container: container, RequestID: q.ID, Ended: q.Ended,
			Upstream: q.Upstream, Received: q.Received, Sent: q.Sent,
		},
	}
	if x := exposed(t, q.Host); x != nil {
		r.Persona = x.Host
		r.Exposed.Target = fmt.Sprintf("%s:%d", x.Service, x.Port)
	}
	if q.TLS != "" {
		r.TLS = &api.TLS{Version: strings.TrimPrefix(q.TLS, "TLSv"), SNI: q.SNI}
	}
	if q.Method != "" {
		r.Request = &api.Request{
			Method: q.Method, Host: q.Asked, Target: q.Target, Proto: q.Proto, Headers: [][2]string{},
			Body: api.Body{Size: max(q.Length, 0), Encoding: api.EncodingNone},
		}
		if q.Latin1 {
			r.Request.Charset = api.CharsetLatin1
		}
	}
	switch {
	case q.Method == "":
		r.Error = "the request could not be parsed"
	case q.Status == 499:
		r.Error = "the client went away"
	case q.Status == http.StatusBadGateway && r.Exposed.Target != "" && q.Upstream == "":
		r.Error = fmt.Sprintf("%s is not there", r.Exposed.Target)
	}
	return r
}

// serviceAt names the service that has an address; "" for none that is known.
func serviceAt(t *registry.Trajectory, ip string) string {
	a, err := netip.ParseAddr(ip)
	if err != nil {
		return ""
	}
	for _, n := range t.Networks {
		if service := named(n.Peers)[a.Unmap()]; service != "" {
			return service
		}
	}
	return ""
}
