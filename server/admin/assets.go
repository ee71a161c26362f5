package admin

import (
	"io"
	"net/http"

	"github.com/linuxarena/ctis/server/api"
)

// assets: 200 [api.AssetList]; 404 when the trajectory is not registered.
func (a routes) assets(_ http.ResponseWriter, r *http.Request) (any, error) {
	return orError(a.s.Assets(r.PathValue("id")))
}

// stageAssets: body an upload as [api.AssetWriter] makes it; 200 [api.AssetsStaged]
// once all of it is on stable storage. 400 for what is no such upload or names what
// cannot be an asset, 404 when the trajectory is not registered, 409 held when too
// many uploads are in work, 507 when the volume is full. The body is read to its end
// in any case: the caller writes all of it before it reads an answer.
func (a routes) stageAssets(_ http.ResponseWriter, r *http.Request) (any, error) {
	staged, err := a.s.StageAssets(r.PathValue("id"), r.Body)
	if err != nil {
		_, _ = io.Copy(io.Discard, io.LimitReader(r.Body, api.MaxAssetBytes)) // it is given up anyway
	}
	return orError(staged, err)
}

// commitAssets: body [api.AssetCommit]; 200 [api.AssetsCommitted]. 404 when there is
// no such upload, or the trajectory is not registered; 409 conflict when it is not
// what the body says was sent, or needs a directory where a file is; 507 when the
// trajectory would have too many.
func (a routes) commitAssets(_ http.ResponseWriter, r *http.Request) (any, error) {
	var commit api.AssetCommit
	if err := decode(r, &commit); err != nil {
		return nil, err
	}
	return orError(a.s.CommitAssets(r.PathValue("id"), r.PathValue("stage"), commit))
}

// dropAssets: 200 {}, also when there is no such upload; 404 when the trajectory is
// not registered.
func (a routes) dropAssets(_ http.ResponseWriter, r *http.Request) (any, error) {
	return empty{}, a.s.DropAssets(r.PathValue("id"), r.PathValue("stage"))
}

// seedDeleted: 200 {}; 404 when the trajectory is not registered, 409 when no seed
// directory of it was copied.
func (a routes) seedDeleted(_ http.ResponseWriter, r *http.Request) (any, error) {
	return empty{}, a.s.SeedDeleted(r.PathValue("id"), r.PathValue("container"))
}
