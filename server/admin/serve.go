package admin

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/linuxarena/ctis/server/api"
)

// Answer answers one route: with what becomes the JSON of the answer, never nil, or
// with an error, which becomes an [api.Error].
type Answer func(r *http.Request) (any, error)

// NewHandler makes an interface of its own out of a table of routes, in the form of
// this package's: for the gateway, which is administered in the same way.
func NewHandler(log *slog.Logger, table map[string]Answer) http.Handler {
	mux := http.NewServeMux()
	for pattern, answer := range table {
		mux.Handle(pattern, respond(log, func(_ http.ResponseWriter, r *http.Request) (any, error) { return answer(r) }))
	}
	mux.Handle("/", respond(log, func(_ http.ResponseWriter, r *http.Request) (any, error) {
		return nil, api.Errorf(http.StatusNotFound, api.CodeNotFound, "there is no %s %s here", r.Method, r.URL.Path)
	}))
	return mux
}

// Decode reads a JSON body of exactly one value with known fields only.
func Decode(r *http.Request, into any) error { return decode(r, into) }

// NewServerOf makes the HTTP server of an interface. Its requests end when ctx does.
func NewServerOf(ctx context.Context, h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		BaseContext:       func(net.Listener) context.Context { return ctx },
	}
}
