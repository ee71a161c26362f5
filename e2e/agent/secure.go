package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"path"
	"time"

	"github.com/linuxarena/ctis/e2e/secondca"
)

// secure answers HTTPS on port 443 as a host whose certificate the second
// authority signed. Below /public it has the authority's files.
func secure(ctx context.Context, host string) error {
	ca, err := secondca.New()
	if err != nil {
		return err
	}
	leaf, err := ca.Leaf(host)
	if err != nil {
		return err
	}
	files, err := ca.Files(host)
	if err != nil {
		return err
	}
	began := time.Now()
	mux := http.NewServeMux()
	for name, content := range files {
		mux.HandleFunc("GET /public/"+name, func(w http.ResponseWriter, r *http.Request) {
			http.ServeContent(w, r, path.Base(name), began, bytes.NewReader(content))
		})
	}
	srv := &http.Server{Addr: ":443", Handler: mux, TLSConfig: &tls.Config{Certificates: []tls.Certificate{leaf}}, ReadHeaderTimeout: 30 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = srv.Close() })
	defer stop()
	if err := srv.ListenAndServeTLS("", ""); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
