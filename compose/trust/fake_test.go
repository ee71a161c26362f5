package trust

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/volume"
	"github.com/docker/docker/client"
)

// node is a file of a fake container.
type node struct {
	header tar.Header
	data   string
}

func file(data string) node { return node{tar.Header{Typeflag: tar.TypeReg, Mode: 0o644}, data} }
func link(to string) node   { return node{tar.Header{Typeflag: tar.TypeSymlink, Linkname: to}, ""} }
func dir() node             { return node{tar.Header{Typeflag: tar.TypeDir, Mode: 0o755}, ""} }

// fakeEngine has one container whose file system it keeps as the engine does:
// paths are followed inside the root, archives are unpacked over what is there.
type fakeEngine struct {
	mu       sync.Mutex
	fs       map[string]node
	info     container.InspectResponse
	imageEnv []string
	volumes  map[string]volume.Volume
	stats    int      // questions about one path
	copies   []string // destinations of copies into the container
	fail     map[string]error
}

func newFake(t testing.TB, fs map[string]node) *fakeEngine {
	t.Helper()
	f := &fakeEngine{fs: map[string]node{"/": dir()}, volumes: map[string]volume.Volume{}, fail: map[string]error{}}
	f.info = container.InspectResponse{
		ContainerJSONBase: &container.ContainerJSONBase{ID: "c1", Image: "i1", State: &container.State{Status: container.StateCreated}, HostConfig: &container.HostConfig{}},
		Config:            &container.Config{Labels: map[string]string{labelProject: "t1"}},
	}
	for p, n := range fs {
		for d := path.Dir(p); ; d = path.Dir(d) {
			if _, ok := f.fs[d]; !ok {
				f.fs[d] = dir()
			}
			if d == "/" {
				break
			}
		}
		f.fs[p] = n
	}
	return f
}

// real follows links; the last step too if follow is set.
func (f *fakeEngine) real(p string, follow bool, hops int) (string, error) {
	if hops > 50 {
		return "", errors.New("too many links")
	}
	at, steps := "/", split(p)
	for i, s := range steps {
		next := path.Join(at, s)
		n, ok := f.fs[next]
		if ok && n.header.Typeflag == tar.TypeSymlink && (follow || i < len(steps)-1) {
			to := n.header.Linkname
			if !path.IsAbs(to) {
				to = at + "/" + to
			}
			return f.real(path.Join(append([]string{to}, steps[i+1:]...)...), follow, hops+1)
		}
		at = next
	}
	return at, nil
}

func notFound(p string) error { return fmt.Errorf("no such path %s: %w", p, errdefs.ErrNotFound) }

func (f *fakeEngine) ContainerInspect(context.Context, string) (container.InspectResponse, error) {
	return f.info, f.fail["inspect"]
}

func (f *fakeEngine) ImageInspect(context.Context, string, ...client.ImageInspectOption) (image.InspectResponse, error) {
	var r image.InspectResponse
	if f.imageEnv == nil {
		return r, notFound("image")
	}
	if err := yaml(&r, f.imageEnv); err != nil {
		return r, err
	}
	return r, f.fail["image"]
}

func (f *fakeEngine) VolumeInspect(_ context.Context, name string) (volume.Volume, error) {
	return f.volumes[name], f.fail["volume"]
}

func (f *fakeEngine) ContainerStatPath(_ context.Context, _, p string) (container.PathStat, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stats++
	if err := f.fail["stat "+p]; err != nil {
		return container.PathStat{}, err
	}
	at, err := f.real(p, false, 0)
	if err != nil {
		return container.PathStat{}, err
	}
	n, ok := f.fs[at]
	if !ok {
		return container.PathStat{}, notFound(p)
	}
	s := container.PathStat{Name: path.Base(at), Size: int64(len(n.data)), Mode: 0o644}
	switch n.header.Typeflag {
	case tar.TypeSymlink:
		s.Mode |= os.ModeSymlink
		if s.LinkTarget, err = f.real(p, true, 0); err != nil {
			return s, err
		}
	case tar.TypeDir:
		s.Mode |= os.ModeDir
	}
	return s, nil
}

func (f *fakeEngine) CopyFromContainer(_ context.Context, _, p string) (io.ReadCloser, container.PathStat, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.fail["get "+p]; err != nil {
		return nil, container.PathStat{}, err
	}
	at, err := f.real(p, false, 0)
	if err != nil {
		return nil, container.PathStat{}, err
	}
	if _, ok := f.fs[at]; !ok {
		return nil, container.PathStat{}, notFound(p)
	}
	var buf bytes.Buffer
	tw := tar.NewWriter(&buf)
	for _, name := range slices.Sorted(maps.Keys(f.fs)) {
		if name != at && !strings.HasPrefix(name, at+"/") {
			continue
		}
		n := f.fs[name]
		h := n.header
		h.Name, h.Size = path.Base(p)+strings.TrimPrefix(name, at), int64(len(n.data))
		if h.Typeflag == tar.TypeDir {
			h.Name += "/"
		}
		if err := tw.WriteHeader(&h); err != nil {
			return nil, container.PathStat{}, err
		}
		if _, err := tw.Write([]byte(n.data)); err != nil {
			return nil, container.PathStat{}, err
		}
	}
	stat := container.PathStat{Mode: 0o644}
	if f.fs[at].header.Mode&0o4000 != 0 {
		stat.Mode |= os.ModeSetuid
	}
	return io.NopCloser(&buf), stat, tw.Close()
}

func (f *fakeEngine) CopyToContainer(_ context.Context, _, root string, r io.Reader, _ container.CopyToContainerOptions) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.fail["put "+root]; err != nil {
		return err
	}
	f.copies = append(f.copies, root)
	tr := tar.NewReader(r)
	for {
		h, err := tr.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if h.Typeflag == tar.TypeDir || path.IsAbs(h.Name) || strings.Contains(h.Name, "..") {
			return fmt.Errorf("archive has entry %q of type %c", h.Name, h.Typeflag)
		}
		data, err := io.ReadAll(tr)
		if err != nil {
			return err
		}
		at, err := f.real(path.Join(root, h.Name), false, 0)
		if err != nil {
			return err
		}
		for d := path.Dir(at); d != "/"; d = path.Dir(d) {
			if n, ok := f.fs[d]; ok && n.header.Typeflag != tar.TypeDir {
				return fmt.Errorf("%s is not a directory", d)
			} else if !ok {
				f.fs[d] = dir()
			}
		}
		f.fs[at] = node{*h, string(data)}
	}
}

// text returns what a program in the container reads from a path.
func (f *fakeEngine) text(t testing.TB, p string) string {
	t.Helper()
	at, err := f.real(p, true, 0)
	if err != nil {
		t.Fatal(err)
	}
	n, ok := f.fs[at]
	if !ok || n.header.Typeflag != tar.TypeReg {
		t.Fatalf("%s (%s) is no file", p, at)
	}
	return n.data
}

var longAgo = time.Date(2021, 2, 3, 4, 5, 6, 0, time.UTC)
