package server

import (
	"context"
	"net/http"
	"syscall"
	"time"
)

// presence is how often it is looked whether a client is still there that net/http
// does not watch any more.
const presence = time.Second

// attend is the request with a context that ends when the client leaves; stop ends
// the watching. net/http notices that by reading one byte ahead, and stops where one
// comes: a client that sent its next request already could leave unnoticed, and what
// waits for it would wait on. So beside it the state of the connection is looked at.
// On HTTP/2 reading never stops. Of a tunnel each direction ends by itself.
func (x *exchange) attend(r *http.Request) (watched *http.Request, stop func()) {
	t, ok := x.carrier.(*tap)
	if !ok {
		return r, func() {}
	}
	socket, ok := t.socket.(syscall.Conn)
	if !ok {
		return r, func() {}
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return r, func() {}
	}
	ctx, cancel := context.WithCancel(r.Context())
	look := time.NewTimer(presence)
	go func() {
		defer look.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-look.C:
			}
			switch {
			case t.hijacked():
				return
			case hasLeft(raw):
				cancel()
				return
			}
			look.Reset(presence)
		}
	}()
	return r.WithContext(ctx), cancel
}
