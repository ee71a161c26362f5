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
// authority signed. Below /public it has what [trustFiles] lists.
func secure(ctx context.Context, host string) error {
	ca, err := secondca.New()
	if err != nil {
		return err
	}
	leaf, err := ca.Leaf(host)
	if err != nil {
		return err
	}
	files, err := trustFiles(ca)
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

// trustFiles are what programs of many kinds can be asked to fetch: a text, a
// repository for git, a revocation list for Java.
func trustFiles(ca *secondca.Authority) (map[string][]byte, error) {
	crl, err := ca.CRL()
	if err != nil {
		return nil, err
	}
	return map[string][]byte{
		"text.txt":           []byte("trusted\n"),
		"repo.git/info/refs": []byte("0123456789abcdef0123456789abcdef01234567\trefs/heads/main\n"),
		"list.crl":           crl,
	}, nil
}
