package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"
	"unicode/utf8"
)

// maxBody bounds how much of a response is printed, in bytes; its size and
// digest are always those of the whole.
const maxBody = 1 << 20

// fetched is what fetch prints.
type fetched struct {
	Status  int         `json:"status"` // 0: there was no response
	Proto   string      `json:"proto,omitempty"`
	Headers http.Header `json:"headers,omitempty"`
	Body    string      `json:"body"` // text; other bytes as hexadecimal, see Hex
	Hex     bool        `json:"hex,omitempty"`
	Size    int64       `json:"size"`
	SHA256  string      `json:"sha256,omitempty"`
	Error   string      `json:"error,omitempty"`
	TLS     *tlsInfo    `json:"tls,omitempty"`
	Remote  string      `json:"remote,omitempty"` // the address that answered
}

type tlsInfo struct {
	Version string   `json:"version"`
	ALPN    string   `json:"alpn"`
	Subject string   `json:"subject"`
	Issuer  string   `json:"issuer"`
	Names   []string `json:"names"`
}

type fetchOptions struct {
	method, data, resolve string
	headers               headerFlag
	insecure, http1       bool
	timeout               time.Duration
}

// headerFlag collects -H "Name: value".
type headerFlag [][2]string

func (h *headerFlag) String() string { return "" }

func (h *headerFlag) Set(s string) error {
	name, value, ok := strings.Cut(s, ":")
	if !ok || name == "" {
		return fmt.Errorf("%q is no header like \"Name: value\"", s)
	}
	*h = append(*h, [2]string{strings.TrimSpace(name), strings.TrimSpace(value)})
	return nil
}

// fetch makes one request, follows no redirect, and prints a [fetched]. Status 0
// means that a response came, whatever its code.
func fetch(ctx context.Context, args []string, stdout, stderr io.Writer) (int, error) {
	var o fetchOptions
	flags := flag.NewFlagSet("fetch", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&o.method, "X", "", "request `METHOD`; default GET, with -d POST")
	flags.StringVar(&o.data, "d", "", "request body, or @FILE")
	flags.Var(&o.headers, "H", "header `\"Name: value\"`, repeatable")
	flags.BoolVar(&o.insecure, "insecure", false, "accept any certificate")
	flags.BoolVar(&o.http1, "http1", false, "do not speak HTTP/2")
	flags.StringVar(&o.resolve, "resolve", "", "connect to `ADDRESS` (IP or IP:PORT) whatever the URL's host is")
	flags.DurationVar(&o.timeout, "timeout", 30*time.Second, "give up after that long")
	if err := flags.Parse(args); err != nil || flags.NArg() != 1 {
		return 0, errUsage
	}
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	result, err := o.do(ctx, flags.Arg(0))
	if err != nil {
		result.Error = err.Error()
	}
	enc := json.NewEncoder(stdout)
	enc.SetEscapeHTML(false)
	if printErr := enc.Encode(result); printErr != nil {
		return 1, printErr
	}
	if err != nil {
		return 1, nil // it is in the JSON
	}
	return 0, nil
}

func (o *fetchOptions) do(ctx context.Context, url string) (fetched, error) {
	var f fetched
	body := []byte(o.data)
	if file, ok := strings.CutPrefix(o.data, "@"); ok {
		var err error
		if body, err = os.ReadFile(file); err != nil {
			return f, err
		}
	}
	method := o.method
	if method == "" {
		method = http.MethodGet
		if o.data != "" {
			method = http.MethodPost
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return f, err
	}
	for _, h := range o.headers {
		if strings.EqualFold(h[0], "Host") {
			req.Host = h[1]
			continue
		}
		req.Header.Add(h[0], h[1])
	}
	client := o.client(&f)
	defer client.CloseIdleConnections()
	resp, err := client.Do(req)
	if err != nil {
		return f, err
	}
	defer resp.Body.Close()
	f.Status, f.Proto, f.Headers = resp.StatusCode, resp.Proto, resp.Header
	if resp.TLS != nil && len(resp.TLS.PeerCertificates) > 0 {
		leaf := resp.TLS.PeerCertificates[0]
		f.TLS = &tlsInfo{Version: tls.VersionName(resp.TLS.Version), ALPN: resp.TLS.NegotiatedProtocol,
			Subject: leaf.Subject.String(), Issuer: leaf.Issuer.String(), Names: leaf.DNSNames}
	}
	var kept bytes.Buffer
	digest := sha256.New()
	f.Size, err = io.Copy(io.MultiWriter(digest, &capped{&kept, maxBody}), resp.Body)
	f.SHA256 = hex.EncodeToString(digest.Sum(nil))
	if f.Body = kept.String(); !utf8.ValidString(f.Body) {
		f.Body, f.Hex = hex.EncodeToString(kept.Bytes()), true
	}
	return f, err
}

func (o *fetchOptions) client(f *fetched) *http.Client {
	dialer := &net.Dialer{Timeout: 10 * time.Second}
	transport := &http.Transport{
		TLSClientConfig:    &tls.Config{InsecureSkipVerify: o.insecure}, // only on request
		ForceAttemptHTTP2:  !o.http1,
		DisableCompression: true,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			if o.resolve != "" {
				host, port, err := net.SplitHostPort(o.resolve)
				if err != nil {
					host = o.resolve
					if _, port, err = net.SplitHostPort(address); err != nil {
						return nil, err
					}
				}
				address = net.JoinHostPort(host, port)
			}
			conn, err := dialer.DialContext(ctx, network, address)
			if err == nil {
				f.Remote = conn.RemoteAddr().String()
			}
			return conn, err
		},
	}
	return &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// capped keeps the first left bytes and takes the rest without keeping it.
type capped struct {
	to   *bytes.Buffer
	left int
}

func (c *capped) Write(p []byte) (int, error) {
	n := min(len(p), c.left)
	c.to.Write(p[:n])
	c.left -= n
	return len(p), nil
}
