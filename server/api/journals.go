package api

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"time"
)

// JournalInfo describes one journal that is kept.
type JournalInfo struct {
	Name       string `json:"name"`       // trajectory id, or as [ArchivedID] makes it
	Trajectory string `json:"trajectory"` // id alone
	JournalStatus
	// Last is when the last line was written, by the simulator's clock.
	Last time.Time `json:"last"`
	// Live says that its trajectory is registered, or that a process is setting it
	// up or taking it down: such a journal cannot be removed. An archived one
	// never is.
	Live bool `json:"live"`
}

// Journals lists what is kept, sorted by name.
type Journals struct {
	Now      time.Time     `json:"now"` // the simulator's clock, which [JournalInfo.Last] is measured by
	Journals []JournalInfo `json:"journals"`
}

// Journals lists the journals that are kept; the one of [Unattributed] is not among
// them. A simulator of an older image answers an *[Error] with code [CodeNotFound].
func (c *Client) Journals(ctx context.Context) (*Journals, error) {
	return call[Journals](ctx, c, http.MethodGet, "/v1/journals", nil)
}

// RemoveJournal removes a journal for good, provided that nothing was written to
// it since before and that it is not live: otherwise it is an *[Error] with code
// [CodeBusy]. One that is not there is an *[Error] with code [CodeNotFound].
func (c *Client) RemoveJournal(ctx context.Context, name string, before time.Time) error {
	q := url.Values{"before": {before.UTC().Format(time.RFC3339Nano)}}
	_, err := call[struct{}](ctx, c, http.MethodDelete, "/v1/journals/"+url.PathEscape(name)+"?"+q.Encode(), nil)
	return err
}

// JournalBody reads a body that is kept beside a journal: one whose encoding is
// [EncodingFile], named by its SHA-256 in hex. The caller closes it. One that is not
// there is an *[Error] with code [CodeNotFound].
func (c *Client) JournalBody(ctx context.Context, id, sha256 string) (io.ReadCloser, error) {
	resp, err := c.do(ctx, http.MethodGet, "/v1/trajectories/"+url.PathEscape(id)+"/bodies/"+url.PathEscape(sha256), nil)
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}
