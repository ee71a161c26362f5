package assets

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"path"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
)

// place makes sure that the directory is the container's own, so that deleting it
// reaches nothing else, and that it can be deleted; there is false when it is not
// there. No part of its path may be a link: the mounts are compared by path.
func (s *seeding) place(ctx context.Context, c Container) (there bool, err error) {
	info, err := s.eng.ContainerInspect(ctx, c.ID)
	if err != nil {
		return false, err
	}
	if info.ContainerJSONBase != nil && info.HostConfig != nil {
		if info.HostConfig.ReadonlyRootfs {
			return false, &Error{Msg: fmt.Sprintf("its root file system is read-only, so %q cannot be deleted", s.Dir), Do: "leave read_only out for this service, or serve the files with ctis assets put"}
		}
		for at := range info.HostConfig.Tmpfs {
			if err := s.apart(at, "tmpfs"); err != nil {
				return false, err
			}
		}
	}
	for _, m := range info.Mounts {
		if err := s.apart(m.Destination, string(m.Type)); err != nil {
			return false, err
		}
	}
	at := ""
	for _, name := range strings.Split(s.Dir, "/")[1:] {
		at += "/" + name
		st, err := s.eng.ContainerStatPath(ctx, c.ID, at)
		if errdefs.IsNotFound(err) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("look at %q: %w", at, err)
		}
		if !st.Mode.IsDir() {
			return false, &Error{Msg: fmt.Sprintf("%q is no directory (%s)", at, st.Mode), Do: "name the directory itself in seed_assets_from, without links on the way"}
		}
	}
	return true, nil
}

// apart says that a mount has nothing to do with the directory.
func (s *seeding) apart(at, kind string) error {
	at = strings.TrimSuffix(path.Clean("/"+at), "/") + "/"
	dir := s.Dir + "/"
	if !strings.HasPrefix(at, dir) && !strings.HasPrefix(dir, at) {
		return nil
	}
	return &Error{Msg: fmt.Sprintf("%q is not the container's own: there is a mount (%s) at %q, perhaps by a VOLUME of the image", s.Dir, kind, strings.TrimSuffix(at, "/")),
		Do: "put the files into a directory of the image that no volume covers"}
}

// remove deletes the directory and makes sure that it is gone.
//
// The engine has no call that deletes. But unpacking an archive replaces what has an
// entry's name, if the caller allows that: a directory is deleted with all that is in
// it before the entry is made in its place. The entry here cannot be made, because it
// is a further name of a file that does not exist. So the call fails behind the
// deletion, and what counts is whether the directory is there afterwards. All of it
// happens in the engine: nothing runs in the container, whatever user, capabilities
// or programs it has.
func (s *seeding) remove(ctx context.Context, c Container) error {
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	entry := tar.Header{Typeflag: tar.TypeLink, Name: path.Base(s.Dir), Linkname: rand.Text(), Format: tar.FormatPAX}
	if err := w.WriteHeader(&entry); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	said := s.eng.CopyToContainer(ctx, c.ID, path.Dir(s.Dir), &archive, container.CopyToContainerOptions{AllowOverwriteDirWithFile: true})
	_, err := s.eng.ContainerStatPath(ctx, c.ID, s.Dir)
	if errdefs.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("whether %q is deleted cannot be seen: %w", s.Dir, err)
	}
	if said == nil {
		said = fmt.Errorf("the engine took the call and did nothing")
	}
	return &Error{Msg: fmt.Sprintf("%q cannot be deleted: %v", s.Dir, said), Do: "nothing may be mounted in it, and no file of it may be immutable"}
}
