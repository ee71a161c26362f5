package server

import (
	"errors"
	"time"

	"github.com/linuxarena/ctis/server/api"
	"github.com/linuxarena/ctis/server/journal"
	"github.com/linuxarena/ctis/server/wire"
	"github.com/linuxarena/ctis/templates/pages"
)

// newRecord begins the record of something that came over a connection.
func (l *link) newRecord(kind string, start time.Time) *api.Record {
	r := new(api.Record)
	l.beginRecord(r, kind, start)
	return r
}

// beginRecord is newRecord in a place that is there already.
func (l *link) beginRecord(r *api.Record, kind string, start time.Time) {
	r.ID = journal.NewID(start)
	r.Time.Time = start
	r.Trajectory, r.Kind = l.tenant.id, kind
	r.Client, r.TLS = l.source(), l.tls
}

// malformed is the record of bytes that are no request that is served. What
// could be parsed of them is in it, and the bytes themselves.
func (l *link) malformed(head *wire.Head, raw []byte, reason string, start time.Time) *api.Record {
	r := l.newRecord(api.KindMalformed, start)
	if head != nil {
		host := head.Host
		if head.Authority != "" {
			host = head.Authority
		}
		r.Request = &api.Request{
			Method: head.Method, Host: host, Target: head.Target, Proto: head.Proto,
			Headers: head.Fields, Body: l.keep(nil, 0),
		}
		if r.Request.Headers == nil {
			r.Request.Headers = [][2]string{}
		}
	}
	if len(raw) > 0 {
		kept := l.keep(raw, rawHeadLimit)
		r.Raw = &kept
	}
	r.Error = reason
	r.DurationMS = milliseconds(l.server.now().Sub(start))
	return r
}

// refusedHandshake is the record of a TLS connection that came to no request.
func (l *link) refusedHandshake(kind, reason string, raw []byte, start time.Time) *api.Record {
	r := l.newRecord(kind, start)
	if len(raw) > 0 {
		kept := l.keep(raw, rawLimit)
		r.Raw = &kept
	}
	r.Error = reason
	r.DurationMS = milliseconds(l.server.now().Sub(start))
	return r
}

// keep describes bytes and keeps up to limit of them.
func (l *link) keep(b []byte, limit int) api.Body {
	s := l.tenant.journal.NewSpool()
	defer s.Discard()
	kept := b[:min(len(b), limit)]
	_, _ = s.Write(kept) // a storage error shows when the record is appended
	_ = s.Close()
	body := l.tenant.journal.Keep(s)
	if len(kept) < len(b) {
		body.Size, body.SHA256, body.Truncated = int64(len(b)), api.HexSHA256(b), true
	}
	return body
}

// facts are what error pages say about a request that came over the connection:
// host is the persona's, sent what the request called it.
func (l *link) facts(host, sent, method, path string) pages.Facts {
	return pages.Facts{Host: host, Port: wire.PortOf(sent, l.scheme()), Method: method, Path: path}
}

// record appends to a tenant's journal. Nothing may be acknowledged when it
// fails; that there was something is told by the journal later.
func (s *Server) record(n *tenant, r *api.Record) error { return s.recordIn(n.journal, r) }

func (s *Server) recordIn(j *journal.Journal, r *api.Record) error {
	err := j.Append(r)
	s.noteStorage(err)
	if err != nil {
		s.missed(j)
	}
	return err
}

// noteStorage keeps what the status says about the volume.
func (s *Server) noteStorage(err error) {
	switch {
	case err == nil:
		if s.storage.Load() != nil {
			s.storage.Store(nil)
			s.log.Info("the journal can be written again")
		}
	case s.storage.Load() == nil:
		text := "the journal cannot be written, requests are answered 503: " + err.Error()
		s.storage.Store(&text)
		if errors.Is(err, journal.ErrStorage) {
			s.log.Error("the journal cannot be written; free space on the state volume", "error", err)
		} else {
			s.log.Error("a record could not be written", "error", err)
		}
	}
}

func digestOf(b []byte) api.Received {
	return api.Received{Size: int64(len(b)), SHA256: api.HexSHA256(b)}
}

func hostOf(p *api.Persona) string {
	if p == nil {
		return ""
	}
	return p.Host
}

func milliseconds(d time.Duration) float64 {
	return float64(d.Microseconds()) / 1000
}
