package assets

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"

	"github.com/linuxarena/ctis/server/api"
	"github.com/linuxarena/ctis/server/persona"
)

// node is a file of a fake container.
type node struct {
	kind byte // of package tar
	text string
}

func file(text string) node  { return node{tar.TypeReg, text} }
func symlink(to string) node { return node{tar.TypeSymlink, to} }
func hard(to string) node    { return node{tar.TypeLink, to} } // below the directory
func dir() node              { return node{tar.TypeDir, ""} }

var then = time.Date(2025, 3, 1, 10, 0, 0, 0, time.UTC)

// archive is what the engine makes of a directory: its own entry, then what is in
// it, named from the last element of its path down.
func archive(t testing.TB, base string, files map[string]node) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	add := func(name string, n node) {
		h := &tar.Header{Typeflag: n.kind, Name: path.Join(base, name), Mode: 0o640, ModTime: then, Format: tar.FormatPAX}
		switch n.kind {
		case tar.TypeReg:
			h.Size = int64(len(n.text))
		case tar.TypeSymlink:
			h.Linkname = n.text
		case tar.TypeLink:
			h.Linkname = path.Join(base, n.text)
		case tar.TypeDir:
			h.Name += "/"
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if n.kind == tar.TypeReg {
			if _, err := io.WriteString(w, n.text); err != nil {
				t.Fatal(err)
			}
		}
	}
	add("", dir())
	for _, name := range slices.Sorted(maps.Keys(files)) {
		add(name, files[name])
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// box is a fake engine's container: its seed directory and what surrounds it.
type box struct {
	files  map[string]node // below the directory; nil: it is not there
	around map[string]fs.FileMode
	info   container.InspectResponse
	read   func(b *box) // after each reading: what runs in it does something
	reads  int
	stuck  bool // nothing can be deleted

	interrupt func() // ends the context of the first reading
}

const seedDir = "/srv/seed"

type fakeEngine struct {
	t       testing.TB
	boxes   map[string]*box
	noPause bool
	paused  map[string]bool
	pauses  int
}

func newEngine(t testing.TB, boxes ...*box) *fakeEngine {
	e := &fakeEngine{t: t, boxes: map[string]*box{}, paused: map[string]bool{}}
	for i, b := range boxes {
		b.info = container.InspectResponse{ContainerJSONBase: &container.ContainerJSONBase{
			State: &container.State{Running: true}, HostConfig: &container.HostConfig{},
		}}
		e.boxes[string(rune('a'+i))] = b
	}
	return e
}

func (e *fakeEngine) containers() (all []Container) {
	for _, id := range slices.Sorted(maps.Keys(e.boxes)) {
		all = append(all, Container{id, "t1-default-" + id})
	}
	return all
}

func (e *fakeEngine) ContainerInspect(_ context.Context, id string) (container.InspectResponse, error) {
	b := e.boxes[id]
	b.info.State.Paused = e.paused[id]
	return b.info, nil
}

func (e *fakeEngine) ContainerPause(_ context.Context, id string) error {
	if e.noPause {
		return errors.New("this kernel has no freezer")
	}
	e.pauses++
	e.paused[id] = true
	return nil
}

func (e *fakeEngine) ContainerUnpause(ctx context.Context, id string) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if !e.paused[id] {
		return errors.New("is not paused")
	}
	delete(e.paused, id)
	return nil
}

var errAbsent = errdefs.ErrNotFound

func (e *fakeEngine) ContainerStatPath(_ context.Context, id, p string) (container.PathStat, error) {
	b := e.boxes[id]
	if mode, ok := b.around[p]; ok {
		return container.PathStat{Mode: mode}, nil
	}
	if p == seedDir && b.files != nil || p == path.Dir(seedDir) {
		return container.PathStat{Mode: fs.ModeDir | 0o755}, nil
	}
	return container.PathStat{}, errAbsent
}

func (e *fakeEngine) CopyFromContainer(ctx context.Context, id, p string) (io.ReadCloser, container.PathStat, error) {
	b := e.boxes[id]
	if p != seedDir || b.files == nil {
		return nil, container.PathStat{}, errAbsent
	}
	content := archive(e.t, path.Base(seedDir), b.files)
	b.reads++
	if b.interrupt != nil {
		b.interrupt()
		return nil, container.PathStat{}, ctx.Err()
	}
	if b.read != nil && !e.paused[id] {
		b.read(b)
	}
	return io.NopCloser(bytes.NewReader(content)), container.PathStat{}, nil
}

// CopyToContainer does what engines do: what has an entry's name is deleted, if the
// caller allows that a directory makes room, and then the entry is made.
func (e *fakeEngine) CopyToContainer(_ context.Context, id, p string, in io.Reader, o container.CopyToContainerOptions) error {
	b := e.boxes[id]
	if b.stuck {
		return errors.New("operation not permitted")
	}
	h, err := tar.NewReader(in).Next()
	if err != nil {
		return err
	}
	if !o.AllowOverwriteDirWithFile || path.Join(p, h.Name) != seedDir || h.Typeflag != tar.TypeLink || strings.Contains(h.Linkname, "/") {
		e.t.Errorf("copied into %q: %+v, %+v", p, h, o)
	}
	b.files = nil
	return errors.New("link: no such file or directory")
}

// files is a simulator that keeps what it is sent as the real one does.
type files struct {
	*persona.Files
	spoil bool           // what arrives is not what was sent
	ends  map[string]int // the process is killed in the call of that name, when it comes
}

var errKilled = errors.New("killed")

func newFiles(t testing.TB) *files {
	t.Helper()
	f, err := persona.OpenFiles(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return &files{Files: f, ends: map[string]int{}}
}

func (f *files) step(name string) error {
	if f.ends[name] > 0 {
		f.ends[name]--
		return errKilled
	}
	return nil
}

func (f *files) Assets(_ context.Context, id string) (*api.AssetList, error) {
	return f.Files.Assets(id)
}

func (f *files) StageAssets(_ context.Context, id string, write func(*api.AssetWriter) error) (*api.AssetsStaged, api.AssetSum, error) {
	from, to := io.Pipe()
	w := api.NewAssetWriter(to)
	done := make(chan error, 1)
	go func() {
		err := write(w)
		if err == nil {
			err = w.Close()
		}
		_ = to.CloseWithError(err)
		done <- err
	}()
	staged, err := f.Files.StageAssets(id, from)
	_ = from.CloseWithError(err)
	if werr := <-done; werr != nil {
		return nil, w.Sum(), werr
	}
	if f.spoil && err == nil {
		staged.Digest = strings.Repeat("0", 64)
	}
	if err == nil {
		err = f.step("stage")
	}
	return staged, w.Sum(), err
}

func (f *files) CommitAssets(_ context.Context, id, stage string, c api.AssetCommit) (*api.AssetsCommitted, error) {
	done, err := f.Files.CommitAssets(id, stage, c)
	if err == nil {
		err = f.step("commit")
	}
	return done, err
}

func (f *files) DropAssets(_ context.Context, id, stage string) error {
	return f.Files.DropAssets(id, stage)
}

func (f *files) SeedDeleted(_ context.Context, id, c string) error {
	if err := f.step("deleted"); err != nil {
		return err
	}
	return f.Files.SeedDeleted(id, c)
}
