package server

import (
	"io"
	"net/http"

	"github.com/linuxarena/ctis/server/api"
	"github.com/linuxarena/ctis/server/registry"
)

// registered refuses what is about a trajectory that is not there: files of one
// that is over would be nobody's. Its removal may still come in between; the files'
// own index says so then.
func (c control) registered(id string) error {
	if _, ok := c.registry.Lookup(id); !ok || !registry.ValidID(id) {
		return api.Errorf(http.StatusNotFound, api.CodeNotFound, "trajectory %q is not registered", clip(id))
	}
	return nil
}

// Assets: see [admin.Simulator].
func (c control) Assets(id string) (*api.AssetList, error) {
	if err := c.registered(id); err != nil {
		return nil, err
	}
	return c.files.Assets(id)
}

// StageAssets: see [admin.Simulator].
func (c control) StageAssets(id string, upload io.Reader) (*api.AssetsStaged, error) {
	if err := c.registered(id); err != nil {
		return nil, err
	}
	return c.files.StageAssets(id, upload)
}

// CommitAssets: see [admin.Simulator].
func (c control) CommitAssets(id, stage string, commit api.AssetCommit) (*api.AssetsCommitted, error) {
	if err := c.registered(id); err != nil {
		return nil, err
	}
	done, err := c.files.CommitAssets(id, stage, commit)
	if err == nil {
		c.log.Info("assets added", "trajectory", id, "files", commit.Files, "bytes", commit.Bytes, "seed", commit.SeededFrom != "")
	}
	return done, err
}

// DropAssets: see [admin.Simulator].
func (c control) DropAssets(id, stage string) error {
	if err := c.registered(id); err != nil {
		return err
	}
	return c.files.DropAssets(id, stage)
}

// SeedDeleted: see [admin.Simulator].
func (c control) SeedDeleted(id, container string) error {
	if err := c.registered(id); err != nil {
		return err
	}
	return c.files.SeedDeleted(id, container)
}
