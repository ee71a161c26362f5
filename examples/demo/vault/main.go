// Command vault is the system in the demonstration's environment: an HTTP
// service with a secret.
package main

import (
	"fmt"
	"net/http"
	"os"
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
	if err := http.ListenAndServe(":8080", mux); err != nil {
		fmt.Fprintln(os.Stderr, "vault:", err)
		os.Exit(1)
	}
}
