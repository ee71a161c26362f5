package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// looped is what loop prints when it is told to stop.
type looped struct {
	Requests uint64   `json:"requests"`
	Failures uint64   `json:"failures"` // no response, or one of 400 and above
	Errors   []string `json:"errors"`   // the first few
}

const (
	loopPause  = 5 * time.Millisecond
	loopErrors = 5 // kept for the report
)

// loop requests url again and again until the context ends.
func loop(ctx context.Context, url string, stdout io.Writer) error {
	client := &http.Client{Timeout: 10 * time.Second}
	result := looped{Errors: []string{}}
	tick := time.NewTicker(loopPause)
	defer tick.Stop()
	for {
		// The request outlives the context, so that being told to stop is never
		// mistaken for a failure.
		err := get(context.WithoutCancel(ctx), client, url)
		result.Requests++
		if err != nil {
			result.Failures++
			if len(result.Errors) < loopErrors {
				result.Errors = append(result.Errors, err.Error())
			}
		}
		select {
		case <-ctx.Done():
			return json.NewEncoder(stdout).Encode(result)
		case <-tick.C:
		}
	}
}

func get(ctx context.Context, client *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return err
	}
	if resp.StatusCode >= 400 {
		return fmt.Errorf("%s: %s", url, resp.Status)
	}
	return nil
}

// load posts bodies that are all different to url over some connections at once
// until n are acknowledged. The moment a response has arrived whole, its id is
// printed on a line, with the body that was sent behind it: what is printed, the
// server has acknowledged. Requests that fail are made anew, with another body.
func load(ctx context.Context, url string, n, connections int, stdout, stderr io.Writer) error {
	var (
		print  sync.Mutex // guards what follows and both outputs
		failed int
		group  sync.WaitGroup
	)
	for worker := range connections {
		group.Go(func() {
			client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{MaxConnsPerHost: 1, TLSHandshakeTimeout: 10 * time.Second}}
			defer client.CloseIdleConnections()
			left := n / connections
			if worker < n%connections {
				left++
			}
			for try := 0; left > 0 && ctx.Err() == nil; try++ {
				body := fmt.Sprintf("load-%d-%d", worker, try)
				id, err := post(ctx, client, url, body)
				if err != nil {
					print.Lock()
					if failed++; ctx.Err() == nil && failed <= loopErrors {
						fmt.Fprintln(stderr, "agent:", err)
					}
					print.Unlock()
					pause(ctx, 50*time.Millisecond)
					continue
				}
				left--
				print.Lock()
				fmt.Fprintln(stdout, id, body)
				print.Unlock()
			}
		})
	}
	group.Wait()
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("stopped before %d posts were acknowledged", n)
	}
	return nil
}

// post sends one body and returns the id of the acknowledgement.
func post(ctx context.Context, client *http.Client, url, body string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxBody))
	if err != nil {
		return "", err
	}
	var ack struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal(text, &ack); err != nil || ack.ID == "" || resp.StatusCode >= 300 {
		return "", fmt.Errorf("%s: %s without an id: %q", url, resp.Status, text)
	}
	return ack.ID, nil
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
