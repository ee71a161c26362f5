package trust

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/docker/docker/api/types/container"
)

// batch is what is written into one place, in one call.
type batch struct {
	root   string
	writes []write
}

// write is one file or symbolic link, by real path.
type write struct {
	path   string
	header tar.Header // owner, mode, time and extended attributes; name and size are set here
	data   []byte
}

func (b *batch) send(ctx context.Context, eng Engine, id string) error {
	archive, err := b.archive()
	if err != nil {
		return err
	}
	if err := eng.CopyToContainer(ctx, id, b.root, bytes.NewReader(archive), container.CopyToContainerOptions{}); err != nil {
		return fmt.Errorf("copy into %q: %w", b.root, err)
	}
	return nil
}

// archive has no entries for directories. The engine makes the ones that are
// missing (root's, mode 0755); an entry for one that exists would change its
// owner and mode, and one for a directory reached through a symbolic link would
// replace the link.
func (b *batch) archive() ([]byte, error) {
	slices.SortFunc(b.writes, func(x, y write) int { return strings.Compare(x.path, y.path) })
	var buf bytes.Buffer
	tw := tar.NewWriter(&buf)
	for _, w := range b.writes {
		h := w.header
		h.Name = strings.TrimPrefix(strings.TrimPrefix(w.path, strings.TrimSuffix(b.root, "/")), "/")
		h.Size = int64(len(w.data))
		h.Format = tar.FormatPAX
		if err := tw.WriteHeader(&h); err != nil {
			return nil, fmt.Errorf("archive entry %q: %w", w.path, err)
		}
		if _, err := tw.Write(w.data); err != nil {
			return nil, fmt.Errorf("archive entry %q: %w", w.path, err)
		}
	}
	if err := tw.Close(); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}
