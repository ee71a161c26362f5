package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// bridge connects stdin and stdout to the admin socket, so that a process on the
// host, which has only the container's exec, speaks to it as if it had dialled.
// The end of stdin is passed on as the end of the request side; the bridge ends
// when the socket has said everything.
func bridge(ctx context.Context, path string, stdin io.Reader, stdout io.Writer) error {
	c, err := dial(ctx, path)
	if err != nil {
		return err
	}
	defer c.Close() //nolint:errcheck // everything has been said
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()

	go func() {
		// Its end is not waited for: a Read of stdin cannot be interrupted.
		if _, err := io.Copy(c, stdin); err == nil {
			_ = c.CloseWrite() // the peer may be gone
		} else {
			_ = c.Close()
		}
	}()
	if _, err := io.Copy(stdout, c); err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("admin socket %q: %w", path, err)
	}
	return ctx.Err()
}

// health asks the server whether it answers requests.
func health(ctx context.Context, path string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx, path) },
	}}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://simulator/v1/health", nil)
	if err != nil {
		return err
	}
	answer, err := client.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close() //nolint:errcheck // only read
	if answer.StatusCode == http.StatusOK {
		return nil
	}
	text, _ := io.ReadAll(io.LimitReader(answer.Body, 4<<10)) // whatever came is shown
	return fmt.Errorf("unhealthy: %s: %s", answer.Status, text)
}

func dial(ctx context.Context, path string) (*net.UnixConn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("admin socket %q: %w; is ctis-server running?", path, err)
	}
	return c.(*net.UnixConn), nil
}
