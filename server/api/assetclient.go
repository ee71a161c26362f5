package api

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"time"
)

// StageAssets uploads files for a trajectory; write sends them. It returns what the
// simulator says it has, which nobody is served yet, and the sum of what was sent:
// the caller compares the two. When write fails, or ctx ends, nothing stays of it.
func (c *Client) StageAssets(ctx context.Context, id string, write func(*AssetWriter) error) (*AssetsStaged, AssetSum, error) {
	ctx, cut := context.WithCancelCause(ctx)
	defer cut(nil)
	// The whole may take long, but something must move.
	idle := time.AfterFunc(callTimeout, func() { cut(ErrNoAnswer) })
	defer idle.Stop()
	from, to := io.Pipe()
	way := &upload{to: to, idle: idle}
	w := NewAssetWriter(way)
	done := make(chan error, 1)
	go func() {
		err := write(w)
		if err == nil {
			err = w.Close()
		}
		_ = to.CloseWithError(err) // never fails
		done <- err
	}()
	staged, err := answer[AssetsStaged](c.do(ctx, http.MethodPost, assetsPath(id), from))
	_ = from.CloseWithError(errors.Join(io.ErrClosedPipe, err)) // a refusal ends the writing too
	if writeErr := <-done; writeErr != nil && (way.err == nil || err == nil) {
		return nil, w.Sum(), writeErr // what came of the call came of that
	}
	return staged, w.Sum(), err
}

// upload is the way to the simulator. Each step on it puts off the moment at which
// it is given up.
type upload struct {
	to   io.Writer
	idle *time.Timer
	err  error // why nothing can be sent any more
}

func (u *upload) Write(b []byte) (int, error) {
	n, err := u.to.Write(b)
	u.idle.Reset(callTimeout)
	u.err = err
	return n, err
}

// CommitAssets makes an upload visible, whole and in one step. When it returns, the
// files are on stable storage.
func (c *Client) CommitAssets(ctx context.Context, id, stage string, commit AssetCommit) (*AssetsCommitted, error) {
	return call[AssetsCommitted](ctx, c, http.MethodPost, assetsPath(id)+"/"+url.PathEscape(stage), commit)
}

// DropAssets gives an upload up. An unknown one is no error.
func (c *Client) DropAssets(ctx context.Context, id, stage string) error {
	_, err := call[struct{}](ctx, c, http.MethodDelete, assetsPath(id)+"/"+url.PathEscape(stage), nil)
	return err
}

// Assets lists what a trajectory's personas serve under /assets.
func (c *Client) Assets(ctx context.Context, id string) (*AssetList, error) {
	return call[AssetList](ctx, c, http.MethodGet, assetsPath(id), nil)
}

// SeedDeleted records that the seed directory is gone in a container.
func (c *Client) SeedDeleted(ctx context.Context, id, container string) error {
	_, err := call[struct{}](ctx, c, http.MethodPut, assetsPath(id)+"/deleted/"+url.PathEscape(container), nil)
	return err
}

func assetsPath(id string) string { return "/v1/trajectories/" + url.PathEscape(id) + "/assets" }
