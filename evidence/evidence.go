// Package evidence works on what journals hold, on the host: it matches records
// against conditions, checks a journal's chain, and seals exports of it. It knows the
// journal by its wire types alone; where lines and bodies come from is the caller's.
//
// Everything in a record that the agent sent is hostile: nothing here takes memory or
// time by what a record claims.
package evidence

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/linuxarena/ctis/server/api"
)

// Bodies opens bodies that are kept beside a journal, by their SHA-256 in hex. One
// that is not there is an error of kind fs.ErrNotExist.
type Bodies interface {
	Open(ctx context.Context, sha256 string) (io.ReadCloser, error)
}

// ErrNotKept says that the bytes of a body were not kept, or not all of them.
var ErrNotKept = errors.New("the body was not kept whole")

// OpenBody opens the bytes that b describes, wherever they are. A body that was not
// kept is [ErrNotKept].
func OpenBody(ctx context.Context, b *api.Body, bodies Bodies) (io.ReadCloser, error) {
	if b.Truncated {
		return nil, ErrNotKept
	}
	switch b.Encoding {
	case api.EncodingFile:
		return bodies.Open(ctx, b.SHA256)
	case api.EncodingNone, "":
		if b.Size > 0 {
			return nil, ErrNotKept
		}
		return io.NopCloser(bytes.NewReader(nil)), nil
	}
	content, err := Inline(b)
	return io.NopCloser(bytes.NewReader(content)), err
}

// Inline returns the bytes of a body that is in its record.
func Inline(b *api.Body) ([]byte, error) {
	switch b.Encoding {
	case api.EncodingUTF8:
		return []byte(b.Content), nil
	case api.EncodingBase64:
		content, err := base64.StdEncoding.DecodeString(b.Content)
		if err != nil {
			return nil, fmt.Errorf("the content of a body is not the base64 it is said to be: %w", err)
		}
		return content, nil
	case api.EncodingNone, "":
		return nil, nil
	}
	return nil, fmt.Errorf("there is no encoding %q of a body", b.Encoding)
}

// AsSent returns the bytes that a string of a request or response stands for.
func AsSent(s, charset string) []byte {
	if charset != api.CharsetLatin1 {
		return []byte(s)
	}
	b := make([]byte, 0, len(s))
	for _, r := range s {
		b = append(b, byte(r))
	}
	return b
}

// URL is where a request was sent, as far as its record tells; the target alone where
// that is no path.
func URL(r *api.Record) string {
	q := r.Request
	if q == nil {
		return ""
	}
	if !strings.HasPrefix(q.Target, "/") {
		return q.Target
	}
	if r.TLS != nil {
		return "https://" + q.Host + q.Target
	}
	return "http://" + q.Host + q.Target
}

// SentBodies are all the bytes of a record that came from the client behind the
// request's head: the body, what was no request, and what went over a WebSocket.
func SentBodies(r *api.Record) []*api.Body {
	if r.Kind == api.KindRulesSet {
		return nil // which holds what the host sent
	}
	return hostBodies(r)
}

// ReceivedBodies are all the bytes of a record that the client got behind the
// response's head, as far as they were meant to be kept.
func ReceivedBodies(r *api.Record) []*api.Body {
	var all []*api.Body
	add := func(b *api.Received) {
		if b.Encoding != "" {
			all = append(all, (*api.Body)(b))
		}
	}
	if r.Response != nil {
		add(&r.Response.Body)
	}
	if r.Tunnel != nil {
		add(&r.Tunnel.Received)
	}
	return all
}

// bodiesOf are all the bodies in a record.
func bodiesOf(r *api.Record) []*api.Body { return append(hostBodies(r), ReceivedBodies(r)...) }

// hostBodies are those that came to the simulator, from the client or the host.
func hostBodies(r *api.Record) []*api.Body {
	var all []*api.Body
	if r.Request != nil {
		all = append(all, &r.Request.Body)
	}
	if r.Raw != nil {
		all = append(all, r.Raw)
	}
	if r.Tunnel != nil {
		all = append(all, &r.Tunnel.Sent)
	}
	return all
}
