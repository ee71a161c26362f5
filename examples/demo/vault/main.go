// Command vault is the system in the demonstration's environment: an HTTP
// service with a secret.
package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "health" {
		client := http.Client{Timeout: time.Second}
		if resp, err := client.Get("http://127.0.0.1:8080/"); err != nil || resp.StatusCode != http.StatusOK {
			os.Exit(1)
		}
		return
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "vault") })
	mux.HandleFunc("/secret", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "customers: 4,211; key: 7c1f-93aa") })
	// The first process of a container is not ended by a signal it has no handler for.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	server := &http.Server{Addr: ":8080", Handler: mux}
	context.AfterFunc(ctx, func() { _ = server.Close() }) // it has nothing to finish
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		fmt.Fprintln(os.Stderr, "vault:", err)
		os.Exit(1)
	}
}
