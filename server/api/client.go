package api

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"
)

// ErrNoAnswer says that the simulator took a call and did not answer in time.
var ErrNoAnswer = errors.New("the simulator does not answer")

// Client calls a simulator's administrative interface.
type Client struct {
	http *http.Client
}

// NewClient makes a client that reaches the interface through dial: a unix
// socket, or a bridge into the container.
func NewClient(dial func(ctx context.Context) (net.Conn, error)) *Client {
	return &Client{http: &http.Client{Transport: &http.Transport{
		DialContext:        func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
		MaxIdleConns:       2,
		IdleConnTimeout:    30 * time.Second,
		DisableCompression: true,
	}}}
}

// Close drops idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Status asks for the simulator's account of itself.
func (c *Client) Status(ctx context.Context) (*Status, error) {
	return call[Status](ctx, c, http.MethodGet, "/v1/status", nil)
}

// CA fetches the CA certificate as PEM.
func (c *Client) CA(ctx context.Context) ([]byte, error) {
	resp, err := c.do(ctx, http.MethodGet, "/v1/ca", nil)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return io.ReadAll(io.LimitReader(resp.Body, 1<<20))
}

// Hold reserves a trajectory for the caller, who sets it up or takes it down,
// and with it what only one trajectory at a time can have, until release is called
// or the caller's process ends, however it ends: the reservation lives as long as
// its connection. While it is held the simulator does not retire, and another Hold
// of the trajectory, or of something exclusive, is an *[Error] with code
// [CodeHeld]. What a registered trajectory has is one with code [CodeConflict].
func (c *Client) Hold(ctx context.Context, id string, exclusive ...Exclusive) (release func(), err error) {
	body, err := json.Marshal(HoldRequest{Exclusive: exclusive})
	if err != nil {
		return nil, err
	}
	ctx, cut := context.WithCancelCause(context.WithoutCancel(ctx))
	late := time.AfterFunc(callTimeout, func() { cut(ErrNoAnswer) })
	resp, err := c.do(ctx, http.MethodPost, "/v1/trajectories/"+url.PathEscape(id)+"/hold", bytes.NewReader(body))
	if !late.Stop() && err == nil {
		err = ErrNoAnswer
		_ = resp.Body.Close() // too late to be of use
	}
	if err != nil {
		cut(err)
		return nil, err
	}
	return func() {
		cut(nil)
		_ = resp.Body.Close() // the connection is cut, which is what releases
	}, nil
}

// Register registers a trajectory, or confirms that it is registered with the
// same settings. Other settings, or a retired simulator, are an *[Error].
func (c *Client) Register(ctx context.Context, r *Registration) (*Registered, error) {
	return call[Registered](ctx, c, http.MethodPost, "/v1/trajectories", r)
}

// SetPeers replaces what is known about the services of a trajectory.
func (c *Client) SetPeers(ctx context.Context, id string, p Peers) error {
	_, err := call[struct{}](ctx, c, http.MethodPut, "/v1/trajectories/"+url.PathEscape(id)+"/peers", p)
	return err
}

// SetNetworks tells the simulator that networks of a trajectory are others now: its
// own addresses there have changed, or they were made anew under another id.
func (c *Client) SetNetworks(ctx context.Context, id string, n Networks) error {
	_, err := call[struct{}](ctx, c, http.MethodPut, "/v1/trajectories/"+url.PathEscape(id)+"/networks", n)
	return err
}

// SetPins tells the simulator where backends of a trajectory are now. The caller has
// made sure that each container is of that trajectory and service.
func (c *Client) SetPins(ctx context.Context, id string, p Pins) error {
	_, err := call[struct{}](ctx, c, http.MethodPut, "/v1/trajectories/"+url.PathEscape(id)+"/pins", p)
	return err
}

// SetRules replaces the rules of a persona, all at once: a request is decided by the
// old ones or by the new ones. What the old ones remembered is gone.
func (c *Client) SetRules(ctx context.Context, id, host string, s RuleSet) (*HostRules, error) {
	return call[HostRules](ctx, c, http.MethodPut, "/v1/trajectories/"+url.PathEscape(id)+"/rules/"+url.PathEscape(host), s)
}

// Rules lists the rules of a trajectory that are in force.
func (c *Client) Rules(ctx context.Context, id string) (*RulesList, error) {
	return call[RulesList](ctx, c, http.MethodGet, "/v1/trajectories/"+url.PathEscape(id)+"/rules", nil)
}

// Unregister removes a trajectory. Its journal stays. An unknown one is no error.
func (c *Client) Unregister(ctx context.Context, id string) (*Unregistered, error) {
	return call[Unregistered](ctx, c, http.MethodDelete, "/v1/trajectories/"+url.PathEscape(id), nil)
}

// Retire asks an idle simulator to accept no further registration. With
// trajectories attached it answers an *[Error] with code [CodeBusy].
func (c *Client) Retire(ctx context.Context) error {
	_, err := call[struct{}](ctx, c, http.MethodPost, "/v1/retire", nil)
	return err
}

// Journal calls yield with each selected line of a trajectory's journal (a
// joined [Record], or a stored line with q.Raw), without its newline. It ends
// at the end of the journal, with ctx when following, or with yield's error.
func (c *Client) Journal(ctx context.Context, id string, q JournalQuery, yield func(line []byte) error) error {
	resp, err := c.do(ctx, http.MethodGet, "/v1/trajectories/"+url.PathEscape(id)+"/journal?"+q.values().Encode(), nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	r := bufio.NewReaderSize(resp.Body, 64<<10)
	for {
		line, err := r.ReadBytes('\n')
		if err == io.EOF && len(line) == 0 {
			return nil
		}
		if err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return fmt.Errorf("journal of %q ended early: %w", id, err)
		}
		if err := yield(line[:len(line)-1]); err != nil {
			return err
		}
	}
}

// callTimeout bounds every call but following a journal and holding an id, so that
// a simulator that hangs is noticed. The longest, taking a trajectory off, waits
// some seconds for requests in work; and each way into the container is a process
// that the engine starts there, which takes long when dozens ask for one at once.
const callTimeout = 2 * time.Minute

// call sends in as JSON and decodes the answer into a T.
func call[T any](ctx context.Context, c *Client, method, path string, in any) (*T, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, callTimeout, ErrNoAnswer)
	defer cancel()
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(b)
	}
	return answer[T](c.do(ctx, method, path, body))
}

// answer decodes what do returned.
func answer[T any](resp *http.Response, err error) (*T, error) {
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	out := new(T)
	if err := json.NewDecoder(resp.Body).Decode(out); err != nil {
		return nil, fmt.Errorf("%s %s: answer is not the expected JSON: %w", resp.Request.Method, resp.Request.URL.Path, err)
	}
	return out, nil
}

// do sends a request and turns a refusal into an *Error.
func (c *Client) do(ctx context.Context, method, path string, body io.Reader) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://simulator"+path, body)
	if err != nil {
		return nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.http.Do(req)
	if err != nil {
		if cause := context.Cause(ctx); errors.Is(cause, ErrNoAnswer) {
			err = cause
		}
		return nil, err
	}
	if resp.StatusCode < 400 {
		return resp, nil
	}
	defer resp.Body.Close()
	raw, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10)) // whatever came is shown
	var e errorBody
	if json.Unmarshal(raw, &e) != nil || e.Error == nil {
		return nil, fmt.Errorf("%s %s: unexpected answer %s: %q", method, path, resp.Status, raw)
	}
	e.Error.Status = resp.StatusCode
	return nil, e.Error
}
